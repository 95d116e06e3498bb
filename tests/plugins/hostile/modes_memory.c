/* Buffers, mappings, imports. */
#include "hostile.h"

#include <string.h>
#include <unistd.h>

static clv_status map_null(clv_plugin_buffer *buf, uint32_t access, void **out)
{
    (void)buf, (void)access;
    *out = NULL;
    return CLV_OK;
}

/* Everybody's memory is one block. */
static clv_status map_elsewhere(clv_plugin_buffer *buf, uint32_t access,
                                void **out)
{
    static _Alignas(4096) uint8_t block[1 << 24];
    if (buf->kind == REF_MEMORY_LOCAL || buf->size > sizeof block)
        return ref_buffer_map(buf, access, out);
    *out = block;
    return CLV_OK;
}

static clv_status map_misaligned(clv_plugin_buffer *buf, uint32_t access,
                                 void **out)
{
    clv_status status = ref_buffer_map(buf, access, out);
    if (!status)
        *out = (char *)*out + 1;
    return status;
}

static clv_status nothing_moves(clv_plugin_buffer *buf, uint64_t offset,
                                uint64_t size)
{
    (void)buf, (void)offset, (void)size;
    return CLV_OK;
}

/* Past the end is fine. */
static clv_status any_range(clv_plugin_buffer *buf, uint64_t offset,
                            uint64_t size)
{
    return ref_buffer_has(buf, offset, size)
               ? ref_buffer_flush(buf, offset, size)
               : CLV_OK;
}

static clv_status release_early(clv_plugin_device *dev, uint32_t mem_type,
                                const clv_import *import,
                                clv_plugin_buffer **out)
{
    clv_status status = ref_buffer_import(dev, mem_type, import, out);
    if (!status && import->release)
        import->release(import->release_ctx);
    return status;
}

static clv_status release_never(clv_plugin_device *dev, uint32_t mem_type,
                                const clv_import *import,
                                clv_plugin_buffer **out)
{
    clv_status status = ref_buffer_import(dev, mem_type, import, out);
    if (!status)
        (*out)->release = NULL;
    return status;
}

static clv_status import_copies(clv_plugin_device *dev, uint32_t mem_type,
                                const clv_import *import,
                                clv_plugin_buffer **out)
{
    clv_status status = ref_buffer_import(dev, mem_type, import, out);
    clv_plugin_buffer *buf = status ? NULL : *out;
    if (!buf || buf->kind != REF_MEMORY_COHERENT)
        return status;
    uint8_t *copy = dev->host->alloc(dev->host->host, buf->size, REF_PAGE);
    if (!copy)
        return CLV_OK;
    memcpy(copy, buf->data, buf->size);
    buf->data = copy;
    buf->owns_data = true;
    return CLV_OK;
}

static clv_status import_closes(clv_plugin_device *dev, uint32_t mem_type,
                                const clv_import *import,
                                clv_plugin_buffer **out)
{
    clv_status status = ref_buffer_import(dev, mem_type, import, out);
    if (!status && import->handle_type == CLV_HANDLE_OPAQUE_FD)
        close((int)import->fd);
    return status;
}

static clv_status import_anything(clv_plugin_device *dev, uint32_t mem_type,
                                  const clv_import *import,
                                  clv_plugin_buffer **out)
{
    clv_import aligned = *import;
    if (import->handle_type == CLV_HANDLE_HOST_POINTER)
        aligned.pointer =
            (void *)((uintptr_t)import->pointer & ~(uintptr_t)(REF_PAGE - 1));
    aligned.size = (import->size + REF_PAGE - 1) / REF_PAGE * REF_PAGE;
    aligned.offset = import->offset / REF_PAGE * REF_PAGE;
    if (!aligned.access)
        aligned.access = CLV_ACCESS_READ;
    return ref_buffer_import(dev, mem_type, &aligned, out);
}

/* Room for half of what was asked for; the rest is not there. */
static clv_status alloc_half(clv_plugin_device *dev, uint32_t mem_type,
                             uint64_t size, clv_plugin_buffer **out)
{
    return ref_buffer_alloc(dev, mem_type, size > 64 ? size / 2 : size, out);
}

const hostile_mode hostile_memory[] = {
    {"map_null", "OK, and no pointer", {.buffer_map = map_null}},
    {"map_elsewhere", "not the buffer's bytes", {.buffer_map = map_elsewhere}},
    {"map_misaligned", "one byte further", {.buffer_map = map_misaligned}},
    {"flush_nothing", "flush moves nothing", {.buffer_flush = nothing_moves}},
    {"invalidate_nothing",
     "nor does invalidate",
     {.buffer_invalidate = nothing_moves}},
    {"flush_any_range", "past the end is fine", {.buffer_flush = any_range}},
    {"release_early",
     "memory is released at once",
     {.buffer_import = release_early}},
    {"release_never", "memory is kept", {.buffer_import = release_never}},
    {"import_copies", "an import is a copy", {.buffer_import = import_copies}},
    {"import_closes",
     "the caller's descriptor",
     {.buffer_import = import_closes}},
    {"import_anything",
     "moved to where it fits",
     {.buffer_import = import_anything}},
    {"alloc_half", "half of what was asked for", {.buffer_alloc = alloc_half}},
    {0},
};
