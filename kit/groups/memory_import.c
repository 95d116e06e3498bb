/* Memory that is imported by pointer: the host's, or what a device maps. */
#include "memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { READ = CLV_ACCESS_READ, BOTH = CLV_ACCESS_READ | CLV_ACCESS_WRITE };

void memory_count_release(void *ctx)
{
    atomic_fetch_add((_Atomic int *)ctx, 1);
}

/* Whole pages, sharing none with what is not imported. */
uint8_t *memory_pages(kit *k, uint64_t size, int protection, int fd)
{
    void *ptr = mmap(NULL, size, protection,
                     fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED, fd, 0);
    KIT_CHECK(k, ptr != MAP_FAILED, "mmap of %llu bytes: %s",
              (unsigned long long)size, strerror(errno));
    return ptr;
}

clv_plugin_buffer *memory_must_import(kit_plugin *p, uint32_t type,
                                      const clv_import *in, const char *what)
{
    clv_plugin_buffer *buf = NULL;
    KIT_OK(p->k, p->api.buffer_import(p->dev, type, in, &buf),
           "buffer_import of %s", what);
    KIT_CHECK(p->k, buf, "buffer_import answers OK and gives no buffer");
    return buf;
}

static void refuse_import(kit_plugin *p, uint32_t type, const clv_import *in,
                          clv_status expected, const char *what)
{
    clv_plugin_buffer *buf = NULL;
    kit_expect(p->k, p->api.buffer_import(p->dev, type, in, &buf), expected,
               "buffer_import of %s", what);
    KIT_CHECK(p->k, !buf, "a buffer_import that failed gives a buffer");
}

/* Where host and device do not see the same by themselves. */
static void flush(kit_plugin *p, uint32_t type, clv_plugin_buffer *buf,
                  uint64_t size)
{
    if (!(p->mem_types[type].flags & CLV_MEM_COHERENT) && p->api.buffer_flush)
        KIT_OK(p->k, p->api.buffer_flush(buf, 0, size), "buffer_flush");
}

static void invalidate(kit_plugin *p, uint32_t type, clv_plugin_buffer *buf,
                       uint64_t size)
{
    if (!(p->mem_types[type].flags & CLV_MEM_COHERENT) &&
        p->api.buffer_invalidate)
        KIT_OK(p->k, p->api.buffer_invalidate(buf, 0, size),
               "buffer_invalidate");
}

/* The buffer's bytes, by way of the device. */
void memory_read_back(kit_plugin *p, uint32_t type, clv_plugin_buffer *buf,
                      uint8_t *out, uint64_t size)
{
    uint32_t visible = kit_visible_type(p);
    flush(p, type, buf, size);
    clv_plugin_buffer *host = kit_buffer(p, visible, size);
    clv_command c = kit_copy(host, 0, buf, 0, size);
    kit_do(p, &c, 1, "a copy out of imported memory");
    kit_bytes_get(p, visible, host, 0, out, size);
    p->api.buffer_free(host);
}

/* No range of addresses; the plugin may find it too large first. */
static void refuse_range(kit_plugin *p, uint32_t type, const clv_import *in,
                         const char *what)
{
    clv_plugin_buffer *buf = NULL;
    clv_status status = p->api.buffer_import(p->dev, type, in, &buf);
    if (status != CLV_ERR_LIMIT && status != CLV_ERR_NO_MEMORY)
        kit_expect(p->k, status, CLV_ERR_INVALID, "buffer_import of %s", what);
    KIT_CHECK(p->k, !buf, "a buffer_import that failed gives a buffer");
}

bool memory_released(_Atomic int *count)
{
    for (int i = 0; i < 1000 && !atomic_load(count); i++)
        kit_sleep(KIT_MS);
    return atomic_load(count) == 1;
}

/* Memory that a kind of pointer may point to. */
typedef struct area {
    uint8_t *memory;
    uint64_t size;
    clv_plugin_buffer *owner; /* mapped; NULL: pages of the process */
} area;

