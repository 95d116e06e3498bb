#include "trace.h"
#include "device.h"

#define CAPACITY 16384u

struct cpu_trace {
    const clv_host_api *host;
    pthread_mutex_t lock;
    clv_trace_record *ring; /* [CAPACITY], or NULL */
    uint32_t first, count;
};

clv_status cpu_trace_create(const clv_host_api *host, cpu_trace **out)
{
    cpu_trace *trace = clv_new(host, sizeof *trace);
    if (!trace)
        return CLV_ERR_NO_MEMORY;
    trace->host = host;
    pthread_mutex_init(&trace->lock, NULL);
    *out = trace;
    return CLV_OK;
}

void cpu_trace_destroy(cpu_trace *trace)
{
    if (!trace)
        return;
    pthread_mutex_destroy(&trace->lock);
    clv_free(trace->host, trace->ring);
    clv_free(trace->host, trace);
}

clv_status cpu_trace_reserve(cpu_trace *trace)
{
    if (trace->ring)
        return CLV_OK;
    clv_trace_record *ring = clv_new(trace->host, CAPACITY * sizeof *ring);
    if (!ring)
        return CLV_ERR_NO_MEMORY;
    pthread_mutex_lock(&trace->lock);
    trace->ring = ring;
    pthread_mutex_unlock(&trace->lock);
    return CLV_OK;
}

void cpu_trace_add(cpu_trace *trace, uint64_t correlation, uint32_t command,
                   uint32_t node, const char *name, uint64_t begin)
{
    clv_trace_record record = {.correlation = correlation,
                               .begin = begin,
                               .end = clv_queue_now(),
                               .node = node,
                               .command = command};
    snprintf(record.name, sizeof record.name, "%s", name);
    pthread_mutex_lock(&trace->lock);
    trace->ring[(trace->first + trace->count) % CAPACITY] = record;
    if (trace->count < CAPACITY)
        trace->count++;
    else
        trace->first = (trace->first + 1) % CAPACITY;
    pthread_mutex_unlock(&trace->lock);
}

clv_status cpu_trace_read(clv_plugin_device *dev, uint32_t *count,
                          clv_trace_record *out, uint32_t stride)
{
    cpu_trace *trace = dev->trace;
    CLV_TRY(clv_queue_usable(dev));
    pthread_mutex_lock(&trace->lock);
    uint32_t n = *count < trace->count ? *count : trace->count;
    for (uint32_t i = 0; i < n; i++) {
        clv_write(clv_at(out, i, stride), &trace->ring[trace->first],
                  sizeof *out);
        trace->first = (trace->first + 1) % CAPACITY;
    }
    trace->count -= n;
    pthread_mutex_unlock(&trace->lock);
    *count = n;
    return CLV_OK;
}

/* Both clocks are the system's monotonic one or close to it; of a few looks the
 * quickest counts. */
clv_status cpu_trace_calibrate(clv_plugin_device *dev, clv_calibration *out)
{
    const clv_host_api *host = dev->base.host;
    clv_calibration best;
    CLV_TRY(clv_queue_usable(dev));
    memset(&best, 0, sizeof best);
    best.max_error_ns = UINT64_MAX;
    best.tick_ns = 1;
    for (int i = 0; i < 8; i++) {
        uint64_t begin = clv_queue_now();
        uint64_t host_ns = host->now_ns(host->host);
        uint64_t end = clv_queue_now();
        uint64_t error = (end - begin + 1) / 2;
        if (error >= best.max_error_ns)
            continue;
        best.device_tick = begin + (end - begin) / 2;
        best.host_ns = host_ns;
        best.max_error_ns = error;
    }
    clv_write(out, &best, sizeof best);
    return CLV_OK;
}
