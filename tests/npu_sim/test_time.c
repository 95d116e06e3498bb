/* Simulated time, by cases worked out by hand. */
#include "rig.h"

#include <math.h>
#include <stdio.h>
#include <time.h>

/* Two processors of 40 GB/s on a memory of 60, computing for next to nothing:
 * a product of 1 x 1024 x 1024 in F32 moves 4 MiB and a little. */
#define PAIR                                                                   \
    "memory_bandwidth=60\n"                                                    \
    "a.model=roofline\na.bandwidth=40\na.f32_tflops=1000\n"                    \
    "b.model=roofline\nb.bandwidth=40\nb.f32_tflops=1000\n"
#define BYTES (4.0 * 1024 * 1024 + 2.0 * 2048)
#define ALONE (BYTES / 40) /* ns */

static void make(product *p, rig *r, uint32_t device)
{
    product_make(p, r, device, 1, 1024, 1024, CLV_DTYPE_F32, CLV_QUANT_NONE, 0);
    assert_int_equal(product_compile(p), CLV_OK);
}

static void near(uint64_t time, double want)
{
    if (fabs((double)time - want) > 3)
        fail_msg("%llu ns, not %.0f", (unsigned long long)time, want);
}

static void test_alone_and_together(void **state)
{
    (void)state;
    rig r;
    product a, b;
    rig_open(&r, PAIR);
    make(&a, &r, 0);
    make(&b, &r, 1);
    product_run(&a);
    near(rig_now(&r), ALONE);
    uint64_t begin = rig_now(&r);
    assert_int_equal(product_submit(&a, NULL, 0), CLV_OK);
    assert_int_equal(product_submit(&b, NULL, 0), CLV_OK);
    assert_int_equal(product_wait(&b, 0, UINT64_MAX), CLV_OK);
    near(rig_now(&r) - begin, 2 * BYTES / 60);
    assert_int_equal(product_wait(&a, 0, UINT64_MAX), CLV_OK);
    near(rig_now(&r) - begin, 2 * BYTES / 60);
    product_free(&a);
    product_free(&b);
    rig_close(&r);
}

/* What the host spends: submits to an empty and a busy queue, and waits that
 * polled long enough or did not. */
static void test_costs(void **state)
{
    (void)state;
    rig r;
    product a;
    rig_open(&r, PAIR "a.submit_us=10\na.submit_empty_us=70\n"
                      "a.wait_poll_us=3\na.wait_block_us=400\n"
                      "a.dispatch_us=20\na.launch_us=5\n");
    make(&a, &r, 0);
    assert_int_equal(product_submit(&a, NULL, 0), CLV_OK);
    near(rig_now(&r), 70e3);
    assert_int_equal(product_submit(&a, NULL, 0), CLV_OK);
    near(rig_now(&r), 80e3);
    assert_int_equal(product_wait(&a, 0, UINT64_MAX), CLV_OK);
    double end = 70e3 + 2 * (25e3 + ALONE);
    near(rig_now(&r), end + 400e3);
    assert_int_equal(product_submit(&a, NULL, 0), CLV_OK);
    assert_int_equal(product_wait(&a, 1000000, UINT64_MAX), CLV_OK);
    near(rig_now(&r), end + 400e3 + 70e3 + 25e3 + ALONE + 3e3);
    /* A wait for what is over costs nothing. */
    uint64_t now = rig_now(&r);
    assert_int_equal(product_wait(&a, 0, UINT64_MAX), CLV_OK);
    assert_int_equal(rig_now(&r), now);
    product_free(&a);
    rig_close(&r);
}

