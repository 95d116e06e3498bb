/* The host's table: errors, clock, options, parallel_for. Memory is in
 * host_memory.c, the cache in host_cache.c. */
#include "host.h"
#include "conf.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define N_WORKERS 4

kit_host *kit_host_enter(clv_host *ctx, const char *slot)
{
    kit_host *host = (kit_host *)ctx;
    if (atomic_load(&host->ended))
        kit_fail(host->k,
                 "host->%s() is called after destroy; quiesce joins all "
                 "threads",
                 slot);
    return host;
}

static void host_log(clv_host *ctx, uint32_t level, const char *file,
                     int32_t line, const char *text)
{
    kit_host *host = kit_host_enter(ctx, "log");
    (void)file, (void)line;
    if (!text || level > CLV_LOG_DEBUG)
        kit_fail(host->k, "host->log() is given level %u and %s", level,
                 text ? "a text" : "no text");
}

static clv_status host_set_error(clv_host *ctx, clv_status status,
                                 int64_t vendor, const char *text)
{
    kit_host *host = kit_host_enter(ctx, "set_error");
    (void)vendor;
    if (!text || !*text)
        kit_fail(host->k, "host->set_error() is given no text for status %d",
                 (int)status);
    if (status >= CLV_OK)
        kit_fail(host->k,
                 "host->set_error() is given status %d, which is no error, for "
                 "'%.200s'",
                 (int)status, text);
    pthread_mutex_lock(&host->mutex);
    snprintf(host->error, sizeof host->error, "%s", text);
    pthread_mutex_unlock(&host->mutex);
    pthread_mutex_lock(&host->k->mutex);
    snprintf(host->k->error, sizeof host->k->error, "%s", text);
    pthread_mutex_unlock(&host->k->mutex);
    return status;
}

static uint64_t host_now(clv_host *ctx)
{
    kit_host_enter(ctx, "now_ns");
    return kit_now();
}

static void host_trace(clv_host *ctx, const char *name, uint64_t begin,
                       uint64_t end)
{
    kit_host *host = kit_host_enter(ctx, "trace");
    if (!name || end < begin)
        kit_fail(host->k, "host->trace() is given %s",
                 name ? "a span that ends before it begins" : "no name");
}

/* ------------------------------------------------------------------------ */
/* Options                                                                  */

const char *kit_setting(const kit_config *config, const char *section,
                        const char *key)
{
    size_t n = strlen(section), m = strlen(key);
    for (uint32_t i = config->n_settings; i-- > 0;) {
        const char *s = config->settings[i];
        if (!strncmp(s, section, n) && s[n] == '.' &&
            !strncmp(s + n + 1, key, m) && s[n + 1 + m] == '=')
            return s + n + m + 2;
    }
    return NULL;
}

/* key: "rows", or of a device "large.rows". */
static const char *host_option(clv_host *ctx, const char *key)
{
    kit_host *host = kit_host_enter(ctx, "option");
    const clv_plugin_api *api = host->plugin;
    const char *dot = key ? strrchr(key, '.') : NULL;
    char section[160];
    if (!key)
        kit_fail(host->k, "host->option() is given no key");
    for (uint32_t i = 0; api && i < api->n_options; i++) {
        clv_option option;
        kit_option(api, i, &option);
        if (strcmp(option.key, dot ? dot + 1 : key) ||
            (option.scope == CLV_SCOPE_DEVICE) != (dot != NULL))
            continue;
        snprintf(section, sizeof section, "%s%s%.*s", api->name, dot ? ":" : "",
                 dot ? (int)(dot - key) : 0, key);
        const char *set =
            kit_setting(host->k->config, section, dot ? dot + 1 : key);
        return set ? set : option.default_value ? option.default_value : "";
    }
    return NULL;
}

static const char *host_device_section(clv_host *ctx, uint32_t index)
{
    kit_host *host = kit_host_enter(ctx, "device_section");
    return host->plugin
               ? kit_device_section(host->k->config, host->plugin->name, index)
               : NULL;
}

/* ------------------------------------------------------------------------ */
/* Threads                                                                  */

typedef struct loop {
    void (*fn)(void *ctx, uint32_t i);
    void *ctx;
    uint32_t n;
    _Atomic uint32_t next;
} loop;

static _Thread_local bool in_parallel_for;

static void *run_loop(void *arg)
{
    loop *l = arg;
    bool outer = in_parallel_for;
    in_parallel_for = true;
    for (;;) {
        uint32_t i = atomic_fetch_add(&l->next, 1);
        if (i >= l->n)
            break;
        l->fn(l->ctx, i);
    }
    in_parallel_for = outer;
    return NULL;
}

static void host_parallel_for(clv_host *ctx, uint32_t n,
                              void (*fn)(void *, uint32_t), void *arg)
{
    kit_host *host = kit_host_enter(ctx, "parallel_for");
    loop l = {.fn = fn, .ctx = arg, .n = n};
    pthread_t threads[N_WORKERS - 1];
    uint32_t started = 0;
    if (in_parallel_for)
        kit_fail(host->k, "host->parallel_for() is called from inside its "
                          "function");
    if (n > UINT32_MAX - N_WORKERS)
        kit_fail(host->k, "host->parallel_for() is asked for %u rounds", n);
    while (started < N_WORKERS - 1 && started + 1 < n &&
           !pthread_create(&threads[started], NULL, run_loop, &l))
        started++;
    run_loop(&l);
    while (started)
        pthread_join(threads[--started], NULL);
}

/* ------------------------------------------------------------------------ */

static void make_cache_dir(kit *k, kit_host *host)
{
    int n = snprintf(host->cache_dir, sizeof host->cache_dir, "%s/XXXXXX",
                     k->config->run_dir);
    if (n < 0 || (size_t)n >= sizeof host->cache_dir ||
        !mkdtemp(host->cache_dir))
        kit_fail(k, "%s: no directory can be made in it: %s",
                 k->config->run_dir, strerror(errno));
}

void kit_host_init(kit *k, kit_host *host)
{
    memset(host, 0, sizeof *host);
    host->k = k;
    pthread_mutex_init(&host->mutex, NULL);
    make_cache_dir(k, host);
    host->api = (clv_host_api){
        .header = {sizeof host->api, CLV_STRUCT_HOST_API, NULL},
        .host = (clv_host *)host,
        .plugin_path = k->config->path,
        .plugin_dir = k->config->dir,
        .cache_dir = host->cache_dir,
        .n_workers = N_WORKERS,
        .abi_version = CLV_ABI_VERSION,
        .log = host_log,
        .set_error = host_set_error,
        .alloc = kit_host_alloc,
        .free = kit_host_free,
        .parallel_for = host_parallel_for,
        .now_ns = host_now,
        .option = host_option,
        .cache_get = kit_host_cache_get,
        .cache_put = kit_host_cache_put,
        .trace = host_trace,
        .device_section = host_device_section,
    };
}

void kit_host_clear(kit_host *host)
{
    pthread_mutex_lock(&host->mutex);
    host->error[0] = 0;
    pthread_mutex_unlock(&host->mutex);
    pthread_mutex_lock(&host->k->mutex);
    host->k->error[0] = 0;
    pthread_mutex_unlock(&host->k->mutex);
}

void kit_host_finish(kit_host *host)
{
    if (!host->k)
        return;
    kit_host_memory_finish(host);
    kit_host_cache_finish(host);
    pthread_mutex_destroy(&host->mutex);
    host->k = NULL;
}
