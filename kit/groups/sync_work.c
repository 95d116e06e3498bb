/* Work that waits and signals. */
#include "sync.h"

#include <stdlib.h>
#include <string.h>

static int by_size(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

void sync_note_times(kit *k, const char *what, uint64_t *times, uint32_t n)
{
    qsort(times, n, sizeof *times, by_size);
    kit_note(k, "%s: median %.1f us, 90%% %.1f, 99%% %.1f, most %.1f", what,
             (double)times[n / 2] / 1e3, (double)times[n * 9 / 10] / 1e3,
             (double)times[n * 99 / 100] / 1e3, (double)times[n - 1] / 1e3);
}

sync_bench sync_bench_open(kit *k)
{
    kit_plugin *p = kit_under_test(k);
    uint32_t type = kit_visible_type(p), zero = 0;
    sync_bench b = {p, type, kit_buffer(p, type, 4), kit_timeline(p, 0),
                    kit_timeline(p, 0)};
    kit_bytes_put(p, type, b.buf, 0, &zero, 4);
    return b;
}

uint32_t sync_bench_value(const sync_bench *b)
{
    uint32_t value;
    kit_bytes_get(b->p, b->type, b->buf, 0, &value, 4);
    return value;
}

void sync_bench_close(sync_bench *b)
{
    b->p->api.timeline_destroy(b->gate);
    b->p->api.timeline_destroy(b->done);
    b->p->api.buffer_free(b->buf);
}

/* A submit whose wait is not satisfied returns at once, does nothing, and runs
 * when the host signals. */
static void run_wait_first(kit *k, const void *arg)
{
    sync_bench b = sync_bench_open(k);
    kit_plugin *p = b.p;
    (void)arg;
    for (uint32_t i = 1; i <= 3; i++) {
        clv_command c = kit_fill(b.buf, 0, 4, i);
        clv_timeline_point wait = kit_point(b.gate, i),
                           done = kit_point(b.done, i);
        KIT_OK(k, kit_try_submit(p, &c, 1, &wait, &done, 0),
               "submit that waits for a later signal");
        kit_expect(k, kit_wait_for(p, b.done, i, 5 * KIT_MS), CLV_ERR_TIMEOUT,
                   "waiting for work whose own wait is not satisfied");
        KIT_CHECK(k, sync_bench_value(&b) == i - 1,
                  "commands ran before the point they wait for was reached");
        KIT_OK(k, p->api.timeline_signal(b.gate, i), "timeline_signal");
        kit_await(p, b.done, i, "work whose wait was satisfied");
        KIT_CHECK(k, sync_bench_value(&b) == i,
                  "the timeline reached %u and the fill it signals is not "
                  "visible",
                  (unsigned)i);
    }
    sync_bench_close(&b);
}

typedef struct late_signal {
    kit_plugin *p;
    clv_plugin_timeline *gate;
    _Atomic bool submitted;
    bool forced;
} late_signal;

/* Opens the gate once the submit has returned, or must be helped to. */
static void open_gate(kit *k, void *ctx)
{
    late_signal *s = ctx;
    uint64_t end = kit_now() + 1500 * KIT_MS;
    while (!atomic_load(&s->submitted) && kit_now() < end)
        kit_sleep(KIT_MS / 10);
    s->forced = !atomic_load(&s->submitted);
    KIT_OK(k, s->p->api.timeline_signal(s->gate, 1), "timeline_signal");
}

static void run_no_block(kit *k, const void *arg)
{
    kit_plugin *p = kit_under_test(k);
    clv_plugin_timeline *gate = kit_timeline(p, 0), *done = kit_timeline(p, 0);
    late_signal s = {.p = p, .gate = gate};
    uint32_t depth = p->info.queue_depth;
    uint32_t n = depth && depth < 16 ? depth : 16;
    kit_thread thread;
    (void)arg;
    kit_thread_start(k, &thread, open_gate, &s);
    uint64_t begin = kit_now();
    for (uint32_t i = 0; i < n; i++) {
        clv_timeline_point wait = kit_point(gate, 1),
                           end = kit_point(done, i + 1);
        KIT_OK(k, kit_try_submit(p, NULL, 0, &wait, &end, 0),
               "submit %u of %u (queue_depth %u)", i + 1, n, depth);
    }
    uint64_t took = kit_now() - begin;
    atomic_store(&s.submitted, true);
    kit_thread_join(&thread, "a thread that signals a timeline");
    KIT_CHECK(k, !s.forced && took < 1000 * KIT_MS,
              "%u submits took %llu ms while what they wait for was not "
              "reached (submit does not block)",
              n, (unsigned long long)(took / KIT_MS));
    kit_await(p, done, n, "submits that waited");
    kit_note(k, "a submit takes %.1f us", (double)took / n / 1e3);
    p->api.timeline_destroy(gate);
    p->api.timeline_destroy(done);
}

/* One queue is in order: each submit finds what the ones before it wrote. */
static void run_in_order(kit *k, const void *arg)
{
    enum { STEPS = 200 };
    sync_bench b = sync_bench_open(k);
    kit_plugin *p = b.p;
    clv_plugin_buffer *log = kit_buffer(p, b.type, STEPS * 4);
    uint32_t depth = p->info.queue_depth, seen[STEPS];
    (void)arg;
    for (uint32_t i = 0; i < STEPS; i++) {
        clv_command c[] = {kit_fill(b.buf, 0, 4, i + 1),
                           kit_copy(log, i * 4, b.buf, 0, 4)};
        clv_timeline_point end = kit_point(b.done, i + 1);
        if (depth && i >= depth)
            kit_await(p, b.done, i + 1 - depth, "earlier submits");
        KIT_OK(k, kit_try_submit(p, c, 2, NULL, &end, 0), "submit %u",
               (unsigned)i);
    }
    kit_await(p, b.done, STEPS, "a row of submits");
    kit_bytes_get(p, b.type, log, 0, seen, sizeof seen);
    for (uint32_t i = 0; i < STEPS; i++)
        KIT_CHECK(k, seen[i] == i + 1,
                  "submit %u copied the value of submit %u: commands run in "
                  "order, and submits one after the other",
                  (unsigned)i + 1, (unsigned)seen[i]);
    p->api.buffer_free(log);
    sync_bench_close(&b);
}

/* queue_depth submits are taken; the next is refused and harms nothing. */
static void run_depth(kit *k, const void *arg)
{
    kit_plugin *p = kit_under_test(k);
    uint32_t depth = p->info.queue_depth;
    (void)arg;
    if (!depth || depth > 4096) {
        kit_skip(k, "queue_depth is %u: no bound to try", (unsigned)depth);
        return;
    }
    clv_plugin_timeline *gate = kit_timeline(p, 0), *done = kit_timeline(p, 0);
    for (uint32_t round = 0; round < 2; round++) {
        clv_timeline_point wait = kit_point(gate, round + 1);
        uint64_t first = round * (uint64_t)depth;
        for (uint32_t i = 0; i < depth; i++) {
            clv_timeline_point end = kit_point(done, first + i + 1);
            KIT_OK(k, kit_try_submit(p, NULL, 0, &wait, &end, 0),
                   "submit %u of a queue_depth of %u", i + 1, depth);
        }
        clv_timeline_point over = kit_point(done, first + depth + 1);
        uint64_t begin = kit_now();
        kit_expect(k, kit_try_submit(p, NULL, 0, &wait, &over, 0),
                   CLV_ERR_LIMIT, "submit %u at a queue_depth of %u", depth + 1,
                   depth);
        KIT_CHECK(k, kit_now() - begin < 500 * KIT_MS,
                  "a submit to a full queue took %llu ms (it does not block)",
                  (unsigned long long)((kit_now() - begin) / KIT_MS));
        KIT_OK(k, p->api.timeline_signal(gate, round + 1), "timeline_signal");
        kit_await(p, done, first + depth, "a full queue");
        clv_timeline_info info = kit_query(p, done);
        KIT_CHECK(k, info.value == first + depth,
                  "the submit that was refused with CLV_ERR_LIMIT signalled "
                  "all the same");
    }
    p->api.timeline_destroy(gate);
    p->api.timeline_destroy(done);
}

/* Work that waits on work, two timelines in turn. */
static void run_chain(kit *k, const void *arg)
{
    enum { STEPS = 200 };
    kit_plugin *p = kit_under_test(k);
    clv_plugin_timeline *tl[2] = {kit_timeline(p, 0), kit_timeline(p, 0)};
    uint32_t depth = p->info.queue_depth;
    (void)arg;
    for (uint64_t i = 0; i < STEPS; i++) {
        clv_timeline_point wait = kit_point(tl[i % 2], (i + 1) / 2),
                           end = kit_point(tl[(i + 1) % 2], i / 2 + 1);
        if (depth && i >= depth) {
            uint64_t old = i - depth;
            kit_await(p, tl[(old + 1) % 2], old / 2 + 1, "earlier submits");
        }
        KIT_OK(k, kit_try_submit(p, NULL, 0, &wait, &end, 0),
               "submit %llu of a chain", (unsigned long long)i);
    }
    for (int i = 0; i < 2; i++) {
        kit_await(p, tl[i], STEPS / 2, "a chain of submits");
        KIT_CHECK(k, kit_query(p, tl[i]).value == STEPS / 2,
                  "a chain ended at another value");
        p->api.timeline_destroy(tl[i]);
    }
}

/* Device and a thread of the host in turn. */
typedef struct partner {
    kit_plugin *p;
    clv_plugin_timeline *tl[2];
    uint64_t rounds;
} partner;

static void partner_main(kit *k, void *ctx)
{
    partner *o = ctx;
    for (uint64_t i = 1; i <= o->rounds; i++) {
        KIT_OK(k, o->p->api.timeline_wait(o->tl[0], i, 1000, KIT_PATIENCE_NS),
               "waiting for the device's step %llu", (unsigned long long)i);
        KIT_OK(k, o->p->api.timeline_signal(o->tl[1], i), "timeline_signal");
    }
}

static void run_ping_pong(kit *k, const void *arg)
{
    enum { ROUNDS = 300 };
    kit_plugin *p = kit_under_test(k);
    uint64_t times[ROUNDS];
    kit_thread thread;
    (void)arg;
    partner o = {p, {kit_timeline(p, 0), kit_timeline(p, 0)}, ROUNDS};
    kit_thread_start(k, &thread, partner_main, &o);
    for (uint64_t i = 1; i <= ROUNDS; i++) {
        /* The device answers the thread, and the thread the device. */
        clv_timeline_point wait = kit_point(o.tl[1], i - 1),
                           end = kit_point(o.tl[0], i);
        uint64_t begin = kit_now();
        KIT_OK(k, kit_try_submit(p, NULL, 0, &wait, &end, 0), "submit");
        kit_await(p, o.tl[1], i, "the answer to a submit");
        times[i - 1] = kit_now() - begin;
    }
    kit_thread_join(&thread, "a thread that answers submits");
    sync_note_times(k, "submit, signal, wake, signal, wake", times, ROUNDS);
    p->api.timeline_destroy(o.tl[0]);
    p->api.timeline_destroy(o.tl[1]);
}

/* What the device wrote is there once its flag word says so. */
static void run_flag_data(kit *k, const void *arg)
{
    enum { ROUNDS = 300 };
    sync_bench b = sync_bench_open(k);
    kit_plugin *p = b.p;
    const uint64_t *flag = kit_query(p, b.done).flag;
    (void)arg;
    for (uint32_t i = 1; i <= ROUNDS; i++) {
        clv_command c = kit_fill(b.buf, 0, 4, i);
        clv_timeline_point end = kit_point(b.done, i);
        KIT_OK(k, kit_try_submit(p, &c, 1, NULL, &end, 0), "submit");
        uint64_t limit = kit_now() + KIT_PATIENCE_NS;
        while (__atomic_load_n(flag, __ATOMIC_ACQUIRE) < i) {
            KIT_CHECK(k, kit_now() < limit,
                      "the flag word does not reach %u (progress, timeline "
                      "value %llu)",
                      (unsigned)i,
                      (unsigned long long)kit_query(p, b.done).value);
            if (p->info.flags & CLV_DEVICE_NEEDS_PROGRESS)
                KIT_OK(k, p->api.progress(p->dev), "progress");
        }
        KIT_CHECK(k, sync_bench_value(&b) == i,
                  "the flag word is at %u, the fill before it reads as %u "
                  "(reaching a value means complete and visible)",
                  (unsigned)i, (unsigned)sync_bench_value(&b));
    }
    sync_bench_close(&b);
}

/* A timeline may go as soon as its value was seen, though the queue has not let
 * go of it; and while work that will signal it waits. */
static void run_early_destroy(kit *k, const void *arg)
{
    kit_plugin *p = kit_under_test(k);
    (void)arg;
    for (int i = 0; i < 500; i++) {
        clv_plugin_timeline *tl = kit_timeline(p, 0);
        clv_timeline_point end = kit_point(tl, 1);
        KIT_OK(k, kit_try_submit(p, NULL, 0, NULL, &end, 0), "submit %d", i);
        kit_await(p, tl, 1, "an empty submit");
        p->api.timeline_destroy(tl);
    }
    for (int i = 0; i < 50; i++) {
        clv_plugin_timeline *gate = kit_timeline(p, 0),
                            *lost = kit_timeline(p, 0),
                            *tl = kit_timeline(p, 0);
        clv_timeline_point wait = kit_point(gate, 1);
        clv_timeline_point ends[] = {kit_point(lost, 1), kit_point(tl, 1)};
        clv_submit s = {.header = {sizeof s, CLV_STRUCT_SUBMIT, NULL},
                        .waits = &wait,
                        .signals = ends,
                        .n_waits = 1,
                        .n_signals = 2,
                        .command_stride = sizeof(clv_command)};
        KIT_OK(k, p->api.submit(p->dev, &s), "submit %d", i);
        p->api.timeline_destroy(lost);
        KIT_OK(k, p->api.timeline_signal(gate, 1), "timeline_signal");
        p->api.timeline_destroy(gate);
        kit_await(p, tl, 1, "work with a timeline that was destroyed");
        p->api.timeline_destroy(tl);
    }
}

void sync_list_work(kit_list *l)
{
    const uint32_t sees = KIT_NEEDS_HOST_VISIBLE;
    kit_add(l, KIT_PER_DEVICE, sees, run_wait_first, NULL, "work.wait_first");
    kit_add(l, KIT_PER_DEVICE, 0, run_no_block, NULL, "work.no_block");
    kit_add(l, KIT_PER_DEVICE, sees, run_in_order, NULL, "work.in_order");
    kit_add(l, KIT_PER_DEVICE, 0, run_depth, NULL, "work.queue_depth");
    kit_add(l, KIT_PER_DEVICE, 0, run_chain, NULL, "work.chain");
    kit_add(l, KIT_PER_DEVICE, 0, run_ping_pong, NULL, "work.ping_pong");
    kit_add(l, KIT_PER_DEVICE, sees, run_flag_data, NULL, "work.flag_data");
    kit_add(l, KIT_PER_DEVICE, 0, run_early_destroy, NULL,
            "work.early_destroy");
    sync_list_failures(l);
}
