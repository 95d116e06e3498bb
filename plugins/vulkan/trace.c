#include "trace.h"

#include "commands.h"

#define MAX_RECORDS 16384u /* that nobody reads; then the newest are lost */
#define MAX_TRACED 16384u  /* times of a submit; others are not recorded */

/* The times of a command, or of a kernel of one. */
typedef struct vk_record {
    uint64_t correlation, begin, end;
    uint32_t command, node;
    char name[40];
} vk_record;

/* The finisher writes, the host reads: a ring. */
struct vk_trace {
    pthread_mutex_t lock;
    vk_record *ring; /* [MAX_RECORDS] */
    uint64_t written, read;
    /* For calibration. */
    VkCommandPool pool;
    VkCommandBuffer cb;
    VkQueryPool query;
};

/* Queries for the kernels of a command. */
static uint32_t count_kernels(const clv_command *c)
{
    return c->kind == CLV_COMMAND_RUN ? c->program->code->n_dispatches + 1 : 0;
}

void vk_trace_prepare(clv_plugin_device *dev, vk_flight *flight)
{
    const clv_submit *submit = &flight->job->submit;
    uint64_t n = 2 * (uint64_t)submit->n_commands;
    flight->n_stamps = 0;
    if (!submit->correlation || !dev->phys->timestamp_bits)
        return;
    flight->kernel_stamp = (uint32_t)n;
    for (uint32_t i = 0; i < submit->n_commands; i++)
        n += count_kernels(&submit->commands[i]);
    if (n > MAX_TRACED)
        return;
    if (flight->n_queries < n) {
        dev->api.DestroyQueryPool(dev->device, flight->queries, NULL);
        flight->queries = vk_make_queries(dev, (uint32_t)n);
        flight->n_queries = flight->queries ? (uint32_t)n : 0;
    }
    if (flight->n_queries)
        flight->n_stamps = (uint32_t)n;
}

vk_stamps vk_trace_kernels(vk_flight *flight, const clv_command *c)
{
    if (!flight->n_stamps)
        return (vk_stamps){VK_NULL_HANDLE, 0};
    vk_stamps stamps = {flight->queries, flight->kernel_stamp};
    flight->kernel_stamp += count_kernels(c);
    return stamps;
}

/* Between two queries that follow one another. */
static void collect_one(clv_plugin_device *dev, const vk_flight *flight,
                        uint32_t query, uint32_t command, uint32_t node,
                        const char *name)
{
    struct vk_trace *trace = dev->work->trace;
    uint64_t ticks[2];
    if (dev->api.GetQueryPoolResults(dev->device, flight->queries, query, 2,
                                     sizeof ticks, ticks, sizeof *ticks,
                                     VK_QUERY_RESULT_64_BIT))
        return;
    vk_record record = {.correlation = flight->job->submit.correlation,
                        .begin = vk_ticks(dev, 0, ticks[0]),
                        .end = vk_ticks(dev, 0, ticks[1]),
                        .command = command,
                        .node = node};
    snprintf(record.name, sizeof record.name, "%s", name);
    pthread_mutex_lock(&trace->lock);
    if (trace->written - trace->read < MAX_RECORDS)
        trace->ring[trace->written++ % MAX_RECORDS] = record;
    pthread_mutex_unlock(&trace->lock);
}

void vk_trace_collect(clv_plugin_device *dev, const vk_flight *flight)
{
    static const char *const names[] = {[CLV_COMMAND_RUN] = "run",
                                        [CLV_COMMAND_COPY] = "copy",
                                        [CLV_COMMAND_FILL] = "fill"};
    const clv_submit *submit = &flight->job->submit;
    uint32_t query = 2 * submit->n_commands;
    for (uint32_t i = 0; flight->n_stamps && i < submit->n_commands; i++) {
        const clv_command *c = &submit->commands[i];
        collect_one(dev, flight, 2 * i, i, CLV_NO_TENSOR, names[c->kind]);
        if (c->kind != CLV_COMMAND_RUN)
            continue;
        const gpu_code *code = c->program->code;
        for (uint32_t k = 0; k < code->n_dispatches; k++) {
            const gpu_dispatch *d = &code->dispatches[k];
            collect_one(dev, flight, query + k, i, d->node,
                        code->kernels[d->kernel].name);
        }
        query += count_kernels(c);
    }
}

