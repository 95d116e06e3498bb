/* Waits that fail, words of other devices, submits that are wrong. */
#include "sync.h"

#include <string.h>

/* Work whose wait fails does not run; its signals fail with the same reason,
 * and so on down the line. */
static void run_failure_propagates(kit *k, const void *arg)
{
    sync_bench b = sync_bench_open(k);
    kit_plugin *p = b.p;
    clv_plugin_timeline *next = kit_timeline(p, 0), *after = kit_timeline(p, 0);
    clv_command c = kit_fill(b.buf, 0, 4, ~0u);
    clv_timeline_point points[] = {kit_point(b.gate, 1), kit_point(b.done, 1),
                                   kit_point(next, 1), kit_point(after, 1)};
    (void)arg;
    KIT_OK(k, kit_try_submit(p, &c, 1, &points[0], &points[1], 0), "submit");
    if (p->info.queue_depth != 1)
        KIT_OK(k, kit_try_submit(p, &c, 1, &points[1], &points[2], 0),
               "submit that waits for the first");
    KIT_OK(k, p->api.timeline_fail(b.gate, CLV_ERR_IO, "no gate"),
           "timeline_fail");
    kit_expect(k, kit_wait_for(p, b.done, 1, KIT_PATIENCE_NS), CLV_ERR_IO,
               "waiting for work whose wait failed with CLV_ERR_IO");
    clv_timeline_info info = kit_query(p, b.done);
    KIT_CHECK(k, strstr(info.message, "no gate"),
              "a wait failed with \"no gate\"; the timeline of the work says "
              "\"%s\"",
              info.message);
    if (p->info.queue_depth != 1)
        kit_expect(k, kit_wait_for(p, next, 1, KIT_PATIENCE_NS), CLV_ERR_IO,
                   "waiting for work that waits for work that failed");
    KIT_CHECK(k, sync_bench_value(&b) == 0,
              "commands ran though the point they wait for failed");
    /* The queue goes on with what has nothing to do with it. */
    KIT_OK(k, kit_try_submit(p, &c, 1, NULL, &points[3], 0),
           "submit after a failure");
    kit_await(p, after, 1, "work after a failure that it does not wait for");
    KIT_CHECK(k, sync_bench_value(&b) == ~0u,
              "work after a failure did not run");
    p->api.timeline_destroy(next);
    p->api.timeline_destroy(after);
    sync_bench_close(&b);
}

/* A timeline that fails while its work is under way fails what waits for it, of
 * which some may have been handed to the device meanwhile. */
static void run_failure_under_way(kit *k, const void *arg)
{
    enum { FILLS = 8 };
    kit_plugin *p = kit_under_test(k);
    clv_plugin_timeline *first = kit_timeline(p, 0), *next = kit_timeline(p, 0);
    clv_command fill = kit_long_fill(p);
    clv_timeline_point points[] = {kit_point(first, 1), kit_point(next, 1)};
    clv_command fills[FILLS];
    (void)arg;
    for (uint32_t i = 0; i < FILLS; i++)
        fills[i] = fill;
    KIT_OK(k, kit_try_submit(p, fills, FILLS, NULL, &points[0], 0), "submit");
    if (p->info.queue_depth != 1)
        KIT_OK(k, kit_try_submit(p, fills, 1, &points[0], &points[1], 0),
               "submit that waits for the first");
    kit_sleep(2 * KIT_MS);
    KIT_OK(k, p->api.timeline_fail(first, CLV_ERR_IO, "given up"),
           "timeline_fail of work under way");
    if (p->info.queue_depth == 1)
        kit_skip(k, "the queue holds one submit");
    else if (kit_query(p, first).value)
        kit_skip(k, "the work was done too soon");
    else
        kit_expect(k, kit_wait_for(p, next, 1, KIT_PATIENCE_NS), CLV_ERR_IO,
                   "waiting for work that waits for a timeline that failed");
    /* The memory is the device's until all is done. */
    clv_plugin_timeline *last = kit_timeline(p, 0);
    clv_timeline_point end = kit_point(last, 1);
    KIT_OK(k, kit_try_submit(p, fills, 1, NULL, &end, 0), "submit at last");
    kit_await(p, last, 1, "work after a failure that it does not wait for");
    p->api.buffer_free(fill.dst);
    p->api.timeline_destroy(first);
    p->api.timeline_destroy(next);
    p->api.timeline_destroy(last);
}

/* Work that fails behind a line of work that is under way. */
static void run_failure_in_line(kit *k, const void *arg)
{
    enum { SLOW = 12, FAILING = 8 };
    kit_plugin *p = kit_under_test(k);
    (void)arg;
    if (p->info.queue_depth && p->info.queue_depth < SLOW + FAILING) {
        kit_skip(k, "the queue holds fewer than %d submits", SLOW + FAILING);
        return;
    }
    clv_plugin_timeline *gate = kit_timeline(p, 0), *done = kit_timeline(p, 0);
    clv_plugin_timeline *failed[FAILING];
    clv_command fill = kit_long_fill(p);
    clv_timeline_point wait = kit_point(gate, 1);
    KIT_OK(k, p->api.timeline_fail(gate, CLV_ERR_IO, "no gate"),
           "timeline_fail");
    for (uint32_t i = 0; i < SLOW; i++) {
        clv_timeline_point end = kit_point(done, i + 1);
        KIT_OK(k, kit_try_submit(p, &fill, 1, NULL, &end, 0), "submit");
    }
    for (uint32_t i = 0; i < FAILING; i++) {
        failed[i] = kit_timeline(p, 0);
        clv_timeline_point end = kit_point(failed[i], 1);
        KIT_OK(k, kit_try_submit(p, &fill, 1, &wait, &end, 0),
               "submit that waits for what has failed");
    }
    for (uint32_t i = 0; i < FAILING; i++) {
        kit_expect(k, kit_wait_for(p, failed[i], 1, KIT_PATIENCE_NS),
                   CLV_ERR_IO, "waiting for work whose wait has failed");
        p->api.timeline_destroy(failed[i]);
    }
    kit_await(p, done, SLOW, "the work before it");
    p->api.buffer_free(fill.dst);
    p->api.timeline_destroy(gate);
    p->api.timeline_destroy(done);
}

