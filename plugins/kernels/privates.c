#include "privates.h"

#include <cleave/plugin_queue.h>

#include <stdlib.h>

/* Of the memory that there is for repacked weights, for what comes after. */
#define LEFT_PART 8

/* One program's work. */
typedef struct work {
    const gpu_privates_plugin *plugin;
    const clv_host_api *host;
    clv_plugin_program *prog;
    const gpu_code *code;
    bool apart;
    gpu_cache *cache;
    gpu_privates *p;
} work;

static void *memory_of(const work *w, uint32_t i)
{
    return (char *)w->p->memory + i * w->plugin->size;
}

/* For tests: there is less. */
static bool is_refused(const work *w, uint64_t size)
{
    const char *value = w->host->option(w->host->host, "repack_memory");
    const long long most = value ? strtoll(value, NULL, 10) : -1;
    return most >= 0 && w->p->weights_size + size > (uint64_t)most;
}

static clv_status find_cached(work *w, uint32_t i)
{
    gpu_privates *p = w->p;
    if (w->code->privates[i].weights)
        return gpu_cached_find(w->host, &w->cache->list, w->code, i,
                               w->plugin->place_of, w->prog, &p->cached[i]);
    return gpu_cached_scratch(w->host, &w->cache->list, &w->code->privates[i],
                              p->cached, i, &p->cached[i]);
}

/* What another program has made and, if it is weights, filled; or new. */
static clv_status make_cached(work *w, uint32_t i)
{
    const bool weights = w->code->privates[i].weights;
    gpu_privates *p = w->p;
    CLV_TRY(find_cached(w, i));
    gpu_cached *k = p->cached[i];
    if (k->memory) {
        memcpy(memory_of(w, i), k->memory, w->plugin->size);
        return CLV_OK;
    }
    p->made[i] = true;
    k->memory = weights && is_refused(w, w->code->privates[i].size)
                    ? NULL
                    : clv_new(w->host, w->plugin->size);
    if (!k->memory)
        return CLV_ERR_NO_MEMORY;
    clv_status status =
        w->plugin->create(w->prog, &w->code->privates[i], k->memory, &k->size);
    memcpy(memory_of(w, i), k->memory, w->plugin->size);
    if (weights)
        p->weights_size += k->size;
    return status;
}

static bool fills_ours(const work *w, const gpu_dispatch *d)
{
    for (uint32_t i = 0; i < w->code->n_privates; i++)
        if (w->code->privates[i].weights && w->p->made[i] &&
            gpu_cached_filled_by(w->code, d, i))
            return true;
    return false;
}

/* The part of the setup that fills what is ours. */
static clv_status set_up(work *w)
{
    uint32_t n = 0;
    gpu_dispatch *ours =
        clv_new(w->host, (w->code->n_setup + UINT64_C(1)) * sizeof *ours);
    if (!ours)
        return CLV_ERR_NO_MEMORY;
    for (uint32_t i = 0; i < w->code->n_setup; i++)
        if (fills_ours(w, &w->code->setup[i]))
            ours[n++] = w->code->setup[i];
    clv_status status = n ? w->plugin->set_up(w->prog, ours, n) : CLV_OK;
    clv_free(w->host, ours);
    return status;
}

static clv_status make_all(work *w)
{
    for (uint32_t i = 0; i < w->code->n_privates; i++) {
        const gpu_private *code = &w->code->privates[i];
        uint64_t size = 0;
        if (w->apart && !code->weights)
            CLV_TRY(w->plugin->create(w->prog, code, memory_of(w, i), &size));
        else
            CLV_TRY(make_cached(w, i));
        if (code->weights)
            w->p->fitting += code->size;
        else
            w->p->scratch_size += w->apart ? size : w->p->cached[i]->size;
    }
    return set_up(w);
}

static void release_all(work *w)
{
    gpu_privates *p = w->p;
    for (uint32_t i = 0; p->made && i < w->code->n_privates; i++) {
        void *shared = p->cached[i] ? gpu_cached_drop(w->host, &w->cache->list,
                                                      p->cached[i])
                                    : NULL;
        if (shared)
            w->plugin->destroy(w->prog, shared);
        if (!p->cached[i])
            w->plugin->destroy(w->prog, memory_of(w, i));
        clv_free(w->host, shared);
    }
    clv_free(w->host, p->memory);
    clv_free(w->host, p->cached);
    clv_free(w->host, p->made);
    *p = (gpu_privates){.fitting = p->fitting};
}

/* What is not whole is gone before another program can find it. */
clv_status gpu_privates_make(const gpu_privates_plugin *plugin,
                             const clv_host_api *host, clv_plugin_program *prog,
                             const gpu_code *code, bool apart, gpu_cache *cache,
                             gpu_privates *p)
{
    work w = {plugin, host, prog, code, apart, cache, p};
    const uint64_t n = code->n_privates + UINT64_C(1);
    p->memory = clv_new(host, n * plugin->size);
    p->cached = clv_new(host, n * sizeof *p->cached);
    if (p->memory && p->cached)
        p->made = clv_new(host, n * sizeof *p->made);
    if (!p->made)
        return CLV_ERR_NO_MEMORY;
    pthread_mutex_lock(&cache->lock);
    clv_status status = make_all(&w);
    if (status)
        release_all(&w);
    pthread_mutex_unlock(&cache->lock);
    return status;
}

void gpu_privates_free(const gpu_privates_plugin *plugin,
                       const clv_host_api *host, clv_plugin_program *prog,
                       const gpu_code *code, gpu_cache *cache, gpu_privates *p)
{
    work w = {plugin, host, prog, code, false, cache, p};
    if (!code)
        return;
    pthread_mutex_lock(&cache->lock);
    release_all(&w);
    pthread_mutex_unlock(&cache->lock);
}

/* ------------------------------------------------------------------------ */
/* As many as there is memory for                                            */

static bool repacks(const gpu_target *target)
{
    return target->nvidia_ptx || target->coop_matrix || target->plain_matrix ||
           target->weights;
}

static uint64_t most_of(const clv_compile *compile)
{
    return compile->flags & CLV_COMPILE_SCARCE ? compile->repack_size
                                               : UINT64_MAX;
}

/* What to try after there was memory for so many bytes. */
static uint64_t less_than(uint64_t fitting)
{
    return fitting - (fitting + LEFT_PART - 1) / LEFT_PART;
}

/* Once for the device, and each time for who wants to know all. */
static void tell(const clv_host_api *host, const char *device, gpu_cache *cache,
                 uint64_t most)
{
    const bool told =
        __atomic_exchange_n(&cache->is_full, true, __ATOMIC_RELAXED);
    clv_log(host, told ? CLV_LOG_DEBUG : CLV_LOG_WARN,
            "%s: no memory for more than %.1f MiB of a program's repacked "
            "weights; where they are missing, products of few rows go without, "
            "others repack them in each run",
            device, (double)most / 0x1p20);
}

clv_status gpu_compile_repacked(clv_plugin_device *dev, const char *device,
                                const gpu_target *target, gpu_cache *cache,
                                const clv_compile *compile,
                                gpu_try_compile try_compile,
                                clv_plugin_program **out)
{
    uint64_t most = most_of(compile), fitting = 0;
    bool again = false;
    clv_status status = try_compile(dev, compile, most, &fitting, out);
    while (most && status == CLV_ERR_NO_MEMORY && repacks(target) &&
           !clv_queue_usable(dev)) {
        most = again ? 0 : less_than(fitting);
        again = true;
        tell(clv_base(dev)->host, device, cache, most);
        status = try_compile(dev, compile, most, &fitting, out);
    }
    return status;
}
