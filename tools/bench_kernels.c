/* cleave bench --kernels: what the devices' time went to. */
#include "bench.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const tool_column bench_kernel_columns[BENCH_KERNEL_COLUMNS] = {
    {"test", true}, {"device", false}, {"clock", false}, {"kernel", false},
    {"op", false},  {"runs", true},    {"ms", true},     {"share", true},
    {"GB/s", true}, {"GFLOP/s", true}};

#define CELL_SIZE 48

/* By device, then the longest first. */
static int compare(const void *a, const void *b)
{
    const clv_kernel_sum *x = a, *y = b;
    int order = strcmp(x->device, y->device);
    return order ? order : (x->ns < y->ns) - (x->ns > y->ns);
}

/* Of all that the device did. */
static double share_of(const clv_kernel_sum *sums, uint32_t n,
                       const clv_kernel_sum *one)
{
    double all = 0;
    for (uint32_t i = 0; i < n; i++)
        if (!strcmp(sums[i].device, one->device))
            all += sums[i].ns;
    return all > 0 ? one->ns / all : 0;
}

/* A rate in units of 1e9, and how much that is of the highest. */
static void rate_cell(char cell[CELL_SIZE], double rate, double top)
{
    const double giga = rate * 1e-9;
    cell[0] = 0;
    if (!(rate > 0))
        return;
    int n = snprintf(cell, CELL_SIZE, "%.*f", giga < 100, giga);
    if (top > 0)
        snprintf(cell + n, CELL_SIZE - (size_t)n, " (%.0f%%)",
                 100 * rate / top);
}

static double per_second(double amount, double ns)
{
    return ns > 0 ? amount * 1e9 / ns : 0;
}

/* Unknown figures are null. */
static void record_rate(tool_record *record, const char *key, double rate)
{
    tool_record_number(record, key, rate > 0 ? rate : NAN);
}

static void add_row(tool_table *table, const char *test,
                    const clv_kernel_sum *s, double share)
{
    const double bandwidth = per_second(s->bytes, s->ns);
    const double flops = per_second(s->flops, s->ns);
    char runs[24], ms[CELL_SIZE], part[16], gb[CELL_SIZE], tf[CELL_SIZE];
    tool_record record = tool_record_begin();
    tool_record_string(&record, "test", test);
    tool_record_string(&record, "device", s->device);
    tool_record_string(&record, "clock", s->is_virtual ? "virtual" : "real");
    tool_record_string(&record, "kernel", s->kernel);
    tool_record_string(&record, "op", s->op);
    tool_record_number(&record, "runs", (double)s->runs);
    tool_record_number(&record, "ns", s->ns);
    tool_record_number(&record, "share", share);
    record_rate(&record, "bytes_per_s", bandwidth);
    record_rate(&record, "flops_per_s", flops);
    record_rate(&record, "top_bytes_per_s", s->top_bandwidth);
    record_rate(&record, "top_flops_per_s", s->top_flops);
    snprintf(runs, sizeof runs, "%" PRIu64, s->runs);
    snprintf(ms, sizeof ms, "%.3f", s->ns * 1e-6);
    snprintf(part, sizeof part, "%.1f%%", 100 * share);
    rate_cell(gb, bandwidth, s->top_bandwidth);
    rate_cell(tf, flops, s->top_flops);
    const char *cells[BENCH_KERNEL_COLUMNS] = {
        test,      s->device, s->is_virtual ? "virtual" : "",
        s->kernel, s->op,     runs,
        ms,        part,      gb,
        tf};
    tool_table_add(table, record, cells);
}

clv_status bench_add_kernels(clv_context *ctx, const char *test,
                             tool_table *table)
{
    uint32_t n = clv_trace_kernels(ctx, NULL, 0);
    clv_kernel_sum *sums = calloc(n + 1u, sizeof *sums);
    if (!sums)
        return clv_error(CLV_ERR_NO_MEMORY, "no memory for %u kernels", n);
    n = clv_trace_kernels(ctx, sums, n);
    qsort(sums, n, sizeof *sums, compare);
    for (uint32_t i = 0; i < n; i++)
        add_row(table, test, &sums[i], share_of(sums, n, &sums[i]));
    free(sums);
    if (n)
        return CLV_OK;
    return clv_error(CLV_ERR_UNSUPPORTED, "none of the devices in use records "
                                          "what it does; leave --kernels out");
}
