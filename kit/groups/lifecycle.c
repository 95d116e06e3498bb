/* Loading, opening, closing, again and again; lifecycle_memory.c has the same
 * with memory running out. */
#include "lifecycle.h"

#include <dlfcn.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#define TASKS "/proc/self/task"
#define DESCRIPTORS "/proc/self/fd"
#define MAPS "/proc/self/maps"

static void plugin_make(kit *k, kit_plugin *p)
{
    kit_plugin_load(k, p);
    kit_plugin_create(p);
}

static void plugin_end(kit_plugin *p)
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
    plugin_make(k, &p);
    for (uint32_t d = 0; d < p.n_devices; d++) {
        if (i % 4 == 1 && d != i % p.n_devices)
            continue; /* sometimes only one of them */
        kit_plugin_open(&p, d);
        if (i % 5 == 0)
            kit_use(k, &p);
        kit_plugin_close(&p);
    }
    plugin_end(&p);
}

static void run_cycles(kit *k, const void *arg)
{
    enum { LIVES = 100, SETTLED = 20 };
    census first = {0};
    (void)arg;
    kit_subject_drop(k);
    for (uint32_t i = 0; i < LIVES; i++) {
        if (i == SETTLED)
            first = count_all(k, first.threads);
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
    KIT_CHECK(k, last.maps - first.maps < (LIVES - SETTLED) / 2,
              "%d mappings after %d lives of the plugin, %d after %d",
              last.maps, LIVES, first.maps, SETTLED);
    size_t grown = last.heap > first.heap ? last.heap - first.heap : 0;
    KIT_CHECK(k, grown / (LIVES - SETTLED) < 512,
              "every life of the plugin leaves %zu bytes on the heap",
              grown / (LIVES - SETTLED));
    kit_note(k, "%d lives: %d threads, %d descriptors, %+d mappings, %zu bytes "
             "of heap a life", LIVES, last.threads, last.fds,
             last.maps - first.maps, grown / (LIVES - SETTLED));
}

/* Objects made and destroyed again and again on one open device. */
static void run_objects(kit *k, const void *arg)
{
    enum { ROUNDS = 300, SETTLED = 20 };
    kit_plugin *p = kit_subject(k);
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
    KIT_CHECK(k, p->host.n_blocks <= blocks,
              "%u host allocations after %d buffers and timelines that were "
              "made and destroyed, %u after %d",
              (unsigned)p->host.n_blocks, ROUNDS, (unsigned)blocks, SETTLED);
    KIT_CHECK(k, kit_count_entries(k, DESCRIPTORS) <= fds,
              "buffers and timelines left descriptors open");
}

/* --- several at once ------------------------------------------------------ */

static void run_two(kit *k, const void *arg)
{
    kit_plugin p[2];
    (void)arg;
    for (int order = 0; order < 2; order++) {
        for (int i = 0; i < 2; i++) {
            plugin_make(k, &p[i]);
            if (p[i].n_devices)
                kit_plugin_open(&p[i], (uint32_t)i % p[i].n_devices);
        }
        for (int i = 0; i < 4 && p[0].dev && p[1].dev; i++)
            kit_use(k, &p[i % 2]);
        kit_plugin *first = &p[order], *other = &p[!order];
        if (first->dev)
            kit_plugin_close(first);
        plugin_end(first);
        if (other->dev) {
            kit_use(k, other);
            kit_plugin_close(other);
        }
        plugin_end(other);
    }
}

static void run_open_twice(kit *k, const void *arg)
{
    kit_plugin p;
    (void)arg;
    plugin_make(k, &p);
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
    plugin_end(&p);
}

static void run_open_range(kit *k, const void *arg)
{
    kit_plugin p;
    (void)arg;
    plugin_make(k, &p);
    const uint32_t bad[] = {p.n_devices, p.n_devices + 1, 0x7fffffff,
                            UINT32_MAX};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        clv_plugin_device *dev = NULL;
        kit_expect(k, p.api.device_open(p.inst, bad[i], &dev),
                   CLV_ERR_NOT_FOUND, "device_open of device %u of %u",
                   (unsigned)bad[i], (unsigned)p.n_devices);
        KIT_CHECK(k, !dev, "a device_open that failed gives a device");
    }
    plugin_end(&p);
}

/* --- enumeration ---------------------------------------------------------- */

