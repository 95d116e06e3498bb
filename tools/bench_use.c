/* cleave bench --trace: for how long devices worked, and had nothing to do. */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>

static int busiest_first(const void *a, const void *b)
{
    const clv_device_use *x = a, *y = b;
    return (x->busy_ns < y->busy_ns) - (x->busy_ns > y->busy_ns);
}

clv_status bench_use_read(clv_context *ctx, bench_use *out)
{
    *out = (bench_use){.n = clv_trace_devices(ctx, NULL, 0)};
    out->devices = calloc(out->n + 1u, sizeof *out->devices);
    if (!out->devices)
        return clv_error(CLV_ERR_NO_MEMORY, "no memory for %u devices", out->n);
    out->n = clv_trace_devices(ctx, out->devices, out->n);
    qsort(out->devices, out->n, sizeof *out->devices, busiest_first);
    while (out->n && !(out->devices[out->n - 1].busy_ns > 0))
        out->n--;
    return CLV_OK;
}

void bench_use_finish(bench_use *use)
{
    free(use->devices);
}

static double idle_ns(const clv_device_use *d)
{
    return d->run_ns - d->busy_ns;
}

void bench_use_record(const bench_use *use, tool_record *record)
{
    if (!use->n)
        return;
    tool_record *items = calloc(use->n, sizeof *items);
    if (!items) {
        record->failed = true;
        return;
    }
    for (uint32_t i = 0; i < use->n; i++) {
        const clv_device_use *d = &use->devices[i];
        items[i] = tool_record_begin();
        tool_record_string(&items[i], "device", d->device);
        tool_record_number(&items[i], "busy_ns", d->busy_ns);
        tool_record_number(&items[i], "idle_ns", idle_ns(d));
        tool_record_number(&items[i], "idle_share", idle_ns(d) / d->run_ns);
    }
    tool_record_string(record, "critical_device", use->devices[0].device);
    tool_record_number(record, "bubbles",
                       idle_ns(&use->devices[0]) / use->devices[0].run_ns);
    tool_record_list(record, "device_use", items, use->n);
    free(items);
}

void bench_use_text(const bench_use *use, char *text, size_t size)
{
    size_t used = 0;
    text[0] = 0;
    for (uint32_t i = 0; i < use->n && used < size; i++) {
        const clv_device_use *d = &use->devices[i];
        used += (size_t)snprintf(
            text + used, size - used, "%s%s %.3f of %.3f ms, %.1f%% bubbles",
            i ? "; " : "", d->device, d->busy_ns * 1e-6, d->run_ns * 1e-6,
            100 * idle_ns(d) / d->run_ns);
    }
}
