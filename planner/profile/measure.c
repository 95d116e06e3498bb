/* The meter: settings, and the memory that operands lie in. */
#include "trial.h"
#include "../../core/base/error.h"
#include "../../core/device/memory.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define POOL_LEAST ((uint64_t)256 << 20)
#define CACHES 4 /* times the last cache that a pool has at least */
#define PAGE 4096u
#define POOL_LEAVES 8 /* this part of a device's memory is for programs */
#define PATTERN ((uint64_t)1 << 20)

static uint64_t physical_memory(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
    return pages > 0 && size > 0 ? (uint64_t)pages * (uint64_t)size
                                 : UINT64_MAX;
}

static uint64_t last_cache(void)
{
    long size = 0;
#ifdef _SC_LEVEL3_CACHE_SIZE
    size = sysconf(_SC_LEVEL3_CACHE_SIZE);
#endif
    return size > 0 ? (uint64_t)size : 0;
}

clv_status planner_meter_create(clv_context *ctx,
                                const planner_meter_params *params,
                                planner_meter **out)
{
    *out = NULL;
    planner_meter *meter = calloc(1, sizeof *meter);
    if (!meter)
        return core_no_memory("to measure devices");
    meter->ctx = ctx;
    if (params)
        meter->params = *params;
    if (!(meter->params.max_seconds > 0))
        meter->params.max_seconds = 0.25;
    if (!meter->params.repetitions)
        meter->params.repetitions = 7;
    if (!meter->params.max_pool)
        meter->params.max_pool = physical_memory() / 2;
    meter->limit_ns = core_context_wait_ns(ctx);
    *out = meter;
    return CLV_OK;
}

static void drop_pools(planner_pool *pool)
{
    while (pool) {
        planner_pool *older = pool->older;
        clv_tensor_destroy(pool->tensor);
        free(pool);
        pool = older;
    }
}

void planner_meter_destroy(planner_meter *meter)
{
    if (!meter)
        return;
    drop_pools(meter->pool);
    free(meter);
}

const planner_program_time *planner_measured_programs(planner_meter *meter,
                                                      uint32_t *n)
{
    *n = meter->n_programs;
    meter->n_programs = 0;
    return meter->programs;
}

/* ------------------------------------------------------------------------ */
/* The pool                                                                  */

/* Bytes that mean ordinary numbers in every format, whatever begins where: the
 * upper byte of a float is 0x2c..0x3b, of either sign. */
static void make_numbers(uint8_t *data, uint64_t begin, uint64_t end)
{
    uint64_t state = begin * 0x9e3779b97f4a7c15u + 1;
    for (uint64_t i = begin; i < end; i += sizeof state) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        uint64_t bits = (state & 0x8080808080808080u) |
                        ((state & 0x0f0f0f0f0f0f0f0fu) + 0x2c2c2c2c2c2c2c2cu);
        memcpy(data + i, &bits, sizeof bits);
    }
}

/* The same numbers again and again, which takes a fraction of the time. */
static void fill(uint8_t *data, uint64_t begin, uint64_t end)
{
    uint64_t first = begin + PATTERN < end ? begin + PATTERN : end;
    make_numbers(data, begin, first);
    for (uint64_t at = first; at < end; at += PATTERN)
        memcpy(data + at, data + begin,
               end - at < PATTERN ? end - at : PATTERN);
}

static clv_status make_pool(planner_meter *meter, uint64_t size)
{
    const int64_t dims[] = {(int64_t)size};
    planner_pool *pool = calloc(1, sizeof *pool);
    if (!pool)
        return core_no_memory("to measure devices");
    clv_status status =
        clv_tensor_create(meter->ctx, CLV_DTYPE_I8, 1, dims, &pool->tensor);
    if (status) {
        free(pool);
        return clv_error_prefix(status, "operands to measure with");
    }
    if (!meter->n_trials) {
        drop_pools(meter->pool);
        meter->pool = NULL;
    }
    pool->size = size;
    pool->older = meter->pool;
    meter->pool = pool;
    return CLV_OK;
}

static bool has_own_memory(const clv_device *dev)
{
    uint32_t type;
    return core_device_has_local(dev, &type);
}

/* What a pool of `need` bytes should have: next time it is not to be too small
 * again by a little. */
static uint64_t usual_size(const clv_device *dev, uint64_t need)
{
    /* The host's caches hold nothing of memory that is a device's own. */
    uint64_t size = has_own_memory(dev) ? 0 : last_cache() * CACHES;
    size = size > POOL_LEAST ? size : POOL_LEAST;
    while (size < need && size < UINT64_MAX / 2)
        size *= 2;
    return size;
}

/* A device with memory of its own holds a copy of the pool, beside what plans
 * and programs have there. */
static uint64_t largest_pool(const planner_meter *meter, clv_device *dev,
                             uint64_t align)
{
    uint64_t room = clv_device_room(dev);
    if (room != UINT64_MAX && meter->pool) {
        const core_runs all = core_tensor_whole(meter->pool->tensor);
        if (core_tensor_has_copy(meter->pool->tensor, dev, align,
                                 CORE_HOLD_COPY, &all))
            room += meter->pool->size;
    }
    room -= room == UINT64_MAX ? 0 : room / POOL_LEAVES;
    return (room < meter->params.max_pool ? room : meter->params.max_pool) /
           PAGE * PAGE;
}

clv_status planner_pool_reserve(planner_meter *meter, clv_device *dev,
                                uint64_t align, uint64_t need, bool filled)
{
    const uint64_t most = largest_pool(meter, dev, align);
    uint64_t size = (need + PAGE - 1) / PAGE * PAGE;
    if (size > most)
        return clv_error(CLV_ERR_LIMIT,
                         "its operands take %llu KiB, of at "
                         "most %llu KiB to measure with",
                         (unsigned long long)(size >> 10),
                         (unsigned long long)(most >> 10));
    const uint64_t usual = filled ? usual_size(dev, size) : size;
    size = usual < most ? usual : most;
    planner_pool *pool = meter->pool;
    if (!pool || pool->size < size || pool->size > most ||
        (has_own_memory(dev) && filled && pool->size > 2 * size)) {
        clv_status status = make_pool(meter, size);
        if (status)
            return status;
        pool = meter->pool;
    }
    if (filled && pool->filled < pool->size) {
        fill(clv_tensor_data(pool->tensor), pool->filled, pool->size);
        pool->filled = pool->size;
    }
    return CLV_OK;
}

void planner_pool_release(planner_meter *meter)
{
    if (--meter->n_trials || !meter->pool)
        return;
    drop_pools(meter->pool->older);
    meter->pool->older = NULL;
}
