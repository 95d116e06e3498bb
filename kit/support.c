#include "support.h"
#include "work/element.h"
#include "reference/judge.h"
#include "each_device.h"
#include "work/fit.h"

#include "../tools/options.h"
#include "../tools/table.h"
#include "../tools/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define MAX_SHAPES 32

/* One answer, as the child tells it. */
typedef struct row {
    uint32_t op, dtype, to, quant; /* to: CONVERT's, else none */
    clv_op_caps caps;
    int64_t shapes[MAX_SHAPES];
} row;

_Static_assert(sizeof(row) <= KIT_RECORD_DATA_SIZE, "a row fits a record");

/* ------------------------------------------------------------------------ */
/* In the child                                                              */

static void tell(kit *k, uint32_t op, uint32_t dtype, uint32_t to,
                 uint32_t quant)
{
    const bool experts = clv_op_class_of(op) == CLV_CLASS_EXPERTS;
    const kit_spec spec = {.op = op,
                           .dtype = dtype,
                           .to = to,
                           .quant = quant,
                           .group = quant == CLV_QUANT_PER_GROUP ? 32 : 0,
                           .n = 16,
                           .in = 128,
                           .out = 64,
                           .heads = 4,
                           .groups = 2,
                           .dim = 32,
                           .scale = 1,
                           .experts = experts ? 4 : 0,
                           .used = experts ? 2 : 0};
    row r = {.op = op, .dtype = dtype, .to = to, .quant = quant};
    kit_spec_caps(k, &spec, &r.caps);
    uint32_t n = r.caps.answer == CLV_ANSWER_STATIC ? r.caps.n_static : 0;
    for (uint32_t i = 0; i < n && i < MAX_SHAPES; i++)
        r.shapes[i] = r.caps.static_shapes[i];
    r.caps.static_shapes = NULL;
    kit_child_send(k, 0, &r, sizeof r);
}

/* Ops on weights, which may have scales of their own. */
static void tell_weights(kit *k, uint32_t op)
{
    for (uint32_t i = 0; kit_real(i); i++)
        tell(k, op, kit_real(i), 0, CLV_QUANT_NONE);
    for (uint32_t quant = CLV_QUANT_PER_TENSOR; quant <= CLV_QUANT_PER_GROUP;
         quant++) {
        tell(k, op, CLV_DTYPE_I8, 0, quant);
        tell(k, op, CLV_DTYPE_I4, 0, quant);
    }
}

/* Ops on weights or caches that carry their scales, if any. */
static void tell_stored(kit *k, uint32_t op)
{
    const bool cache = clv_op_class_of(op) == CLV_CLASS_ATTENTION;
    static const uint32_t caches[] = {CLV_DTYPE_F32, CLV_DTYPE_F16,
                                      CLV_DTYPE_Q8_0};
    for (uint32_t i = 0; i < (cache ? 3 : kit_n_reals()); i++)
        tell(k, op, cache ? caches[i] : kit_real(i), 0, CLV_QUANT_NONE);
}

static void tell_convert(kit *k, uint32_t op)
{
    for (uint32_t i = 0; kit_real(i); i++)
        for (uint32_t j = 0; kit_real(j); j++)
            tell(k, op, kit_real(i), kit_real(j), CLV_QUANT_NONE);
}

static void run(kit *k, const void *arg)
{
    (void)arg;
    for (uint32_t op = CLV_OP_NONE + 1; op < CLV_OP_COUNT; op++)
        switch (clv_op_class_of(op)) {
        case CLV_CLASS_MATMUL:
        case CLV_CLASS_GET_ROWS:
            tell_weights(k, op);
            break;
        case CLV_CLASS_CONVERT:
            tell_convert(k, op);
            break;
        case CLV_CLASS_ATTENTION:
        case CLV_CLASS_SET_ROWS:
        case CLV_CLASS_EXPERTS:
            tell_stored(k, op);
            break;
        default:
            tell(k, op, CLV_DTYPE_F32, 0, CLV_QUANT_NONE);
        }
}