static area open_area(kit_plugin *p, uint32_t kind, uint64_t size,
                      uint64_t align)
{
    area a = {.size = size};
    void *mapped = NULL;
    if (kind == CLV_HANDLE_HOST_POINTER) {
        a.memory = memory_pages(p->k, size, PROT_READ | PROT_WRITE, -1);
        return a;
    }
    a.owner = kit_buffer(p, kit_visible_type(p), size + align);
    KIT_OK(p->k, p->api.buffer_map(a.owner, BOTH, &mapped), "buffer_map");
    a.memory = (uint8_t *)mapped + (-(uintptr_t)mapped & (align - 1));
    return a;
}

static void close_area(kit_plugin *p, const area *a)
{
    if (!a->owner) {
        munmap(a->memory, a->size);
        return;
    }
    p->api.buffer_unmap(a->owner);
    p->api.buffer_free(a->owner);
}

static clv_import import_of(uint32_t kind, void *pointer, uint64_t size)
{
    clv_import in = kit_host_import(pointer, size, BOTH);
    in.handle_type = kind;
    return in;
}

static uint64_t alignment_of(const kit_plugin *p, uint32_t type)
{
    return p->mem_types[type].import_align;
}

/* Every start and length that import_align allows; what the host writes the
 * device sees, and the reverse. */
static void check_pointers(kit *k, kit_plugin *p, uint32_t type, uint32_t kind)
{
    uint64_t align = alignment_of(p, type);
    const uint64_t space = align < 4096 ? 65536 : 16 * align;
    const area a = open_area(p, kind, space, align);
    uint8_t *memory = a.memory, *back = malloc(space);
    KIT_CHECK(k, back, "no memory for the case");
    const uint64_t cases[][3] = {/* pointer, offset, size */
                                 {0, 0, 1}, {1, 0, 1}, {0, 1, 1}, {1, 2, 3},
                                 {0, 3, 1}, {3, 0, 5}, {2, 1, 7}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t at = (cases[i][0] + cases[i][1]) * align,
                 size = cases[i][2] * align;
        _Atomic int count = 0;
        for (uint64_t j = 0; j < space; j++)
            memory[j] = kit_pattern(j, (uint32_t)i);
        clv_import in = import_of(kind, memory + cases[i][0] * align, size);
        in.offset = cases[i][1] * align;
        in.release = memory_count_release;
        in.release_ctx = &count;
        clv_plugin_buffer *buf =
            memory_must_import(p, type, &in, "an aligned host pointer");
        memset(&in, 0x5a, sizeof in); /* only read during the call */
        memory_read_back(p, type, buf, back, size);
        KIT_CHECK(k, !memcmp(back, memory + at, size),
                  "the device reads other bytes than the host wrote in memory "
                  "imported at offset %llu",
                  (unsigned long long)at);
        clv_command c = kit_fill(buf, size / 2, size - size / 2, 0x31313131);
        kit_do(p, &c, 1, "a fill of imported memory");
        invalidate(p, type, buf, size);
        for (uint64_t j = 0; j < space; j++) {
            bool inside = j >= at + size / 2 && j < at + size;
            uint8_t want = inside ? 0x31 : kit_pattern(j, (uint32_t)i);
            KIT_CHECK(k, memory[j] == want,
                      "a fill of %llu imported bytes at %llu: byte %llu of "
                      "the host's memory is %#x, not %#x",
                      (unsigned long long)(size - size / 2),
                      (unsigned long long)(at + size / 2),
                      (unsigned long long)j, memory[j], want);
        }
        KIT_CHECK(k, !atomic_load(&count),
                  "release was called before buffer_free");
        p->api.buffer_free(buf);
        KIT_CHECK(k, memory_released(&count),
                  "release was called %d times after "
                  "buffer_free, not once",
                  atomic_load(&count));
    }
    free(back);
    close_area(p, &a);
}

static bool imports(const kit_plugin *p, uint32_t type, uint32_t kind)
{
    return p->mem_types[type].import_handles & kind;
}

static bool imports_pointers(const kit_plugin *p, uint32_t type)
{
    return imports(p, type, CLV_HANDLE_HOST_POINTER);
}

/* arg: the kind of pointer, also below. */
static void run_pointers(kit *k, const void *arg)
{
    const uint32_t kind = *(const uint32_t *)arg;
    kit_plugin *p = kit_under_test(k);
    for (uint32_t t = 0; t < p->n_mem_types; t++)
        if (imports(p, t, kind))
            check_pointers(k, p, t, kind);
}

