/* Queues for copies beside the work of queue 0. */
#include "sync.h"

#include <stdlib.h>
#include <string.h>

/* A submit to queue q is held back, others go on, in their order. */
static void check_beside(kit *k, sync_bench *b, uint32_t held, uint32_t free)
{
    kit_plugin *p = b->p;
    clv_plugin_buffer *other = kit_buffer(p, b->type, 8);
    clv_plugin_timeline *beside = kit_timeline(p, 0);
    clv_command fill = kit_fill(b->buf, 0, 4, 7),
                pair[] = {kit_fill(other, 0, 4, 9),
                          kit_copy(other, 4, other, 0, 4)};
    clv_timeline_point wait = kit_point(b->gate, 1),
                       end = kit_point(b->done, 1),
                       first = kit_point(beside, 1);
    uint32_t got[2] = {0, 0};
    KIT_OK(k, kit_submit_to(p, held, &fill, 1, &wait, &end, 0),
           "submit to queue %u", (unsigned)held);
    KIT_OK(k, kit_submit_to(p, free, pair, 2, NULL, &first, 0),
           "submit to queue %u", (unsigned)free);
    KIT_OK(k, kit_wait_for(p, beside, 1, KIT_PATIENCE_NS),
           "waiting for queue %u while queue %u waits (queues of a device run "
           "side by side)",
           (unsigned)free, (unsigned)held);
    kit_bytes_get(p, b->type, other, 0, got, sizeof got);
    KIT_CHECK(k, got[0] == 9 && got[1] == 9,
              "a fill and a copy of it in queue %u left %u and %u, not 9",
              (unsigned)free, (unsigned)got[0], (unsigned)got[1]);
    kit_expect(k, kit_wait_for(p, b->done, 1, 2 * KIT_MS), CLV_ERR_TIMEOUT,
               "waiting for queue %u, whose wait is not satisfied",
               (unsigned)held);
    KIT_CHECK(k, !sync_bench_value(b),
              "commands of queue %u ran before the point they wait for",
              (unsigned)held);
    KIT_OK(k, p->api.timeline_signal(b->gate, 1), "timeline_signal");
    kit_await(p, b->done, 1, "work that was held back");
    KIT_CHECK(k, sync_bench_value(b) == 7, "work that was held back is lost");
    p->api.timeline_destroy(beside);
    p->api.buffer_free(other);
}

static void run_beside(kit *k, const void *arg)
{
    const uint32_t n = kit_under_test(k)->info.copy_queues;
    (void)arg;
    for (uint32_t held = 0; held <= n; held++) {
        sync_bench b = sync_bench_open(k);
        check_beside(k, &b, held, held == n ? 0 : held + 1);
        sync_bench_close(&b);
    }
}

/* Without commands a submit follows its own queue, and none else. */
static void run_empty(kit *k, const void *arg)
{
    if (kit_under_test(k)->info.queue_depth == 1) {
        kit_skip(k, "a queue holds one submit");
        return;
    }
    sync_bench b = sync_bench_open(k);
    kit_plugin *p = b.p;
    clv_plugin_timeline *ends[2] = {kit_timeline(p, 0), kit_timeline(p, 0)};
    clv_command fill = kit_fill(b.buf, 0, 4, 7);
    clv_timeline_point wait = kit_point(b.gate, 1), end = kit_point(b.done, 1);
    (void)arg;
    KIT_OK(k, kit_submit_to(p, 1, &fill, 1, &wait, &end, 0),
           "submit to queue 1");
    for (uint32_t q = 0; q < 2; q++) {
        clv_timeline_point empty = kit_point(ends[q], 1);
        KIT_OK(k, kit_submit_to(p, q, NULL, 0, NULL, &empty, 0),
               "submit without commands to queue %u", (unsigned)q);
    }
    kit_await(p, ends[0], 1,
              "a submit without commands to queue 0, which is empty");
    kit_expect(k, kit_wait_for(p, ends[1], 1, 2 * KIT_MS), CLV_ERR_TIMEOUT,
               "waiting for a submit without commands behind one of its queue "
               "that is held back");
    KIT_OK(k, p->api.timeline_signal(b.gate, 1), "timeline_signal");
    kit_await(p, ends[1], 1, "a submit without commands");
    KIT_CHECK(k, kit_query(p, b.done).value == 1 && sync_bench_value(&b) == 7,
              "a submit without commands ended before the earlier one of its "
              "queue");
    p->api.timeline_destroy(ends[0]);
    p->api.timeline_destroy(ends[1]);
    sync_bench_close(&b);
}

