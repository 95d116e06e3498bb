/* Loading, opening, closing, again and again. */
#include "lifecycle.h"

#include <dlfcn.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TASKS "/proc/self/task"
#define DESCRIPTORS "/proc/self/fd"
#define MAPS "/proc/self/maps"

void lifecycle_make(kit *k, kit_plugin *p)
{
    kit_plugin_load(k, p);
    kit_plugin_create(p);
}

void lifecycle_end(kit_plugin *p)
{
    kit_plugin_destroy(p);
    kit_plugin_unload(p);
}

/* --- again and again ------------------------------------------------------ */

typedef struct census {
    int threads, fds, maps;
    size_t heap;
} census;

static census count_all(kit *k, int threads)
{
    return (census){kit_count_threads(k, threads),
                    kit_count_entries(k, DESCRIPTORS),
                    kit_count_lines(k, MAPS, NULL), mallinfo2().uordblks};
}

static void one_life(kit *k, uint32_t i)
{
    kit_plugin p;
    lifecycle_make(k, &p);
    for (uint32_t d = 0; d < p.n_devices; d++) {
        if (i % 4 == 1 && d != i % p.n_devices)
            continue; /* sometimes only one of them */
        kit_plugin_open(&p, d);
        if (i % 5 == 0)
            kit_use(k, &p);
        kit_plugin_close(&p);
    }
    lifecycle_end(&p);
}

static void run_cycles(kit *k, const void *arg)
{
    enum { LIVES = 100, SETTLED = 20 };
    census first = {0};
    (void)arg;
    kit_drop_under_test(k);
    for (uint32_t i = 0; i < LIVES; i++) {
        if (i == SETTLED)
            first = count_all(k, first.threads);
        kit_alive(k);
        one_life(k, i);
    }
    census last = count_all(k, first.threads);
    KIT_CHECK(k, last.threads <= first.threads,
              "%d threads after %d lives of the plugin, %d after %d; quiesce "
              "joins all threads",
              last.threads, LIVES, first.threads, SETTLED);
    KIT_CHECK(k, last.fds <= first.fds,
              "%d descriptors are open after %d lives of the plugin, %d after "
              "%d",
              last.fds, LIVES, first.fds, SETTLED);
    /* AddressSanitizer keeps what is freed, for a while and in mappings.
     * ThreadSanitizer keeps a mapping for each library that was loaded. */
    bool kept = kit_sanitizers() & CLV_SANITIZER_ADDRESS;
    bool maps_kept = kept || kit_sanitizers() & CLV_SANITIZER_THREAD;
    KIT_CHECK(k, maps_kept || last.maps - first.maps < (LIVES - SETTLED) / 2,
              "%d mappings after %d lives of the plugin, %d after %d",
              last.maps, LIVES, first.maps, SETTLED);
    size_t grown = last.heap > first.heap ? last.heap - first.heap : 0;
    /* Drivers below a plugin leave some hundred bytes. */
    KIT_CHECK(k, kept || grown / (LIVES - SETTLED) < 1024,
              "every life of the plugin leaves %zu bytes on the heap",
              grown / (LIVES - SETTLED));
    kit_note(k,
             "%d lives: %d threads, %d descriptors, %+d mappings, %zu bytes "
             "of heap a life",
             LIVES, last.threads, last.fds, last.maps - first.maps,
             grown / (LIVES - SETTLED));
}

/* Objects made and destroyed again and again on one open device. */
static void run_objects(kit *k, const void *arg)
{
    enum { ROUNDS = 300, SETTLED = 20 };
    kit_plugin *p = kit_under_test(k);
    uint32_t blocks = 0;
    int fds = 0;
    (void)arg;
    for (uint32_t i = 0; i < ROUNDS; i++) {
        if (i == SETTLED) {
            blocks = p->host.n_blocks;
            fds = kit_count_entries(k, DESCRIPTORS);
        }
        clv_plugin_timeline *tl = kit_timeline(p, i);
        clv_plugin_buffer *buf = kit_buffer(p, i % p->n_mem_types, 100 + i);
        p->api.buffer_free(buf);
        p->api.timeline_destroy(tl);
        if (i % 20 == 0)
            kit_use(k, p);
    }
    /* What finished work held may go a little later than its signal. */
    for (int i = 0; i < 100 && p->host.n_blocks > blocks; i++)
        kit_sleep(10000000);
    KIT_CHECK(k, p->host.n_blocks <= blocks,
              "%u host allocations after %d buffers and timelines that were "
              "made and destroyed, %u after %d",
              (unsigned)p->host.n_blocks, ROUNDS, (unsigned)blocks, SETTLED);
    KIT_CHECK(k, kit_count_entries(k, DESCRIPTORS) <= fds,
              "buffers and timelines left descriptors open");
}