/* What breaks import_align or is no range is refused and not released. */
static void run_refused(kit *k, const void *arg)
{
    const uint32_t kind = *(const uint32_t *)arg;
    kit_plugin *p = kit_under_test(k);
    for (uint32_t t = 0; t < p->n_mem_types; t++) {
        if (!imports(p, t, kind))
            continue;
        uint64_t align = alignment_of(p, t);
        const area a =
            open_area(p, kind, align < 4096 ? 16384 : 4 * align, align);
        uint8_t *memory = a.memory;
        _Atomic int count = 0;
        clv_import good = import_of(kind, memory, align);
        good.release = memory_count_release;
        good.release_ctx = &count;
        clv_import bad = good;
        for (uint64_t off = 1; off < align; off *= 2) {
            bad = good;
            bad.pointer = memory + off;
            refuse_import(p, t, &bad, CLV_ERR_INVALID,
                          "a pointer not at a multiple of import_align");
            bad = good;
            bad.offset = off;
            refuse_import(p, t, &bad, CLV_ERR_INVALID,
                          "an offset that is no multiple of import_align");
            bad = good;
            bad.size = align + off;
            refuse_import(p, t, &bad, CLV_ERR_INVALID,
                          "a size that is no multiple of import_align");
        }
        bad = good;
        bad.pointer = NULL;
        refuse_import(p, t, &bad, CLV_ERR_INVALID, "a NULL pointer");
        bad = good;
        bad.size = 0;
        refuse_import(p, t, &bad, CLV_ERR_INVALID, "0 bytes");
        bad = good;
        bad.size = ~(align - 1);
        refuse_range(p, t, &bad, "more bytes than there are addresses");
        bad = good;
        bad.offset = ~(align - 1);
        bad.size = 2 * align;
        refuse_range(p, t, &bad, "offset + size that overflows");
        clv_header extension = {sizeof extension, CLV_STRUCT_REQUIRED | 78,
                                NULL};
        bad = good;
        bad.header.next = &extension;
        refuse_import(p, t, &bad, CLV_ERR_UNSUPPORTED,
                      "a struct that requires an unknown extension");
        KIT_CHECK(k, !atomic_load(&count),
                  "release was called by a buffer_import that failed");
        close_area(p, &a);
    }
}

static void close_pages(uint8_t *memory, uint64_t size, int fd, uint8_t *data,
                        uint8_t *back)
{
    munmap(memory, size);
    close(fd);
    free(data);
    free(back);
}

/* A model file mapped for reading: writing to it would crash. */
static void run_read_only(kit *k, const void *arg)
{
    kit_plugin *p = kit_under_test(k);
    (void)arg;
    for (uint32_t t = 0; t < p->n_mem_types; t++) {
        if (!imports_pointers(p, t))
            continue;
        uint64_t align = alignment_of(p, t);
        uint64_t size = align < 4096 ? 4096 : align;
        int fd = memfd_create("kit-weights", MFD_CLOEXEC);
        uint8_t *data = malloc(size), *back = malloc(size);
        KIT_CHECK(k, fd >= 0 && data && back, "no memory for the case");
        for (uint64_t i = 0; i < size; i++)
            data[i] = kit_pattern(i, 5);
        KIT_CHECK(k, write(fd, data, size) == (ssize_t)size,
                  "a memory file cannot be written: %s", strerror(errno));
        uint8_t *memory = memory_pages(k, size, PROT_READ, fd);
        clv_import in = kit_host_import(memory, size, READ);
        if (p->mem_types[t].flags & CLV_MEM_IMPORTS_WRITABLE) {
            refuse_import(p, t, &in, CLV_ERR_UNSUPPORTED,
                          "a read-only mapping, by a type that imports only "
                          "what can be written");
            close_pages(memory, size, fd, data, back);
            continue;
        }
        clv_plugin_buffer *buf = memory_must_import(
            p, t, &in, "a read-only mapping with CLV_ACCESS_READ");
        memory_read_back(p, t, buf, back, size);
        KIT_CHECK(k, !memcmp(back, data, size),
                  "the device reads other bytes than the file holds");
        clv_plugin_buffer *other = kit_buffer(p, kit_visible_type(p), 64);
        clv_command writes[] = {kit_fill(buf, 0, 4, 0),
                                kit_copy(buf, 0, other, 0, 4)};
        for (int i = 0; i < 2; i++)
            kit_expect(k, kit_try_submit(p, &writes[i], 1, NULL, NULL, 0),
                       CLV_ERR_INVALID,
                       "submit of a %s into memory imported with "
                       "CLV_ACCESS_READ",
                       i ? "COPY" : "FILL");
        if (p->mem_types[t].flags & CLV_MEM_HOST_VISIBLE) {
            void *ptr = NULL;
            KIT_OK(k, p->api.buffer_map(buf, READ, &ptr),
                   "buffer_map for reading");
            KIT_CHECK(k, !memcmp(ptr, data, size), "mapped memory differs");
            p->api.buffer_unmap(buf);
            kit_expect(k, p->api.buffer_map(buf, BOTH, &ptr), CLV_ERR_INVALID,
                       "buffer_map for writing of memory imported with "
                       "CLV_ACCESS_READ");
        }
        p->api.buffer_free(buf);
        p->api.buffer_free(other);
        close_pages(memory, size, fd, data, back);
    }
}