/* Each step waits for the one before, in another queue, and finds what that
 * one wrote: words, and blocks that take a while. In one queue, arg NULL, the
 * order does. */
static void run_steps(kit *k, const void *arg)
{
    enum { STEPS = 120, BLOCK = 256 << 10 };
    sync_bench b = sync_bench_open(k);
    kit_plugin *p = b.p;
    clv_plugin_buffer *log = kit_buffer(p, b.type, STEPS * 4),
                      *block = kit_buffer(p, 0, BLOCK);
    const bool across = arg != NULL;
    const uint32_t depth = p->info.queue_depth, n = 1 + p->info.copy_queues;
    uint32_t seen[STEPS];
    for (uint32_t i = 0; i < STEPS; i++) {
        clv_command c[] = {kit_copy(log, i * 4, block, BLOCK - 4, 4),
                           kit_fill(block, 0, BLOCK, i + 1)};
        clv_timeline_point wait = kit_point(b.done, i),
                           end = kit_point(b.done, i + 1);
        if (depth && i >= depth)
            kit_await(p, b.done, i + 1 - depth, "earlier submits");
        KIT_OK(k,
               kit_submit_to(p, across ? i % n : 1, c, 2, across ? &wait : NULL,
                             &end, 0),
               "submit %u", (unsigned)i);
    }
    kit_await(p, b.done, STEPS, "a row of submits");
    kit_bytes_get(p, b.type, log, 0, seen, sizeof seen);
    for (uint32_t i = 1; i < STEPS; i++)
        KIT_CHECK(k, seen[i] == i, "step %u found the value of step %u: %s",
                  (unsigned)i + 1, (unsigned)seen[i],
                  across ? "it waits for the one before, in another queue"
                         : "submits of a queue run in their order");
    p->api.buffer_free(log);
    p->api.buffer_free(block);
    sync_bench_close(&b);
}

/* A program of queue 0 between a fill and a copy of its output in another. */
static void run_program(kit *k, const void *arg)
{
    enum { ROUNDS = 16 };
    char reason[KIT_TEXT_SIZE];
    kit_plugin *p = kit_under_test(k);
    kit_graph g;
    kit_program prog;
    uint32_t output, depth = p->info.queue_depth;
    (void)arg;
    if (!kit_any_graph(k, p, &g, 0, &output, reason)) {
        kit_skip(k, "%s", reason);
        return;
    }
    kit_program_make(&g, 0, false, &prog);
    kit_program_upload(&prog);
    clv_command run = kit_program_command(&prog);
    kit_do(p, &run, 1, "a program");
    kit_program_download(&prog);
    const uint32_t type = kit_visible_type(p);
    const uint64_t size = g.tensors[output].size, lead = prog.leads[output];
    clv_plugin_buffer *log = kit_buffer(p, type, ROUNDS * size),
                      *out = prog.buffers[output];
    clv_plugin_timeline *ran = kit_timeline(p, 0), *copied = kit_timeline(p, 0);
    for (uint32_t i = 0; i < ROUNDS; i++) {
        clv_command moves[] = {kit_copy(log, i * size, out, lead, size),
                               kit_fill(out, lead, size, 0x3c3c3c3c)};
        clv_timeline_point before = kit_point(copied, i),
                           between = kit_point(ran, i + 1),
                           after = kit_point(copied, i + 1);
        if (depth && i >= depth)
            kit_await(p, copied, i + 1 - depth, "earlier rounds");
        KIT_OK(k, kit_submit_to(p, 0, &run, 1, &before, &between, 0),
               "submit of a program");
        KIT_OK(k, kit_submit_to(p, 1, moves, 2, &between, &after, 0),
               "submit of a copy of its result");
    }
    kit_await(p, copied, ROUNDS, "programs and copies in turn");
    uint8_t *seen = malloc(ROUNDS * size);
    KIT_CHECK(k, seen, "no memory for the case");
    kit_bytes_get(p, type, log, 0, seen, ROUNDS * size);
    for (uint32_t i = 0; i < ROUNDS; i++)
        KIT_CHECK(k, !memcmp(seen + i * size, g.tensors[output].data, size),
                  "round %u: the result, copied by queue 1 after the program "
                  "of queue 0, is not the program's",
                  (unsigned)i + 1);
    free(seen);
    p->api.buffer_free(log);
    p->api.timeline_destroy(ran);
    p->api.timeline_destroy(copied);
    kit_program_free(&prog);
    kit_graph_free(&g);
}

