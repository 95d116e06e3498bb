/* A device that is lost or hangs, and work that fails, with neighbours that go
 * on. */
#include "../work/work.h"

#include <stdio.h>
#include <string.h>

/* A second instance with the case's device open in it, to be broken; the
 * device under test is its neighbour. */
static void victim_open(kit *k, kit_plugin *p)
{
    const char *id = kit_under_test(k)->info.id;
    kit_plugin_load(k, p);
    kit_plugin_create(p);
    uint32_t i = 0;
    while (i < p->n_devices && strcmp(p->infos[i].id, id))
        i++;
    KIT_CHECK(k, i < p->n_devices, "device \"%s\" is not in a second instance",
              id);
    kit_plugin_open(p, i);
}

static void victim_close(kit *k, kit_plugin *p, const char *what)
{
    uint64_t begin = kit_now();
    kit_plugin_close(p);
    kit_plugin_destroy(p);
    uint64_t took = kit_now() - begin;
    KIT_CHECK(k, took < 5000 * KIT_MS, "closing %s took %llu ms", what,
              (unsigned long long)(took / KIT_MS));
    kit_plugin_unload(p);
}

/* False: the plugin cannot provoke it. */
static bool inject(kit *k, kit_plugin *p, uint32_t fault, const char *name)
{
    clv_status status = p->api.fault_inject(p->dev, fault);
    if (status == CLV_ERR_UNSUPPORTED) {
        kit_skip(k, "fault_inject does not know %s", name);
        return false;
    }
    KIT_OK(k, status, "fault_inject of %s", name);
    return true;
}

typedef struct watcher {
    kit_plugin *p;
    clv_plugin_timeline *tl;
    clv_status status;
} watcher;

static void watch_main(kit *k, void *ctx)
{
    watcher *w = ctx;
    (void)k;
    w->status = w->p->api.timeline_wait(w->tl, 1, 0, KIT_PATIENCE_NS);
}

static void check_refused(kit *k, clv_status status, const char *call)
{
    kit_expect(k, status, CLV_ERR_DEVICE_LOST, "%s on a lost device", call);
}

static void check_lost(kit *k, kit_plugin *p)
{
    clv_plugin_timeline *tl = NULL;
    clv_plugin_buffer *buf = NULL;
    clv_submit s = {.header = {sizeof s, CLV_STRUCT_SUBMIT, NULL},
                    .command_stride = sizeof(clv_command)};
    check_refused(k, p->api.submit(p->dev, &s), "submit");
    check_refused(k, p->api.buffer_alloc(p->dev, 0, 64, &buf), "buffer_alloc");
    check_refused(k, p->api.timeline_create(p->dev, 0, &tl), "timeline_create");
    KIT_CHECK(k, !buf && !tl, "a call on a lost device gives an object");
}

/* The wait may answer for the device a moment before the timeline does. */
static void check_failed(kit *k, kit_plugin *p, clv_plugin_timeline *tl)
{
    clv_timeline_info info = kit_query(p, tl);
    for (int i = 0; i < 1000 && !info.status; i++) {
        kit_sleep(KIT_MS);
        info = kit_query(p, tl);
    }
    KIT_CHECK(k, info.status == CLV_ERR_DEVICE_LOST && info.message[0],
              "the timeline of work on a lost device has status %d, message "
              "\"%s\"",
              (int)info.status, info.message);
}