/* b waits for a by its flag word; both are on one chip, so its time counts. */
static void test_flag_of_the_same_chip(void **state)
{
    (void)state;
    rig r;
    product a, b;
    clv_timeline_info info =
        CLV_INIT(clv_timeline_info, CLV_STRUCT_TIMELINE_INFO);
    rig_open(&r, PAIR);
    make(&a, &r, 0);
    make(&b, &r, 1);
    assert_int_equal(r.api->timeline_query(a.done, &info), CLV_OK);
    clv_timeline_point wait = {.flag = info.flag, .value = 1};
    assert_int_equal(product_submit(&b, &wait, 0), CLV_OK);
    assert_int_equal(product_submit(&a, NULL, 0), CLV_OK);
    assert_int_equal(product_wait(&b, 0, UINT64_MAX), CLV_OK);
    near(rig_now(&r), 2 * ALONE);
    product_free(&a);
    product_free(&b);
    rig_close(&r);
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Nobody will signal that: an error, and soon. */
static void test_deadlock(void **state)
{
    (void)state;
    rig r;
    product a, b;
    rig_open(&r, PAIR);
    make(&a, &r, 0);
    make(&b, &r, 1);
    clv_timeline_point on_b = {.timeline = b.done, .value = 1};
    clv_timeline_point on_a = {.timeline = a.done, .value = 1};
    assert_int_equal(product_submit(&a, &on_b, 0), CLV_OK);
    assert_int_equal(product_submit(&b, &on_a, 0), CLV_OK);
    double begin = seconds();
    assert_int_equal(product_wait(&a, 0, UINT64_MAX), CLV_ERR_TIMEOUT);
    assert_says(&r, "no work in flight signals it");
    assert_true(seconds() - begin < 10);
    assert_int_equal(r.api->timeline_signal(b.done, 1), CLV_OK);
    assert_int_equal(product_wait(&a, 0, UINT64_MAX), CLV_OK);
    product_run(&b); /* and what it had to run before that */
    product_free(&a);
    product_free(&b);
    rig_close(&r);
}

/* The results of a are there, its time is not come: when it is lost, its
 * timeline fails, and b, which waits for it, goes on. */
static void test_lost_before_its_time(void **state)
{
    (void)state;
    rig r;
    product a, b;
    clv_timeline_info info =
        CLV_INIT(clv_timeline_info, CLV_STRUCT_TIMELINE_INFO);
    rig_open(&r, PAIR "b.launch_us=1000000\n");
    make(&a, &r, 1);
    make(&b, &r, 0);
    const clv_timeline_point on_a = {.timeline = a.done, .value = 1};
    assert_int_equal(r.api->timeline_query(a.done, &info), CLV_OK);
    assert_int_equal(product_submit(&a, NULL, 0), CLV_OK);
    assert_int_equal(product_submit(&b, &on_a, 0), CLV_OK);
    assert_int_equal(product_wait(&b, 0, 1000), CLV_ERR_TIMEOUT);
    assert_int_equal(__atomic_load_n(info.flag, __ATOMIC_ACQUIRE), 1);
    assert_int_equal(r.api->fault_inject(r.devices[1], CLV_FAULT_LOST), CLV_OK);
    assert_int_equal(product_wait(&b, 0, UINT64_MAX), CLV_OK);
    assert_int_equal(r.api->timeline_query(a.done, &info), CLV_OK);
    assert_int_equal(info.status, CLV_ERR_DEVICE_LOST);
    assert_true(rig_now(&r) < 1000000);
    product_free(&a);
    product_free(&b);
    rig_close(&r);
}

/* A timeout is one of simulated time. */
static void test_timeout(void **state)
{
    (void)state;
    rig r;
    product a;
    rig_open(&r, PAIR "a.launch_us=1000000\n"); /* a second */
    make(&a, &r, 0);
    assert_int_equal(product_submit(&a, NULL, 0), CLV_OK);
    double begin = seconds();
    assert_int_equal(product_wait(&a, 0, 400000000), CLV_ERR_TIMEOUT);
    near(rig_now(&r), 400e6);
    assert_int_equal(product_wait(&a, 0, 700000000), CLV_OK);
    near(rig_now(&r), 1e9 + ALONE);
    assert_true(seconds() - begin < 0.9);
    product_free(&a);
    rig_close(&r);
}

static void test_energy(void **state)
{
    (void)state;
    rig r;
    product a;
    rig_open(&r, PAIR "a.power_busy=3\na.power_idle=0.5\nb.power_idle=0.25\n"
                      "a.submit_empty_us=100\n");
    make(&a, &r, 0);
    assert_true(rig_energy(&r, 0) == 0);
    product_run(&a);
    assert_true(fabs(rig_energy(&r, 0) - (3 * ALONE + 0.5 * 100e3)) < 20);
    assert_true(fabs(rig_energy(&r, 1) - 0.25 * (ALONE + 100e3)) < 20);
    product_free(&a);
    rig_close(&r);
}

static void test_trace(void **state)
{
    (void)state;
    rig r;
    product a;
    clv_trace_record records[4];
    uint32_t n = 4;
    rig_open(&r, PAIR "a.dispatch_us=20\na.launch_us=5\n");
    make(&a, &r, 0);
    assert_int_equal(product_submit(&a, NULL, 7), CLV_OK);
    for (int i = 0; i < 4; i++)
        records[i] = (clv_trace_record)CLV_INIT(clv_trace_record,
                                                CLV_STRUCT_TRACE_RECORD);
    /* It has not happened yet for the host. */
    assert_int_equal(
        r.api->trace_read(r.devices[0], &n, records, sizeof *records), CLV_OK);
    assert_int_equal(n, 0);
    assert_int_equal(product_wait(&a, 0, UINT64_MAX), CLV_OK);
    n = 4;
    assert_int_equal(
        r.api->trace_read(r.devices[0], &n, records, sizeof *records), CLV_OK);
    assert_int_equal(n, 2);
    assert_string_equal(records[0].name, "matmul");
    assert_int_equal(records[0].node, 0);
    assert_int_equal(records[0].correlation, 7);
    near(records[0].begin, 20e3);
    near(records[0].end, 25e3 + ALONE);
    assert_string_equal(records[1].name, "run");
    assert_int_equal(records[1].node, CLV_NO_TENSOR);
    near(records[1].begin, 0);
    near(records[1].end, 25e3 + ALONE);
    product_free(&a);
    rig_close(&r);
}

/* A crowd of jobs on both devices, in an order that depends on the seed.
 * compute: off, as most of these need times alone, or on. */
static uint64_t crowd(unsigned seed, const char *compute)
{
    char settings[256];
    rig r;
    product a, b;
    test_random random = {seed};
    snprintf(settings, sizeof settings,
             PAIR "a.submit_us=3\nb.submit_us=1\na.wait_block_us=20\n"
                  "b.launch_us=2\ncompute=%s\n",
             compute);
    rig_open(&r, settings);
    make(&a, &r, 0);
    make(&b, &r, 1);
    for (int i = 0; i < 200; i++) {
        product *p = test_below(&random, 2) ? &a : &b;
        product *other = p == &a ? &b : &a;
        clv_timeline_point wait = {.timeline = other->done,
                                   .value = other->value};
        assert_int_equal(
            product_submit(p, test_below(&random, 3) ? NULL : &wait, 0),
            CLV_OK);
        if (!test_below(&random, 4))
            assert_int_equal(
                product_wait(p, test_below(&random, 50000), UINT64_MAX),
                CLV_OK);
    }
    assert_int_equal(product_wait(&a, 0, UINT64_MAX), CLV_OK);
    assert_int_equal(product_wait(&b, 0, UINT64_MAX), CLV_OK);
    uint64_t end = rig_now(&r);
    product_free(&a);
    product_free(&b);
    rig_close(&r);
    return end;
}

static void test_same_nanosecond(void **state)
{
    (void)state;
    uint64_t first = crowd(1, "on");
    for (int i = 0; i < 5; i++)
        assert_int_equal(crowd(1, i ? "off" : "on"), first);
    assert_int_not_equal(crowd(2, "off"), first);
}

/* The device is as slow as it should be, on the host's clock. */
static void test_real_clock(void **state)
{
    (void)state;
    rig r;
    product a;
    rig_open(&r, PAIR "clock=real\na.launch_us=50000\n");
    make(&a, &r, 0);
    double begin = seconds();
    product_run(&a);
    assert_true(seconds() - begin >= 0.05);
    assert_int_equal(product_submit(&a, NULL, 0), CLV_OK);
    assert_int_equal(product_wait(&a, 0, 5000000), CLV_ERR_TIMEOUT);
    assert_int_equal(product_wait(&a, 0, UINT64_MAX), CLV_OK);
    assert_true(seconds() - begin >= 0.1);
    product_free(&a);
    rig_close(&r);
}

#define RUNS 200

/* Times of the first device's runs, one after another. */
static void take_times(const char *settings, double *ns)
{
    rig r;
    product a;
    rig_open(&r, settings);
    make(&a, &r, 0);
    for (int i = 0; i < RUNS; i++) {
        uint64_t begin = rig_now(&r);
        product_run(&a);
        ns[i] = (double)(rig_now(&r) - begin);
    }
    product_free(&a);
    rig_close(&r);
}

/* Each run is longer or shorter, within bounds, and the mean is none of both;
 * the seed decides. */
static void test_jitter(void **state)
{
    (void)state;
    double first[RUNS], again[RUNS], other[RUNS], sum = 0, least = 2, most = 0;
    take_times(PAIR "compute=off\njitter=0.2\n", first);
    take_times(PAIR "compute=off\njitter=0.2\n", again);
    take_times(PAIR "compute=off\njitter=0.2\nseed=2\n", other);
    assert_memory_equal(first, again, sizeof first);
    assert_memory_not_equal(first, other, sizeof first);
    for (int i = 0; i < RUNS; i++) {
        double part = first[i] / ALONE;
        sum += part;
        least = part < least ? part : least;
        most = part > most ? part : most;
    }
    assert_true(least > 0.799 && least < 0.85);
    assert_true(most < 1.201 && most > 1.15);
    assert_true(fabs(sum / RUNS - 1) < 0.04);
}

/* Speeds change over seconds: from one run of 20 ms to the next by little, and
 * in all by much, each device on its own. */
static void test_drift(void **state)
{
    (void)state;
    double a[RUNS], b[RUNS], least = 1e18, most = 0, apart = 0;
    take_times(PAIR "compute=off\ndrift=0.2\na.launch_us=20000\n", a);
    take_times(PAIR "compute=off\ndrift=0.2\nseed=7\na.launch_us=20000\n", b);
    for (int i = 0; i < RUNS; i++) {
        if (i && fabs(a[i] / a[i - 1] - 1) > 0.02)
            fail_msg("run %d takes %.0f ns, the one before %.0f", i, a[i],
                     a[i - 1]);
        least = fmin(least, a[i]);
        most = fmax(most, a[i]);
        apart = fmax(apart, fabs(a[i] / b[i] - 1));
    }
    assert_true(least > 0.799 * (ALONE + 20e6) &&
                most < 1.201 * (ALONE + 20e6));
    assert_true(most / least > 1.1 && apart > 0.05);
    /* At the moment at which the last run begins, it stands still. */
    double sum = 0;
    char text[256];
    for (int i = 0; i + 1 < RUNS; i++)
        sum += a[i];
    snprintf(text, sizeof text,
             PAIR "compute=off\ndrift=0.2\na.launch_us=20000\ndrift_at=%.9f\n",
             sum / 1e9);
    take_times(text, b);
    assert_true(b[0] == b[RUNS - 1] && fabs(b[0] / a[RUNS - 1] - 1) < 1e-3);
}

#define MIB (1u << 20)

static void copy(rig *r, clv_plugin_buffer *src, clv_plugin_buffer *dst)
{
    clv_command c = CLV_INIT(clv_command, CLV_STRUCT_COMMAND);
    clv_submit s = CLV_INIT(clv_submit, CLV_STRUCT_SUBMIT);
    clv_plugin_timeline *done;
    assert_ok(r->api->timeline_create(r->devices[0], 0, &done));
    clv_timeline_point signal = {.timeline = done, .value = 1};
    c.kind = CLV_COMMAND_COPY;
    c.src = src;
    c.dst = dst;
    c.size = MIB;
    s.commands = &c;
    s.n_commands = 1;
    s.command_stride = sizeof c;
    s.signals = &signal;
    s.n_signals = 1;
    assert_ok(r->api->submit(r->devices[0], &s));
    assert_ok(r->api->timeline_wait(done, 1, 0, UINT64_MAX));
    r->api->timeline_destroy(done);
}

/* Memory of its own: as much as there is, not for the host, reached over a
 * link, and of no concern to the chip's bandwidth. */
static void test_own_memory(void **state)
{
    (void)state;
    rig r;
    clv_mem_type types[2] = {CLV_INIT(clv_mem_type, CLV_STRUCT_MEM_TYPE),
                             CLV_INIT(clv_mem_type, CLV_STRUCT_MEM_TYPE)};
    uint32_t n = 2;
    clv_plugin_buffer *own, *other, *chip;
    product a, b;
    void *data;
    rig_open(&r, PAIR "a.memory=16\na.link=8\na.copy_us=7\n");
    const clv_plugin_api *api = r.api;
    assert_ok(api->mem_types(r.devices[0], &n, types, sizeof *types));
    assert_int_equal(n, 2);
    assert_int_equal(types[0].flags, CLV_MEM_DEVICE_LOCAL);
    assert_int_equal(types[0].max_size, 16 * MIB);
    assert_true(types[1].flags & CLV_MEM_HOST_VISIBLE);
    assert_ok(api->buffer_alloc(r.devices[0], 0, 15 * MIB, &own));
    assert_int_equal(api->buffer_alloc(r.devices[0], 0, 2 * MIB, &other),
                     CLV_ERR_NO_MEMORY);
    assert_says(&r, "1048576 are left of memory");
    assert_ok(api->buffer_alloc(r.devices[0], 1, 15 * MIB, &chip));
    assert_int_equal(api->buffer_map(own, CLV_ACCESS_READ, &data),
                     CLV_ERR_UNSUPPORTED);
    assert_ok(api->buffer_map(chip, CLV_ACCESS_WRITE, &data));
    memset(data, 5, MIB);
    uint64_t begin = rig_now(&r);
    copy(&r, chip, own);
    near(rig_now(&r) - begin, 7e3 + MIB / 8.0);
    memset(data, 6, MIB);
    copy(&r, own, chip);
    assert_int_equal(((char *)data)[MIB - 1], 5);
    api->buffer_free(own);
    assert_ok(api->buffer_alloc(r.devices[0], 0, MIB, &own));
    assert_ok(api->buffer_alloc(r.devices[0], 0, MIB, &other));
    begin = rig_now(&r);
    copy(&r, own, other);
    near(rig_now(&r) - begin, 7e3 + 2 * MIB / 40.0);
    make(&a, &r, 0);
    make(&b, &r, 1);
    begin = rig_now(&r);
    assert_ok(product_submit(&a, NULL, 0));
    assert_ok(product_submit(&b, NULL, 0));
    assert_ok(product_wait(&a, 0, UINT64_MAX));
    assert_ok(product_wait(&b, 0, UINT64_MAX));
    near(rig_now(&r) - begin, ALONE);
    product_free(&a);
    product_free(&b);
    api->buffer_free(own);
    api->buffer_free(other);
    api->buffer_free(chip);
    rig_close(&r);
}

/* A copy of MIB in a queue, to signal value. */
static void start_copy(rig *r, uint32_t queue, clv_plugin_buffer *src,
                       clv_plugin_buffer *dst, clv_plugin_timeline *tl,
                       uint64_t value)
{
    clv_command c = CLV_INIT(clv_command, CLV_STRUCT_COMMAND);
    clv_submit s = CLV_INIT(clv_submit, CLV_STRUCT_SUBMIT);
    clv_timeline_point signal = {.timeline = tl, .value = value};
    c.kind = CLV_COMMAND_COPY;
    c.src = src;
    c.dst = dst;
    c.size = MIB;
    s.commands = &c;
    s.n_commands = 1;
    s.command_stride = sizeof c;
    s.signals = &signal;
    s.n_signals = 1;
    s.queue = queue;
    assert_ok(r->api->submit(r->devices[0], &s));
}

/* Engines copy while the device works, both ways at once, and read the memory
 * that others use. */
static void test_copy_queues(void **state)
{
    (void)state;
    rig r;
    clv_plugin_buffer *own[2], *chip[2];
    clv_plugin_timeline *tl[3];
    product a;
    rig_open(&r, PAIR "a.memory=16\na.link=8\na.copy_us=7\na.copy_queues=2\n"
                      "a.power_busy=3\n");
    const clv_plugin_api *api = r.api;
    clv_plugin_device *dev = r.devices[0];
    for (int i = 0; i < 3; i++)
        assert_ok(api->timeline_create(dev, 0, &tl[i]));
    for (int i = 0; i < 2; i++) {
        assert_ok(api->buffer_alloc(dev, 0, MIB, &own[i]));
        assert_ok(api->buffer_alloc(dev, 1, MIB, &chip[i]));
    }
    make(&a, &r, 0);
    const double one = MIB / 8.0;
    uint64_t begin = rig_now(&r);
    double energy = rig_energy(&r, 0);
    assert_ok(product_submit(&a, NULL, 0));
    start_copy(&r, 1, chip[0], own[0], tl[1], 1);
    start_copy(&r, 2, own[1], chip[1], tl[2], 1);
    assert_ok(api->timeline_wait(tl[1], 1, 0, UINT64_MAX));
    near(rig_now(&r) - begin, 7e3 + one);
    assert_ok(api->timeline_wait(tl[2], 1, 0, UINT64_MAX));
    near(rig_now(&r) - begin, 7e3 + one);
    assert_ok(product_wait(&a, 0, UINT64_MAX));
    double took = ALONE > 7e3 + one ? ALONE : 7e3 + one;
    near(rig_now(&r) - begin, took);
    near(rig_energy(&r, 0) - energy, 3 * took);

    /* Two copies in one direction, in two queues and in one. */
    for (uint32_t second = 1; second <= 2; second++) {
        begin = rig_now(&r);
        start_copy(&r, 1, chip[0], own[0], tl[1], 3 * second);
        start_copy(&r, second, chip[1], own[1], tl[second], 3 * second + 1);
        assert_ok(
            api->timeline_wait(tl[second], 3 * second + 1, 0, UINT64_MAX));
        near(rig_now(&r) - begin, (second == 1 ? 14e3 : 7e3) + 2 * one);
        assert_ok(api->timeline_wait(tl[1], 3 * second, 0, UINT64_MAX));
    }
    product_free(&a);
    for (int i = 0; i < 3; i++)
        api->timeline_destroy(tl[i]);
    for (int i = 0; i < 2; i++) {
        api->buffer_free(own[i]);
        api->buffer_free(chip[i]);
    }
    rig_close(&r);
}

/* Products with integer weights have a rate of their own, those with floats
 * have not. */
static void test_integer_products(void **state)
{
    (void)state;
    static const struct {
        uint32_t dtype, quant;
        double rate; /* operations a nanosecond */
    } cases[] = {{CLV_DTYPE_F32, CLV_QUANT_NONE, 10},
                 {CLV_DTYPE_I8, CLV_QUANT_PER_TENSOR, 40}};
    for (int i = 0; i < 2; i++) {
        rig r;
        product a;
        rig_open(&r, "a.model=roofline\na.bandwidth=1000\n"
                     "a.f32_tflops=0.01\na.int8_tops=0.04\n");
        product_make(&a, &r, 0, 16, 256, 256, cases[i].dtype, cases[i].quant,
                     0);
        assert_int_equal(product_compile(&a), CLV_OK);
        product_run(&a);
        near(rig_now(&r), 2.0 * 16 * 256 * 256 / cases[i].rate);
        product_free(&a);
        rig_close(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alone_and_together),
        cmocka_unit_test(test_costs),
        cmocka_unit_test(test_integer_products),
        cmocka_unit_test(test_flag_of_the_same_chip),
        cmocka_unit_test(test_deadlock),
        cmocka_unit_test(test_lost_before_its_time),
        cmocka_unit_test(test_timeout),
        cmocka_unit_test(test_energy),
        cmocka_unit_test(test_trace),
        cmocka_unit_test(test_same_nanosecond),
        cmocka_unit_test(test_real_clock),
        cmocka_unit_test(test_jitter),
        cmocka_unit_test(test_drift),
        cmocka_unit_test(test_own_memory),
        cmocka_unit_test(test_copy_queues),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
