#include "memory.h"

#include <cleave/plugin_memory.h>

#define ALIGNMENT 64u
#define OWN_ALIGNMENT 256u /* of addresses that nobody sees */
#define ALL_ACCESS (CLV_ACCESS_READ | CLV_ACCESS_WRITE)
#define MAX_BUFFER ((uint64_t)1 << 46)

/* As plugin_memory.h counts, which knows of one type. */
static uint32_t hosts_type(const clv_plugin_device *dev, uint32_t mem_type)
{
    return dev->settings->memory_size && mem_type < 2 ? 0 : mem_type;
}

static bool is_own(const clv_plugin_device *dev, uint32_t mem_type)
{
    return dev->settings->memory_size && !mem_type;
}

/* The chip's memory is the host's, as on a phone. A device with memory of its
 * own has that for its first type. */
clv_status npu_mem_types(clv_plugin_device *dev, uint32_t *count,
                         clv_mem_type *out, uint32_t stride)
{
    clv_plugin_instance *inst = dev->inst;
    const npu_settings *s = dev->settings;
    const uint32_t n = s->memory_size ? 2 : 1;
    CLV_TRY(npu_check_device(dev));
    clv_mem_type chip = {.flags = CLV_MEM_HOST_VISIBLE | CLV_MEM_COHERENT |
                                  CLV_MEM_CACHED,
                         .import_handles = CLV_HANDLE_HOST_POINTER,
                         .alignment = ALIGNMENT,
                         .import_align = ALIGNMENT,
                         .bandwidth = s->memory_size ? s->link : s->bandwidth};
    clv_mem_type own = {.flags = CLV_MEM_DEVICE_LOCAL,
                        .alignment = OWN_ALIGNMENT,
                        .max_size = s->memory_size,
                        .bandwidth = s->bandwidth};
    npu_lock(inst);
    if (inst->config.memory_size)
        chip.budget = inst->config.memory_size - inst->allocated;
    own.budget =
        dev->allocated < s->memory_size ? s->memory_size - dev->allocated : 1;
    npu_unlock(inst);
    for (uint32_t i = 0; i < n && i < *count; i++)
        clv_write(clv_at(out, i, stride), is_own(dev, i) ? &own : &chip,
                  sizeof chip);
    *count = n;
    return CLV_OK;
}

/* release_ctx of an allocated buffer is its device. */
clv_status npu_buffer_alloc(clv_plugin_device *dev, uint32_t mem_type,
                            uint64_t size, clv_plugin_buffer **out)
{
    const bool own = is_own(dev, mem_type);
    CLV_TRY(npu_check_device(dev));
    if (size > MAX_BUFFER)
        return clv_no_memory(dev->base.host, size);
    CLV_TRY(npu_take_memory(dev, own, size, "a buffer"));
    /* Its content is left untouched, so that models too large for the host can
     * be timed. */
    clv_status status =
        clv_buffer_alloc(dev, hosts_type(dev, mem_type), size, out);
    if (status) {
        npu_give_memory(dev, own, size);
        return status;
    }
    (*out)->release_ctx = dev;
    (*out)->allocated = own ? NPU_MEMORY_OWN : NPU_MEMORY_CHIP;
    return CLV_OK;
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
    if (is_own(dev, mem_type))
        return clv_fail(host, CLV_ERR_UNSUPPORTED,
                        "npu_sim: host memory is imported as memory type 1, "
                        "not as the device's own");
    return clv_buffer_import(dev, hosts_type(dev, mem_type), import, out);
}

void npu_buffer_free(clv_plugin_buffer *buf)
{
    if (buf && buf->allocated)
        npu_give_memory(buf->release_ctx, buf->allocated == NPU_MEMORY_OWN,
                        buf->size);
    clv_buffer_free(buf);
}

clv_status npu_buffer_map(clv_plugin_buffer *buf, uint32_t access, void **out)
{
    if (!access || access & ~(uint32_t)ALL_ACCESS)
        return clv_fail(buf->host, CLV_ERR_INVALID,
                        "npu_sim: mapping with access %u, not 1 to 3",
                        (unsigned)access);
    if (buf->allocated == NPU_MEMORY_OWN)
        return clv_fail(buf->host, CLV_ERR_UNSUPPORTED,
                        "npu_sim: the host does not see the device's own "
                        "memory; copy from and to it");
    return clv_buffer_map(buf, access, out);
}
