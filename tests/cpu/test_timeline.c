/* Timelines and the queue: order, waits, failures, flag words. */
#include "harness.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#define MS 1000000ull

static plugin p;

static clv_plugin_timeline *timeline(uint64_t value)
{
    clv_plugin_timeline *tl = NULL;
    assert_int_equal(p.api->timeline_create(p.dev, value, &tl), CLV_OK);
    return tl;
}

static clv_timeline_info query(clv_plugin_timeline *tl)
{
    clv_timeline_info info = {
        .header = {sizeof info, CLV_STRUCT_TIMELINE_INFO, NULL}};
    assert_int_equal(p.api->timeline_query(tl, &info), CLV_OK);
    assert_int_equal((uintptr_t)info.flag % 64, 0);
    uint64_t word = __atomic_load_n(info.flag, __ATOMIC_ACQUIRE);
    assert_true((word & ~CLV_FLAG_FAILED) >= info.value);
    if (info.status)
        assert_true(word & CLV_FLAG_FAILED);
    return info;
}

static clv_plugin_buffer *buffer(uint64_t size)
{
    clv_plugin_buffer *buf = NULL;
    assert_int_equal(p.api->buffer_alloc(p.dev, 0, size, &buf), CLV_OK);
    return buf;
}

static unsigned char *map(clv_plugin_buffer *buf)
{
    void *ptr = NULL;
    assert_int_equal(
        p.api->buffer_map(buf, CLV_ACCESS_READ | CLV_ACCESS_WRITE, &ptr),
        CLV_OK);
    return ptr;
}

static clv_command fill(clv_plugin_buffer *dst, uint64_t offset, uint64_t size,
                        uint32_t pattern)
{
    return (clv_command){.header = {sizeof(clv_command), CLV_STRUCT_COMMAND,
                                    NULL},
                         .kind = CLV_COMMAND_FILL,
                         .dst = dst,
                         .dst_offset = offset,
                         .size = size,
                         .pattern = pattern};
}

static clv_command copy(clv_plugin_buffer *dst, uint64_t dst_offset,
                        clv_plugin_buffer *src, uint64_t src_offset,
                        uint64_t size)
{
    return (clv_command){.header = {sizeof(clv_command), CLV_STRUCT_COMMAND,
                                    NULL},
                         .kind = CLV_COMMAND_COPY,
                         .src = src,
                         .dst = dst,
                         .src_offset = src_offset,
                         .dst_offset = dst_offset,
                         .size = size};
}

static clv_status submit(const clv_command *commands, uint32_t n,
                         const clv_timeline_point *wait,
                         const clv_timeline_point *signal)
{
    clv_submit s = {.header = {sizeof s, CLV_STRUCT_SUBMIT, NULL},
                    .commands = commands,
                    .waits = wait,
                    .signals = signal,
                    .n_commands = n,
                    .command_stride = sizeof *commands,
                    .n_waits = wait != NULL,
                    .n_signals = signal != NULL};
    return p.api->submit(p.dev, &s);
}

