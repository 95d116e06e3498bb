#include "memory.h"
#include "device.h"
#include "host.h"
#include "machine.h"

#include <inttypes.h>
#include <stdalign.h>
#include <string.h>

#define ALIGNMENT 64 /* of allocations: a cache line, a ZMM register */

clv_status cpu_mem_types(clv_plugin_device *dev, uint32_t *count,
                         clv_mem_type *out, uint32_t stride)
{
    (void)dev;
    (void)stride;
    uint32_t room = *count;
    *count = CPU_MEM_TYPES;
    if (!out || !room)
        return CLV_OK;
    clv_mem_type type;
    memset(&type, 0, sizeof type);
    type.flags = CLV_MEM_HOST_VISIBLE | CLV_MEM_COHERENT | CLV_MEM_CACHED;
    type.import_handles = CLV_HANDLE_HOST_POINTER;
    type.alignment = ALIGNMENT;
    type.budget = cpu_memory_free();
    type.import_align = 1;
    cpu_write(out, &type, sizeof type);
    return CLV_OK;
}

static clv_status check_type(clv_plugin_device *dev, uint32_t mem_type,
                             uint64_t size)
{
    if (mem_type >= CPU_MEM_TYPES)
        return cpu_error(dev->host, CLV_ERR_INVALID,
                         "cpu: no memory type %" PRIu32 ", there is one; "
                         "use 0",
                         mem_type);
    if (!size)
        return cpu_error(dev->host, CLV_ERR_INVALID,
                         "cpu: a buffer of 0 bytes; ask for at least one");
    return cpu_device_usable(dev);
}

static clv_status buffer_new(clv_plugin_device *dev, clv_plugin_buffer **out)
{
    clv_plugin_buffer *buf =
        cpu_alloc(dev->host, sizeof *buf, alignof(clv_plugin_buffer));
    if (!buf)
        return cpu_no_memory(dev->host, "a buffer's record", sizeof *buf);
    buf->host = dev->host;
    *out = buf;
    return CLV_OK;
}

clv_status cpu_buffer_alloc(clv_plugin_device *dev, uint32_t mem_type,
                            uint64_t size, clv_plugin_buffer **out)
{
    clv_plugin_buffer *buf = NULL;
    clv_status status = check_type(dev, mem_type, size);
    if (!status)
        status = buffer_new(dev, &buf);
    if (status)
        return status;
    buf->data = dev->host->alloc(dev->host->host, size, ALIGNMENT);
    if (!buf->data) {
        cpu_free(dev->host, buf);
        return cpu_no_memory(dev->host, "a buffer", size);
    }
    buf->size = size;
    buf->access = CLV_ACCESS_READ | CLV_ACCESS_WRITE;
    buf->owned = true;
    *out = buf;
    return CLV_OK;
}

clv_status cpu_buffer_import(clv_plugin_device *dev, uint32_t mem_type,
                             const clv_import *import, clv_plugin_buffer **out)
{
    clv_import in;
    cpu_read(&in, sizeof in, import);
    clv_status status = cpu_check_chain(dev->host, &in.header);
    if (!status)
        status = check_type(dev, mem_type, in.size);
    if (status)
        return status;
    if (in.handle_type != CLV_HANDLE_HOST_POINTER)
        return cpu_error(dev->host, CLV_ERR_UNSUPPORTED,
                         "cpu: handle type %#x cannot be imported; give a "
                         "host pointer",
                         (unsigned)in.handle_type);
    uint64_t end;
    if (!in.pointer || __builtin_add_overflow(in.offset, in.size, &end) ||
        __builtin_add_overflow(end, (uint64_t)(uintptr_t)in.pointer, &end))
        return cpu_error(dev->host, CLV_ERR_INVALID,
                         "cpu: imported memory at %p, %" PRIu64 " + %" PRIu64
                         " bytes, is no range of addresses",
                         in.pointer, in.offset, in.size);
    clv_plugin_buffer *buf = NULL;
    status = buffer_new(dev, &buf);
    if (status)
        return status;
    buf->data = (char *)in.pointer + in.offset;
    buf->size = in.size;
    buf->access = in.access;
    buf->release = in.release;
    buf->release_ctx = in.release_ctx;
    *out = buf;
    return CLV_OK;
}

void cpu_buffer_free(clv_plugin_buffer *buf)
{
    if (!buf)
        return;
    if (buf->owned)
        cpu_free(buf->host, buf->data);
    else if (buf->release)
        buf->release(buf->release_ctx);
    cpu_free(buf->host, buf);
}

clv_status cpu_buffer_map(clv_plugin_buffer *buf, uint32_t access, void **out)
{
    if (access & ~buf->access)
        return cpu_error(buf->host, CLV_ERR_INVALID,
                         "cpu: buffer was imported with access %#x, not %#x",
                         (unsigned)buf->access, (unsigned)access);
    *out = buf->data;
    return CLV_OK;
}

void cpu_buffer_unmap(clv_plugin_buffer *buf)
{
    (void)buf;
}

bool cpu_buffer_has(const clv_plugin_buffer *buf, uint64_t offset,
                    uint64_t size)
{
    return offset <= buf->size && size <= buf->size - offset;
}
