/* Timelines and flag words by themselves; sync_work.c has them with work. */
#include "sync.h"

#include <string.h>

static void run_values(kit *k, const void *arg)
{
    kit_plugin *p = kit_under_test(k);
    const clv_plugin_api *api = &p->api;
    (void)arg;
    clv_plugin_timeline *tl = kit_timeline(p, 5);
    clv_timeline_info info = kit_query(p, tl);
    KIT_CHECK(k, info.value == 5 && !info.status,
              "a timeline created at 5 is at %llu with status %d",
              (unsigned long long)info.value, (int)info.status);
    KIT_OK(k, api->timeline_wait(tl, 5, 0, 0), "a wait for the start value");
    KIT_OK(k, api->timeline_wait(tl, 0, 0, 0), "a wait for a lower value");
    KIT_OK(k, api->timeline_signal(tl, 9), "timeline_signal from 5 to 9");
    info = kit_query(p, tl);
    KIT_CHECK(k, info.value == 9, "after timeline_signal of 9 it is at %llu",
              (unsigned long long)info.value);
    KIT_OK(k, api->timeline_wait(tl, 7, 0, 0), "a wait for a value passed");
    KIT_OK(k, api->timeline_signal(tl, CLV_FLAG_FAILED - 1),
           "timeline_signal of 2^63 - 1");
    kit_query(p, tl);
    api->timeline_destroy(tl);
}

static void run_backwards(kit *k, const void *arg)
{
    kit_plugin *p = kit_under_test(k);
    clv_plugin_timeline *tl = kit_timeline(p, 9), *bad = NULL;
    static const uint64_t values[] = {
        9, 8, 0, CLV_FLAG_FAILED, CLV_FLAG_FAILED | 10, UINT64_MAX};
    (void)arg;
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        kit_expect(k, p->api.timeline_signal(tl, values[i]), CLV_ERR_INVALID,
                   "timeline_signal of %#llx at 9 (value above the present "
                   "one, below 2^63)",
                   (unsigned long long)values[i]);
        clv_timeline_info info = kit_query(p, tl);
        KIT_CHECK(k, info.value == 9 && !info.status,
                  "a refused signal of %#llx left the timeline at %llu with "
                  "status %d, it was at 9",
                  (unsigned long long)values[i], (unsigned long long)info.value,
                  (int)info.status);
    }
    p->api.timeline_destroy(tl);
    kit_expect(k, p->api.timeline_create(p->dev, CLV_FLAG_FAILED, &bad),
               CLV_ERR_INVALID, "timeline_create at 2^63 (values stay below)");
    KIT_CHECK(k, !bad, "a refused timeline_create gives a timeline");
}

/* Waits end when asked: not before, and soon after. */
static void run_timeout(kit *k, const void *arg)
{
    static const struct {
        uint64_t spin, timeout;
    } waits[] = {{0, 0},
                 {UINT64_MAX, 0},
                 {0, 30 * KIT_MS},
                 {2 * KIT_MS, 20 * KIT_MS},
                 {UINT64_MAX, 10 * KIT_MS}};
    kit_plugin *p = kit_under_test(k);
    clv_plugin_timeline *tl = kit_timeline(p, 0);
    uint64_t latest = 0;
    (void)arg;
    for (size_t i = 0; i < sizeof waits / sizeof *waits; i++) {
        uint64_t begin = kit_now();
        kit_expect(k,
                   p->api.timeline_wait(tl, 1, waits[i].spin, waits[i].timeout),
                   CLV_ERR_TIMEOUT,
                   "timeline_wait of %llu ns for a value "
                   "that nobody signals",
                   (unsigned long long)waits[i].timeout);
        uint64_t took = kit_now() - begin;
        KIT_CHECK(k, took >= waits[i].timeout,
                  "timeline_wait of %llu ns ended after %llu",
                  (unsigned long long)waits[i].timeout,
                  (unsigned long long)took);
        uint64_t late = took - waits[i].timeout;
        KIT_CHECK(k, late < 1000 * KIT_MS,
                  "timeline_wait of %llu ns ended %llu ms late (timeout_ns)",
                  (unsigned long long)waits[i].timeout,
                  (unsigned long long)(late / KIT_MS));
        latest = late > latest ? late : latest;
    }
    clv_timeline_info info = kit_query(p, tl);
    KIT_CHECK(k, !info.status && !info.value,
              "waits that timed out left status %d, value %llu",
              (int)info.status, (unsigned long long)info.value);
    kit_note(k, "at most %llu us late", (unsigned long long)latest / 1000);
    p->api.timeline_destroy(tl);
}

