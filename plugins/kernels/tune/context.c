#include "tune/context.h"

#include <math.h>
#include <string.h>

#define PATIENCE_NS 60000000000u

bool gpu_context_open(gpu_context *ctx, const clv_host_api *host,
                      const clv_plugin_api *api, clv_plugin_device *dev)
{
    enum { MOST = 16 };
    clv_mem_type types[MOST];
    uint32_t n = MOST, seen = MOST, local = MOST;
    *ctx = (gpu_context){.host = host, .api = api, .dev = dev};
    for (uint32_t i = 0; i < MOST; i++)
        types[i] = (clv_mem_type)CLV_INIT(clv_mem_type, CLV_STRUCT_MEM_TYPE);
    if (api->mem_types(dev, &n, types, sizeof *types))
        return false;
    for (uint32_t i = n < MOST ? n : MOST; i-- > 0;) {
        if (types[i].flags & CLV_MEM_HOST_VISIBLE)
            seen = i;
        if (types[i].flags & CLV_MEM_DEVICE_LOCAL)
            local = i;
    }
    if (seen == MOST)
        return false;
    ctx->seen = seen;
    ctx->local = local == MOST ? seen : local;
    ctx->staged = !(types[ctx->local].flags & CLV_MEM_HOST_VISIBLE);
    return true;
}

/* ------------------------------------------------------------------------ */
/* Memory                                                                    */

static clv_status fill(const gpu_context *ctx, clv_plugin_buffer *buf,
                       const void *data, uint64_t size)
{
    void *to;
    clv_status status = ctx->api->buffer_map(buf, CLV_ACCESS_WRITE, &to);
    if (status)
        return status;
    if (data)
        memcpy(to, data, size);
    else
        memset(to, 0xff, size);
    if (ctx->api->buffer_flush)
        status = ctx->api->buffer_flush(buf, 0, size);
    ctx->api->buffer_unmap(buf);
    return status;
}

static clv_status read_back(const gpu_context *ctx, clv_plugin_buffer *buf,
                            void *out, uint64_t size)
{
    void *from;
    clv_status status = ctx->api->buffer_map(buf, CLV_ACCESS_READ, &from);
    if (status)
        return status;
    if (ctx->api->buffer_invalidate)
        status = ctx->api->buffer_invalidate(buf, 0, size);
    memcpy(out, from, size);
    ctx->api->buffer_unmap(buf);
    return status;
}

static clv_status copy(const gpu_context *ctx, clv_plugin_buffer *src,
                       clv_plugin_buffer *dst, uint64_t size)
{
    clv_command c = CLV_INIT(clv_command, CLV_STRUCT_COMMAND);
    c.kind = CLV_COMMAND_COPY;
    c.src = src;
    c.dst = dst;
    c.size = size;
    return gpu_context_run(ctx, &c);
}

clv_status gpu_context_alloc(const gpu_context *ctx, const void *data,
                             uint64_t size, clv_plugin_buffer **out)
{
    const clv_plugin_api *api = ctx->api;
    clv_plugin_buffer *stage = NULL, *buf = NULL;
    clv_status status = api->buffer_alloc(ctx->dev, ctx->local, size, &buf);
    if (!status && ctx->staged)
        status = api->buffer_alloc(ctx->dev, ctx->seen, size, &stage);
    if (!status)
        status = fill(ctx, ctx->staged ? stage : buf, data, size);
    if (!status && ctx->staged)
        status = copy(ctx, stage, buf, size);
    api->buffer_free(stage);
    if (status)
        api->buffer_free(buf);
    else
        *out = buf;
    return status;
}

clv_status gpu_context_fetch(const gpu_context *ctx, clv_plugin_buffer *buf,
                             void *out, uint64_t size)
{
    clv_plugin_buffer *stage = NULL;
    if (!ctx->staged)
        return read_back(ctx, buf, out, size);
    clv_status status =
        ctx->api->buffer_alloc(ctx->dev, ctx->seen, size, &stage);
    if (!status)
        status = copy(ctx, buf, stage, size);
    if (!status)
        status = read_back(ctx, stage, out, size);
    ctx->api->buffer_free(stage);
    return status;
}

/* ------------------------------------------------------------------------ */
/* Work and results                                                          */

clv_status gpu_context_run(const gpu_context *ctx, const clv_command *command)
{
    clv_plugin_timeline *end = NULL;
    clv_status status = ctx->api->timeline_create(ctx->dev, 0, &end);
    if (status)
        return status;
    clv_timeline_point signal = {.timeline = end, .value = 1};
    clv_submit s = CLV_INIT(clv_submit, CLV_STRUCT_SUBMIT);
    s.commands = command;
    s.n_commands = 1;
    s.command_stride = sizeof *command;
    s.signals = &signal;
    s.n_signals = 1;
    status = ctx->api->submit(ctx->dev, &s);
    if (!status)
        status = ctx->api->timeline_wait(end, 1, 0, PATIENCE_NS);
    ctx->api->timeline_destroy(end);
    return status;
}

double gpu_result_error(const float *y, const float *want, uint64_t n)
{
    double difference = 0, sum = 0;
    for (uint64_t i = 0; i < n; i++) {
        difference += ((double)y[i] - want[i]) * ((double)y[i] - want[i]);
        sum += (double)want[i] * want[i];
    }
    if (difference == 0)
        return 0;
    return isfinite(difference) && sum > 0 ? difference / sum : INFINITY;
}

double gpu_result_bound(uint32_t error_class)
{
    static const double bounds[] = {1e-3, 1e-12, 1e-10, 1e-6, 1e-4, 1e-2};
    return error_class < sizeof bounds / sizeof *bounds ? bounds[error_class]
                                                        : 1e-3;
}