static void pause_ms(long ms)
{
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

static void test_host_signal(void **state)
{
    (void)state;
    clv_plugin_timeline *tl = timeline(5);
    assert_int_equal(query(tl).value, 5);
    assert_int_equal(p.api->timeline_wait(tl, 5, 0, 0), CLV_OK);
    assert_int_equal(p.api->timeline_signal(tl, 9), CLV_OK);
    assert_int_equal(query(tl).value, 9);
    assert_int_equal(p.api->timeline_wait(tl, 7, 0, 0), CLV_OK);
    assert_int_equal(p.api->timeline_signal(tl, 9), CLV_ERR_INVALID);
    assert_int_equal(p.api->timeline_signal(tl, 8), CLV_ERR_INVALID);
    assert_int_equal(p.api->timeline_signal(tl, CLV_FLAG_FAILED),
                     CLV_ERR_INVALID);
    assert_int_equal(query(tl).value, 9);
    p.api->timeline_destroy(tl);
    clv_plugin_timeline *bad = NULL;
    assert_int_equal(p.api->timeline_create(p.dev, CLV_FLAG_FAILED, &bad),
                     CLV_ERR_INVALID);
}

static void test_timeout(void **state)
{
    (void)state;
    clv_plugin_timeline *tl = timeline(0);
    struct timespec a, b;
    clock_gettime(CLOCK_MONOTONIC, &a);
    assert_int_equal(p.api->timeline_wait(tl, 1, 0, 0), CLV_ERR_TIMEOUT);
    assert_int_equal(p.api->timeline_wait(tl, 1, 2 * MS, 30 * MS),
                     CLV_ERR_TIMEOUT);
    assert_int_equal(p.api->timeline_wait(tl, 1, UINT64_MAX, 5 * MS),
                     CLV_ERR_TIMEOUT);
    clock_gettime(CLOCK_MONOTONIC, &b);
    int64_t ms = (b.tv_sec - a.tv_sec) * 1000 +
                 (b.tv_nsec - a.tv_nsec) / 1000000;
    assert_true(ms >= 34);
    assert_non_null(strstr(p.host.error, "wait longer"));
    assert_int_equal(query(tl).status, CLV_OK);
    p.api->timeline_destroy(tl);
}

static void test_failure_sticks(void **state)
{
    (void)state;
    clv_plugin_timeline *tl = timeline(3);
    assert_int_equal(p.api->timeline_fail(tl, CLV_OK, ""), CLV_ERR_INVALID);
    assert_int_equal(p.api->timeline_fail(tl, CLV_ERR_DEVICE_LOST, "first"),
                     CLV_OK);
    assert_int_equal(p.api->timeline_fail(tl, CLV_ERR_IO, "second"), CLV_OK);
    clv_timeline_info info = query(tl);
    assert_int_equal(info.status, CLV_ERR_DEVICE_LOST);
    assert_string_equal(info.message, "first");
    assert_int_equal(info.value, 3);
    assert_int_equal(p.api->timeline_wait(tl, 1, 0, 0), CLV_ERR_DEVICE_LOST);
    assert_int_equal(p.api->timeline_wait(tl, 9, 0, UINT64_MAX),
                     CLV_ERR_DEVICE_LOST);
    assert_string_equal(p.host.error, "first");
    assert_int_equal(p.api->timeline_signal(tl, 9), CLV_ERR_DEVICE_LOST);
    p.api->timeline_destroy(tl);
}

typedef struct waiter {
    clv_plugin_timeline *tl;
    clv_status status;
} waiter;

static void *wait_main(void *ctx)
{
    waiter *w = ctx;
    w->status = p.api->timeline_wait(w->tl, 1, 1000, UINT64_MAX);
    return NULL;
}

/* Blocked waiters wake, whether the timeline moves or fails. */
static void test_wake(void **state)
{
    (void)state;
    for (int fails = 0; fails < 2; fails++) {
        waiter w[4];
        pthread_t threads[4];
        clv_plugin_timeline *tl = timeline(0);
        for (int i = 0; i < 4; i++) {
            w[i] = (waiter){.tl = tl, .status = 1};
            pthread_create(&threads[i], NULL, wait_main, &w[i]);
        }
        pause_ms(10);
        if (fails)
            p.api->timeline_fail(tl, CLV_ERR_IO, "broken");
        else
            p.api->timeline_signal(tl, 2);
        for (int i = 0; i < 4; i++) {
            pthread_join(threads[i], NULL);
            assert_int_equal(w[i].status, fails ? CLV_ERR_IO : CLV_OK);
        }
        p.api->timeline_destroy(tl);
    }
}

static void test_copy_fill(void **state)
{
    enum { SIZE = 5 * 1024 * 1024 + 3 };
    (void)state;
    clv_plugin_buffer *a = buffer(SIZE), *b = buffer(SIZE);
    unsigned char *pa = map(a), *pb = map(b);
    memset(pa, 1, SIZE);
    memset(pb, 2, SIZE);
    clv_command commands[] = {
        fill(a, 1, SIZE - 1, 0x04030201),
        copy(b, 0, a, 1, SIZE - 2),
        copy(b, 100, b, 0, 3 * 1024 * 1024), /* overlapping */
    };
    clv_plugin_timeline *tl = timeline(0);
    clv_timeline_point done = {.timeline = tl, .value = 7};
    assert_int_equal(submit(commands, 3, NULL, &done), CLV_OK);
    assert_int_equal(p.api->timeline_wait(tl, 7, 0, UINT64_MAX), CLV_OK);
    assert_int_equal(pa[0], 1);
    int wrong = 0;
    for (int i = 1; i < SIZE; i++)
        wrong += pa[i] != (i - 1) % 4 + 1;
    for (int i = 0; i < SIZE - 2; i++) {
        bool moved = i >= 100 && i < 100 + 3 * 1024 * 1024;
        wrong += pb[i] != (moved ? i - 100 : i) % 4 + 1;
    }
    assert_int_equal(wrong, 0);
    assert_int_equal(pb[SIZE - 2], 2);
    assert_int_equal(pb[SIZE - 1], 2);
    p.api->buffer_unmap(a);
    p.api->buffer_free(a);
    p.api->buffer_free(b);
    p.api->timeline_destroy(tl);
}

/* Work waits for a timeline and for a foreign flag word, and is in order. */
static void test_wait_before_signal(void **state)
{
    (void)state;
    clv_plugin_buffer *buf = buffer(4);
    unsigned char *data = map(buf);
    _Alignas(64) uint64_t flag = 0;
    clv_plugin_timeline *gate = timeline(0), *tl = timeline(0);
    clv_timeline_point points[] = {{.timeline = gate, .value = 1},
                                   {.flag = &flag, .value = 3}};
    for (uint32_t i = 0; i < 2; i++) {
        memset(data, 0, 4);
        clv_command c = fill(buf, 0, 4, 0x11111111u * (i + 1));
        clv_timeline_point done = {.timeline = tl, .value = i + 1};
        assert_int_equal(submit(&c, 1, &points[i], &done), CLV_OK);
        assert_int_equal(p.api->timeline_wait(tl, i + 1, 0, 5 * MS),
                         CLV_ERR_TIMEOUT);
        assert_int_equal(data[0], 0);
        if (i)
            __atomic_store_n(&flag, 3, __ATOMIC_RELEASE);
        else
            assert_int_equal(p.api->timeline_signal(gate, 1), CLV_OK);
        assert_int_equal(p.api->timeline_wait(tl, i + 1, 0, UINT64_MAX),
                         CLV_OK);
        assert_int_equal(data[0], 0x11 * (i + 1));
    }
    p.api->buffer_free(buf);
    p.api->timeline_destroy(gate);
    p.api->timeline_destroy(tl);
}

/* The commands of a submit whose wait failed do not run. */
static void test_failure_propagates(void **state)
{
    (void)state;
    for (int foreign = 0; foreign < 2; foreign++) {
        clv_plugin_buffer *buf = buffer(4);
        unsigned char *data = map(buf);
        memset(data, 0, 4);
        _Alignas(64) uint64_t flag = 0;
        clv_plugin_timeline *gate = timeline(0), *tl = timeline(0);
        clv_timeline_point wait = {.timeline = foreign ? NULL : gate,
                                   .flag = foreign ? &flag : NULL,
                                   .value = 1};
        clv_timeline_point done = {.timeline = tl, .value = 1};
        clv_command c = fill(buf, 0, 4, ~0u);
        assert_int_equal(submit(&c, 1, &wait, &done), CLV_OK);
        if (foreign)
            __atomic_store_n(&flag, CLV_FLAG_FAILED | 1, __ATOMIC_RELEASE);
        else
            p.api->timeline_fail(gate, CLV_ERR_IO, "no gate");
        assert_int_equal(p.api->timeline_wait(tl, 1, 0, UINT64_MAX),
                         foreign ? CLV_ERR_CANCELLED : CLV_ERR_IO);
        if (!foreign)
            assert_string_equal(query(tl).message, "no gate");
        assert_int_equal(data[0], 0);
        p.api->buffer_free(buf);
        p.api->timeline_destroy(gate);
        p.api->timeline_destroy(tl);
    }
}

/* Two timelines driven in turn from both sides. */
static void *pong_main(void *ctx)
{
    clv_plugin_timeline **tl = ctx;
    for (uint64_t i = 1; i <= 300; i++) {
        if (p.api->timeline_wait(tl[0], i, 2000, UINT64_MAX))
            break;
        p.api->timeline_signal(tl[1], i);
    }
    return NULL;
}

static void test_ping_pong(void **state)
{
    (void)state;
    clv_plugin_timeline *tl[2] = {timeline(0), timeline(0)};
    pthread_t thread;
    pthread_create(&thread, NULL, pong_main, tl);
    for (uint64_t i = 1; i <= 300; i++) {
        clv_timeline_point done = {.timeline = tl[0], .value = i};
        assert_int_equal(submit(NULL, 0, NULL, &done), CLV_OK);
        assert_int_equal(p.api->timeline_wait(tl[1], i, 0, UINT64_MAX),
                         CLV_OK);
        assert_int_equal(query(tl[0]).value, i);
    }
    pthread_join(thread, NULL);
    p.api->timeline_destroy(tl[0]);
    p.api->timeline_destroy(tl[1]);
}

/* A timeline may go as soon as its value was seen, though the queue has not
 * let go of it. */
static void test_early_destroy(void **state)
{
    (void)state;
    for (int i = 0; i < 500; i++) {
        clv_plugin_timeline *tl = timeline(0);
        const uint64_t *flag = query(tl).flag;
        clv_timeline_point done = {.timeline = tl, .value = 1};
        assert_int_equal(submit(NULL, 0, NULL, &done), CLV_OK);
        while (!__atomic_load_n(flag, __ATOMIC_ACQUIRE))
            ;
        p.api->timeline_destroy(tl);
    }
}

static void test_bad_submits(void **state)
{
    (void)state;
    clv_plugin_buffer *buf = buffer(16), *read_only = NULL;
    char memory[16];
    clv_import in = {.header = {sizeof in, CLV_STRUCT_IMPORT, NULL},
                     .handle_type = CLV_HANDLE_HOST_POINTER,
                     .access = CLV_ACCESS_READ,
                     .pointer = memory,
                     .size = 16};
    assert_int_equal(p.api->buffer_import(p.dev, 0, &in, &read_only), CLV_OK);
    const clv_command bad[] = {
        fill(buf, 1, 16, 0),        fill(buf, 17, 0, 0),
        fill(buf, UINT64_MAX, 2, 0), fill(NULL, 0, 1, 0),
        copy(buf, 0, NULL, 0, 1),   copy(buf, 0, buf, 8, 9),
        copy(buf, 8, buf, 0, 9),    fill(read_only, 0, 1, 0),
        copy(read_only, 0, buf, 0, 1)};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(submit(&bad[i], 1, NULL, NULL), CLV_ERR_INVALID);
    clv_command unknown = fill(buf, 0, 1, 0);
    unknown.kind = 99;
    assert_int_equal(submit(&unknown, 1, NULL, NULL), CLV_ERR_UNSUPPORTED);
    clv_header extension = {sizeof extension, CLV_STRUCT_REQUIRED | 77, NULL};
    unknown = fill(buf, 0, 1, 0);
    unknown.header.next = &extension;
    assert_int_equal(submit(&unknown, 1, NULL, NULL), CLV_ERR_UNSUPPORTED);
    clv_timeline_point nothing = {.value = 1};
    assert_int_equal(submit(NULL, 0, &nothing, NULL), CLV_ERR_INVALID);
    assert_int_equal(submit(NULL, 0, NULL, &nothing), CLV_ERR_INVALID);
    p.api->buffer_free(buf);
    p.api->buffer_free(read_only);
}

/* What has not begun when the device goes is cancelled. */
static void test_close_cancels(void **state)
{
    (void)state;
    clv_plugin_device *dev = NULL;
    _Alignas(64) uint64_t flag = 0;
    clv_plugin_timeline *tl[2] = {timeline(0), timeline(0)};
    assert_int_equal(p.api->device_open(p.inst, 0, &dev), CLV_OK);
    for (int i = 0; i < 2; i++) {
        clv_timeline_point wait = {.flag = &flag, .value = 1};
        clv_timeline_point done = {.timeline = tl[i], .value = 1};
        clv_submit s = {.header = {sizeof s, CLV_STRUCT_SUBMIT, NULL},
                        .waits = &wait,
                        .signals = &done,
                        .n_waits = 1,
                        .n_signals = 1};
        assert_int_equal(p.api->submit(dev, &s), CLV_OK);
    }
    p.api->device_close(dev);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(query(tl[i]).status, CLV_ERR_CANCELLED);
        p.api->timeline_destroy(tl[i]);
    }
}

static int setup(void **state)
{
    (void)state;
    plugin_open(&p, "3", NULL);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    plugin_close(&p);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_host_signal),
        cmocka_unit_test(test_timeout),
        cmocka_unit_test(test_failure_sticks),
        cmocka_unit_test(test_wake),
        cmocka_unit_test(test_copy_fill),
        cmocka_unit_test(test_wait_before_signal),
        cmocka_unit_test(test_failure_propagates),
        cmocka_unit_test(test_ping_pong),
        cmocka_unit_test(test_early_destroy),
        cmocka_unit_test(test_bad_submits),
        cmocka_unit_test(test_close_cancels),
    };
    return cmocka_run_group_tests_name("cpu timeline", tests, setup, teardown);
}
