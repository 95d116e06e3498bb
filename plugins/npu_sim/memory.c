#include "memory.h"

#include <cleave/plugin_memory.h>

#define ALIGNMENT 64u
#define ALL_ACCESS (CLV_ACCESS_READ | CLV_ACCESS_WRITE)
#define MAX_BUFFER ((uint64_t)1 << 46)

/* One memory for all, as on a phone: the host's. */
clv_status npu_mem_types(clv_plugin_device *dev, uint32_t *count,
                         clv_mem_type *out, uint32_t stride)
{
    clv_plugin_instance *inst = dev->inst;
    CLV_TRY(npu_check_device(dev));
    clv_mem_type type = {.flags = CLV_MEM_HOST_VISIBLE | CLV_MEM_COHERENT |
                                  CLV_MEM_CACHED,
                         .import_handles = CLV_HANDLE_HOST_POINTER,
                         .alignment = ALIGNMENT,
                         .import_align = ALIGNMENT,
                         .bandwidth = dev->settings->bandwidth};
    npu_lock(inst);
    if (inst->config.memory_size)
        type.budget = inst->config.memory_size - inst->allocated;
    npu_unlock(inst);
    (void)stride;
    if (*count)
        clv_write(out, &type, sizeof type);
    *count = 1;
    return CLV_OK;
}

/* release_ctx of an allocated buffer is its device. */
clv_status npu_buffer_alloc(clv_plugin_device *dev, uint32_t mem_type,
                            uint64_t size, clv_plugin_buffer **out)
{
    CLV_TRY(npu_check_device(dev));
    if (size > MAX_BUFFER)
        return clv_no_memory(dev->base.host, size);
    CLV_TRY(npu_take_memory(dev, size, "a buffer"));
    /* Its content is left untouched, so that models too large for the host can
     * be timed. */
    clv_status status = clv_buffer_alloc(dev, mem_type, size, out);
    if (status)
        npu_give_memory(dev, size);
    else
        (*out)->release_ctx = dev;
    return status;
}

clv_status npu_buffer_import(clv_plugin_device *dev, uint32_t mem_type,
                             const clv_import *import, clv_plugin_buffer **out)
{
    const clv_host_api *host = dev->base.host;
    CLV_TRY(npu_check_device(dev));
    if (!import->access || import->access & ~(uint32_t)ALL_ACCESS)
        return clv_fail(host, CLV_ERR_INVALID,
                        "npu_sim: access %u of an import is not 1 to 3",
                        (unsigned)import->access);
    if (((uintptr_t)import->pointer | import->offset | import->size) %
        ALIGNMENT)
        return clv_fail(host, CLV_ERR_INVALID,
                        "npu_sim: pointer, offset and size of an import are "
                        "not multiples of %u",
                        ALIGNMENT);
    return clv_buffer_import(dev, mem_type, import, out);
}

void npu_buffer_free(clv_plugin_buffer *buf)
{
    if (buf && buf->allocated)
        npu_give_memory(buf->release_ctx, buf->size);
    clv_buffer_free(buf);
}

clv_status npu_buffer_map(clv_plugin_buffer *buf, uint32_t access, void **out)
{
    if (!access || access & ~(uint32_t)ALL_ACCESS)
        return clv_fail(buf->host, CLV_ERR_INVALID,
                        "npu_sim: mapping with access %u, not 1 to 3",
                        (unsigned)access);
    return clv_buffer_map(buf, access, out);
}