/* Each queue holds queue_depth submits. */
static void run_depth(kit *k, const void *arg)
{
    kit_plugin *p = kit_under_test(k);
    const uint32_t depth = p->info.queue_depth, n = p->info.copy_queues;
    (void)arg;
    if (!depth || depth > 4096) {
        kit_skip(k, "queue_depth is %u: no bound to try", (unsigned)depth);
        return;
    }
    clv_plugin_timeline *gate = kit_timeline(p, 0);
    clv_plugin_timeline *done[2] = {kit_timeline(p, 0), kit_timeline(p, 0)};
    clv_timeline_point wait = kit_point(gate, 1);
    for (uint32_t q = 0; q < 2; q++) { /* the last one, then queue 0 */
        const uint32_t queue = q ? 0 : n;
        for (uint32_t i = 0; i < depth; i++) {
            clv_timeline_point end = kit_point(done[q], i + 1);
            KIT_OK(k, kit_submit_to(p, queue, NULL, 0, &wait, &end, 0),
                   "submit %u to queue %u at a queue_depth of %u",
                   (unsigned)i + 1, (unsigned)queue, (unsigned)depth);
        }
        clv_timeline_point over = kit_point(done[q], depth + 1);
        kit_expect(k, kit_submit_to(p, queue, NULL, 0, &wait, &over, 0),
                   CLV_ERR_LIMIT,
                   "submit %u to queue %u at a queue_depth of %u",
                   (unsigned)depth + 1, (unsigned)queue, (unsigned)depth);
    }
    KIT_OK(k, p->api.timeline_signal(gate, 1), "timeline_signal");
    for (uint32_t q = 0; q < 2; q++) {
        kit_await(p, done[q], depth, "a full queue");
        p->api.timeline_destroy(done[q]);
    }
    p->api.timeline_destroy(gate);
}

/* Large copies of bytes and of rows in copy queues, and small ones of queue 0
 * beside them: nothing is lost, whatever plugins cut them into. */
typedef struct large {
    kit *k;
    kit_plugin *p;
    uint8_t *data; /* [LARGE] */
    clv_plugin_buffer *host, *far, *back, *small;
    clv_plugin_timeline *copied, *aside;
} large;

enum {
    LARGE = 40000012,
    BYTES = LARGE - 5,
    ROW = 7001,
    PITCH = 8000,
    N_ROWS = LARGE / PITCH,
    PERIOD = 999983, /* of the data: a prime */
    SMALL = 64 << 10,
    N_SMALL = 16
};

static uint8_t *bytes(kit *k)
{
    uint8_t *data = malloc(LARGE);
    KIT_CHECK(k, data, "no memory for %d bytes", LARGE);
    return data;
}

/* By runs of bytes: one by one they take long, with sanitizers above all. */
static bool is_as_wanted(const uint8_t *got, const uint8_t *data, bool rows)
{
    static const uint8_t zero[PITCH];
    const uint64_t pitch = rows ? PITCH : LARGE, size = rows ? ROW : BYTES;
    for (uint64_t at = 0; at < LARGE; at += pitch) {
        const bool whole = at + pitch <= LARGE; /* else it is behind the rows */
        const uint64_t copied = whole ? size : 0;
        const uint64_t end = whole ? pitch : LARGE - at;
        if (memcmp(got + at, data + at, copied) ||
            memcmp(got + at + copied, zero, end - copied))
            return false;
    }
    return true;
}

