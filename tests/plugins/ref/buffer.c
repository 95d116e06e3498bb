#include "ref.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define ALL_ACCESS (CLV_ACCESS_READ | CLV_ACCESS_WRITE)
#define MAX_BUFFER ((uint64_t)1 << 46)

/* What new memory holds: a read of bytes that nobody wrote shows. The host's
 * and the device's bytes differ, so a missing flush shows as well. */
#define FILL_DEVICE 0xa5
#define FILL_HOST 0x5a

static void describe(const ref_settings *settings, uint32_t kind,
                     clv_mem_type *type)
{
    static const uint32_t flags[REF_MEMORY_COUNT] = {
        [REF_MEMORY_COHERENT] =
            CLV_MEM_HOST_VISIBLE | CLV_MEM_COHERENT | CLV_MEM_CACHED,
        [REF_MEMORY_SHADOW] = CLV_MEM_HOST_VISIBLE | CLV_MEM_CACHED,
        [REF_MEMORY_LOCAL] = CLV_MEM_DEVICE_LOCAL,
        [REF_MEMORY_SHARED] = CLV_MEM_DEVICE_LOCAL | CLV_MEM_HOST_VISIBLE |
                              CLV_MEM_COHERENT | CLV_MEM_CACHED,
    };
    type->flags = flags[kind];
    if (settings->import_writable)
        type->flags |= CLV_MEM_IMPORTS_WRITABLE;
    if (kind == REF_MEMORY_SHARED)
        type->import_handles = settings->descriptors;
    else if (kind != REF_MEMORY_LOCAL)
        type->import_handles = settings->pointers;
    type->alignment = REF_PAGE;
    type->import_align = REF_PAGE;
    type->max_size = settings->max_buffer;
}

clv_status ref_mem_types(clv_plugin_device *dev, uint32_t *count,
                         clv_mem_type *out, uint32_t stride)
{
    const ref_settings *settings = dev->settings;
    CLV_TRY(ref_check_device(dev));
    for (uint32_t i = 0; i < settings->n_memory && i < *count; i++) {
        clv_mem_type type;
        memset(&type, 0, sizeof type);
        describe(settings, settings->memory[i], &type);
        clv_write(clv_at(out, i, stride), &type, sizeof type);
    }
    *count = settings->n_memory;
    return CLV_OK;
}

/* ------------------------------------------------------------------------ */

static clv_status new_buffer(clv_plugin_device *dev, uint32_t mem_type,
                             uint64_t size, clv_plugin_buffer **out)
{
    const clv_host_api *host = dev->host;
    const ref_settings *settings = dev->settings;
    CLV_TRY(ref_check_device(dev));
    if (mem_type >= settings->n_memory || !size)
        return clv_fail(host, CLV_ERR_INVALID,
                        REF_NAME
                        ": %" PRIu64 " bytes of memory type %" PRIu32
                        "; give at least one byte of type 0 to %" PRIu32,
                        size, mem_type, settings->n_memory - 1);
    if (settings->max_buffer && size > settings->max_buffer)
        return clv_fail(host, CLV_ERR_LIMIT,
                        REF_NAME ": a buffer of %" PRIu64 " bytes exceeds the "
                                 "limit of %" PRIu64 "; use smaller ones",
                        size, settings->max_buffer);
    clv_plugin_buffer *buf = clv_new(host, sizeof *buf);
    if (!buf)
        return CLV_ERR_NO_MEMORY;
    buf->dev = dev;
    buf->host = host;
    buf->kind = settings->memory[mem_type];
    buf->access = ALL_ACCESS;
    buf->size = size;
    buf->fd = -1;
    *out = buf;
    return CLV_OK;
}

static uint8_t *new_block(const clv_host_api *host, uint64_t size, int fill)
{
    uint8_t *block =
        size <= MAX_BUFFER ? host->alloc(host->host, size, REF_PAGE) : NULL;
    if (block)
        memset(block, fill, size);
    return block;
}

/* Maps size bytes of buf->fd from offset. */
static clv_status map_fd(clv_plugin_buffer *buf, uint64_t offset)
{
    int protection =
        buf->access & CLV_ACCESS_WRITE ? PROT_READ | PROT_WRITE : PROT_READ;
    buf->mapping =
        mmap(NULL, buf->size, protection, MAP_SHARED, buf->fd, (off_t)offset);
    if (buf->mapping == MAP_FAILED) {
        buf->mapping = NULL;
        return clv_fail(
            buf->host, errno == ENOMEM ? CLV_ERR_NO_MEMORY : CLV_ERR_INVALID,
            REF_NAME ": the descriptor cannot be mapped: %s", strerror(errno));
    }
    buf->data = buf->host_data = buf->mapping;
    return CLV_OK;
}