static void run_failure_sticks(kit *k, const void *arg)
{
    kit_plugin *p = kit_under_test(k);
    const clv_plugin_api *api = &p->api;
    clv_plugin_timeline *tl = kit_timeline(p, 3);
    (void)arg;
    kit_expect(k, api->timeline_fail(tl, CLV_OK, "fine"), CLV_ERR_INVALID,
               "timeline_fail with CLV_OK");
    KIT_CHECK(k, !kit_query(p, tl).status,
              "timeline_fail with CLV_OK failed the timeline");
    KIT_OK(k, api->timeline_fail(tl, CLV_ERR_IO, "first failure"),
           "timeline_fail");
    KIT_OK(k, api->timeline_fail(tl, CLV_ERR_FORMAT, "second failure"),
           "timeline_fail of a failed timeline (later calls are ignored)");
    clv_timeline_info info = kit_query(p, tl);
    KIT_CHECK(
        k, info.status == CLV_ERR_IO && !strcmp(info.message, "first failure"),
        "failed with %d \"first failure\", then again; it answers %d "
        "\"%s\" (the first failure is kept)",
        CLV_ERR_IO, (int)info.status, info.message);
    KIT_CHECK(k, info.value == 3, "failing moved the timeline from 3 to %llu",
              (unsigned long long)info.value);
    KIT_CHECK(k,
              __atomic_load_n(info.flag, __ATOMIC_ACQUIRE) ==
                  (CLV_FLAG_FAILED | 3),
              "the flag word of a timeline that failed at 3 is not 2^63 + 3");
    kit_expect(k, api->timeline_wait(tl, 4, 0, 0), CLV_ERR_IO,
               "timeline_wait on a failed timeline (answers its own status)");
    kit_expect(k, api->timeline_wait(tl, 1, 0, 0), CLV_ERR_IO,
               "timeline_wait for a value reached before the failure");
    kit_expect(k, api->timeline_wait(tl, 99, 0, KIT_PATIENCE_NS), CLV_ERR_IO,
               "a long timeline_wait on a failed timeline");
    kit_expect(k, api->timeline_signal(tl, 9), CLV_ERR_IO,
               "timeline_signal of a failed timeline");
    KIT_CHECK(k, kit_query(p, tl).status == CLV_ERR_IO,
              "a failed timeline did not stay failed");
    api->timeline_destroy(tl);
    char text[400];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = 0;
    tl = kit_timeline(p, 0);
    KIT_OK(k, api->timeline_fail(tl, CLV_ERR_INTERNAL, text),
           "timeline_fail with a long message");
    info = kit_query(p, tl);
    KIT_CHECK(k, info.message[0] == 'x',
              "a message longer than the field is lost, not cut");
    api->timeline_destroy(tl);
}

/* --- several threads ------------------------------------------------------ */

typedef struct waiter {
    kit_plugin *p;
    clv_plugin_timeline *tl;
    uint64_t value, spin;
    clv_status status;
} waiter;

static void wait_main(kit *k, void *ctx)
{
    waiter *w = ctx;
    (void)k;
    w->status =
        w->p->api.timeline_wait(w->tl, w->value, w->spin, KIT_PATIENCE_NS);
}

enum { WAITERS = 4 };

