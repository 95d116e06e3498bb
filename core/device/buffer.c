#include "buffer.h"
#include "loss.h"
#include "answer.h"
#include "../base/unreleased.h"

#include <stdlib.h>
#include <string.h>

#define ALL_ACCESS (CLV_ACCESS_READ | CLV_ACCESS_WRITE)

static clv_status check_new(const clv_device *dev, uint32_t mem_type,
                            uint64_t size)
{
    CLV_TRY(core_device_usable(dev));
    if (mem_type >= dev->n_mem_types)
        return core_device_error(dev, CLV_ERR_INVALID,
                                 "there is no memory type %u, only %u",
                                 mem_type, dev->n_mem_types);
    if (size == 0)
        return core_device_error(dev, CLV_ERR_INVALID,
                                 "a buffer needs at least one byte");
    if (size > dev->mem_types[mem_type].max_size)
        return core_device_error(
            dev, CLV_ERR_LIMIT,
            "a buffer of %llu bytes exceeds the %llu that memory type %u "
            "allows; use smaller pieces",
            (unsigned long long)size,
            (unsigned long long)dev->mem_types[mem_type].max_size, mem_type);
    return CLV_OK;
}

static clv_status new_buffer(clv_device *dev, uint32_t mem_type, uint64_t size,
                             uint32_t access, core_buffer **out)
{
    core_buffer *buf = *out = calloc(1, sizeof *buf);
    if (!buf)
        return core_device_error(dev, CLV_ERR_NO_MEMORY,
                                 "no memory for a buffer");
    *buf = (core_buffer){
        .dev = dev, .size = size, .mem_type = mem_type, .access = access};
    return CLV_OK;
}

/* Ends a creation: *out on success, else buf is released. */
static clv_status finish_new(core_buffer *buf, const char *slot, clv_status st,
                             core_buffer **out)
{
    if (st == CLV_OK && !buf->handle)
        st = core_device_broken(buf->dev, slot, "no buffer");
    if (st == CLV_OK)
        *out = buf;
    else
        free(buf);
    return st;
}

clv_status core_buffer_alloc(clv_device *dev, uint32_t mem_type, uint64_t size,
                             core_buffer **out)
{
    core_buffer *buf;
    CLV_TRY(check_new(dev, mem_type, size));
    CLV_TRY(new_buffer(dev, mem_type, size, ALL_ACCESS, &buf));
    clv_status st =
        CORE_CALL(dev, buffer_alloc, dev->handle, mem_type, size, &buf->handle);
    st = finish_new(buf, "buffer_alloc", st, out);
    if (st == CLV_OK &&
        (dev->mem_types[mem_type].flags & CLV_MEM_DEVICE_LOCAL)) {
        buf->counted = true;
        atomic_fetch_add(&dev->local_bytes, size);
    }
    return st;
}

bool core_device_import_type(const clv_device *dev, uint32_t handle_type,
                             uint32_t *mem_type)
{
    for (uint32_t i = 0; i < dev->n_mem_types; i++) {
        if (dev->mem_types[i].import_handles & handle_type) {
            *mem_type = i;
            return true;
        }
    }
    return false;
}

static clv_status check_import(const clv_device *dev, const clv_mem_type *type,
                               const clv_import *import)
{
    if (!core_is_pow2(import->handle_type) ||
        !(type->import_handles & import->handle_type))
        return core_device_error(
            dev, CLV_ERR_UNSUPPORTED,
            "its memory does not import handles of kind 0x%x, only 0x%x",
            import->handle_type, type->import_handles);
    if (!import->access || (import->access & ~(uint32_t)ALL_ACCESS))
        return core_device_error(dev, CLV_ERR_INVALID,
                                 "an import needs access 1..3, not %u",
                                 import->access);
    bool by_fd = import->handle_type == CLV_HANDLE_DMABUF ||
                 import->handle_type == CLV_HANDLE_OPAQUE_FD;
    if (by_fd ? import->fd < 0 : !import->pointer)
        return core_device_error(dev, CLV_ERR_INVALID, "an import without %s",
                                 by_fd ? "descriptor" : "pointer");
    uint64_t end;
    uint64_t base = by_fd ? 0 : (uintptr_t)import->pointer;
    if (__builtin_add_overflow(base, import->offset, &end) ||
        __builtin_add_overflow(end, import->size, &end))
        return core_device_error(dev, CLV_ERR_INVALID,
                                 "an import past the end of memory");
    if ((base | import->offset | import->size) & (type->import_align - 1))
        return core_device_error(dev, CLV_ERR_INVALID,
                                 "an import whose pointer, offset or size is "
                                 "not a multiple of %llu; align it, or copy",
                                 (unsigned long long)type->import_align);
    return CLV_OK;
}

