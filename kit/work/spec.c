#include "spec.h"
#include "../reference/element.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ------------------------------------------------------------------------ */
/* Names and sizes                                                           */

int64_t kit_spec_unit(const kit_spec *spec)
{
    int64_t a = kit_block_length(spec->dtype);
    int64_t b = kit_block_length(kit_spec_to(spec));
    a = a > b ? a : b;
    return spec->group > a ? spec->group : a;
}

static bool has_heads(const kit_spec *spec)
{
    return spec->op == CLV_OP_ROPE || spec->op == CLV_OP_ATTENTION;
}

int64_t kit_spec_width(const kit_spec *spec)
{
    return has_heads(spec) ? spec->heads * spec->dim : spec->in;
}

uint32_t kit_spec_to(const kit_spec *spec)
{
    return spec->to ? spec->to : spec->dtype;
}

typedef struct text {
    char *out;
    size_t size;
} text;

__attribute__((format(printf, 2, 3))) static void append(text *t,
                                                         const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(t->out, t->size, fmt, args);
    va_end(args);
    size_t used = n < 0 ? 0 : (size_t)n < t->size ? (size_t)n : t->size - 1;
    t->out += used;
    t->size -= used;
}

static void append_dtype(text *t, const kit_spec *spec)
{
    static const char *const schemes[] = {"", "_tensor", "_channel", "_group"};
    append(t, "%s%s", kit_dtype_name(spec->dtype),
           spec->quant < 4 ? schemes[spec->quant] : "");
    if (spec->group)
        append(t, "%u", spec->group);
    if (spec->to)
        append(t, "-%s", kit_dtype_name(spec->to));
}

static void append_shape(text *t, const kit_spec *spec)
{
    append(t, ".%lld", (long long)spec->n);
    if (spec->form & KIT_FORM_SYMBOL)
        append(t, "at%lld", (long long)spec->value);
    if (has_heads(spec)) {
        append(t, "x%lldh%lld", (long long)spec->heads, (long long)spec->dim);
        if (spec->groups)
            append(t, "g%lld", (long long)spec->groups);
        if (spec->pairs)
            append(t, "r%lld", (long long)(2 * spec->pairs));
    } else {
        append(t, "x%lld", (long long)spec->in);
    }
    if (spec->out)
        append(t, "x%lld", (long long)spec->out);
    if (spec->experts)
        append(t, ".%lldof%lld", (long long)spec->used,
               (long long)spec->experts);
    if (spec->op == CLV_OP_ATTENTION)
        append(t, ".from%d", (int)spec->first);
    if (spec->window)
        append(t, ".window%d", (int)spec->window);
    if (spec->softcap)
        append(t, ".softcap%g", (double)spec->softcap);
    if (spec->scale)
        append(t, ".scale%g", (double)spec->scale);
    if (spec->pad)
        append(t, ".pad%lld", (long long)spec->pad);
}

void kit_spec_name(const kit_spec *spec, char name[KIT_NAME_SIZE])
{
    static const char *const forms[] = {
        "bias",   "vector", "symbol", "view",   "special", "extreme",
        "poison", "bound",  "over_0", "over_1", "overlay", "import",
        "offset", "each",   "scores", "absent"};
    text t = {name, KIT_NAME_SIZE};
    append_dtype(&t, spec);
    if (spec->op == CLV_OP_GLU)
        append(&t, ".%s", spec->variant == CLV_ACT_SILU ? "silu" : "gelu");
    if (spec->op == CLV_OP_ROPE)
        append(&t, ".%s",
               spec->variant == CLV_ROPE_HALVES ? "halves" : "pairs");
    if (spec->op == CLV_OP_MATMUL_EXPERTS && spec->variant)
        append(&t, ".normalised");
    append_shape(&t, spec);
    for (uint32_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (spec->form >> i & 1 && 1u << i != KIT_FORM_SYMBOL)
            append(&t, ".%s", forms[i]);
}

/* ------------------------------------------------------------------------ */
/* Work                                                                      */

/* Cache rows that all queries together see. */
static double rows_seen(const kit_spec *spec)
{
    double sum = 0;
    for (int64_t i = 0; i < spec->n; i++) {
        int64_t seen = spec->first + i + 1;
        seen = seen > spec->out ? spec->out : seen;
        if (spec->window && seen > spec->window)
            seen = spec->window;
        sum += seen > 0 ? (double)seen : 0;
    }
    return sum;
}

double kit_spec_flops(const kit_spec *spec)
{
    const double elements = (double)spec->n * (double)kit_spec_width(spec);
    switch (spec->op) {
    case CLV_OP_MATMUL:
        return 2 * elements * (double)spec->out;
    case CLV_OP_MATMUL_EXPERTS:
        return 2 * elements * (double)spec->out * (double)spec->used;
    case CLV_OP_ATTENTION:
        return 4 * rows_seen(spec) * (double)kit_spec_width(spec);
    case CLV_OP_ADD:
    case CLV_OP_MUL:
        return elements;
    case CLV_OP_ROPE:
        return 3 * elements;
    case CLV_OP_GET_ROWS:
    case CLV_OP_SET_ROWS:
    case CLV_OP_CONVERT:
        return 0;
    }
    return 4 * elements; /* by convention */
}

/* Of the weights of those experts that random ids are likely to choose, of the
 * activation, and of what comes out. */
static double experts_bytes(const kit_spec *spec)
{
    const double n = (double)spec->n, all = (double)spec->experts;
    const double used = (double)spec->used;
    const double chosen = all * (1 - pow(1 - 1 / all, n * used));
    const double parts = spec->form & KIT_FORM_EACH ? used : 1;
    const double sums = spec->form & KIT_FORM_SCORES ? 1 : used;
    return chosen * (double)spec->out *
               (double)kit_row_bytes(spec->dtype, spec->in) +
           4 * n * (parts * (double)spec->in + sums * (double)spec->out);
}

static double row_bytes(uint32_t dtype, int64_t c)
{
    return (double)kit_row_bytes(dtype, c);
}

double kit_spec_bytes(const kit_spec *spec)
{
    const double n = (double)spec->n;
    const double x = n * row_bytes(CLV_DTYPE_F32, kit_spec_width(spec));
    switch (spec->op) {
    case CLV_OP_MATMUL:
        return x + (double)spec->out * row_bytes(spec->dtype, spec->in) +
               n * row_bytes(CLV_DTYPE_F32, spec->out);
    case CLV_OP_MATMUL_EXPERTS:
        return experts_bytes(spec);
    case CLV_OP_TOP_K:
        return x + n * row_bytes(CLV_DTYPE_I32, spec->out);
    case CLV_OP_ATTENTION: /* the cache once, however many queries share it */
        return 2 * x + 2 * rows_seen(spec) / n *
                           row_bytes(spec->dtype, spec->groups * spec->dim);
    case CLV_OP_GET_ROWS:
    case CLV_OP_SET_ROWS:
        return x + n * row_bytes(spec->dtype, spec->in);
    case CLV_OP_CONVERT:
        return n * (row_bytes(spec->dtype, spec->in) +
                    row_bytes(kit_spec_to(spec), spec->in));
    case CLV_OP_ADD:
    case CLV_OP_MUL:
    case CLV_OP_GLU:
        return 3 * x;
    }
    return 2 * x;
}
