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

/* Words that another device, here the host, writes. */
static void run_foreign(kit *k, const void *arg)
{
    static _Alignas(64) uint64_t word;
    kit_plugin *p = kit_subject(k);
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
    kit_add(l, KIT_PER_DEVICE, sees, run_foreign, NULL, "work.foreign_flag");
    kit_add(l, KIT_PER_DEVICE, sees, run_bad_submits, NULL, "work.bad_submits");
}