static void run_lost(kit *k, const void *arg)
{
    kit_plugin p;
    kit_graph g;
    kit_program prog;
    kit_thread thread;
    char reason[KIT_TEXT_SIZE];
    uint32_t output;
    (void)arg;
    kit_plugin *neighbour = kit_under_test(k);
    victim_open(k, &p);
    bool has_graph = kit_any_graph(k, &p, &g, 0, &output, reason);
    if (has_graph) {
        kit_program_make(&g, 0, false, &prog);
        kit_program_upload(&prog);
    }
    clv_plugin_timeline *gate = kit_timeline(&p, 0),
                        *done = kit_timeline(&p, 0),
                        *idle = kit_timeline(&p, 4);
    clv_command command;
    if (has_graph)
        command = kit_program_command(&prog);
    clv_timeline_point wait = kit_point(gate, 1), end = kit_point(done, 1);
    KIT_OK(k, kit_try_submit(&p, &command, has_graph, &wait, &end, 0),
           "submit");
    watcher w = {&p, done, 1};
    kit_thread_start(k, &thread, watch_main, &w);
    kit_sleep(5 * KIT_MS);
    if (!inject(k, &p, CLV_FAULT_LOST, "CLV_FAULT_LOST")) {
        p.api.timeline_signal(gate, 1);
    } else {
        clv_status status = kit_wait_for(&p, done, 1, KIT_PATIENCE_NS);
        kit_expect(k, status, CLV_ERR_DEVICE_LOST,
                   "waiting for work in flight when the device is lost");
        check_failed(k, &p, done);
        check_lost(k, &p);
        if (has_graph) {
            clv_subgraph graph;
            clv_compile info = kit_program_compile_info(&prog, &graph);
            clv_plugin_program *program = NULL;
            check_refused(k, p.api.program_compile(p.dev, &info, &program),
                          "program_compile");
        }
        kit_use(k, neighbour); /* and goes on */
    }
    kit_thread_join(&thread, "a thread that waits on a lost device");
    KIT_CHECK(k, w.status == CLV_ERR_DEVICE_LOST || !w.status,
              "a thread that waited when the device was lost answers %d",
              (int)w.status);
    p.api.timeline_destroy(idle);
    p.api.timeline_destroy(gate);
    p.api.timeline_destroy(done);
    if (has_graph) {
        kit_program_free(&prog);
        kit_graph_free(&g);
    }
    victim_close(k, &p, "a lost device");
    victim_open(k, &p); /* again */
    kit_use(k, &p);
    victim_close(k, &p, "a device opened again");
    kit_use(k, neighbour);
}

static void run_hang(kit *k, const void *arg)
{
    kit_plugin p;
    (void)arg;
    kit_plugin *neighbour = kit_under_test(k);
    victim_open(k, &p);
    if (!inject(k, &p, CLV_FAULT_HANG, "CLV_FAULT_HANG")) {
        victim_close(k, &p, "a device");
        return;
    }
    clv_plugin_timeline *done = kit_timeline(&p, 0);
    clv_timeline_point end = kit_point(done, 1);
    uint64_t begin = kit_now();
    KIT_OK(k, kit_try_submit(&p, NULL, 0, NULL, &end, 0),
           "submit to a device that hangs");
    kit_expect(k, kit_wait_for(&p, done, 1, 50 * KIT_MS), CLV_ERR_TIMEOUT,
               "waiting 50 ms for work that hangs");
    uint64_t took = kit_now() - begin;
    KIT_CHECK(k, took >= 50 * KIT_MS && took < 1000 * KIT_MS,
              "a wait of 50 ms for work that hangs took %llu ms",
              (unsigned long long)(took / KIT_MS));
    KIT_CHECK(k, !kit_query(&p, done).value, "work that hangs signalled");
    kit_use(k, neighbour);
    p.api.timeline_destroy(done);
    victim_close(k, &p, "a device that hangs, with work in flight");
    victim_open(k, &p);
    kit_use(k, &p);
    victim_close(k, &p, "a device opened again");
}

/* Work that waits for what will never come, when the device closes. */
static void run_close_pending(kit *k, const void *arg)
{
    kit_plugin p;
    (void)arg;
    kit_plugin *neighbour = kit_under_test(k);
    for (int i = 0; i < 3; i++) {
        victim_open(k, &p);
        clv_plugin_timeline *gate = kit_timeline(&p, 0),
                            *done = kit_timeline(&p, 0);
        clv_timeline_point wait = kit_point(gate, 1), end = kit_point(done, 1);
        for (int n = 0; n < (p.info.queue_depth == 1 ? 1 : 2); n++)
            KIT_OK(k, kit_try_submit(&p, NULL, 0, &wait, &end, 0), "submit");
        if (i)
            kit_sleep((uint64_t)i * 5 * KIT_MS);
        p.api.timeline_destroy(gate);
        p.api.timeline_destroy(done);
        victim_close(k, &p, "a device with work that waits");
        kit_use(k, neighbour);
    }
}

