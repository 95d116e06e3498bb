#include "perf_table.h"
#include "work/element.h"
#include "each_device.h"
#include "work/perf.h"

#include "../tools/options.h"
#include "../tools/progress.h"
#include "../tools/table.h"
#include "../tools/text.h"

#include <stdio.h>
#include <string.h>

typedef struct view {
    tool_table table;
    tool_progress progress;
    const char *device; /* that is measured */
    uint32_t refused;   /* shapes that no device took */
} view;

/* ------------------------------------------------------------------------ */
/* Rows                                                                      */

/* In the child. */
static void tell(kit *k, const kit_perf_row *row)
{
    kit_child_send(k, 0, row, sizeof *row);
}

_Static_assert(sizeof(kit_perf_row) <= KIT_RECORD_DATA_SIZE,
               "a row fits a record");

/* Nothing per second, where nothing is counted, is no number. */
static void text_of(char out[32], double value)
{
    if (value > 0)
        snprintf(out, 32,
                 value < 10    ? "%.2f"
                 : value < 100 ? "%.1f"
                               : "%.0f",
                 value);
    else
        snprintf(out, 32, "-");
}

static void add_row(view *v, const kit_perf_row *row)
{
    char us[32], gflops[32], gbytes[32];
    tool_record record = tool_record_begin();
    const double gflop_s = row->us > 0 ? row->flops / row->us / 1e3 : 0;
    const double gbyte_s = row->us > 0 ? row->bytes / row->us / 1e3 : 0;
    tool_record_string(&record, "device", v->device);
    tool_record_string(&record, "op", row->op);
    tool_record_string(&record, "dtype", row->dtype);
    tool_record_string(&record, "shape", row->shape);
    tool_record_number(&record, "us", row->us);
    tool_record_number(&record, "gflops", gflop_s);
    tool_record_number(&record, "gbytes", gbyte_s);
    tool_record_string(&record, "clock", row->clock);
    tool_record_number(&record, "runs", row->runs);
    text_of(us, row->us);
    text_of(gflops, gflop_s);
    text_of(gbytes, gbyte_s);
    const char *const cells[] = {v->device, row->op, row->dtype, row->shape,
                                 us,        gflops,  gbytes,     row->clock};
    tool_table_add(&v->table, record, cells);
}

static void complain(void *ctx, const char *text)
{
    view *v = ctx;
    tool_progress_clear(&v->progress);
    tool_print_error(text);
}

static void on_device(void *ctx, const kit_queried_device *device)
{
    view *v = ctx;
    v->device = device->label;
}

/* In the parent; what the child says is not to be trusted. */
static void on_data(void *ctx, const kit_record *record)
{
    view *v = ctx;
    kit_perf_row row;
    char what[128];
    memcpy(&row, record->data, sizeof row);
    row.op[sizeof row.op - 1] = 0;
    row.dtype[sizeof row.dtype - 1] = 0;
    row.shape[sizeof row.shape - 1] = 0;
    row.clock[sizeof row.clock - 1] = 0;
    if (row.runs)
        add_row(v, &row);
    else
        v->refused++;
    snprintf(what, sizeof what, "%.40s %s %s", v->device, row.op, row.dtype);
    tool_progress_report(&v->progress, what,
                         row.all ? (double)row.done / row.all : 0);
}

/* ------------------------------------------------------------------------ */

static int check_ops(const kit_perf_request *request)
{
    const char *names[CLV_OP_COUNT];
    for (uint32_t op = 1; op < CLV_OP_COUNT; op++)
        names[op - 1] = clv_op_name(op);
    for (uint32_t i = 0; i < request->n_ops; i++) {
        bool found = false;
        for (uint32_t j = 0; j + 1 < CLV_OP_COUNT; j++)
            found |= !strcmp(names[j], request->ops[i]);
        const char *near =
            tool_nearest(request->ops[i], names, CLV_OP_COUNT - 1);
        if (!found)
            return tool_usage("--op %s: there is no such op%s%s%s",
                              request->ops[i], near ? "; did you mean '" : "",
                              near ? near : "", near ? "'?" : "");
    }
    return -1;
}

int kit_perf_main(const kit_perf_request *request)
{
    static const tool_column columns[] = {{"device", false}, {"op", false},
                                          {"dtype", false},  {"shape", false},
                                          {"us", true},      {"GFLOP/s", true},
                                          {"GB/s", true},    {"clock", false}};
    const kit_perf_options options = {.ops = request->ops,
                                      .n_ops = request->n_ops,
                                      .models = request->models,
                                      .n_models = request->n_models,
                                      .tell = tell};
    const kit_case work = {.name = "perf",
                           .scope = KIT_PER_DEVICE,
                           .run = kit_perf_run,
                           .arg = &options};
    view v = {.device = ""};
    kit_each each = {.config = request->config,
                     .selection = request->selection,
                     .work = &work,
                     .ctx = &v,
                     .on_device = on_device,
                     .on_data = on_data,
                     .complain = complain};
    int code = check_ops(request);
    if (code >= 0)
        return code;
    tool_table_begin(&v.table, request->format, columns,
                     sizeof columns / sizeof *columns);
    tool_progress_init(&v.progress, true);
    code = kit_each_device(&each);
    tool_progress_clear(&v.progress);
    tool_progress_finish(&v.progress);
    bool printed = tool_table_end(&v.table); /* what there is, in any case */
    return printed || code != TOOL_OK ? code : TOOL_FAILED;
}
