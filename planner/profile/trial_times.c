/* When trials ran, by the records of their devices; and what times amount to.
 */
#include "trial.h"

#include <stdlib.h>

#define RECORDS 64

static void take(planner_trial_span *span, const clv_trace_record *r,
                 const clv_calibration *c, bool is_virtual)
{
    double base =
        is_virtual ? 0
                   : (double)c->host_ns - (double)c->device_tick * c->tick_ns;
    double begin = base + (double)r->begin * c->tick_ns;
    double end = base + (double)r->end * c->tick_ns;
    if (r->node != CLV_NO_TENSOR) {
        if (!span->node || begin < span->node)
            span->node = begin;
        return;
    }
    if (!span->begin || begin < span->begin)
        span->begin = begin;
    if (end > span->end)
        span->end = end;
}

clv_status planner_trial_spans(clv_device *dev, planner_trial_span *spans,
                               uint32_t n)
{
    clv_trace_record records[RECORDS];
    clv_calibration c = {0};
    clv_status status = core_device_calibrate(dev, &c);
    uint32_t count = RECORDS;
    while (!status && count == RECORDS) {
        status = core_device_trace_read(dev, &count, records);
        for (uint32_t i = 0; i < count && !status; i++)
            for (uint32_t j = 0; j < n; j++)
                if (records[i].correlation == spans[j].correlation)
                    take(&spans[j], &records[i], &c,
                         dev->info.clock == CLV_CLOCK_VIRTUAL);
    }
    return status;
}

uint32_t planner_trial_nodes(clv_device *dev, uint64_t correlation, double *ns,
                             uint32_t most)
{
    clv_trace_record records[RECORDS];
    clv_calibration c = {0};
    uint32_t count = RECORDS, n = 0;
    if (core_device_calibrate(dev, &c))
        return 0;
    while (count == RECORDS) {
        if (core_device_trace_read(dev, &count, records))
            return n;
        for (uint32_t i = 0; i < count; i++)
            if (records[i].correlation == correlation && n < most &&
                records[i].node != CLV_NO_TENSOR)
                ns[n++] =
                    (double)(records[i].end - records[i].begin) * c.tick_ns;
    }
    return n;
}

void planner_trial_forget(clv_device *dev)
{
    clv_trace_record records[RECORDS];
    uint32_t count = RECORDS;
    while (count == RECORDS &&
           core_device_trace_read(dev, &count, records) == CLV_OK)
        ;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double planner_median(double *values, uint32_t n)
{
    qsort(values, n, sizeof *values, ascending);
    return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

double planner_undisturbed(double *values, uint32_t n)
{
    qsort(values, n, sizeof *values, ascending);
    return values[(n - 1) / 4];
}