/* What import_handles does not list, and what is not one handle. */
static void run_kinds(kit *k, const void *arg)
{
    kit_plugin *p = kit_under_test(k);
    (void)arg;
    if (!p->api.buffer_import) {
        kit_skip(k, "the plugin imports nothing");
        return;
    }
    uint8_t *memory = memory_pages(k, 1 << 16, PROT_READ | PROT_WRITE, -1);
    int fd = memfd_create("kit-import", MFD_CLOEXEC);
    KIT_CHECK(k, fd >= 0 && !ftruncate(fd, 1 << 16), "no memory file: %s",
              strerror(errno));
    for (uint32_t t = 0; t < p->n_mem_types; t++) {
        uint32_t taken = p->mem_types[t].import_handles;
        clv_import in = kit_host_import(memory, 1 << 16, BOTH);
        in.fd = fd;
        for (uint32_t bit = 0; bit < 32; bit++) {
            in.handle_type = 1u << bit;
            if (!(taken & in.handle_type))
                refuse_import(p, t, &in, CLV_ERR_UNSUPPORTED,
                              "a handle that import_handles does not list");
        }
        in.handle_type = 0;
        refuse_import(p, t, &in, CLV_ERR_UNSUPPORTED, "no kind of handle");
        in.handle_type = CLV_HANDLE_HOST_POINTER | CLV_HANDLE_DMABUF;
        refuse_import(p, t, &in, CLV_ERR_UNSUPPORTED, "two kinds at once");
    }
    KIT_CHECK(k, fcntl(fd, F_GETFD) >= 0,
              "a buffer_import that failed closed the caller's descriptor");
    if (imports_pointers(p, 0)) {
        clv_import in = kit_host_import(memory, 1 << 16, BOTH);
        refuse_import(p, p->n_mem_types, &in, CLV_ERR_INVALID,
                      "a memory type that is not there");
    }
    close(fd);
    munmap(memory, 1 << 16);
}

void memory_list_imports(kit_list *l)
{
    static const uint32_t host = CLV_HANDLE_HOST_POINTER,
                          mapped = CLV_HANDLE_MAPPED_POINTER;
    const uint32_t sees = KIT_NEEDS_HOST_VISIBLE;
    kit_add(l, KIT_PER_DEVICE, sees | KIT_NEEDS_IMPORT, run_pointers, &host,
            "import.pointers");
    kit_add(l, KIT_PER_DEVICE, KIT_NEEDS_IMPORT, run_refused, &host,
            "import.refused");
    kit_add(l, KIT_PER_DEVICE, sees | KIT_NEEDS_MAPPED, run_pointers, &mapped,
            "import.mapped");
    kit_add(l, KIT_PER_DEVICE, sees | KIT_NEEDS_MAPPED, run_refused, &mapped,
            "import.mapped_refused");
    kit_add(l, KIT_PER_DEVICE, sees | KIT_NEEDS_IMPORT, run_read_only, NULL,
            "import.read_only");
    kit_add(l, KIT_PER_DEVICE, 0, run_kinds, NULL, "import.kinds");
    memory_list_handles(l);
}