clv_status core_buffer_import(clv_device *dev, uint32_t mem_type,
                              const clv_import *import, core_buffer **out)
{
    CLV_TRY(check_new(dev, mem_type, import->size));
    CLV_TRY(check_import(dev, &dev->mem_types[mem_type], import));
    clv_import whole = *import;
    whole.header = (clv_header){sizeof whole, CLV_STRUCT_IMPORT, NULL};
    core_buffer *buf;
    CLV_TRY(new_buffer(dev, mem_type, import->size, import->access, &buf));
    clv_status st = CORE_CALL(dev, buffer_import, dev->handle, mem_type, &whole,
                              &buf->handle);
    return finish_new(buf, "buffer_import", st, out);
}

void core_buffer_free(core_buffer *buf)
{
    if (!buf)
        return;
    if (core_device_abandoned(buf->dev)) {
        core_unreleased_add(buf);
        return;
    }
    CORE_CALL_VOID(buf->dev, buffer_free, buf->handle);
    if (buf->counted)
        atomic_fetch_sub(&buf->dev->local_bytes, buf->size);
    free(buf);
}

clv_status core_buffer_map(core_buffer *buf, uint32_t access, void **out)
{
    clv_device *dev = buf->dev;
    CLV_TRY(core_device_usable(dev));
    if (!access || (access & ~(uint32_t)ALL_ACCESS))
        return core_device_error(dev, CLV_ERR_INVALID,
                                 "mapping needs access 1..3, not %u", access);
    if (!(dev->mem_types[buf->mem_type].flags & CLV_MEM_HOST_VISIBLE))
        return core_device_error(
            dev, CLV_ERR_UNSUPPORTED,
            "the host cannot see memory type %u; copy through one that it can",
            buf->mem_type);
    void *pointer = NULL;
    clv_status st = CORE_CALL(dev, buffer_map, buf->handle, access, &pointer);
    if (st == CLV_OK && !pointer)
        st = core_device_broken(dev, "buffer_map", "no pointer");
    if (st == CLV_OK)
        *out = pointer;
    return st;
}

void core_buffer_unmap(core_buffer *buf)
{
    if (buf->dev->api->buffer_unmap && !core_device_abandoned(buf->dev))
        CORE_CALL_VOID(buf->dev, buffer_unmap, buf->handle);
}

static clv_status check_range(const core_buffer *buf, uint64_t offset,
                              uint64_t size)
{
    if (offset <= buf->size && size <= buf->size - offset)
        return core_device_usable(buf->dev);
    return core_device_error(
        buf->dev, CLV_ERR_INVALID, "bytes %llu + %llu of a buffer of %llu",
        (unsigned long long)offset, (unsigned long long)size,
        (unsigned long long)buf->size);
}

clv_status core_buffer_flush(core_buffer *buf, uint64_t offset, uint64_t size)
{
    clv_status st = check_range(buf, offset, size);
    if (st != CLV_OK || !buf->dev->api->buffer_flush)
        return st;
    return CORE_CALL(buf->dev, buffer_flush, buf->handle, offset, size);
}

clv_status core_buffer_invalidate(core_buffer *buf, uint64_t offset,
                                  uint64_t size)
{
    clv_status st = check_range(buf, offset, size);
    if (st != CLV_OK || !buf->dev->api->buffer_invalidate)
        return st;
    return CORE_CALL(buf->dev, buffer_invalidate, buf->handle, offset, size);
}