/* Threads that block in a wait wake when it moves and when it fails. */
static void run_wake(kit *k, const void *arg)
{
    bool fails = arg != NULL;
    kit_plugin *p = kit_under_test(k);
    clv_plugin_timeline *tl = kit_timeline(p, 0);
    waiter w[WAITERS];
    kit_thread threads[WAITERS];
    for (uint32_t i = 0; i < WAITERS; i++) {
        w[i] = (waiter){p, tl, 1 + i / 2, i % 2 ? 2000 : 0, 1};
        kit_thread_start(k, &threads[i], wait_main, &w[i]);
    }
    kit_sleep(10 * KIT_MS);
    uint64_t begin = kit_now();
    if (fails)
        KIT_OK(k, p->api.timeline_fail(tl, CLV_ERR_IO, "broken"),
               "timeline_fail");
    else
        KIT_OK(k, p->api.timeline_signal(tl, 2), "timeline_signal");
    for (uint32_t i = 0; i < WAITERS; i++) {
        kit_thread_join(&threads[i], "a thread that waits on a timeline");
        KIT_CHECK(k, w[i].status == (fails ? CLV_ERR_IO : CLV_OK),
                  "waiter %u of %u answers %d when its timeline %s", i, WAITERS,
                  (int)w[i].status, fails ? "fails with CLV_ERR_IO" : "moves");
    }
    uint64_t took = kit_now() - begin;
    KIT_CHECK(k, took < 2000 * KIT_MS,
              "waiters woke %llu ms after the timeline %s",
              (unsigned long long)(took / KIT_MS), fails ? "failed" : "moved");
    p->api.timeline_destroy(tl);
}

enum { STEPS = 5000 };

typedef struct flag_reader {
    const uint64_t *flag;
    const uint32_t *data; /* [STEPS + 1], each written before its signal */
} flag_reader;

/* The flag word alone orders the data behind it, and only rises. */
static void read_main(kit *k, void *ctx)
{
    flag_reader *r = ctx;
    uint64_t seen = 0, end = kit_now() + KIT_PATIENCE_NS;
    while (seen < STEPS) {
        uint64_t word = __atomic_load_n(r->flag, __ATOMIC_ACQUIRE);
        KIT_CHECK(k, word >= seen, "the flag word went from %llu back to %llu",
                  (unsigned long long)seen, (unsigned long long)word);
        KIT_CHECK(k, word <= STEPS,
                  "the flag word reads %#llx, the highest value signalled is "
                  "%d",
                  (unsigned long long)word, STEPS);
        KIT_CHECK(k, r->data[word] == word,
                  "the flag word says %llu while data written before that "
                  "signal reads as %u (release ordering)",
                  (unsigned long long)word, (unsigned)r->data[word]);
        seen = word;
        KIT_CHECK(k, kit_now() < end,
                  "the flag word stays at %llu, the timeline was signalled up "
                  "to %d",
                  (unsigned long long)word, STEPS);
    }
}

static void run_flag_order(kit *k, const void *arg)
{
    kit_plugin *p = kit_under_test(k);
    clv_plugin_timeline *tl = kit_timeline(p, 0);
    uint32_t data[STEPS + 1] = {0};
    flag_reader reader = {kit_query(p, tl).flag, data};
    kit_thread thread;
    (void)arg;
    kit_thread_start(k, &thread, read_main, &reader);
    for (uint32_t i = 1; i <= STEPS; i++) {
        data[i] = i;
        KIT_OK(k, p->api.timeline_signal(tl, i), "timeline_signal of %u",
               (unsigned)i);
    }
    kit_thread_join(&thread, "a thread that polls the flag word");
    p->api.timeline_destroy(tl);
}