static uint64_t resident_bytes(kit *k)
{
    unsigned long long pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    KIT_CHECK(k, file && fscanf(file, "%*u %llu", &pages) == 1,
              "/proc/self/statm cannot be read");
    fclose(file);
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* What does not come from the host's allocator. Drivers keep some for reasons
 * of their own, hence no failure. */
static void run_resident(kit *k, const void *arg)
{
    enum { ROUNDS = 60, SETTLED = 20, LEAST = 64 << 10 };
    kit_plugin *p = kit_under_test(k);
    uint64_t first = 0;
    (void)arg;
    if (kit_sanitizers()) {
        kit_skip(k, "a sanitizer keeps what is freed");
        return;
    }
    for (uint32_t i = 0; i < ROUNDS; i++) {
        if (i == SETTLED)
            first = resident_bytes(k);
        kit_use(k, p);
    }
    const uint64_t last = resident_bytes(k);
    const uint64_t each =
        last > first ? (last - first) / (ROUNDS - SETTLED) : 0;
    if (each >= LEAST)
        kit_warn(k,
                 "resident memory grows by %llu KiB with each small program "
                 "that is compiled, run and destroyed, outside the host's "
                 "allocator",
                 (unsigned long long)each >> 10);
}

/* --- several at once ------------------------------------------------------ */

static void run_two(kit *k, const void *arg)
{
    kit_plugin p[2];
    (void)arg;
    for (int order = 0; order < 2; order++) {
        for (int i = 0; i < 2; i++) {
            lifecycle_make(k, &p[i]);
            if (p[i].n_devices)
                kit_plugin_open(&p[i], (uint32_t)i % p[i].n_devices);
        }
        for (int i = 0; i < 4 && p[0].dev && p[1].dev; i++)
            kit_use(k, &p[i % 2]);
        kit_plugin *first = &p[order], *other = &p[!order];
        if (first->dev)
            kit_plugin_close(first);
        lifecycle_end(first);
        if (other->dev) {
            kit_use(k, other);
            kit_plugin_close(other);
        }
        lifecycle_end(other);
    }
}

static void run_open_twice(kit *k, const void *arg)
{
    kit_plugin p;
    (void)arg;
    lifecycle_make(k, &p);
    for (uint32_t d = 0; d < p.n_devices; d++) {
        kit_plugin_open(&p, d);
        kit_plugin twin = p;
        twin.dev = NULL;
        kit_host_clear(&p.host);
        clv_status status = p.api.device_open(p.inst, d, &twin.dev);
        if (status) {
            kit_expect(k, status, CLV_ERR_LIMIT,
                       "a second device_open of device %u (works, or answers "
                       "CLV_ERR_LIMIT)",
                       (unsigned)d);
            kit_note(k, "a device can be opened once");
        } else {
            KIT_CHECK(k, twin.dev && twin.dev != p.dev,
                      "device_open twice gives the same handle twice");
            kit_use(k, &twin);
            kit_use(k, &p);
            p.api.device_close(twin.dev);
        }
        kit_use(k, &p);
        kit_plugin_close(&p);
    }
    lifecycle_end(&p);
}

static void run_open_range(kit *k, const void *arg)
{
    kit_plugin p;
    (void)arg;
    lifecycle_make(k, &p);
    const uint32_t bad[] = {p.n_devices, p.n_devices + 1, 0x7fffffff,
                            UINT32_MAX};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        clv_plugin_device *dev = NULL;
        kit_expect(k, p.api.device_open(p.inst, bad[i], &dev),
                   CLV_ERR_NOT_FOUND, "device_open of device %u of %u",
                   (unsigned)bad[i], (unsigned)p.n_devices);
        KIT_CHECK(k, !dev, "a device_open that failed gives a device");
    }
    lifecycle_end(&p);
}

