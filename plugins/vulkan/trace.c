#include "trace.h"

#include "commands.h"

#define MAX_TRACED 16384u /* times of a submit; others are not recorded */

/* For calibration. */
struct vk_trace {
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
    if (!submit->correlation || !dev->queues[submit->queue].timestamp_bits ||
        (submit->queue && !dev->phys->query_reset))
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
    clv_queue *queue = dev->base.queue;
    uint64_t ticks[2];
    if (dev->api.GetQueryPoolResults(dev->device, flight->queries, query, 2,
                                     sizeof ticks, ticks, sizeof *ticks,
                                     VK_QUERY_RESULT_64_BIT))
        return;
    pthread_mutex_lock(&queue->lock);
    const vk_queue *of = &dev->queues[flight->work->index];
    clv_trace_add(queue, &flight->job->submit, command, node, name,
                  vk_ticks(of, 0, ticks[0]), vk_ticks(of, 0, ticks[1]));
    pthread_mutex_unlock(&queue->lock);
}

void vk_trace_collect(clv_plugin_device *dev, const vk_flight *flight)
{
    const clv_submit *submit = &flight->job->submit;
    uint32_t query = 2 * submit->n_commands;
    for (uint32_t i = 0; flight->n_stamps && i < submit->n_commands; i++) {
        const clv_command *c = &submit->commands[i];
        collect_one(dev, flight, 2 * i, i, CLV_NO_TENSOR,
                    clv_command_name(c->kind));
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
    const struct vk_trace *trace = dev->trace;
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
                        "%s: the device has no clock", dev->label);
    for (int i = 0; i < 3; i++) { /* the one that was disturbed least */
        uint64_t tick = 0, begin = host->now_ns(host->host);
        VkResult result = take_time(dev, &tick);
        uint64_t end = host->now_ns(host->host), error = (end - begin) / 2 + 1;
        if (result)
            return vk_fail(dev, result, "taking the device's time");
        if (error >= best.max_error_ns)
            continue;
        best.device_tick = vk_ticks(&dev->queues[0], 0, tick);
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
    dev->trace = trace;
    if (!dev->phys->timestamp_bits)
        return CLV_OK;
    VkResult result = make_clock(dev, trace);
    return result ? vk_fail(dev, result, "making the device's clock") : CLV_OK;
}

void vk_trace_finish(clv_plugin_device *dev)
{
    struct vk_trace *trace = dev->trace;
    if (!trace)
        return;
    dev->api.DestroyCommandPool(dev->device, trace->pool, NULL);
    dev->api.DestroyQueryPool(dev->device, trace->query, NULL);
    clv_free(dev->base.host, trace);
}
