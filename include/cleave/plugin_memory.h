/*
 * cleave/plugin_memory.h - buffers in the host's memory for backend plugins
 *
 * For devices that read and write what the host does: software, and hardware
 * that is coherent with it. Not part of the ABI: functions that a plugin
 * compiles into itself, or does without.
 *
 * clv_host_mem_types and clv_buffer_alloc, _import, _free, _map and _unmap are
 * slots as they stand. The plugin's struct clv_plugin_device begins with a
 * clv_device_base whose host is set.
 */
#ifndef CLEAVE_PLUGIN_MEMORY_H_
#define CLEAVE_PLUGIN_MEMORY_H_

#include <cleave/plugin_util.h>

#ifdef __cplusplus
extern "C" {
#endif

struct clv_plugin_buffer {
    const clv_host_api *host;
    char *data;
    uint64_t size;
    uint32_t access;            /* CLV_ACCESS_* */
    uint32_t allocated;         /* data is ours */
    void (*release)(void *ctx); /* of imported memory, or NULL */
    void *release_ctx;
};

/* What mem_types answers for a device with no other memory;
 * device_info.n_mem_types is 1. budget: bytes now available; 0: unknown. */
static inline clv_status clv_host_memory(uint64_t budget, uint32_t *count,
                                         clv_mem_type *out)
{
    clv_mem_type type;
    memset(&type, 0, sizeof type);
    type.flags = CLV_MEM_HOST_VISIBLE | CLV_MEM_COHERENT | CLV_MEM_CACHED;
    type.import_handles = CLV_HANDLE_HOST_POINTER;
    type.alignment = 64;
    type.budget = budget;
    type.import_align = 1;
    if (*count)
        clv_write(out, &type, sizeof type);
    *count = 1;
    return CLV_OK;
}

static inline clv_status clv_host_mem_types(clv_plugin_device *dev,
                                            uint32_t *count, clv_mem_type *out,
                                            uint32_t stride)
{
    (void)dev;
    (void)stride;
    return clv_host_memory(0, count, out);
}

static inline clv_status clv_buffer_alloc(clv_plugin_device *dev,
                                          uint32_t mem_type, uint64_t size,
                                          clv_plugin_buffer **out)
{
    const clv_host_api *host = clv_base(dev)->host;
    if (mem_type || !size)
        return clv_fail(host, CLV_ERR_INVALID,
                        "a buffer of %llu bytes in memory type %u; there is "
                        "type 0, for one byte and more",
                        (unsigned long long)size, (unsigned)mem_type);
    clv_plugin_buffer *buf = (clv_plugin_buffer *)clv_new(host, sizeof *buf);
    if (!buf)
        return CLV_ERR_NO_MEMORY;
    buf->data = (char *)host->alloc(host->host, size, 64);
    if (!buf->data) {
        clv_free(host, buf);
        return clv_no_memory(host, size);
    }
    buf->host = host;
    buf->size = size;
    buf->access = CLV_ACCESS_READ | CLV_ACCESS_WRITE;
    buf->allocated = 1;
    *out = buf;
    return CLV_OK;
}

static inline clv_status clv_buffer_import(clv_plugin_device *dev,
                                           uint32_t mem_type,
                                           const clv_import *import,
                                           clv_plugin_buffer **out)
{
    const clv_host_api *host = clv_base(dev)->host;
    uint64_t end;
    if (import->handle_type != CLV_HANDLE_HOST_POINTER ||
        !clv_chain_known(import))
        return clv_fail(host, CLV_ERR_UNSUPPORTED,
                        "handles of kind %#x, or with extensions, are not "
                        "imported; give a host pointer",
                        (unsigned)import->handle_type);
    if (mem_type || !import->pointer || !import->size ||
        __builtin_add_overflow(import->offset, import->size, &end) ||
        __builtin_add_overflow(end, (uint64_t)(uintptr_t)import->pointer, &end))
        return clv_fail(host, CLV_ERR_INVALID,
                        "%llu bytes at %llu after %p, in memory type %u, are "
                        "no range of memory",
                        (unsigned long long)import->size,
                        (unsigned long long)import->offset, import->pointer,
                        (unsigned)mem_type);
    clv_plugin_buffer *buf = (clv_plugin_buffer *)clv_new(host, sizeof *buf);
    if (!buf)
        return CLV_ERR_NO_MEMORY;
    buf->host = host;
    buf->data = (char *)import->pointer + import->offset;
    buf->size = import->size;
    buf->access = import->access;
    buf->release = import->release;
    buf->release_ctx = import->release_ctx;
    *out = buf;
    return CLV_OK;
}

static inline void clv_buffer_free(clv_plugin_buffer *buf)
{
    if (!buf)
        return;
    if (buf->allocated)
        clv_free(buf->host, buf->data);
    else if (buf->release)
        buf->release(buf->release_ctx);
    clv_free(buf->host, buf);
}

static inline clv_status clv_buffer_map(clv_plugin_buffer *buf, uint32_t access,
                                        void **out)
{
    if (access & ~buf->access)
        return clv_fail(buf->host, CLV_ERR_INVALID,
                        "a buffer imported with access %#x is mapped for %#x",
                        (unsigned)buf->access, (unsigned)access);
    *out = buf->data;
    return CLV_OK;
}

static inline void clv_buffer_unmap(clv_plugin_buffer *buf)
{
    (void)buf;
}

/* The bytes if they lie inside the buffer and may be accessed so, else NULL. */
static inline char *clv_buffer_range(const clv_plugin_buffer *buf,
                                     uint64_t offset, uint64_t size,
                                     uint32_t access)
{
    if (!buf || access & ~buf->access || offset > buf->size ||
        size > buf->size - offset)
        return NULL;
    return buf->data + offset;
}

/* Of a COPY or FILL, read by clv_read(). */
static inline uint64_t clv_copy_rows(const clv_command *c)
{
    return c->kind == CLV_COMMAND_COPY && c->size && c->n_rows > 1 ? c->n_rows
                                                                   : 1;
}

/* Of the buffer from the first of the bytes to the last; UINT64_MAX: too many
 * to count, so outside of every buffer. */
static inline uint64_t clv_copy_span(const clv_command *c, uint64_t pitch)
{
    const uint64_t more = clv_copy_rows(c) - 1;
    if (more && (pitch < c->size || pitch > (UINT64_MAX - c->size) / more))
        return UINT64_MAX;
    return more ? more * pitch + c->size : c->size;
}

/* Whether a COPY or FILL stays inside its buffers; for a queue's check. */
static inline clv_status clv_buffer_check(const clv_host_api *host,
                                          const clv_command *c)
{
    if (clv_buffer_range(c->dst, c->dst_offset, clv_copy_span(c, c->dst_pitch),
                         CLV_ACCESS_WRITE) &&
        (c->kind == CLV_COMMAND_FILL ||
         clv_buffer_range(c->src, c->src_offset, clv_copy_span(c, c->src_pitch),
                          CLV_ACCESS_READ)))
        return CLV_OK;
    return clv_fail(
        host, CLV_ERR_INVALID,
        "%llu rows of %llu bytes from %llu to %llu are outside the "
        "buffers, or in memory that may not be written",
        (unsigned long long)clv_copy_rows(c), (unsigned long long)c->size,
        (unsigned long long)c->src_offset, (unsigned long long)c->dst_offset);
}

/* Does a COPY or FILL that was checked. */
static inline void clv_buffer_move(const clv_command *c)
{
    char *dst = c->dst->data + c->dst_offset;
    if (c->kind == CLV_COMMAND_FILL) {
        for (uint64_t i = 0; i < c->size; i++)
            dst[i] = (char)(c->pattern >> i % 4 * 8);
        return;
    }
    const char *src = c->src->data + c->src_offset;
    const uint64_t rows = clv_copy_rows(c);
    for (uint64_t i = 0; i < rows; i++)
        memmove(dst + i * c->dst_pitch, src + i * c->src_pitch,
                (size_t)c->size);
}

#ifdef __cplusplus
}
#endif

#endif /* CLEAVE_PLUGIN_MEMORY_H_ */