static void run_enumerate(kit *k, const void *arg)
{
    enum { STRIDE = sizeof(clv_device_info) + 40 };
    kit_plugin p;
    (void)arg;
    plugin_make(k, &p);
    uint32_t n = p.n_devices;
    uint8_t *room = malloc((size_t)(n + 1) * STRIDE);
    KIT_CHECK(k, room, "no memory for the case");
    for (uint32_t given = 0; given <= n + 1; given++) {
        memset(room, 0x77, (size_t)(n + 1) * STRIDE);
        for (uint32_t i = 0; i < given; i++)
            *(clv_header *)(void *)(room + i * STRIDE) = (clv_header){
                sizeof(clv_device_info), CLV_STRUCT_DEVICE_INFO, NULL};
        uint32_t count = given;
        KIT_OK(k,
               p.api.enumerate(p.inst, &count, given ? (void *)room : NULL,
                               given ? STRIDE : 0),
               "enumerate with room for %u", (unsigned)given);
        KIT_CHECK(k, count == n, "enumerate with room for %u counts %u "
                  "devices, %u are present",
                  (unsigned)given, (unsigned)count, (unsigned)n);
        for (uint32_t i = 0; i <= n; i++) {
            uint32_t used = i < given && i < n ? sizeof(clv_device_info)
                            : i < given        ? sizeof(clv_header)
                                               : 0;
            for (uint32_t j = used; j < STRIDE; j++)
                KIT_CHECK(k, room[i * STRIDE + j] == 0x77,
                          "enumerate with room for %u writes byte %u of "
                          "element %u, beyond what it was given",
                          (unsigned)given, (unsigned)j, (unsigned)i);
            const clv_device_info *info = (const void *)(room + i * STRIDE);
            KIT_CHECK(k, i >= given || i >= n ||
                             !strcmp(info->id, p.infos[i].id),
                      "enumerate gives devices in another order");
        }
    }
    free(room);
    plugin_end(&p);
}