/* --- the end -------------------------------------------------------------- */

static void run_null(kit *k, const void *arg)
{
    kit_plugin p;
    (void)arg;
    lifecycle_make(k, &p);
    p.api.destroy(NULL);
    p.api.device_close(NULL);
    p.api.buffer_free(NULL);
    p.api.timeline_destroy(NULL);
    p.api.program_destroy(NULL);
    lifecycle_end(&p);
    kit_plugin_load(k, &p); /* and before there is an instance */
    p.api.destroy(NULL);
    p.api.buffer_free(NULL);
    kit_plugin_unload(&p);
}

static void run_quiesce(kit *k, const void *arg)
{
    kit_plugin p;
    (void)arg;
    kit_drop_under_test(k);
    int before = kit_count_entries(k, TASKS);
    lifecycle_make(k, &p);
    for (uint32_t d = 0; d < p.n_devices; d++) {
        kit_plugin_open(&p, d);
        kit_use(k, &p);
        kit_plugin_close(&p);
    }
    KIT_OK(k, p.api.quiesce(p.inst), "quiesce");
    int after = kit_count_threads(k, before);
    KIT_CHECK(k, after <= before,
              "%d threads after quiesce, %d before create; quiesce joins all",
              after, before);
    p.api.destroy(p.inst);
    p.inst = NULL;
    KIT_CHECK(k, !p.host.n_blocks, "%u host allocations are left after destroy",
              (unsigned)p.host.n_blocks);
    free(p.infos);
    kit_plugin_unload(&p);
}

static void run_unload(kit *k, const void *arg)
{
    kit_plugin p;
    (void)arg;
    kit_drop_under_test(k);
    int before = kit_count_lines(k, MAPS, kit_path(k));
    KIT_CHECK(k, !before, "the plugin is mapped before it is loaded");
    lifecycle_make(k, &p);
    for (uint32_t d = 0; d < p.n_devices; d++) {
        kit_plugin_open(&p, d);
        kit_use(k, &p);
        kit_plugin_close(&p);
    }
    KIT_CHECK(k, kit_count_lines(k, MAPS, kit_path(k)) > 0,
              "the loaded plugin is not found in %s", MAPS);
    lifecycle_end(&p);
    KIT_CHECK(k, !kit_count_lines(k, MAPS, kit_path(k)),
              "the plugin is still mapped after dlclose, though its flags say "
              "CLV_PLUGIN_UNLOADABLE; something holds it (STB_GNU_UNIQUE "
              "symbols, -z nodelete, thread-local destructors)");
}

static void list(kit_list *l)
{
    lifecycle_list_devices(l);
    lifecycle_list_signals(l);
    kit_add(l, KIT_PER_PLUGIN, 0, run_null, NULL, "null");
    kit_add(l, KIT_PER_PLUGIN, 0, run_open_range, NULL, "open.range");
    kit_add(l, KIT_PER_PLUGIN, 0, run_open_twice, NULL, "open.twice");
    kit_add(l, KIT_PER_PLUGIN, 0, run_two, NULL, "two_instances");
    kit_add(l, KIT_PER_PLUGIN, 0, run_quiesce, NULL, "quiesce");
    kit_add(l, KIT_PER_PLUGIN, KIT_NEEDS_UNLOADABLE, run_unload, NULL,
            "unload");
    kit_add(l, KIT_PER_PLUGIN, 0, run_cycles, NULL, "cycles");
    kit_add(l, KIT_PER_DEVICE, 0, run_objects, NULL, "objects");
    kit_add(l, KIT_PER_DEVICE, 0, run_resident, NULL, "resident");
    lifecycle_list_cache(l);
    lifecycle_list_threads(l);
    lifecycle_list_memory(l);
}

const kit_group kit_group_lifecycle = {
    "lifecycle", "Lifecycle: loading, opening, closing, running out of memory",
    list};