/* The host gives a timeline up that work waits for. */
static void run_host_fails(kit *k, const void *arg)
{
    kit_plugin p;
    (void)arg;
    kit_plugin *neighbour = kit_under_test(k);
    victim_open(k, &p);
    clv_plugin_timeline *gate = kit_timeline(&p, 0),
                        *done = kit_timeline(&p, 0);
    clv_timeline_point wait = kit_point(gate, 1), end = kit_point(done, 1);
    KIT_OK(k, kit_try_submit(&p, NULL, 0, &wait, &end, 0), "submit");
    kit_use(k, neighbour); /* while work waits elsewhere */
    KIT_OK(k, p.api.timeline_fail(gate, CLV_ERR_DEVICE_LOST, "given up"),
           "timeline_fail");
    kit_expect(k, kit_wait_for(&p, done, 1, KIT_PATIENCE_NS),
               CLV_ERR_DEVICE_LOST,
               "waiting for work whose wait failed with CLV_ERR_DEVICE_LOST");
    clv_plugin_timeline *next = kit_timeline(&p, 0);
    clv_timeline_point late = kit_point(next, 1), dead = kit_point(done, 1);
    KIT_OK(k, kit_try_submit(&p, NULL, 0, &dead, &late, 0),
           "submit that waits for a timeline that has failed");
    kit_expect(k, kit_wait_for(&p, next, 1, KIT_PATIENCE_NS),
               CLV_ERR_DEVICE_LOST, "waiting for that submit");
    kit_use(k, &p); /* the device itself is well */
    p.api.timeline_destroy(gate);
    p.api.timeline_destroy(done);
    p.api.timeline_destroy(next);
    victim_close(k, &p, "a device whose work failed");
    kit_use(k, neighbour);
}

/* The host takes over a timeline that the device would signal. */
static void run_signal_failed(kit *k, const void *arg)
{
    kit_plugin *p = kit_under_test(k);
    clv_plugin_timeline *gate = kit_timeline(p, 0), *done = kit_timeline(p, 0),
                        *other = kit_timeline(p, 0);
    clv_timeline_point wait = kit_point(gate, 1);
    clv_timeline_point ends[] = {kit_point(done, 1), kit_point(other, 1)};
    clv_submit s = {.header = {sizeof s, CLV_STRUCT_SUBMIT, NULL},
                    .waits = &wait,
                    .signals = ends,
                    .n_waits = 1,
                    .n_signals = 2,
                    .command_stride = sizeof(clv_command)};
    (void)arg;
    KIT_OK(k, p->api.submit(p->dev, &s), "submit");
    KIT_OK(k, p->api.timeline_fail(done, CLV_ERR_TIMEOUT, "took too long"),
           "timeline_fail of a timeline that work will signal");
    kit_expect(k, p->api.timeline_wait(done, 1, 0, KIT_PATIENCE_NS),
               CLV_ERR_TIMEOUT, "waiting on it");
    KIT_OK(k, p->api.timeline_signal(gate, 1), "timeline_signal");
    /* Whether the work is then run is the plugin's choice; the other timeline
     * tells, by its value or by the same failure. */
    kit_wait_for(p, other, 1, KIT_PATIENCE_NS);
    kit_host_clear(&p->host);
    clv_timeline_info info = kit_query(p, other);
    KIT_CHECK(k, info.value == 1 || info.status == CLV_ERR_TIMEOUT,
              "the other timeline that the work signals is at %llu, with "
              "status %d",
              (unsigned long long)info.value, (int)info.status);
    info = kit_query(p, done);
    KIT_CHECK(k, info.status == CLV_ERR_TIMEOUT && !info.value,
              "a timeline that failed was signalled by work: status %d, value "
              "%llu (a failed timeline stays failed)",
              (int)info.status, (unsigned long long)info.value);
    p->api.timeline_destroy(gate);
    p->api.timeline_destroy(done);
    p->api.timeline_destroy(other);
    kit_use(k, p);
}

/* A submit whose timelines have all failed is not begun: the host may have
 * freed what it was bound to. */
