#include "program_cache.h"
#include "../base/cache.h"
#include "../base/grow.h"
#include "../base/names.h"

#include <stdlib.h>
#include <string.h>

/* Programs that compile faster, by the device's clock, are not stored. */
#define WORTH_NS 1e6

/* An entry of the cache that a device may have; no directory: it has none. */
typedef struct entry {
    char *dir, *key;
    uint64_t limit; /* bytes of the directory */
} entry;

static double now_ns(clv_device *dev)
{
    clv_moment now = {.ns = (double)clv_now_ns()};
    if (dev->info.clock == CLV_CLOCK_VIRTUAL && clv_device_now(dev, &now))
        return 0;
    return now.ns;
}

static void entry_finish(entry *e)
{
    free(e->dir);
    free(e->key);
}

/* The plugin's key covers device, options, shapes and nodes. Build and driver
 * are added in case a plugin leaves them out. */
static void entry_find(clv_device *dev, const core_compile *compile, entry *e)
{
    static const char digits[] = "0123456789abcdef";
    const int64_t mib =
        clv_config_get_int(dev->ctx->config, "core.program_cache");
    uint8_t key[32];
    char hex[2 * sizeof key + 1] = "";
    *e = (entry){.limit = (uint64_t)mib << 20};
    if (mib <= 0 || !dev->plugin->cache_dir[0] ||
        !core_device_serialises(dev) || core_program_key(dev, compile, key))
        return;
    for (size_t i = 0; i < sizeof key; i++) {
        hex[2 * i] = digits[key[i] >> 4];
        hex[2 * i + 1] = digits[key[i] & 15];
    }
    e->dir = core_format("%s/programs", dev->plugin->cache_dir);
    e->key = core_format(
        "program\n%s\n%s\n%s\n%s\n%u\n%llu\n%s", dev->api->build_id, dev->id,
        dev->info.driver, compile->options ? compile->options : "",
        compile->flags, (unsigned long long)compile->repack_size, hex);
    if (!e->dir || !e->key) {
        entry_finish(e);
        e->dir = e->key = NULL;
    }
}

/* NULL where no program is stored that is as good as a new one. */
static core_program *load(clv_device *dev, const core_compile *compile,
                          const entry *e)
{
    clv_blob blob = CLV_INIT(clv_blob, CLV_STRUCT_BLOB);
    core_program *prog = NULL;
    void *data;
    blob.fd = -1;
    if (core_cache_get(e->dir, e->key, &data, &blob.size))
        return NULL;
    blob.data = data;
    if (core_program_load(dev, compile, &blob, &prog))
        clv_log(dev->ctx, CLV_LOG_INFO, "%s: a cached program is not used: %s",
                dev->id, clv_last_error());
    free(data);
    return prog;
}

typedef struct bytes {
    uint8_t *data;
    uint64_t size, limit;
    uint32_t capacity;
} bytes;

static clv_status append(void *ctx, const void *data, uint64_t size)
{
    bytes *b = ctx;
    if (size > b->limit - b->size)
        return CLV_ERR_LIMIT;
    if (!core_grow(&b->data, &b->capacity, b->size + size, 1))
        return CLV_ERR_NO_MEMORY;
    memcpy(b->data + b->size, data, (size_t)size);
    b->size += size;
    return CLV_OK;
}

/* A failure only makes the next start slower. */
static bool store(core_program *prog, const entry *e)
{
    clv_context *ctx = prog->dev->ctx;
    bytes b = {.limit = e->limit};
    if (atomic_load(&ctx->program_cache_failed))
        return false;
    clv_status status = core_program_serialize(prog, append, &b);
    if (!status)
        status = core_cache_put(e->dir, e->key, b.data, b.size);
    if (!status)
        status = core_cache_trim(e->dir, e->limit);
    if (status && !atomic_exchange(&ctx->program_cache_failed, true))
        clv_log(ctx, CLV_LOG_WARN,
                "%s: programs are not cached any more, so the next start "
                "compiles them again: %s",
                prog->dev->id, clv_last_error());
    free(b.data);
    return !status;
}

clv_status core_program_get(clv_device *dev, const core_compile *compile,
                            core_program **out)
{
    entry e;
    entry_find(dev, compile, &e);
    const double begin = now_ns(dev);
    core_program *prog = e.key ? load(dev, compile, &e) : NULL;
    const bool loaded = prog;
    const clv_status status =
        loaded ? CLV_OK : core_program_compile(dev, compile, &prog);
    const double ns = now_ns(dev) - begin;
    if (!status) {
        prog->ready_ns = ns;
        prog->was_cached = loaded;
        prog->is_cached =
            loaded || (e.key && ns >= WORTH_NS && store(prog, &e));
    }
    entry_finish(&e);
    if (status)
        return status;
    clv_context *ctx = dev->ctx;
    atomic_fetch_add(loaded ? &ctx->programs_loaded : &ctx->programs_compiled,
                     1);
    atomic_fetch_add(&ctx->programs_ns[dev->info.clock], (uint64_t)ns);
    *out = prog;
    return CLV_OK;
}

clv_program_counts clv_context_programs(const clv_context *ctx)
{
    return (clv_program_counts){
        .compiled = atomic_load(&ctx->programs_compiled),
        .loaded = atomic_load(&ctx->programs_loaded),
        .real_ns = atomic_load(&ctx->programs_ns[CLV_CLOCK_REAL]),
        .virtual_ns = atomic_load(&ctx->programs_ns[CLV_CLOCK_VIRTUAL]),
    };
}
