#include "buffers.h"

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
                            const clv_import *import, bool taken,
                            uint64_t align)
{
    uint64_t end;
    if (!taken || import->handle_type != CLV_HANDLE_HOST_POINTER ||
        !clv_chain_known(import))
        return clv_fail(host, CLV_ERR_UNSUPPORTED,
                        "%s: handles of kind %#x, or with extensions, are not "
                        "imported; %s",
                        device, (unsigned)import->handle_type,
                        taken ? "give a host pointer" : "copy");
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
