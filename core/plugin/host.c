#include "host.h"

#include "../base/cache.h"
#include "../config/config.h"
#include "../device/answer.h"
#include "workers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* clv_host is core_plugin; the plugin only hands the pointer back. */
static core_plugin *self(clv_host *host)
{
    return (core_plugin *)host;
}

static void host_log(clv_host *host, uint32_t level, const char *file,
                     int32_t line, const char *text)
{
    core_plugin *p = self(host);
    if (file && level >= CLV_LOG_DEBUG)
        clv_log(p->ctx, level, "%s: %s:%d: %s", p->api.name, file, line, text);
    else
        clv_log(p->ctx, level, "%s: %s", p->api.name, text);
}

static clv_status host_set_error(clv_host *host, clv_status status,
                                 int64_t vendor, const char *text)
{
    (void)host;
    char line[768];
    snprintf(line, sizeof line, "%s", text ? text : "");
    core_name_clean(line, sizeof line);
    if (vendor)
        return clv_error(status, "%s (driver code %lld)", line,
                         (long long)vendor);
    return clv_error(status, "%s", line);
}

static void *host_alloc(clv_host *host, uint64_t size, uint64_t alignment)
{
    (void)host;
    if (!core_is_pow2(alignment) || size > SIZE_MAX / 2 ||
        alignment > SIZE_MAX / 4)
        return NULL;
    if (alignment < sizeof(void *))
        alignment = sizeof(void *);
    void *p;
    return posix_memalign(&p, (size_t)alignment, size ? (size_t)size : 1) ? NULL
                                                                          : p;
}

static void host_free(clv_host *host, void *ptr)
{
    (void)host;
    free(ptr);
}

static core_workers *get_workers(clv_context *ctx)
{
    pthread_mutex_lock(&ctx->workers_mutex);
    if (!ctx->workers &&
        core_workers_create(ctx->n_workers, &ctx->workers) != CLV_OK)
        ctx->workers = NULL;
    core_workers *workers = ctx->workers;
    pthread_mutex_unlock(&ctx->workers_mutex);
    return workers;
}

static void host_parallel_for(clv_host *host, uint32_t n,
                              void (*fn)(void *ctx, uint32_t i), void *ctx)
{
    core_workers *workers = n > 1 ? get_workers(self(host)->ctx) : NULL;
    if (workers) {
        core_workers_run(workers, n, fn, ctx);
        return;
    }
    for (uint32_t i = 0; i < n; i++)
        fn(ctx, i);
}

static uint64_t host_now_ns(clv_host *host)
{
    (void)host;
    return clv_now_ns();
}

static const char *host_option(clv_host *host, const char *key)
{
    core_plugin *p = self(host);
    char name[128];
    int n = snprintf(name, sizeof name, "%s%c%s", p->api.name,
                     strchr(key, '.') ? ':' : '.', key);
    if (n < 0 || (size_t)n >= sizeof name)
        return NULL;
    return clv_config_get(p->ctx->config, name);
}

static const char *host_device_section(clv_host *host, uint32_t index)
{
    core_plugin *p = self(host);
    return core_config_device_section(p->ctx->config, p->api.name, index);
}

static clv_status host_cache_get(clv_host *host, const char *key, void **data,
                                 uint64_t *size)
{
    core_plugin *p = self(host);
    if (!p->host.cache_dir[0])
        return CLV_ERR_NOT_FOUND;
    return core_cache_get(p->host.cache_dir, key, data, size);
}

static clv_status host_cache_put(clv_host *host, const char *key,
                                 const void *data, uint64_t size)
{
    core_plugin *p = self(host);
    if (!p->host.cache_dir[0])
        return clv_error(CLV_ERR_NOT_FOUND,
                         "there is no cache directory; set core.cache_dir");
    return core_cache_put(p->host.cache_dir, key, data, size);
}

static void host_trace(clv_host *host, const char *name, uint64_t begin_ns,
                       uint64_t end_ns)
{
    core_plugin *p = self(host);
    clv_trace_span(p->ctx, p->api.name, name, begin_ns, end_ns);
}

void core_host_init(core_plugin *plugin)
{
    plugin->host = (clv_host_api){
        .header = {sizeof(clv_host_api), CLV_STRUCT_HOST_API, NULL},
        .host = (clv_host *)plugin,
        .plugin_path = plugin->path,
        .plugin_dir = plugin->dir,
        .cache_dir = plugin->cache_dir,
        .n_workers = plugin->ctx->n_workers,
        .abi_version = plugin->abi_version,
        .log = host_log,
        .set_error = host_set_error,
        .alloc = host_alloc,
        .free = host_free,
        .parallel_for = host_parallel_for,
        .now_ns = host_now_ns,
        .option = host_option,
        .cache_get = host_cache_get,
        .cache_put = host_cache_put,
        .trace = host_trace,
        .device_section = host_device_section,
    };
}
