#include "exec.h"
#include "trace.h"

#define BATCH 64

/* A device's ticks as nanoseconds of its clock domain: the host's clock, or for
 * a simulated device its own from zero. */
static uint64_t tick_ns(const clv_device *dev, const clv_calibration *c,
                        uint64_t tick)
{
    if (dev->info.clock == CLV_CLOCK_VIRTUAL)
        return (uint64_t)((double)tick * c->tick_ns);
    double ns = (double)(int64_t)(tick - c->device_tick) * c->tick_ns;
    return c->host_ns + (uint64_t)(int64_t)ns;
}

static void collect(clv_context *ctx, clv_device *dev)
{
    clv_calibration calibration =
        CLV_INIT(clv_calibration, CLV_STRUCT_CALIBRATION);
    clv_trace_record records[BATCH];
    uint32_t n;
    if (core_device_calibrate(dev, &calibration))
        return;
    do {
        n = BATCH;
        if (core_device_trace_read(dev, &n, records))
            return;
        for (uint32_t i = 0; i < n; i++)
            core_trace_add(ctx, dev->info.clock, dev->id, records[i].name,
                           tick_ns(dev, &calibration, records[i].begin),
                           tick_ns(dev, &calibration, records[i].end));
    } while (n == BATCH);
}

void core_exec_collect_trace(clv_exec *exec)
{
    for (uint32_t d = 0; d < exec->plan->n_devices; d++)
        if (exec->devices[d].timeline)
            collect(exec->plan->ctx, exec->devices[d].dev);
}