static clv_status make_shared(clv_plugin_buffer *buf)
{
    buf->fd = memfd_create(REF_NAME, MFD_CLOEXEC);
    if (buf->fd < 0 || buf->size > MAX_BUFFER ||
        ftruncate(buf->fd, (off_t)buf->size))
        return clv_fail(buf->host, CLV_ERR_NO_MEMORY,
                        REF_NAME ": no shared memory of %" PRIu64 " bytes: %s",
                        buf->size, strerror(errno));
    return map_fd(buf, 0);
}

static clv_status make_blocks(clv_plugin_buffer *buf)
{
    buf->data = new_block(buf->host, buf->size, FILL_DEVICE);
    buf->owns_data = buf->data != NULL;
    buf->host_data = buf->data;
    if (buf->kind == REF_MEMORY_SHADOW) {
        buf->host_data = new_block(buf->host, buf->size, FILL_HOST);
        buf->owns_host_data = buf->host_data != NULL;
    }
    return buf->data && buf->host_data ? CLV_OK
                                       : clv_no_memory(buf->host, buf->size);
}

clv_status ref_buffer_alloc(clv_plugin_device *dev, uint32_t mem_type,
                            uint64_t size, clv_plugin_buffer **out)
{
    clv_plugin_buffer *buf = NULL;
    clv_status status = new_buffer(dev, mem_type, size, &buf);
    if (status)
        return status;
    status =
        buf->kind == REF_MEMORY_SHARED ? make_shared(buf) : make_blocks(buf);
    if (status)
        ref_buffer_free(buf);
    else
        *out = buf;
    return status;
}

/* ------------------------------------------------------------------------ */

static clv_status check_import(const clv_plugin_buffer *buf,
                               const clv_import *import)
{
    const clv_host_api *host = buf->host;
    clv_mem_type type = {0};
    describe(buf->dev->settings, buf->kind, &type);
    bool by_fd = import->handle_type == CLV_HANDLE_OPAQUE_FD;
    uint64_t pointer = by_fd ? 0 : (uintptr_t)import->pointer, end;
    if (!import->handle_type || import->handle_type != type.import_handles)
        return clv_fail(host, CLV_ERR_UNSUPPORTED,
                        REF_NAME ": handles of kind 0x%x are not imported as "
                                 "this memory type, only 0x%x",
                        (unsigned)import->handle_type,
                        (unsigned)type.import_handles);
    if (!import->access || import->access & ~(uint32_t)ALL_ACCESS)
        return clv_fail(host, CLV_ERR_INVALID,
                        REF_NAME ": access %u of an import is not 1 to 3",
                        (unsigned)import->access);
    if (type.flags & CLV_MEM_IMPORTS_WRITABLE &&
        !(import->access & CLV_ACCESS_WRITE))
        return clv_fail(buf->host, CLV_ERR_UNSUPPORTED,
                        REF_NAME ": memory that cannot be written is not "
                                 "imported; copy");
    if (by_fd ? import->fd < 0 || import->fd > INT32_MAX : !import->pointer)
        return clv_fail(host, CLV_ERR_INVALID,
                        REF_NAME ": an import without "
                                 "%s",
                        by_fd ? "descriptor" : "pointer");
    if ((pointer | import->offset | import->size) % REF_PAGE ||
        __builtin_add_overflow(import->offset, import->size, &end) ||
        __builtin_add_overflow(pointer, end, &end) || end > INT64_MAX)
        return clv_fail(host, CLV_ERR_INVALID,
                        REF_NAME ": pointer, offset and size of an import are "
                                 "not multiples of %u, or too large",
                        REF_PAGE);
    return CLV_OK;
}

static clv_status import_fd(clv_plugin_buffer *buf, const clv_import *import)
{
    struct stat st;
    buf->fd = fcntl((int)import->fd, F_DUPFD_CLOEXEC, 0);
    if (buf->fd < 0 || fstat(buf->fd, &st))
        return clv_fail(buf->host, CLV_ERR_INVALID,
                        REF_NAME ": descriptor %" PRId64 ": %s", import->fd,
                        strerror(errno));
    if (st.st_size < 0 || (uint64_t)st.st_size < import->offset + import->size)
        return clv_fail(buf->host, CLV_ERR_INVALID,
                        REF_NAME ": the import ends at byte %" PRIu64
                                 " of %" PRId64,
                        import->offset + import->size, (int64_t)st.st_size);
    return map_fd(buf, import->offset);
}