/* ------------------------------------------------------------------------ */
/* In words                                                                  */

static const char *answer_name(uint32_t answer)
{
    static const char *const names[] = {"no", "yes", "relayout", "static"};
    return answer <= CLV_ANSWER_STATIC ? names[answer] : "?";
}

static const char *class_name(uint32_t class)
{
    static const char *const names[] = {"unstated", "exact", "f32",
                                        "f16",      "q8",    "q8_tensor"};
    return class <= CLV_ERROR_Q8_TENSOR ? names[class] : "?";
}

static void dtype_text(const row *r, char out[48])
{
    static const char *const quants[] = {"", "/tensor", "/channel", "/group"};
    snprintf(out, 48, "%s%s%s%s", kit_dtype_name(r->dtype),
             quants[r->quant & 3], r->to ? " to " : "",
             r->to ? kit_dtype_name(r->to) : "");
}

/* "32..4096 by 32"; "any" without a bound. */
static void limit_text(const clv_axis_limit *l, char out[64])
{
    int n = 0;
    out[0] = 0;
    if (l->min > 0)
        n += snprintf(out + n, 64 - (size_t)n, "%" PRId64, l->min);
    if (l->min > 0 || l->max > 0)
        n += snprintf(out + n, 64 - (size_t)n, "..");
    if (l->max > 0)
        n += snprintf(out + n, 64 - (size_t)n, "%" PRId64, l->max);
    if (l->multiple > 1)
        n += snprintf(out + n, 64 - (size_t)n, "%sby %" PRId64, n ? " " : "",
                      l->multiple);
    if (!n)
        snprintf(out, 64, "any");
}

static void split_text(const clv_op_caps *c, char out[160])
{
    static const char *const names[] = {"rows", "sequence", "channels", "heads",
                                        "experts"};
    size_t n = 0;
    out[0] = 0;
    for (uint32_t i = 0; i < CLV_CUT_NONE; i++) {
        if (!(c->split_axes & 1u << i) || n >= 120)
            continue;
        n +=
            (size_t)snprintf(out + n, 160 - n, "%s%s", n ? ", " : "", names[i]);
        if (clv_split_granularity(c, i) > 1)
            n += (size_t)snprintf(out + n, 160 - n, " by %" PRId64,
                                  clv_split_granularity(c, i));
    }
    if (n && c->split_max_parts)
        snprintf(out + n, 160 - n, ", %u parts", c->split_max_parts);
}

static void shapes_text(const row *r, char out[256])
{
    uint32_t n = r->caps.answer == CLV_ANSWER_STATIC ? r->caps.n_static : 0;
    size_t used = 0;
    out[0] = 0;
    for (uint32_t i = 0; i < n && i < MAX_SHAPES && used < 200; i++)
        used += (size_t)snprintf(out + used, 256 - used, "%s%" PRId64,
                                 i ? " " : "", r->shapes[i]);
    if (n > MAX_SHAPES)
        snprintf(out + used, 256 - used, " and more");
}

static void align_text(const clv_op_caps *c, char out[64])
{
    out[0] = 0;
    if (c->pointer_align || c->stride_align)
        snprintf(out, 64, "%u, rows %u", c->pointer_align, c->stride_align);
}

/* ------------------------------------------------------------------------ */
/* In the parent                                                             */

typedef struct view {
    tool_table table;
    const char *device;
} view;

static const tool_column columns[] = {
    {"device", false}, {"op", false},       {"dtype", false},
    {"answer", false}, {"error", false},    {"sums", false},
    {"rows", false},   {"sequence", false}, {"channels", false},
    {"align", false},  {"split", false},    {"shapes", false},
    {"reason", false}};

enum { N_COLUMNS = sizeof columns / sizeof *columns };

static void add_limit(tool_record *record, const char *key,
                      const clv_axis_limit *l)
{
    const double values[] = {(double)l->min, (double)l->max,
                             (double)l->multiple};
    tool_record_numbers(record, key, values, 3);
}