clv_status vk_trace_read(clv_plugin_device *dev, uint32_t *count,
                         clv_trace_record *out, uint32_t stride)
{
    struct vk_trace *trace = dev->work->trace;
    uint32_t n = 0;
    pthread_mutex_lock(&trace->lock);
    for (; n < *count && trace->read < trace->written; n++) {
        const vk_record *r = &trace->ring[trace->read++ % MAX_RECORDS];
        clv_trace_record record = {.correlation = r->correlation,
                                   .begin = r->begin,
                                   .end = r->end,
                                   .node = r->node,
                                   .command = r->command};
        snprintf(record.name, sizeof record.name, "%s", r->name);
        clv_write(clv_at(out, n, stride), &record, sizeof record);
    }
    pthread_mutex_unlock(&trace->lock);
    *count = n;
    return CLV_OK;
}

/* --- the clock ------------------------------------------------------------ */

/* A command buffer that takes the time, to be used again and again. */
static VkResult make_clock(clv_plugin_device *dev, struct vk_trace *trace)
{
    const VkCommandBufferBeginInfo begin = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
    trace->query = vk_make_queries(dev, 1);
    if (!trace->query)
        return VK_ERROR_OUT_OF_DEVICE_MEMORY;
    VkResult result = vk_make_commands(dev, &trace->pool, &trace->cb);
    if (!result)
        result = dev->api.BeginCommandBuffer(trace->cb, &begin);
    if (result)
        return result;
    dev->api.CmdResetQueryPool(trace->cb, trace->query, 0, 1);
    dev->api.CmdWriteTimestamp(trace->cb, VK_PIPELINE_STAGE_TOP_OF_PIPE_BIT,
                               trace->query, 0);
    return dev->api.EndCommandBuffer(trace->cb);
}

static VkResult take_time(clv_plugin_device *dev, uint64_t *tick)
{
    const struct vk_trace *trace = dev->work->trace;
    VkResult result = vk_run_once(dev, trace->cb);
    return result
               ? result
               : dev->api.GetQueryPoolResults(dev->device, trace->query, 0, 1,
                                              sizeof *tick, tick, sizeof *tick,
                                              VK_QUERY_RESULT_64_BIT);
}

clv_status vk_calibrate(clv_plugin_device *dev, clv_calibration *out)
{
    const clv_host_api *host = dev->base.host;
    clv_calibration best = {.max_error_ns = UINT64_MAX,
                            .tick_ns = (double)dev->phys->tick_ns};
    CLV_TRY(clv_queue_usable(dev));
    if (!dev->phys->timestamp_bits)
        return clv_fail(host, CLV_ERR_UNSUPPORTED,
                        "vulkan:%s: the device has no clock", dev->phys->id);
    for (int i = 0; i < 3; i++) { /* the one that was disturbed least */
        uint64_t tick = 0, begin = host->now_ns(host->host);
        VkResult result = take_time(dev, &tick);
        uint64_t end = host->now_ns(host->host), error = (end - begin) / 2 + 1;
        if (result)
            return vk_fail(dev, result, "taking the device's time");
        if (error >= best.max_error_ns)
            continue;
        best.device_tick = vk_ticks(dev, 0, tick);
        best.host_ns = begin + (end - begin) / 2;
        best.max_error_ns = error;
    }
    clv_write(out, &best, sizeof best);
    return CLV_OK;
}

clv_status vk_trace_init(clv_plugin_device *dev)
{
    struct vk_trace *trace = clv_new(dev->base.host, sizeof *trace);
    if (!trace)
        return CLV_ERR_NO_MEMORY;
    dev->work->trace = trace;
    pthread_mutex_init(&trace->lock, NULL);
    if (!dev->phys->timestamp_bits)
        return CLV_OK;
    trace->ring = clv_new(dev->base.host, MAX_RECORDS * sizeof *trace->ring);
    if (!trace->ring)
        return CLV_ERR_NO_MEMORY;
    VkResult result = make_clock(dev, trace);
    return result ? vk_fail(dev, result, "making the device's clock") : CLV_OK;
}

void vk_trace_finish(clv_plugin_device *dev)
{
    struct vk_trace *trace = dev->work->trace;
    if (!trace)
        return;
    dev->api.DestroyCommandPool(dev->device, trace->pool, NULL);
    dev->api.DestroyQueryPool(dev->device, trace->query, NULL);
    pthread_mutex_destroy(&trace->lock);
    clv_free(dev->base.host, trace->ring);
    clv_free(dev->base.host, trace);
}
