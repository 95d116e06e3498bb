/* Memory behind descriptors, imported and exported. */
#include "memory.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { BOTH = CLV_ACCESS_READ | CLV_ACCESS_WRITE };

/* A descriptor of the wrong sort, or none. */
static void check_bad_fds(kit *k, kit_plugin *p, uint32_t type, uint32_t kind)
{
    int before = kit_count_entries(k, "/proc/self/fd");
    const int64_t bad[] = {-1, 1 << 20, INT64_MAX, INT64_MIN};
    _Atomic int count = 0;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        clv_import in = kit_host_import(NULL, 65536, BOTH);
        clv_plugin_buffer *buf = NULL;
        in.handle_type = kind;
        in.fd = bad[i];
        in.release = memory_count_release;
        in.release_ctx = &count;
        kit_host_clear(&p->host);
        clv_status status = p->api.buffer_import(p->dev, type, &in, &buf);
        KIT_CHECK(k, status && !buf && p->host.error[0],
                  "buffer_import of descriptor %lld (handle type %#x) answers "
                  "%d, \"%s\"; an error with a message is right",
                  (long long)bad[i], (unsigned)kind, (int)status,
                  p->host.error);
    }
    KIT_CHECK(k, !atomic_load(&count),
              "release was called by a buffer_import that failed");
    KIT_CHECK(k, kit_count_entries(k, "/proc/self/fd") == before,
              "a buffer_import that failed left descriptors open");
}

/* A memory file stands in for what another driver would give; the plugin may
 * find that it is none of its own. */
static void check_memory_file(kit *k, kit_plugin *p, uint32_t type,
                              uint32_t kind)
{
    enum { SIZE = 65536 };
    int before = kit_count_entries(k, "/proc/self/fd");
    int fd = memfd_create("kit-import", MFD_CLOEXEC);
    KIT_CHECK(k, fd >= 0 && !ftruncate(fd, SIZE), "no memory file: %s",
              strerror(errno));
    _Atomic int count = 0;
    clv_plugin_buffer *buf = NULL;
    uint8_t *memory = memory_pages(k, SIZE, PROT_READ | PROT_WRITE, fd);
    clv_import in = kit_host_import(NULL, SIZE, BOTH);
    in.handle_type = kind;
    in.fd = fd;
    in.release = memory_count_release;
    in.release_ctx = &count;
    kit_host_clear(&p->host);
    clv_status status = p->api.buffer_import(p->dev, type, &in, &buf);
    KIT_CHECK(k, fcntl(fd, F_GETFD) >= 0,
              "buffer_import closed the descriptor; it stays the caller's");
    close(fd);
    if (status) {
        KIT_CHECK(k, p->host.error[0] && !atomic_load(&count) && !buf,
                  "buffer_import of a memory file fails with %d without a "
                  "message, or released it, or gave a buffer",
                  (int)status);
    } else {
        uint8_t back[256];
        memset(memory, 0x21, SIZE);
        memory_read_back(p, type, buf, back, sizeof back);
        KIT_CHECK(k, back[0] == 0x21 && back[255] == 0x21,
                  "after the caller closed its descriptor imported memory "
                  "reads as %#x; the plugin duplicates it",
                  back[0]);
        p->api.buffer_free(buf);
        KIT_CHECK(k, memory_released(&count),
                  "release was called %d times after "
                  "buffer_free, not once",
                  atomic_load(&count));
    }
    munmap(memory, SIZE);
    KIT_CHECK(k, kit_count_entries(k, "/proc/self/fd") == before,
              "import and free left descriptors open");
}

static void run_descriptors(kit *k, const void *arg)
{
    kit_plugin *p = kit_subject(k);
    (void)arg;
    for (uint32_t t = 0; t < p->n_mem_types; t++)
        for (uint32_t bit = 1; bit < 3; bit++) {
            uint32_t kind = 1u << bit;
            if (!(p->mem_types[t].import_handles & kind))
                continue;
            check_bad_fds(k, p, t, kind);
            check_memory_file(k, p, t, kind);
        }
}

/* --- exports -------------------------------------------------------------- */

/* Two names of the same memory. */
static void check_round_trip(kit *k, kit_plugin *p, uint32_t type,
                             uint32_t kind)
{
    enum { SIZE = 65536 };
    int before = kit_count_entries(k, "/proc/self/fd");
    clv_plugin_buffer *buf = kit_buffer(p, type, SIZE), *twin = NULL;
    clv_export out = CLV_INIT(clv_export, CLV_STRUCT_EXPORT);
    out.handle_type = kind;
    out.fd = -1;
    KIT_OK(k, p->api.buffer_export(buf, &out), "buffer_export as %#x",
           (unsigned)kind);
    bool by_fd = kind == CLV_HANDLE_DMABUF || kind == CLV_HANDLE_OPAQUE_FD;
    KIT_CHECK(k,
              by_fd ? out.fd >= 0 && fcntl((int)out.fd, F_GETFD) >= 0
                    : out.pointer != NULL,
              "buffer_export as %#x gives descriptor %lld, pointer %p",
              (unsigned)kind, (long long)out.fd, out.pointer);
    if (p->mem_types[type].import_handles & kind) {
        uint8_t back[SIZE];
        clv_import in = kit_host_import(out.pointer, SIZE, BOTH);
        in.handle_type = kind;
        in.fd = by_fd ? out.fd : -1;
        twin = memory_must_import(p, type, &in, "what buffer_export gave");
        clv_command c = kit_fill(twin, 0, SIZE, 0x42424242);
        kit_do(p, &c, 1, "a fill of memory that was exported and imported");
        memory_read_back(p, type, buf, back, SIZE);
        KIT_CHECK(k, back[0] == 0x42 && back[SIZE - 1] == 0x42,
                  "memory imported from an export is not the memory exported");
    }
    p->api.buffer_free(twin);
    p->api.buffer_free(buf);
    if (by_fd)
        KIT_CHECK(k, !close((int)out.fd),
                  "the exported descriptor was closed by the plugin; it is the "
                  "caller's");
    KIT_CHECK(k, kit_count_entries(k, "/proc/self/fd") == before,
              "export and free left descriptors open");
}

static void run_export(kit *k, const void *arg)
{
    kit_plugin *p = kit_subject(k);
    (void)arg;
    for (uint32_t t = 0; t < p->n_mem_types; t++) {
        clv_plugin_buffer *buf = kit_buffer(p, t, 4096);
        for (uint32_t bit = 0; bit < 32; bit++) {
            uint32_t kind = 1u << bit;
            if (p->mem_types[t].export_handles & kind) {
                check_round_trip(k, p, t, kind);
                continue;
            }
            clv_export out = CLV_INIT(clv_export, CLV_STRUCT_EXPORT);
            out.handle_type = kind;
            kit_expect(k, p->api.buffer_export(buf, &out), CLV_ERR_UNSUPPORTED,
                       "buffer_export as %#x, which export_handles does not "
                       "list",
                       (unsigned)kind);
        }
        p->api.buffer_free(buf);
    }
}

void memory_list_handles(kit_list *l)
{
    const uint32_t sees = KIT_NEEDS_HOST_VISIBLE;
    kit_add(l, KIT_PER_DEVICE, sees | KIT_NEEDS_FD_IMPORT, run_descriptors,
            NULL, "import.descriptors");
    kit_add(l, KIT_PER_DEVICE, sees | KIT_NEEDS_EXPORT, run_export, NULL,
            "export.round_trip");
}
