#include "memory.h"

#include <inttypes.h>
#include <string.h>

#define ALIGNMENT 64u
#define ALL_ACCESS (CLV_ACCESS_READ | CLV_ACCESS_WRITE)
#define MAX_BUFFER ((uint64_t)1 << 46)

/* One memory for all, as on a phone: the host's. */
clv_status npu_mem_types(clv_plugin_device *dev, uint32_t *count,
                         clv_mem_type *out, uint32_t stride)
{
    clv_plugin_instance *inst = dev->inst;
    clv_status status = npu_check_device(dev);
    if (status)
        return status;
    clv_mem_type type;
    memset(&type, 0, sizeof type);
    type.flags = CLV_MEM_HOST_VISIBLE | CLV_MEM_COHERENT | CLV_MEM_CACHED;
    type.import_handles = CLV_HANDLE_HOST_POINTER;
    type.alignment = ALIGNMENT;
    type.import_align = ALIGNMENT;
    type.bandwidth = dev->settings->bandwidth;
    npu_lock(inst);
    if (inst->config.memory_size)
        type.budget = inst->config.memory_size - inst->allocated;
    npu_unlock(inst);
    (void)stride;
    if (*count)
        npu_write(out, &type, sizeof type);
    *count = 1;
    return CLV_OK;
}

static clv_status new_buffer(clv_plugin_device *dev, uint32_t mem_type,
                             uint64_t size, clv_plugin_buffer **out)
{
    const clv_host_api *host = dev->host;
    clv_status status = npu_check_device(dev);
    if (status)
        return status;
    if (mem_type || !size)
        return npu_error(host, CLV_ERR_INVALID,
                         "npu_sim: %" PRIu64 " bytes of memory type %" PRIu32
                         "; give at least one byte of type 0",
                         size, mem_type);
    clv_plugin_buffer *buf = npu_alloc(host, 1, sizeof *buf);
    if (!buf)
        return npu_no_memory(host, "a buffer");
    buf->dev = dev;
    buf->host = host;
    buf->access = ALL_ACCESS;
    buf->size = size;
    *out = buf;
    return CLV_OK;
}

clv_status npu_buffer_alloc(clv_plugin_device *dev, uint32_t mem_type,
                            uint64_t size, clv_plugin_buffer **out)
{
    const clv_host_api *host = dev->host;
    clv_plugin_buffer *buf = NULL;
    clv_status status = new_buffer(dev, mem_type, size, &buf);
    if (!status) {
        status = npu_take_memory(dev, size, "a buffer");
        buf->owned = !status;
    }
    if (!status) {
        /* Untouched, so that models too large for the host can be timed. */
        buf->data = size <= MAX_BUFFER
                        ? host->alloc(host->host, size, ALIGNMENT)
                        : NULL;
        if (!buf->data)
            status = npu_no_memory(host, "a buffer");
    }
    if (status)
        npu_buffer_free(buf);
    else
        *out = buf;
    return status;
}

static clv_status check_import(const clv_plugin_buffer *buf,
                               const clv_import *import)
{
    const clv_host_api *host = buf->host;
    uint64_t pointer = (uintptr_t)import->pointer, end;
    if (import->handle_type != CLV_HANDLE_HOST_POINTER)
        return npu_error(host, CLV_ERR_UNSUPPORTED,
                         "npu_sim: handles of kind 0x%x are not imported, only "
                         "host pointers",
                         (unsigned)import->handle_type);
    if (!import->access || import->access & ~(uint32_t)ALL_ACCESS)
        return npu_error(host, CLV_ERR_INVALID,
                         "npu_sim: access %u of an import is not 1 to 3",
                         (unsigned)import->access);
    if (!import->pointer ||
        (pointer | import->offset | import->size) % ALIGNMENT ||
        __builtin_add_overflow(import->offset, import->size, &end) ||
        __builtin_add_overflow(pointer, end, &end) || end > INT64_MAX)
        return npu_error(host, CLV_ERR_INVALID,
                         "npu_sim: pointer, offset and size of an import are "
                         "not multiples of %u, or too large",
                         ALIGNMENT);
    return CLV_OK;
}

clv_status npu_buffer_import(clv_plugin_device *dev, uint32_t mem_type,
                             const clv_import *from, clv_plugin_buffer **out)
{
    clv_plugin_buffer *buf = NULL;
    clv_import import;
    npu_read(&import, sizeof import, from);
    clv_status status = npu_check_chain(dev->host, &import.header);
    if (!status)
        status = new_buffer(dev, mem_type, import.size, &buf);
    if (status)
        return status;
    buf->access = import.access;
    status = check_import(buf, &import);
    if (status) {
        npu_buffer_free(buf);
        return status;
    }
    buf->data = (uint8_t *)import.pointer + import.offset;
    buf->release = import.release;
    buf->release_ctx = import.release_ctx;
    *out = buf;
    return CLV_OK;
}

void npu_buffer_free(clv_plugin_buffer *buf)
{
    if (!buf)
        return;
    if (buf->owned) {
        npu_free(buf->host, buf->data);
        npu_give_memory(buf->dev, buf->size);
    }
    if (buf->release)
        buf->release(buf->release_ctx);
    npu_free(buf->host, buf);
}

clv_status npu_buffer_map(clv_plugin_buffer *buf, uint32_t access, void **out)
{
    clv_status status = npu_check_device(buf->dev);
    if (status)
        return status;
    if (!access || access & ~(uint32_t)ALL_ACCESS)
        return npu_error(buf->host, CLV_ERR_INVALID,
                         "npu_sim: mapping with access %u, not 1 to 3",
                         (unsigned)access);
    if (access & ~buf->access)
        return npu_error(buf->host, CLV_ERR_INVALID,
                         "npu_sim: the memory was imported with access %u and "
                         "cannot be mapped with %u",
                         (unsigned)buf->access, (unsigned)access);
    *out = buf->data;
    return CLV_OK;
}

void npu_buffer_unmap(clv_plugin_buffer *buf)
{
    (void)buf;
}

bool npu_buffer_has(const clv_plugin_buffer *buf, uint64_t offset,
                    uint64_t size)
{
    return offset <= buf->size && size <= buf->size - offset;
}

clv_status npu_bind(clv_plugin_device *dev, const clv_binding *b, uint64_t size,
                    uint32_t align, bool write, uint8_t **out)
{
    const clv_host_api *host = dev->host;
    if (!b->buffer || !npu_buffer_has(b->buffer, b->offset, b->size) ||
        b->size < size)
        return npu_error(host, CLV_ERR_INVALID,
                         "npu_sim: tensor %" PRIu32 " needs %" PRIu64
                         " bytes inside its buffer",
                         b->tensor, size);
    if (((uintptr_t)b->buffer->data + b->offset) % align)
        return npu_error(host, CLV_ERR_INVALID,
                         "npu_sim: tensor %" PRIu32 " does not begin at a "
                         "multiple of %" PRIu32 " bytes",
                         b->tensor, align);
    if (write && !(b->buffer->access & CLV_ACCESS_WRITE))
        return npu_error(host, CLV_ERR_INVALID,
                         "npu_sim: tensor %" PRIu32 " is written, its memory "
                         "was imported read-only; import it with write access",
                         b->tensor);
    *out = b->buffer->data + b->offset;
    return CLV_OK;
}