static void run_not_begun(kit *k, const void *arg)
{
    kit_plugin *p = kit_under_test(k);
    uint32_t type = kit_visible_type(p);
    clv_plugin_buffer *buf = kit_buffer(p, type, 64);
    clv_plugin_timeline *gate = kit_timeline(p, 0), *done = kit_timeline(p, 0);
    clv_timeline_point wait = kit_point(gate, 1), end = kit_point(done, 1);
    clv_command fill = kit_fill(buf, 0, 4, 0x5a5a5a5a);
    uint8_t byte = 0;
    (void)arg;
    kit_bytes_put(p, type, buf, 0, &byte, 1);
    KIT_OK(k, kit_try_submit(p, &fill, 1, &wait, &end, 0), "submit");
    KIT_OK(k, p->api.timeline_fail(done, CLV_ERR_TIMEOUT, "took too long"),
           "timeline_fail");
    KIT_OK(k, p->api.timeline_signal(gate, 1), "timeline_signal");
    kit_do(p, NULL, 0, "an empty submit");
    kit_bytes_get(p, type, buf, 0, &byte, 1);
    KIT_CHECK(k, !byte,
              "a submit ran whose only timeline had failed; who saw "
              "that may have freed its memory");
    p->api.timeline_destroy(gate);
    p->api.timeline_destroy(done);
    p->api.buffer_free(buf);
}

/* Work and copies that are held back or wait for each other end with it. */
static void run_lost_queues(kit *k, const void *arg)
{
    kit_plugin p;
    (void)arg;
    victim_open(k, &p);
    const uint32_t type = kit_visible_type(&p), queues = 1 + p.info.copy_queues;
    clv_plugin_buffer *buf = kit_buffer(&p, type, 64);
    clv_plugin_timeline *gate = kit_timeline(&p, 0),
                        *done = kit_timeline(&p, 0);
    clv_command fill = kit_fill(buf, 0, 64, 1);
    clv_timeline_point wait = kit_point(gate, 1);
    for (uint32_t q = 0; q < queues; q++) {
        clv_timeline_point end = kit_point(done, q + 1);
        KIT_OK(k, kit_submit_to(&p, q, &fill, 1, &wait, &end, 0),
               "submit to queue %u", (unsigned)q);
        wait = kit_point(done, q + 1);
    }
    if (!inject(k, &p, CLV_FAULT_LOST, "CLV_FAULT_LOST")) {
        p.api.timeline_signal(gate, 1);
    } else {
        kit_expect(k, kit_wait_for(&p, done, queues, KIT_PATIENCE_NS),
                   CLV_ERR_DEVICE_LOST,
                   "waiting for queues in flight when the device is lost");
        check_failed(k, &p, done);
        check_lost(k, &p);
    }
    p.api.timeline_destroy(gate);
    p.api.timeline_destroy(done);
    p.api.buffer_free(buf);
    victim_close(k, &p, "a lost device with copy queues");
}

static void run_unknown(kit *k, const void *arg)
{
    kit_plugin *p = kit_under_test(k);
    (void)arg;
    kit_expect(k, p->api.fault_inject(p->dev, 9999), CLV_ERR_UNSUPPORTED,
               "fault_inject of an unknown fault");
    kit_use(k, p);
}

static void list(kit_list *l)
{
    kit_add(l, KIT_PER_DEVICE, KIT_NEEDS_FAULTS, run_lost, NULL, "lost");
    kit_add(l, KIT_PER_DEVICE,
            KIT_NEEDS_FAULTS | KIT_NEEDS_COPY_QUEUES | KIT_NEEDS_HOST_VISIBLE,
            run_lost_queues, NULL, "lost_queues");
    kit_add(l, KIT_PER_DEVICE, KIT_NEEDS_FAULTS, run_hang, NULL, "hang");
    kit_add(l, KIT_PER_DEVICE, KIT_NEEDS_FAULTS, run_unknown, NULL, "unknown");
    kit_add(l, KIT_PER_DEVICE, 0, run_close_pending, NULL, "close_pending");
    kit_add(l, KIT_PER_DEVICE, 0, run_host_fails, NULL, "host_fails");
    kit_add(l, KIT_PER_DEVICE, 0, run_signal_failed, NULL, "signal_failed");
    kit_add(l, KIT_PER_DEVICE, KIT_NEEDS_HOST_VISIBLE, run_not_begun, NULL,
            "not_begun");
}

const kit_group kit_group_faults = {
    "faults", "Faults: lost devices, hanging and failing work", list};