static void check_large(large *l, uint32_t queue, bool rows, uint64_t turn)
{
    kit_plugin *p = l->p;
    clv_command copy = kit_copy(l->far, 0, l->host, 0, rows ? ROW : BYTES),
                zero = kit_fill(l->far, 0, LARGE, 0),
                aside = kit_copy(l->small, 0, l->host, 4, SMALL),
                back = kit_copy(l->back, 0, l->far, 0, LARGE);
    clv_timeline_point end = kit_point(l->copied, turn);
    copy.n_rows = rows ? N_ROWS : 0;
    copy.src_pitch = copy.dst_pitch = PITCH;
    kit_do(p, &zero, 1, "a fill");
    KIT_OK(l->k, kit_submit_to(p, queue, &copy, 1, NULL, &end, 0),
           "submit of a large copy to queue %u", (unsigned)queue);
    for (uint64_t i = 1; i <= N_SMALL; i++) {
        clv_timeline_point small = kit_point(l->aside, turn * N_SMALL + i);
        KIT_OK(l->k, kit_submit_to(p, 0, &aside, 1, NULL, &small, 0),
               "submit of a small copy beside a large one");
        kit_await(p, l->aside, small.value, "a small copy beside a large one");
    }
    kit_await(p, l->copied, turn, "a large copy");
    kit_do(p, &back, 1, "a copy back");
    uint8_t *got = bytes(l->k);
    kit_bytes_get(p, kit_visible_type(p), l->back, 0, got, LARGE);
    const bool good = is_as_wanted(got, l->data, rows);
    for (uint64_t i = 0; i < LARGE && !good; i++) {
        const bool copied =
            rows ? i % PITCH < ROW && i / PITCH < N_ROWS : i < BYTES;
        const uint8_t want = copied ? l->data[i] : 0;
        KIT_CHECK(l->k, got[i] == want,
                  "queue %u: byte %llu of a large copy of %s is %#x, not %#x",
                  (unsigned)queue, (unsigned long long)i,
                  rows ? "rows" : "bytes", got[i], want);
    }
    free(got);
}

/* For what run_large() allocates, if all of it were of that type. */
static bool has_room(const kit_plugin *p, uint32_t type)
{
    const clv_mem_type *t = &p->mem_types[type];
    return (!t->max_size || t->max_size >= LARGE) &&
           (!t->budget || t->budget >= 4ull * LARGE);
}

static void run_large(kit *k, const void *arg)
{
    kit_plugin *p = kit_under_test(k);
    const uint32_t visible = kit_visible_type(p);
    (void)arg;
    if (!has_room(p, 0) || !has_room(p, visible)) {
        kit_skip(k, "its memory is too small for a large copy");
        return;
    }
    large l = {k,
               p,
               bytes(k),
               kit_buffer(p, visible, LARGE),
               kit_buffer(p, 0, LARGE),
               kit_buffer(p, visible, LARGE),
               kit_buffer(p, 0, SMALL),
               kit_timeline(p, 0),
               kit_timeline(p, 0)};
    for (uint64_t i = 0; i < PERIOD; i++)
        l.data[i] = kit_pattern(i, 3);
    for (uint64_t at = PERIOD; at < LARGE; at += PERIOD)
        memcpy(l.data + at, l.data, LARGE - at < PERIOD ? LARGE - at : PERIOD);
    kit_bytes_put(p, visible, l.host, 0, l.data, LARGE);
    for (uint32_t q = 0; q <= p->info.copy_queues; q++) {
        check_large(&l, q, false, 2 * q + 1);
        if (p->info.flags & CLV_DEVICE_COPIES_ROWS)
            check_large(&l, q, true, 2 * q + 2);
    }
    p->api.timeline_destroy(l.copied);
    p->api.timeline_destroy(l.aside);
    p->api.buffer_free(l.host);
    p->api.buffer_free(l.far);
    p->api.buffer_free(l.back);
    p->api.buffer_free(l.small);
    free(l.data);
}

