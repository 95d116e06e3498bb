#include "buffers.h"

#include <stdlib.h>

clv_status gpu_check_alloc(const clv_host_api *host, const char *device,
                           uint32_t type, uint32_t n_types, uint64_t size,
                           uint64_t max)
{
    if (type >= n_types || !size)
        return clv_fail(host, CLV_ERR_INVALID,
                        "%s: a buffer of %llu bytes in memory type %u; there "
                        "are %u types, for one byte and more",
                        device, (unsigned long long)size, (unsigned)type,
                        (unsigned)n_types);
    if (size > max)
        return clv_fail(host, CLV_ERR_LIMIT,
                        "%s: a buffer of %llu bytes; one has at most %llu, use "
                        "several",
                        device, (unsigned long long)size,
                        (unsigned long long)max);
    return CLV_OK;
}

clv_status gpu_check_import(const clv_host_api *host, const char *device,
                            const clv_import *import, uint32_t taken,
                            uint64_t align)
{
    uint64_t end;
    if (!taken || import->handle_type != taken || !clv_chain_known(import))
        return clv_fail(
            host, CLV_ERR_UNSUPPORTED,
            "%s: handles of kind %#x, or with extensions, are not imported as "
            "this memory type, only %#x; else copy",
            device, (unsigned)import->handle_type, (unsigned)taken);
    if (!import->pointer || !import->size ||
        ((uintptr_t)import->pointer | import->offset | import->size) % align ||
        __builtin_add_overflow(import->offset, import->size, &end) ||
        __builtin_add_overflow(end, (uint64_t)(uintptr_t)import->pointer, &end))
        return clv_fail(host, CLV_ERR_INVALID,
                        "%s: %llu bytes at %llu after %p are no range of "
                        "memory at multiples of %llu",
                        device, (unsigned long long)import->size,
                        (unsigned long long)import->offset, import->pointer,
                        (unsigned long long)align);
    return CLV_OK;
}

static uint64_t max_memory(const clv_host_api *host)
{
    const char *text = host->option(host->host, "max_memory");
    return text ? strtoull(text, NULL, 10) << 20 : 0;
}

/* What drivers take themselves: on an H200 NVIDIA's takes 530 MiB for a
 * context, and for each buffer of more than a MiB whole pages of 2 MiB. */
static uint64_t reserve(uint64_t size)
{
    const uint64_t part = size / 16, most = (uint64_t)1 << 30;
    return part < most ? part : most;
}

uint64_t gpu_memory_limit(const clv_host_api *host, uint64_t size, bool own)
{
    const uint64_t limit = max_memory(host);
    if (limit)
        return !size || limit < size ? limit : size;
    return own ? size - reserve(size) : size;
}

gpu_budget gpu_budget_make(const clv_host_api *host, const char *plugin,
                           uint64_t size, bool own)
{
    return (gpu_budget){plugin, own || max_memory(host) ? size : 0, 0};
}

clv_status gpu_budget_take(const clv_host_api *host, const char *device,
                           gpu_budget *budget, uint64_t size)
{
    uint64_t used = __atomic_load_n(&budget->used, __ATOMIC_RELAXED);
    do {
        if (budget->limit &&
            (used > budget->limit || size > budget->limit - used))
            return clv_fail(host, CLV_ERR_NO_MEMORY,
                            "%s: %llu bytes of memory are wanted, and %llu are "
                            "in use; %s.max_memory limits them to %llu MiB; "
                            "raise it, or use a smaller model or more devices",
                            device, (unsigned long long)size,
                            (unsigned long long)used, budget->plugin,
                            (unsigned long long)(budget->limit >> 20));
    } while (!__atomic_compare_exchange_n(&budget->used, &used, used + size, 0,
                                          __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    return CLV_OK;
}

void gpu_budget_give(gpu_budget *budget, uint64_t size)
{
    __atomic_fetch_sub(&budget->used, size, __ATOMIC_RELAXED);
}

uint64_t gpu_budget_left(const gpu_budget *budget)
{
    const uint64_t used = __atomic_load_n(&budget->used, __ATOMIC_RELAXED);
    return !budget->limit ? 0 : budget->limit > used ? budget->limit - used : 1;
}