/* Pollers of one timeline are not slowed by another's writes. */
static void run_flag_lines(kit *k, const void *arg)
{
    enum { N = 64 };
    kit_plugin *p = kit_under_test(k);
    clv_plugin_timeline *tl[N];
    const uint64_t *flags[N];
    (void)arg;
    for (int i = 0; i < N; i++) {
        tl[i] = kit_timeline(p, (uint64_t)i);
        flags[i] = kit_query(p, tl[i]).flag;
        for (int j = 0; j < i; j++)
            KIT_CHECK(k, (uintptr_t)flags[i] / 64 != (uintptr_t)flags[j] / 64,
                      "the flag words of two timelines share a cache line");
    }
    for (int i = 0; i < N; i++) {
        KIT_CHECK(k, kit_query(p, tl[i]).value == (uint64_t)i,
                  "timeline %d of %d is not at its start value", i, N);
        KIT_CHECK(k, kit_query(p, tl[i]).flag == flags[i],
                  "a timeline's flag word moved (valid while it lives)");
        p->api.timeline_destroy(tl[i]);
    }
}

/* --- latency -------------------------------------------------------------- */

typedef struct echo {
    kit_plugin *p;
    clv_plugin_timeline *tl[2];
    uint64_t rounds;
} echo;

static void echo_main(kit *k, void *ctx)
{
    echo *e = ctx;
    for (uint64_t i = 1; i <= e->rounds; i++) {
        KIT_OK(k, e->p->api.timeline_wait(e->tl[0], i, 0, KIT_PATIENCE_NS),
               "waiting for step %llu of the other thread",
               (unsigned long long)i);
        KIT_OK(k, e->p->api.timeline_signal(e->tl[1], i), "timeline_signal");
    }
}

/* Half a round trip between two threads that block. */
static void run_latency(kit *k, const void *arg)
{
    enum { ROUNDS = 400 };
    kit_plugin *p = kit_under_test(k);
    uint64_t times[ROUNDS];
    kit_thread thread;
    (void)arg;
    echo e = {p, {kit_timeline(p, 0), kit_timeline(p, 0)}, ROUNDS};
    kit_thread_start(k, &thread, echo_main, &e);
    for (uint64_t i = 1; i <= ROUNDS; i++) {
        uint64_t begin = kit_now();
        KIT_OK(k, p->api.timeline_signal(e.tl[0], i), "timeline_signal");
        KIT_OK(k, p->api.timeline_wait(e.tl[1], i, 0, KIT_PATIENCE_NS),
               "waiting for the other thread's step %llu",
               (unsigned long long)i);
        times[i - 1] = (kit_now() - begin) / 2;
    }
    kit_thread_join(&thread, "a thread that answers signals");
    sync_note_times(k, "from host signal to wake", times, ROUNDS);
    p->api.timeline_destroy(e.tl[0]);
    p->api.timeline_destroy(e.tl[1]);
}

static void list(kit_list *l)
{
    static const int fails = 1;
    kit_add(l, KIT_PER_DEVICE, 0, run_values, NULL, "timeline.values");
    kit_add(l, KIT_PER_DEVICE, 0, run_backwards, NULL, "timeline.backwards");
    kit_add(l, KIT_PER_DEVICE, 0, run_timeout, NULL, "timeline.timeout");
    kit_add(l, KIT_PER_DEVICE, 0, run_failure_sticks, NULL,
            "timeline.failure_sticks");
    kit_add(l, KIT_PER_DEVICE, 0, run_wake, NULL, "timeline.wake_on_signal");
    kit_add(l, KIT_PER_DEVICE, 0, run_wake, &fails, "timeline.wake_on_failure");
    kit_add(l, KIT_PER_DEVICE, 0, run_latency, NULL, "timeline.latency");
    kit_add(l, KIT_PER_DEVICE, 0, run_flag_order, NULL, "flag.order");
    kit_add(l, KIT_PER_DEVICE, 0, run_flag_lines, NULL, "flag.lines");
    sync_list_work(l);
    sync_list_queues(l);
}

const kit_group kit_group_sync = {
    "sync", "Synchronisation: timelines, flag words, order of work", list};