/* Length of the UTF-8 character at s, 0: it is none. */
static int utf8_length(const unsigned char *s)
{
    int n = *s < 0x80                ? 1
            : *s >= 0xc2 && *s < 0xe0 ? 2
            : *s >= 0xe0 && *s < 0xf0 ? 3
            : *s >= 0xf0 && *s < 0xf5 ? 4
                                      : 0;
    for (int i = 1; i < n; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    if ((*s == 0xe0 && s[1] < 0xa0) || (*s == 0xed && s[1] > 0x9f) ||
        (*s == 0xf0 && s[1] < 0x90) || (*s == 0xf4 && s[1] > 0x8f))
        return 0;
    return n;
}

static void check_text(kit *k, const char *text, size_t size, const char *what)
{
    KIT_CHECK(k, memchr(text, 0, size), "%s has no end within its %zu bytes",
              what, size);
    for (const unsigned char *s = (const unsigned char *)text; *s;) {
        int n = utf8_length(s);
        KIT_CHECK(k, n && *s >= ' ' && *s != 0x7f,
                  "%s has the byte %#x at %td: no UTF-8 text", what, *s,
                  (const char *)s - text);
        s += n;
    }
}

static void check_info(kit *k, const clv_device_info *info)
{
    check_text(k, info->id, sizeof info->id, "a device's id");
    check_text(k, info->name, sizeof info->name, "a device's name");
    check_text(k, info->driver, sizeof info->driver, "a device's driver");
    check_text(k, info->bus_path, sizeof info->bus_path, "a device's bus_path");
    KIT_CHECK(k, !strpbrk(info->id, " \t:,"),
              "the device id \"%s\" has a blank, colon or comma; it is part of "
              "names such as plugin:id in lists",
              info->id);
    KIT_CHECK(k, info->name[0], "device \"%s\" has no name for people",
              info->id);
    KIT_CHECK(k, info->kind >= CLV_DEVICE_CPU && info->kind <= CLV_DEVICE_OTHER,
              "device \"%s\" is of kind %u, none of clv_device_kind", info->id,
              (unsigned)info->kind);
    KIT_CHECK(k, info->clock <= CLV_CLOCK_VIRTUAL,
              "device \"%s\" has clock %u, none of clv_clock", info->id,
              (unsigned)info->clock);
    KIT_CHECK(k, !info->memory_size || info->memory_free <= info->memory_size,
              "device \"%s\" has more memory free than there is", info->id);
    KIT_CHECK(k, !info->reserved, "device \"%s\" sets a reserved field",
              info->id);
}

static void run_infos(kit *k, const void *arg)
{
    enum { LIVES = 4 };
    kit_plugin p;
    clv_device_info *first = NULL;
    uint32_t n = 0;
    (void)arg;
    for (int life = 0; life < LIVES; life++) {
        plugin_make(k, &p);
        if (!life) {
            n = p.n_devices;
            first = calloc(n + 1, sizeof *first);
            KIT_CHECK(k, first, "no memory for the case");
            memcpy(first, p.infos, n * sizeof *first);
        }
        KIT_CHECK(k, p.n_devices == n,
                  "enumerate counts %u devices, and %u in another life",
                  (unsigned)n, (unsigned)p.n_devices);
        for (uint32_t i = 0; i < n; i++) {
            check_info(k, &p.infos[i]);
            KIT_CHECK(k, !strcmp(p.infos[i].id, first[i].id) &&
                             !memcmp(p.infos[i].uuid, first[i].uuid, 16) &&
                             p.infos[i].kind == first[i].kind,
                      "device %u is \"%s\", and \"%s\" in another life; ids "
                      "are stable",
                      (unsigned)i, first[i].id, p.infos[i].id);
            for (uint32_t j = 0; j < i; j++)
                KIT_CHECK(k, strcmp(p.infos[i].id, p.infos[j].id),
                          "devices %u and %u have the same id \"%s\"",
                          (unsigned)j, (unsigned)i, p.infos[i].id);
        }
        plugin_end(&p);
    }
    free(first);
}

static void run_none(kit *k, const void *arg)
{
    kit_plugin p;
    (void)arg;
    plugin_make(k, &p); /* no device is success */
    if (p.n_devices)
        kit_skip(k, "%u devices are present", (unsigned)p.n_devices);
    plugin_end(&p);
}

/* --- the end -------------------------------------------------------------- */

static void run_null(kit *k, const void *arg)
{
    kit_plugin p;
    (void)arg;
    plugin_make(k, &p);
    p.api.destroy(NULL);
    p.api.device_close(NULL);
    p.api.buffer_free(NULL);
    p.api.timeline_destroy(NULL);
    p.api.program_destroy(NULL);
    plugin_end(&p);
    kit_plugin_load(k, &p); /* and before there is an instance */
    p.api.destroy(NULL);
    p.api.buffer_free(NULL);
    kit_plugin_unload(&p);
}

static void run_quiesce(kit *k, const void *arg)
{
    kit_plugin p;
    (void)arg;
    kit_subject_drop(k);
    int before = kit_count_entries(k, TASKS);
    plugin_make(k, &p);
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
    KIT_CHECK(k, !p.host.n_blocks,
              "%u host allocations are left after destroy",
              (unsigned)p.host.n_blocks);
    free(p.infos);
    kit_plugin_unload(&p);
}

static void run_unload(kit *k, const void *arg)
{
    kit_plugin p;
    (void)arg;
    kit_subject_drop(k);
    int before = kit_count_lines(k, MAPS, kit_path(k));
    KIT_CHECK(k, !before, "the plugin is mapped before it is loaded");
    plugin_make(k, &p);
    for (uint32_t d = 0; d < p.n_devices; d++) {
        kit_plugin_open(&p, d);
        kit_use(k, &p);
        kit_plugin_close(&p);
    }
    KIT_CHECK(k, kit_count_lines(k, MAPS, kit_path(k)) > 0,
              "the loaded plugin is not found in %s", MAPS);
    plugin_end(&p);
    KIT_CHECK(k, !kit_count_lines(k, MAPS, kit_path(k)),
              "the plugin is still mapped after dlclose, though its flags say "
              "CLV_PLUGIN_UNLOADABLE; something holds it (STB_GNU_UNIQUE "
              "symbols, -z nodelete, thread-local destructors)");
}

/* --- many threads --------------------------------------------------------- */

enum { THREADS = 4 };

typedef struct caller {
    kit_plugin *p;
    kit_graph g;
    bool has_graph;
    kit_program prog;
    clv_op_caps caps[KIT_MAX_NODES]; /* of the first answer */
    uint32_t index, rounds;
} caller;

static void check_same_caps(kit *k, caller *c)
{
    clv_op_caps caps[KIT_MAX_NODES];
    kit_caps(&c->g, caps);
    for (uint32_t i = 0; i < c->g.n_nodes; i++)
        KIT_CHECK(k, caps[i].answer == c->caps[i].answer &&
                         caps[i].error_class == c->caps[i].error_class,
                  "op_caps answers %u for a node, and %u when other threads "
                  "call too",
                  (unsigned)c->caps[i].answer, (unsigned)caps[i].answer);
}

static void compile_and_drop(kit *k, caller *c)
{
    clv_subgraph graph;
    clv_compile info = kit_program_compile_info(&c->prog, &graph);
    clv_plugin_program *program = NULL;
    clv_program_info about = CLV_INIT(clv_program_info,
                                      CLV_STRUCT_PROGRAM_INFO);
    KIT_OK(k, c->p->api.program_compile(c->p->dev, &info, &program),
           "program_compile from several threads");
    KIT_OK(k, c->p->api.program_info(program, &about), "program_info");
    c->p->api.program_destroy(program);
}

/* What is tagged [any]. */
static void call_main(kit *k, void *ctx)
{
    caller *c = ctx;
    kit_plugin *p = c->p;
    const bool room = !p->info.max_programs || p->info.max_programs > THREADS;
    for (uint32_t i = 0; i < c->rounds; i++) {
        uint32_t count = 0;
        KIT_OK(k, p->api.mem_types(p->dev, &count, NULL, 0), "mem_types");
        KIT_CHECK(k, count == p->n_mem_types, "mem_types counts %u, then %u",
                  (unsigned)p->n_mem_types, (unsigned)count);
        clv_plugin_timeline *tl = kit_timeline(p, i);
        KIT_OK(k, p->api.timeline_signal(tl, i + 1), "timeline_signal");
        KIT_OK(k, p->api.timeline_wait(tl, i + 1, 0, 0), "timeline_wait");
        KIT_CHECK(k, kit_query(p, tl).value == i + 1, "timeline_query");
        p->api.timeline_destroy(tl);
        uint32_t type = i % p->n_mem_types, value = c->index << 16 | i;
        clv_plugin_buffer *buf = kit_buffer(p, type, 64);
        if (p->mem_types[type].flags & CLV_MEM_HOST_VISIBLE) {
            uint32_t back = 0;
            kit_bytes_put(p, type, buf, 0, &value, sizeof value);
            kit_bytes_get(p, type, buf, 0, &back, sizeof back);
            KIT_CHECK(k, back == value, "a buffer has another thread's bytes");
        }
        p->api.buffer_free(buf);
        if (!c->has_graph)
            continue;
        check_same_caps(k, c);
        if (room)
            compile_and_drop(k, c);
    }
}

static void run_threads(kit *k, const void *arg)
{
    kit_plugin *p = kit_subject(k);
    caller *callers = calloc(THREADS, sizeof *callers);
    kit_thread threads[THREADS];
    char reason[KIT_TEXT_SIZE];
    (void)arg;
    KIT_CHECK(k, callers, "no memory for the case");
    for (uint32_t i = 0; i < THREADS; i++) {
        caller *c = &callers[i];
        uint32_t output;
        c->p = p;
        c->index = i;
        c->rounds = 100;
        c->has_graph = kit_any_graph(k, p, &c->g, 0, &output, reason);
        if (c->has_graph) {
            kit_caps(&c->g, c->caps);
            kit_program_make(&c->g, 0, true, &c->prog);
        }
    }
    for (uint32_t i = 0; i < THREADS; i++)
        kit_thread_start(k, &threads[i], call_main, &callers[i]);
    if (p->info.queue_depth != 1) /* and work meanwhile */
        for (int i = 0; i < 50; i++)
            kit_do(p, NULL, 0, "an empty submit");
    for (uint32_t i = 0; i < THREADS; i++)
        kit_thread_join(&threads[i], "a thread that calls [any] slots");
    for (uint32_t i = 0; i < THREADS; i++)
        if (callers[i].has_graph) {
            kit_program_free(&callers[i].prog);
            kit_graph_free(&callers[i].g);
        }
    free(callers);
}

static void list(kit_list *l)
{
    kit_add(l, KIT_PER_PLUGIN, 0, run_enumerate, NULL, "enumerate.count");
    kit_add(l, KIT_PER_PLUGIN, 0, run_infos, NULL, "enumerate.infos");
    kit_add(l, KIT_PER_PLUGIN, 0, run_none, NULL, "enumerate.no_device");
    kit_add(l, KIT_PER_PLUGIN, 0, run_null, NULL, "null");
    kit_add(l, KIT_PER_PLUGIN, 0, run_open_range, NULL, "open.range");
    kit_add(l, KIT_PER_PLUGIN, 0, run_open_twice, NULL, "open.twice");
    kit_add(l, KIT_PER_PLUGIN, 0, run_two, NULL, "two_instances");
    kit_add(l, KIT_PER_PLUGIN, 0, run_quiesce, NULL, "quiesce");
    kit_add(l, KIT_PER_PLUGIN, KIT_NEEDS_UNLOADABLE, run_unload, NULL,
            "unload");
    kit_add(l, KIT_PER_PLUGIN, 0, run_cycles, NULL, "cycles");
    kit_add(l, KIT_PER_DEVICE, 0, run_objects, NULL, "objects");
    kit_add(l, KIT_PER_DEVICE, 0, run_threads, NULL, "threads");
    lifecycle_list_memory(l);
}

const kit_group kit_group_lifecycle = {
    "lifecycle", "Lifecycle: loading, opening, closing, running out of memory",
    list};
