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
    kit_plugin *p = kit_under_test(k);
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

void memory_list_handles(kit_list *l)
{
    const uint32_t sees = KIT_NEEDS_HOST_VISIBLE;
    kit_add(l, KIT_PER_DEVICE, sees | KIT_NEEDS_FD_IMPORT, run_descriptors,
            NULL, "import.descriptors");
}