static clv_status import_pointer(clv_plugin_buffer *buf,
                                 const clv_import *import)
{
    buf->host_data = (uint8_t *)import->pointer + import->offset;
    buf->data = buf->host_data;
    if (buf->kind == REF_MEMORY_SHADOW) {
        buf->data = new_block(buf->host, buf->size, FILL_DEVICE);
        buf->owns_data = buf->data != NULL;
    }
    return buf->data ? CLV_OK : clv_no_memory(buf->host, buf->size);
}

clv_status ref_buffer_import(clv_plugin_device *dev, uint32_t mem_type,
                             const clv_import *from, clv_plugin_buffer **out)
{
    clv_plugin_buffer *buf = NULL;
    clv_import import;
    clv_read(&import, sizeof import, from);
    clv_status status = clv_check_chain(dev->host, &import);
    if (!status)
        status = new_buffer(dev, mem_type, import.size, &buf);
    if (status)
        return status;
    buf->access = import.access;
    status = check_import(buf, &import);
    if (!status)
        status = import.handle_type == CLV_HANDLE_OPAQUE_FD
                     ? import_fd(buf, &import)
                     : import_pointer(buf, &import);
    if (status) {
        ref_buffer_free(buf);
        return status;
    }
    buf->release = import.release;
    buf->release_ctx = import.release_ctx;
    *out = buf;
    return CLV_OK;
}

void ref_buffer_free(clv_plugin_buffer *buf)
{
    if (!buf)
        return;
    const clv_host_api *host = buf->host;
    if (buf->mapping)
        munmap(buf->mapping, buf->size);
    if (buf->fd >= 0)
        close(buf->fd);
    if (buf->owns_data)
        clv_free(host, buf->data);
    if (buf->owns_host_data)
        clv_free(host, buf->host_data);
    if (buf->release)
        buf->release(buf->release_ctx);
    clv_free(host, buf);
}

/* ------------------------------------------------------------------------ */

clv_status ref_buffer_map(clv_plugin_buffer *buf, uint32_t access, void **out)
{
    CLV_TRY(ref_check_device(buf->dev));
    if (buf->kind == REF_MEMORY_LOCAL)
        return clv_fail(buf->host, CLV_ERR_UNSUPPORTED,
                        REF_NAME ": the host cannot map local memory; copy it "
                                 "to another type");
    if (!access || access & ~(uint32_t)ALL_ACCESS)
        return clv_fail(buf->host, CLV_ERR_INVALID,
                        REF_NAME ": mapping with access %u, not 1 to 3",
                        (unsigned)access);
    if (access & ~buf->access)
        return clv_fail(buf->host, CLV_ERR_INVALID,
                        REF_NAME ": the memory was imported with access %u "
                                 "and cannot be mapped with %u",
                        (unsigned)buf->access, (unsigned)access);
    *out = buf->host_data;
    return CLV_OK;
}

void ref_buffer_unmap(clv_plugin_buffer *buf)
{
    (void)buf;
}

bool ref_buffer_has(const clv_plugin_buffer *buf, uint64_t offset,
                    uint64_t size)
{
    return offset <= buf->size && size <= buf->size - offset;
}

static clv_status check_range(const clv_plugin_buffer *buf, uint64_t offset,
                              uint64_t size)
{
    if (!ref_buffer_has(buf, offset, size))
        return clv_fail(buf->host, CLV_ERR_INVALID,
                        REF_NAME ": bytes %" PRIu64 " + %" PRIu64 " of a "
                                 "buffer of %" PRIu64,
                        offset, size, buf->size);
    return ref_check_device(buf->dev);
}

clv_status ref_buffer_flush(clv_plugin_buffer *buf, uint64_t offset,
                            uint64_t size)
{
    clv_status status = check_range(buf, offset, size);
    if (!status && buf->kind == REF_MEMORY_SHADOW)
        memcpy(buf->data + offset, buf->host_data + offset, size);
    return status;
}

clv_status ref_buffer_invalidate(clv_plugin_buffer *buf, uint64_t offset,
                                 uint64_t size)
{
    clv_status status = check_range(buf, offset, size);
    if (!status && buf->kind == REF_MEMORY_SHADOW)
        memcpy(buf->host_data + offset, buf->data + offset, size);
    return status;
}
