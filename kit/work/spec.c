#include "spec.h"
#include "element.h"

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

bool kit_op_has_heads(uint32_t op)
{
    const clv_op_info *info = clv_op_find(op);
    const clv_attr_field *field;
    for (uint32_t i = 0; info && (field = clv_op_field(info, i)); i++)
        if (field->type == CLV_ATTR_HEAD_DIM)
            return true;
    return false;
}

static bool has_heads(const kit_spec *spec)
{
    return kit_op_has_heads(spec->op);
}

int64_t kit_spec_width(const kit_spec *spec)
{
    return has_heads(spec) ? spec->heads * spec->dim : spec->in;
}

bool kit_is_plain_op(uint32_t op)
{
    const uint32_t op_class = clv_op_class_of(op);
    return clv_op_is_elementwise(op) || op_class == CLV_CLASS_NORM ||
           op_class == CLV_CLASS_SOFTMAX;
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
    if (spec->total)
        append(t, "from%dof%lld", (int)spec->first, (long long)spec->total);
    if (clv_op_class_of(spec->op) == CLV_CLASS_ATTENTION)
        append(t, ".from%d", (int)spec->first);
    if (spec->begin)
        append(t, ".begin%lld", (long long)spec->begin);
    if (spec->window)
        append(t, ".window%d", (int)spec->window);
    if (spec->softcap)
        append(t, ".softcap%g", (double)spec->softcap);
    if (spec->scale)
        append(t, ".scale%g", (double)spec->scale);
    if (spec->pad)
        append(t, ".pad%lld", (long long)spec->pad);
}

/* The value of the op's attribute that the spec's variant is. */
static void append_variant(text *t, const kit_spec *spec)
{
    const clv_op_info *info = clv_op_find(spec->op);
    const clv_attr_field *field;
    char choice[32];
    for (uint32_t i = 0; info && (field = clv_op_field(info, i)); i++) {
        if (field->type == CLV_ATTR_ENUM &&
            clv_attr_choice(field, spec->variant, choice))
            append(t, ".%s", choice);
        if (field->type == CLV_ATTR_BOOL && spec->variant &&
            info->op_class == CLV_CLASS_EXPERTS)
            append(t, ".%s", field->name);
    }
}

void kit_spec_name(const kit_spec *spec, char name[KIT_NAME_SIZE])
{
    static const char *const forms[] = {
        "bias",   "vector", "symbol", "view",   "special", "extreme",
        "poison", "bound",  "over_0", "over_1", "overlay", "import",
        "offset", "each",   "scores", "absent", "rounded", "apart"};
    text t = {name, KIT_NAME_SIZE};
    append_dtype(&t, spec);
    append_variant(&t, spec);
    append_shape(&t, spec);
    for (uint32_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (spec->form >> i & 1 && 1u << i != KIT_FORM_SYMBOL)
            append(&t, ".%s", forms[i]);
}

/* ------------------------------------------------------------------------ */
/* Work                                                                      */

int64_t kit_spec_first(const kit_spec *spec, int64_t i)
{
    return spec->form & KIT_FORM_APART ? i * (spec->out / spec->n)
                                       : spec->begin;
}

int64_t kit_spec_last(const kit_spec *spec, int64_t i)
{
    return spec->form & KIT_FORM_APART
               ? kit_spec_first(spec, i) + spec->first - i % 3
               : spec->first + i;
}

/* The sum over all queries of the cache rows that each sees. */
static double rows_seen(const kit_spec *spec)
{
    double sum = 0;
    for (int64_t i = 0; i < spec->n; i++) {
        const int64_t last = kit_spec_last(spec, i);
        int64_t seen = last < spec->out ? last + 1 : spec->out;
        seen -= kit_spec_first(spec, i);
        if (spec->window && seen > spec->window)
            seen = spec->window;
        sum += seen > 0 ? (double)seen : 0;
    }
    return sum;
}

double kit_spec_flops(const kit_spec *spec)
{
    const double elements = (double)spec->n * (double)kit_spec_width(spec);
    switch (clv_op_class_of(spec->op)) {
    case CLV_CLASS_MATMUL:
        return 2 * elements * (double)spec->out;
    case CLV_CLASS_EXPERTS:
        return 2 * elements * (double)spec->out * (double)spec->used;
    case CLV_CLASS_ATTENTION:
        return 4 * rows_seen(spec) * (double)kit_spec_width(spec);
    case CLV_CLASS_BINARY:
        return elements;
    case CLV_CLASS_ROPE:
        return 3 * elements;
    case CLV_CLASS_GET_ROWS:
    case CLV_CLASS_SET_ROWS:
    case CLV_CLASS_CONVERT:
        return 0;
    }
    return 4 * elements; /* by convention */
}

/* Bytes of the experts that random ids are expected to choose, of the
 * activation and of the output. */
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
    switch (clv_op_class_of(spec->op)) {
    case CLV_CLASS_MATMUL:
        return x + (double)spec->out * row_bytes(spec->dtype, spec->in) +
               n * row_bytes(CLV_DTYPE_F32, spec->out);
    case CLV_CLASS_EXPERTS:
        return experts_bytes(spec);
    case CLV_CLASS_SELECT:
        return x + n * row_bytes(CLV_DTYPE_I32, spec->out);
    case CLV_CLASS_ATTENTION: /* the cache once, however many queries share it
                               */
        return 2 * x + 2 * rows_seen(spec) /
                           (spec->form & KIT_FORM_APART ? 1 : n) *
                           row_bytes(spec->dtype, spec->groups * spec->dim);
    case CLV_CLASS_GET_ROWS:
    case CLV_CLASS_SET_ROWS:
        return x + n * row_bytes(spec->dtype, spec->in);
    case CLV_CLASS_CONVERT:
        return n * (row_bytes(spec->dtype, spec->in) +
                    row_bytes(kit_spec_to(spec), spec->in));
    case CLV_CLASS_BINARY:
    case CLV_CLASS_GATED:
        return 3 * x;
    }
    return 2 * x;
}