static tool_record record_of(const view *v, const row *r, const char *dtype,
                             const char *split)
{
    const clv_op_caps *c = &r->caps;
    bool taken = c->answer != CLV_ANSWER_NO;
    double shapes[MAX_SHAPES];
    uint32_t n = c->answer == CLV_ANSWER_STATIC ? c->n_static : 0;
    n = n < MAX_SHAPES ? n : MAX_SHAPES;
    for (uint32_t i = 0; i < n; i++)
        shapes[i] = (double)r->shapes[i];
    tool_record record = tool_record_begin();
    tool_record_string(&record, "device", v->device);
    tool_record_string(&record, "op", clv_op_name(r->op));
    tool_record_string(&record, "dtype", dtype);
    tool_record_string(&record, "answer", answer_name(c->answer));
    tool_record_string(&record, "reason", taken ? "" : c->reason);
    if (!taken)
        return record;
    tool_record_string(&record, "error_class", class_name(c->error_class));
    tool_record_string(&record, "accumulate", kit_dtype_name(c->accumulate));
    add_limit(&record, "rows", &c->rows);
    add_limit(&record, "sequence", &c->sequence);
    add_limit(&record, "channels", &c->channels);
    tool_record_number(&record, "pointer_align", c->pointer_align);
    tool_record_number(&record, "stride_align", c->stride_align);
    tool_record_number(&record, "scratch", (double)c->scratch_size);
    tool_record_number(&record, "alias_inputs", c->alias_inputs);
    tool_record_string(&record, "split", split);
    tool_record_numbers(&record, "static_shapes", shapes, n);
    return record;
}

static void add_row(view *v, const row *r)
{
    const clv_op_caps *c = &r->caps;
    bool taken = c->answer != CLV_ANSWER_NO;
    char dtype[48], rows[64], sequence[64], channels[64], align[64], split[160],
        shapes[256];
    dtype_text(r, dtype);
    limit_text(&c->rows, rows);
    limit_text(&c->sequence, sequence);
    limit_text(&c->channels, channels);
    align_text(c, align);
    split_text(c, split);
    shapes_text(r, shapes);
    const char *cells[N_COLUMNS] = {v->device,
                                    clv_op_name(r->op),
                                    dtype,
                                    answer_name(c->answer),
                                    "",
                                    "",
                                    "",
                                    "",
                                    "",
                                    "",
                                    "",
                                    "",
                                    taken ? "" : c->reason};
    if (taken) {
        const char *details[] = {class_name(c->error_class),
                                 c->accumulate ? kit_dtype_name(c->accumulate)
                                               : "",
                                 rows,
                                 sequence,
                                 channels,
                                 align,
                                 split,
                                 shapes};
        memcpy(cells + 4, details, sizeof details);
    }
    tool_table_add(&v->table, record_of(v, r, dtype, split), cells);
}

static void on_device(void *ctx, const kit_queried_device *device)
{
    view *v = ctx;
    v->device = device->label;
}

static void on_data(void *ctx, const kit_record *record)
{
    row r;
    memcpy(&r, record->data, sizeof r);
    r.caps.reason[sizeof r.caps.reason - 1] = 0;
    add_row(ctx, &r);
}

static void complain(void *ctx, const char *text)
{
    (void)ctx;
    tool_print_error(text);
}

int kit_support_main(const kit_support_request *request)
{
    static const kit_case work = {
        .name = "support", .scope = KIT_PER_DEVICE, .run = run};
    view v = {.device = ""};
    kit_each each = {.config = request->config,
                     .selection = request->selection,
                     .work = &work,
                     .ctx = &v,
                     .on_device = on_device,
                     .on_data = on_data,
                     .complain = complain};
    tool_table_begin(&v.table, request->format, columns, N_COLUMNS);
    int code = kit_each_device(&each);
    return tool_table_end(&v.table) || code != TOOL_OK ? code : TOOL_FAILED;
}