/* Words that another device, here the host, writes. */
static void run_foreign(kit *k, const void *arg)
{
    static _Alignas(64) uint64_t word;
    kit_plugin *p = kit_under_test(k);
    (void)arg;
    if (!(p->info.flags & CLV_DEVICE_FLAG_WAIT)) {
        kit_skip(k, "the device does not wait on flag words");
        return;
    }
    sync_bench b = sync_bench_open(k);
    for (uint32_t fails = 0; fails < 2; fails++) {
        __atomic_store_n(&word, 6, __ATOMIC_RELEASE);
        clv_command c = kit_fill(b.buf, 0, 4, 11 + fails);
        clv_timeline_point wait = {.flag = &word, .value = 7},
                           end = kit_point(b.done, fails + 1);
        KIT_OK(k, kit_try_submit(p, &c, 1, &wait, &end, 0),
               "submit that waits for a flag word");
        kit_expect(k, kit_wait_for(p, b.done, fails + 1, 5 * KIT_MS),
                   CLV_ERR_TIMEOUT,
                   "waiting for work whose flag word is at 6 "
                   "of 7");
        KIT_CHECK(k, sync_bench_value(&b) == fails * 11,
                  "commands ran before the flag word they wait for had its "
                  "value");
        __atomic_store_n(&word, fails ? CLV_FLAG_FAILED | 9 : 8,
                         __ATOMIC_RELEASE);
        clv_status status = kit_wait_for(p, b.done, fails + 1, KIT_PATIENCE_NS);
        if (fails)
            KIT_CHECK(k, status && status != CLV_ERR_TIMEOUT,
                      "work that waits for a flag word with its top bit set "
                      "answers %d",
                      (int)status);
        else
            KIT_OK(k, status, "work whose flag word passed the value");
    }
    KIT_CHECK(k, sync_bench_value(&b) == 11,
              "commands ran though the flag word they wait for failed");
    sync_bench_close(&b);
}

/* Submits that break the contract are refused whole. */
static void run_bad_submits(kit *k, const void *arg)
{
    sync_bench b = sync_bench_open(k);
    kit_plugin *p = b.p;
    clv_command c = kit_fill(b.buf, 0, 4, 1), unknown = c;
    clv_timeline_point nothing = {.value = 1}, end = kit_point(b.done, 1),
                       high = kit_point(b.done, CLV_FLAG_FAILED);
    (void)arg;
    kit_expect(k, kit_try_submit(p, &c, 1, &nothing, &end, 0), CLV_ERR_INVALID,
               "submit with a wait that names no timeline and no flag word");
    kit_expect(k, kit_try_submit(p, &c, 1, NULL, &nothing, 0), CLV_ERR_INVALID,
               "submit with a signal that names no timeline");
    kit_expect(k, kit_try_submit(p, &c, 1, NULL, &high, 0), CLV_ERR_INVALID,
               "submit that signals 2^63");
    unknown.kind = 99;
    clv_command pair[] = {c, unknown};
    kit_expect(k, kit_try_submit(p, pair, 2, NULL, &end, 0),
               CLV_ERR_UNSUPPORTED, "submit with a command of unknown kind 99");
    clv_header extension = {sizeof extension, CLV_STRUCT_REQUIRED | 77, NULL};
    pair[1] = c;
    pair[1].header.next = &extension;
    kit_expect(k, kit_try_submit(p, pair, 2, NULL, &end, 0),
               CLV_ERR_UNSUPPORTED,
               "submit with a command that requires an unknown extension");
    kit_expect(k, kit_wait_for(p, b.done, 1, 2 * KIT_MS), CLV_ERR_TIMEOUT,
               "waiting for submits that were refused");
    KIT_CHECK(k, sync_bench_value(&b) == 0,
              "a submit that was refused ran the "
              "commands before the wrong one");
    sync_bench_close(&b);
}

void sync_list_failures(kit_list *l)
{
    const uint32_t sees = KIT_NEEDS_HOST_VISIBLE;
    kit_add(l, KIT_PER_DEVICE, sees, run_failure_propagates, NULL,
            "work.failure_propagates");
    kit_add(l, KIT_PER_DEVICE, sees, run_failure_under_way, NULL,
            "work.failure_under_way");
    kit_add(l, KIT_PER_DEVICE, sees, run_failure_in_line, NULL,
            "work.failure_in_line");
    kit_add(l, KIT_PER_DEVICE, sees, run_foreign, NULL, "work.foreign_flag");
    kit_add(l, KIT_PER_DEVICE, sees, run_bad_submits, NULL, "work.bad_submits");
}