static void run_refused(kit *k, const void *arg)
{
    kit_plugin *p = kit_under_test(k);
    const uint32_t n = p->info.copy_queues;
    const uint32_t absent[] = {n + 1, n + 2, 1u << 16, UINT32_MAX};
    sync_bench b = sync_bench_open(k);
    clv_command c = kit_fill(b.buf, 0, 4, 1);
    clv_timeline_point end = kit_point(b.done, 1);
    char reason[KIT_TEXT_SIZE];
    kit_graph g;
    kit_program prog;
    uint32_t output;
    (void)arg;
    for (size_t i = 0; i < sizeof absent / sizeof *absent; i++)
        kit_expect(k, kit_submit_to(p, absent[i], &c, 1, NULL, &end, 0),
                   CLV_ERR_INVALID,
                   "submit to queue %u of a device with %u copy queues",
                   (unsigned)absent[i], (unsigned)n);
    if (kit_any_graph(k, p, &g, 0, &output, reason)) {
        kit_program_make(&g, 0, false, &prog);
        kit_program_upload(&prog);
        clv_command pair[] = {c, kit_program_command(&prog)};
        kit_expect(k, kit_submit_to(p, n, pair, 2, NULL, &end, 0),
                   CLV_ERR_INVALID,
                   "submit of a program to queue %u, which copies and fills "
                   "alone",
                   (unsigned)n);
        kit_program_free(&prog);
        kit_graph_free(&g);
    }
    kit_expect(k, kit_wait_for(p, b.done, 1, 2 * KIT_MS), CLV_ERR_TIMEOUT,
               "waiting for submits that were refused");
    KIT_CHECK(k, !sync_bench_value(&b), "a submit that was refused ran");
    sync_bench_close(&b);
}

/* What waits for a failure in another queue does not run and fails with it, and
 * the queue goes on. */
static void run_failure(kit *k, const void *arg)
{
    const uint32_t failing = arg ? 1 : 0, waiting = !failing;
    sync_bench b = sync_bench_open(k);
    kit_plugin *p = b.p;
    clv_plugin_timeline *next = kit_timeline(p, 0), *after = kit_timeline(p, 0);
    clv_command c = kit_fill(b.buf, 0, 4, ~0u);
    clv_timeline_point points[] = {kit_point(b.gate, 1), kit_point(b.done, 1),
                                   kit_point(next, 1), kit_point(after, 1)};
    KIT_OK(k, kit_submit_to(p, failing, &c, 1, &points[0], &points[1], 0),
           "submit to queue %u", (unsigned)failing);
    KIT_OK(k, kit_submit_to(p, waiting, &c, 1, &points[1], &points[2], 0),
           "submit to queue %u that waits for it", (unsigned)waiting);
    KIT_OK(k, p->api.timeline_fail(b.gate, CLV_ERR_IO, "no gate"),
           "timeline_fail");
    kit_expect(k, kit_wait_for(p, next, 1, KIT_PATIENCE_NS), CLV_ERR_IO,
               "waiting for work of queue %u that waits for work of queue %u "
               "that failed",
               (unsigned)waiting, (unsigned)failing);
    clv_timeline_info info = kit_query(p, next);
    KIT_CHECK(k, strstr(info.message, "no gate"),
              "a wait failed with \"no gate\"; the timeline of the work says "
              "\"%s\"",
              info.message);
    KIT_CHECK(k, !sync_bench_value(&b),
              "commands ran though the point they wait for failed");
    KIT_OK(k, kit_submit_to(p, waiting, &c, 1, NULL, &points[3], 0),
           "submit after a failure");
    kit_await(p, after, 1, "work after a failure that it does not wait for");
    KIT_CHECK(k, sync_bench_value(&b) == ~0u,
              "work after a failure did not run");
    p->api.timeline_destroy(next);
    p->api.timeline_destroy(after);
    sync_bench_close(&b);
}

void sync_list_queues(kit_list *l)
{
    static const int yes = 1;
    const uint32_t copies = KIT_NEEDS_COPY_QUEUES | KIT_NEEDS_HOST_VISIBLE;
    kit_add(l, KIT_PER_DEVICE, copies, run_refused, NULL, "queues.refused");
    kit_add(l, KIT_PER_DEVICE, copies, run_beside, NULL, "queues.beside");
    kit_add(l, KIT_PER_DEVICE, copies, run_empty, NULL, "queues.empty");
    kit_add(l, KIT_PER_DEVICE, copies, run_steps, NULL, "queues.in_order");
    kit_add(l, KIT_PER_DEVICE, copies, run_steps, &yes, "queues.waits");
    kit_add(l, KIT_PER_DEVICE, copies, run_program, NULL, "queues.program");
    kit_add(l, KIT_PER_DEVICE, copies, run_depth, NULL, "queues.depth");
    kit_add(l, KIT_PER_DEVICE, copies, run_large, NULL, "queues.large_copies");
    kit_add(l, KIT_PER_DEVICE, copies, run_failure, NULL,
            "queues.failure_of_work");
    kit_add(l, KIT_PER_DEVICE, copies, run_failure, &yes,
            "queues.failure_of_copy");
}
