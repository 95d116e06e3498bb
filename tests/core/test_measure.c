/*
 * Measuring. Simulated chips tell what the truth is: their own records of every
 * op, and the figures of their descriptions. Of a real device little can be
 * said with certainty: times are positive, and more work takes longer.
 */
#include "test.h"

#include "../../core/base/sanitizer.h"
#include "../../planner/profile/measure.h"
#include "../../planner/profile/trial.h"
#include "../../planner/profile/workload_graph.h"

#include "message.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static void assert_near(double got, double want, double by)
{
    if (!(fabs(got - want) <= by))
        fail_msg("%.9g is not %.9g +- %g", got, want, by);
}

typedef struct rig {
    clv_config *config;
    clv_context *ctx;
    planner_meter *meter;
} rig;

static rig rig_make_with(const char *conf, const char *settings,
                         const planner_meter_params *params)
{
    rig r;
    char text[2048], *save = NULL;
    const char *build = getenv("CLEAVE_TEST_BUILD");
    assert_non_null(build);
    assert_ok(clv_config_create(&r.config));
    if (conf) {
        snprintf(text, sizeof text, "%s/conf/soc/%s",
                 getenv("CLEAVE_TEST_SOURCE"), conf);
        assert_ok(clv_config_load_file(r.config, text));
    }
    snprintf(text, sizeof text,
             "core.plugin_dirs=%s/plugins:%s/tests/plugins/ref:"
             "%s/tests/plugins/hostile core.cache_dir= "
             "core.allow_unsafe_plugins=on %s",
             build, build, build, settings);
    for (char *word = strtok_r(text, " ", &save); word;
         word = strtok_r(NULL, " ", &save))
        assert_ok(clv_config_set(r.config, word, "test"));
    clv_context_params context = {.config = r.config};
    assert_ok(clv_context_create(&context, &r.ctx));
    assert_ok(planner_meter_create(r.ctx, params, &r.meter));
    return r;
}

static rig chip(const char *conf)
{
    return rig_make_with(conf, "core.plugins=npu_sim npu_sim.compute=off",
                         NULL);
}

static void finish(rig *r)
{
    planner_meter_destroy(r->meter);
    clv_context_destroy(r->ctx);
    clv_config_destroy(r->config);
}

static clv_device *device(const rig *r, const char *id)
{
    clv_device *dev;
    assert_ok(clv_context_find_device(r->ctx, id, &dev));
    return dev;
}

/* A figure of the device's description. */
static double figure(const rig *r, const clv_device *dev, const char *key)
{
    char name[160];
    snprintf(name, sizeof name, "%s.%s", dev->id, key);
    assert_non_null(clv_config_get(r->config, name));
    return clv_config_get_float(r->config, name);
}

#define MATMUL(weight, ...)                                                    \
    {                                                                          \
        .op = CLV_OP_MATMUL, .dtype = CLV_DTYPE_F32, .weight_dtype = weight,   \
        __VA_ARGS__                                                            \
    }
#define PLAIN(op_, ...)                                                        \
    {                                                                          \
        .op = op_, .dtype = CLV_DTYPE_F32, __VA_ARGS__                         \
    }

static const planner_workload workloads[] = {
    {MATMUL(CLV_DTYPE_F16), 32, 512, 1024, .depth = 0},
    {MATMUL(CLV_DTYPE_F32, .variant = CLV_DTYPE_F32), 1, 512, 1000, .depth = 0},
    {MATMUL(CLV_DTYPE_I4, .quant = CLV_QUANT_PER_CHANNEL), 128, 1024, 4096,
     .depth = 0},
    {MATMUL(CLV_DTYPE_I8, .quant = CLV_QUANT_PER_TENSOR), 64, 768, 256,
     .depth = 0},
    {MATMUL(CLV_DTYPE_I8, .quant = CLV_QUANT_PER_GROUP, .group = 64), 32, 256,
     96, .depth = 0},
    {MATMUL(CLV_DTYPE_Q4_0), 1, 2048, 512, .depth = 0},
    {MATMUL(CLV_DTYPE_Q8_0), 256, 512, 64, .depth = 0},
    {PLAIN(CLV_OP_GET_ROWS, .weight_dtype = CLV_DTYPE_F16), 32, 512, 512,
     .depth = 0},
    {PLAIN(CLV_OP_GET_ROWS, .weight_dtype = CLV_DTYPE_I8,
           .quant = CLV_QUANT_PER_CHANNEL),
     1, 512, 512, .depth = 0},
    {PLAIN(CLV_OP_SET_ROWS, .weight_dtype = CLV_DTYPE_F16), 64, 128, 128,
     .depth = 0},
    {PLAIN(CLV_OP_ADD), 128, 512, 512, .depth = 0},
    {PLAIN(CLV_OP_ADD, .detail = 1, .weight_dtype = CLV_DTYPE_F32), 32, 64, 64,
     .depth = 0},
    {PLAIN(CLV_OP_MUL), 1, 64, 64, .depth = 0},
    {PLAIN(CLV_OP_SILU), 32, 96, 96, .depth = 0},
    {PLAIN(CLV_OP_GELU), 64, 96, 96, .depth = 0},
    {PLAIN(CLV_OP_GLU, .variant = CLV_ACT_GELU_TANH), 32, 1024, 1024,
     .depth = 0},
    {PLAIN(CLV_OP_RMS_NORM, .weight_dtype = CLV_DTYPE_F32), 128, 512, 512,
     .depth = 0},
    {PLAIN(CLV_OP_LAYER_NORM, .weight_dtype = CLV_DTYPE_F32,
           .variant = CLV_DTYPE_F32),
     1, 512, 512, .depth = 0},
    {PLAIN(CLV_OP_ROPE, .variant = 64, .span = 32, .detail = CLV_ROPE_PAIRS),
     32, 512, 512, .depth = 0},
    {PLAIN(CLV_OP_SOFTMAX), 32, 100, 100, .depth = 0},
    {PLAIN(CLV_OP_ATTENTION, .variant = 64, .weight_dtype = CLV_DTYPE_F16), 32,
     128, 512, .depth = 100},
    {PLAIN(CLV_OP_ATTENTION, .variant = 64, .weight_dtype = CLV_DTYPE_F16,
           .span = 20, .detail = 1),
     32, 128, 512, .depth = 100},
    {PLAIN(CLV_OP_ATTENTION, .variant = 32, .weight_dtype = CLV_DTYPE_F32), 1,
     64, 64, .depth = 300},
    {PLAIN(CLV_OP_ATTENTION, .variant = 32, .weight_dtype = CLV_DTYPE_F16,
           .detail = PLANNER_ATTENTION_APART),
     32, 64, 128, .depth = 100},
    {PLAIN(CLV_OP_CONVERT, .variant = CLV_DTYPE_F16), 32, 100, 100, .depth = 0},
    {PLAIN(CLV_OP_TOP_K), 32, 100, 8, .depth = 0},
    {PLAIN(CLV_OP_MATMUL_EXPERTS, .weight_dtype = CLV_DTYPE_F16, .variant = 8,
           .span = 2),
     32, 256, 64, .depth = 5},
    {PLAIN(CLV_OP_MATMUL_EXPERTS, .weight_dtype = CLV_DTYPE_Q8_0, .variant = 60,
           .span = 4, .detail = PLANNER_EXPERTS_EACH | PLANNER_EXPERTS_SCORES),
     1, 256, 64, .depth = 60},
};
#define N_WORKS (sizeof workloads / sizeof *workloads)
#define N_EXPERTS 2 /* the last ones, which simulated arrays do not take */

/* ------------------------------------------------------------------------ */

/* The graph that is timed does the work that was asked for. */
static void test_graphs(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < N_WORKS; i++) {
        clv_graph *g;
        assert_ok(planner_workload_graph(&workloads[i], 3, 2, &g));
        assert_int_equal(g->n_nodes, 3);
        for (uint32_t node = 0; node < 3; node++) {
            planner_workload workload;
            char one[PLANNER_WORKLOAD_TEXT], other[PLANNER_WORKLOAD_TEXT];
            planner_workload_of(g, node, NULL, NULL, &workload);
            if (!planner_workload_equal(&workload, &workloads[i]))
                fail_msg("%s became %s",
                         planner_workload_text(&workloads[i], one),
                         planner_workload_text(&workload, other));
        }
        /* The third has the first one's operands. */
        assert_int_equal(g->nodes[2].inputs[0], g->nodes[0].inputs[0]);
        assert_int_not_equal(g->nodes[1].inputs[0], g->nodes[0].inputs[0]);
        clv_graph_destroy(g);
    }
}

static void test_ids(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < N_WORKS; i++) {
        int32_t ids[256];
        const planner_workload *w = &workloads[i];
        if (w->kind.op == CLV_OP_MATMUL_EXPERTS)
            continue; /* test_experts */
        const bool apart = w->kind.op == CLV_OP_ATTENTION &&
                           w->kind.detail & PLANNER_ATTENTION_APART;
        int64_t rows = apart                            ? w->n * w->depth
                       : w->kind.op == CLV_OP_ATTENTION ? w->depth
                       : w->kind.op == CLV_OP_ROPE
                           ? w->n
                           : planner_workload_table_rows(w);
        assert_true(w->n <= 256);
        planner_workload_ids(w, 0, ids);
        for (int64_t j = 0; j < w->n; j++) {
            assert_true(ids[j] >= 0 && ids[j] < rows);
            for (int64_t k = 0; k < j; k++)
                assert_int_not_equal(ids[j], ids[k]);
        }
        if (w->depth)
            assert_int_equal(ids[w->n - 1], (apart ? w->n : 1) * w->depth - 1);
        int32_t first[256];
        planner_workload_ids(w, 1, first);
        for (int64_t j = 0; apart && j < w->n; j++)
            assert_int_equal(ids[j] - first[j] + 1, w->depth);
    }
}

/* Rows choose different experts, and each row no expert twice; together they
 * choose about as many as chance would. */
static void test_experts(void **state)
{
    static const struct {
        int64_t n;
        uint32_t all, used;
    } cases[] = {{1, 8, 2}, {100, 8, 2}, {40, 128, 8},
                 {3, 2, 2}, {7, 60, 4},  {20, 5, 4}};
    (void)state;
    for (uint32_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const uint32_t all = cases[i].all, used = cases[i].used;
        const planner_workload w = {
            .kind = {.op = CLV_OP_MATMUL_EXPERTS, .variant = all, .span = used},
            .n = cases[i].n,
            .depth = all};
        int32_t ids[512];
        uint32_t chosen[128] = {0}, n = 0;
        assert_int_equal(planner_workload_n_ids(&w), w.n * used);
        planner_workload_ids(&w, 0, ids);
        for (int64_t j = 0; j < w.n * used; j++) {
            assert_in_range(ids[j], 0, all - 1);
            for (int64_t k = j / used * used; k < j; k++)
                assert_int_not_equal(ids[j], ids[k]);
            n += !chosen[ids[j]]++;
        }
        assert_true(fabs(n - planner_workload_experts(&w)) <= 1 + 0.1 * all);
    }
}

static void refuse(const planner_workload *workload, const char *parts)
{
    clv_graph *g;
    assert_int_equal(planner_workload_graph(workload, 1, 1, &g),
                     CLV_ERR_INVALID);
    assert_message(parts);
    assert_null(g);
}

static void test_no_such_work(void **state)
{
    (void)state;
    planner_workload w = workloads[0];
    w.n = 0;
    refuse(&w, "matmul|out of range");
    w = workloads[5]; /* Q4_0 */
    w.in = 33;
    refuse(&w, "whole blocks");
    w = workloads[4];
    w.kind.group = 0;
    refuse(&w, "dimension");
    w = workloads[20];
    w.in = 100;
    refuse(&w, "heads");
    w = workloads[20];
    w.depth = 0;
    refuse(&w, "out of range");
    w = workloads[18];
    w.kind.span = 66;
    refuse(&w, "half a head");
    w = workloads[10];
    w.depth = 3;
    refuse(&w, "add|out of range");
}

/* What the simulator recorded of each node of a program of three. */
static double recorded(rig *r, clv_device *dev,
                       const planner_workload *workload)
{
    const planner_trial_params params = {.workload = workload, .nodes = 3};
    clv_trace_record records[8];
    clv_calibration c;
    core_trial *trial;
    uint32_t count = 8;
    double ns = -1;
    planner_trial_forget(dev);
    assert_ok(planner_trial_create(r->meter, dev, &params, &trial));
    assert_ok(planner_trial_submit(trial, 77));
    assert_ok(planner_trial_wait(trial, 0));
    assert_ok(core_device_calibrate(dev, &c));
    assert_ok(core_device_trace_read(dev, &count, records));
    assert_int_equal(count, 4);
    for (uint32_t i = 0; i < 3; i++) {
        double took = (double)(records[i].end - records[i].begin) * c.tick_ns;
        assert_int_equal(records[i].node, i);
        assert_true(ns < 0 || ns == took);
        ns = took;
    }
    planner_trial_destroy(trial);
    return ns;
}

static uint32_t check_device(rig *r, const char *id)
{
    clv_device *dev = device(r, id);
    double watts = figure(r, dev, "power_busy");
    uint32_t taken = 0;
    for (uint32_t i = 0; i < N_WORKS; i++) {
        planner_sample s;
        clv_status status =
            planner_measure_workload(r->meter, dev, &workloads[i], &s);
        if (status == CLV_ERR_UNSUPPORTED) {
            assert_message(dev->id);
            continue;
        }
        assert_ok(status);
        double truth = recorded(r, dev, &workloads[i]);
        assert_true(planner_workload_equal(&s.workload, &workloads[i]));
        assert_true(truth > 0);
        assert_near(s.ns, truth, 1e-3);
        assert_near(s.energy_nj, truth * watts, 1 + truth * 1e-6);
        assert_true(s.spread == 0);
        taken++;
    }
    return taken;
}

static void test_chips(void **state)
{
    (void)state;
    rig r = chip("snapdragon-8gen3.ini");
    assert_int_equal(check_device(&r, "npu_sim:hexagon"), N_WORKS - N_EXPERTS);
    assert_int_equal(check_device(&r, "npu_sim:adreno"), N_WORKS);
    finish(&r);
    r = chip("int8-npu.ini");
    /* Products of integers and blocks. */
    assert_int_equal(check_device(&r, "npu_sim:npu"), 5);
    finish(&r);
}

/* Two times the operands do not fit where the device can address. */
static void test_window(void **state)
{
    (void)state;
    rig r = chip("snapdragon-8gen3.ini");
    clv_device *npu = device(&r, "npu_sim:hexagon");
    const planner_workload w = {MATMUL(CLV_DTYPE_F16), 32, 16384, 98304,
                                .depth = 0};
    planner_sample s, part;
    planner_workload half = w;
    assert_ok(planner_measure_workload(r.meter, npu, &w, &s));
    half.out /= 2;
    assert_ok(planner_measure_workload(r.meter, npu, &half, &part));
    assert_near(s.ns / part.ns, 2, 0.02);
    finish(&r);
}

/* The figures of the description; a queue of one is never busy. */
static void check_overheads(rig *r, clv_device *dev)
{
    planner_overheads o;
    assert_ok(planner_measure_overheads(r->meter, dev, &o));
    double idle = figure(r, dev, "submit_empty_us") * 1e3;
    assert_near(o.submit,
                dev->info.queue_depth == 1 ? idle
                                           : figure(r, dev, "submit_us") * 1e3,
                1);
    assert_near(o.submit_idle, idle, 1);
    assert_near(o.dispatch, figure(r, dev, "dispatch_us") * 1e3, 1);
    assert_near(o.wait_poll, figure(r, dev, "wait_poll_us") * 1e3, 1);
    assert_near(o.wait_block, figure(r, dev, "wait_block_us") * 1e3, 1);
    assert_near(o.copy, figure(r, dev, "copy_us") * 1e3, 2);
    double byte = 2 / figure(r, dev, "bandwidth"); /* read and written */
    assert_near(o.copy_byte, byte, byte * 1e-3);
    assert_near(o.copy_row, 0, 1);
}

static void test_overheads(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"snapdragon-8gen3.ini", "npu_sim:hexagon"},
        {"snapdragon-8gen3.ini", "npu_sim:adreno"},
        {"int8-npu.ini", "npu_sim:npu"},
        {"int8-npu.ini", "npu_sim:cpu"},
        {"two-npus.ini", "npu_sim:small"},
    };
    for (uint32_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rig r = chip(cases[i][0]);
        check_overheads(&r, device(&r, cases[i][1]));
        finish(&r);
    }
}

/* Into memory of the device's own and out of it. They are as large as
 * sanitizers are slow. */
static void test_copies(void **state)
{
    (void)state;
    if (core_sanitizers())
        skip();
    rig r = chip("small-card.ini");
    clv_device *card = device(&r, "npu_sim:card");
    planner_overheads o;
    assert_ok(planner_measure_overheads(r.meter, card, &o));
    const double byte = 1 / figure(&r, card, "link");
    assert_near(o.copy, figure(&r, card, "copy_us") * 1e3, 2);
    assert_near(o.copy_byte, byte, byte * 1e-3);
    assert_near(o.copy_out, figure(&r, card, "copy_us") * 1e3, 2);
    assert_near(o.copy_byte_out, byte, byte * 1e-3);
    finish(&r);
}

/* Queues that hold one submit, two and three: nothing is assumed of their
 * depth. */
static void test_short_queues(void **state)
{
    (void)state;
    for (int depth = 1; depth <= 3; depth++) {
        char settings[160];
        snprintf(settings, sizeof settings,
                 "core.plugins=npu_sim npu_sim.compute=off "
                 "npu_sim:adreno.queue_depth=%d npu_sim:adreno.dispatch_us=7",
                 depth);
        rig r = rig_make_with("snapdragon-8gen3.ini", settings, NULL);
        check_overheads(&r, device(&r, "npu_sim:adreno"));
        finish(&r);
    }
}

static void check_contention(const char *conf, const char *const *ids,
                             uint32_t n)
{
    rig r = chip(conf);
    clv_device *devs[4];
    double alone[4], slowdown[4];
    planner_contention c = {.alone = alone, .slowdown = slowdown};
    for (uint32_t i = 0; i < n; i++)
        devs[i] = device(&r, ids[i]);
    assert_ok(planner_measure_contention(r.meter, devs, n, &c));
    /* Not all of a node's time goes into moving. */
    double together =
        clv_config_get_float(r.config, "npu_sim.memory_bandwidth");
    assert_near(c.bandwidth, together * 0.99, together * 0.01);
    for (uint32_t i = 0; i < n; i++) {
        double want = figure(&r, devs[i], "bandwidth");
        assert_near(alone[i], want * 0.98, want * 0.02);
        /* Products move little, but three times little is much. */
        assert_true(slowdown[i] >= 1 && slowdown[i] < (n > 2 ? 2 : 1.01));
    }
    finish(&r);
}

/* One with memory of its own takes from the others what it copies. */
static void test_own_memory(void **state)
{
    (void)state;
    rig r = rig_make_with("two-npus.ini",
                          "core.plugins=npu_sim npu_sim.compute=off "
                          "npu_sim:gpu.memory=1024",
                          NULL);
    clv_device *devs[] = {device(&r, "npu_sim:gpu"),
                          device(&r, "npu_sim:small"),
                          device(&r, "npu_sim:large")};
    double alone[3], slowdown[3];
    planner_contention c = {.alone = alone, .slowdown = slowdown};
    assert_ok(planner_measure_contention(r.meter, devs, 3, &c));
    double together =
        clv_config_get_float(r.config, "npu_sim.memory_bandwidth");
    const double link = figure(&r, devs[0], "link");
    const double two =
        figure(&r, devs[1], "bandwidth") + figure(&r, devs[2], "bandwidth");
    /* Between two copies it moves nothing. */
    assert_true(alone[0] > link / 2 && alone[0] <= link);
    together = fmin(together, two + alone[0]);
    assert_near(c.bandwidth, together * 0.96, together * 0.02);
    assert_true(c.bandwidth > two);
    finish(&r);
}

/* The mean of work that takes another time in each run. */
static void test_jitter(void **state)
{
    (void)state;
    rig exact = chip("two-npus.ini");
    rig noisy = rig_make_with("two-npus.ini",
                              "core.plugins=npu_sim npu_sim.compute=off "
                              "npu_sim.jitter=0.2",
                              NULL);
    const planner_workload w = {MATMUL(CLV_DTYPE_F16), 256, 2048, 2048,
                                .depth = 0};
    planner_sample truth, s;
    planner_overheads o, true_o;
    clv_device *a = device(&exact, "npu_sim:gpu"),
               *b = device(&noisy, "npu_sim:gpu");
    assert_ok(planner_measure_workload(exact.meter, a, &w, &truth));
    assert_ok(planner_measure_workload(noisy.meter, b, &w, &s));
    assert_near(s.ns, truth.ns, 0.05 * truth.ns);
    assert_near(s.energy_nj, truth.energy_nj, 0.1 * truth.energy_nj);
    assert_true(truth.reference.ns == 0 && truth.drifts == 0);
    assert_near(s.reference.noise, 0.2 / sqrt(3), 0.04);
    assert_true(s.drifts > 0.6);
    assert_ok(planner_measure_overheads(exact.meter, a, &true_o));
    assert_ok(planner_measure_overheads(noisy.meter, b, &o));
    assert_near(o.dispatch, true_o.dispatch, 0.1 * true_o.dispatch + 1);
    finish(&noisy);
    finish(&exact);
}

static void test_contention(void **state)
{
    (void)state;
    check_contention("snapdragon-8gen3.ini",
                     (const char *[]){"npu_sim:hexagon", "npu_sim:adreno"}, 2);
    check_contention("int8-npu.ini",
                     (const char *[]){"npu_sim:npu", "npu_sim:cpu"}, 2);
    check_contention(
        "two-npus.ini",
        (const char *[]){"npu_sim:gpu", "npu_sim:small", "npu_sim:large"}, 3);
}

/* ------------------------------------------------------------------------ */
/* A real device                                                             */

static double time_of(rig *r, clv_device *dev, const planner_workload *workload)
{
    planner_sample s;
    char text[PLANNER_WORKLOAD_TEXT];
    assert_ok(planner_measure_workload(r->meter, dev, workload, &s));
    if (!(isfinite(s.ns) && s.ns > 0 && isfinite(s.spread) && s.spread >= 0))
        fail_msg("%s: %g ns, spread %g", planner_workload_text(workload, text),
                 s.ns, s.spread);
    return s.ns;
}

static void test_cpu(void **state)
{
    (void)state;
    const planner_meter_params quick = {
        .max_seconds = 0.01, .repetitions = 3, .max_pool = 32 << 20};
    rig r = rig_make_with(NULL, "core.plugins=cpu", &quick);
    clv_device *cpu = device(&r, "cpu");
    planner_overheads o;
    for (uint32_t i = 0; i < N_WORKS; i++)
        time_of(&r, cpu, &workloads[i]);
    assert_ok(planner_measure_overheads(r.meter, cpu, &o));
    const double values[] = {o.submit,    o.submit_idle, o.dispatch,
                             o.wait_poll, o.wait_block,  o.copy,
                             o.copy_byte};
    for (uint32_t i = 0; i < sizeof values / sizeof *values; i++)
        assert_true(isfinite(values[i]) && values[i] >= 0 && values[i] < 1e9);
    assert_true(o.submit > 0 && o.submit_idle > 0 && o.copy_byte > 0);
    finish(&r);
}

/* The times of a node that is one kernel and of one that is eight. */
static void time_kernels(double ns[2])
{
    static const planner_workload work = {MATMUL(CLV_DTYPE_F32), 8, 256, 512,
                                          .depth = 0};
    const planner_meter_params quick = {
        .max_seconds = 0.1, .repetitions = 5, .max_pool = 32 << 20};
    for (int i = 0; i < 2; i++) {
        char settings[80];
        snprintf(settings, sizeof settings,
                 "core.plugins=ref ref.devices=1 ref.trace_nodes0=%d",
                 i ? 8 : 1);
        rig r = rig_make_with(NULL, settings, &quick);
        ns[i] = time_of(&r, device(&r, "ref:0"), &work);
        finish(&r);
    }
    print_message("one kernel %g ns, eight %g ns\n", ns[0], ns[1]);
}

/* What a node takes that is several kernels: as much. Other processes disturb a
 * measurement, but not all. */
static void test_kernels(void **state)
{
    (void)state;
    bool alike = false;
    for (int i = 0; i < 20 && !alike; i++) {
        double ns[2];
        time_kernels(ns);
        alike = ns[1] > ns[0] / 2 && ns[1] < ns[0] * 2;
    }
    assert_true(alike);
}

/* Two devices of one kind, and two of different clocks. */
static void test_two_cpus(void **state)
{
    (void)state;
    const planner_meter_params quick = {
        .max_seconds = 0.01, .repetitions = 1, .max_pool = 64 << 20};
    rig r = rig_make_with("snapdragon-8gen3.ini",
                          "core.plugins=cpu,npu_sim npu_sim.compute=off "
                          "core.devices=cpu,npu_sim "
                          "cpu:a.threads=1 cpu:b.threads=1",
                          &quick);
    clv_device *devs[] = {device(&r, "cpu:a"), device(&r, "cpu:b"),
                          device(&r, "npu_sim:adreno")};
    double alone[3], slowdown[3];
    planner_contention c = {.alone = alone, .slowdown = slowdown};
    assert_ok(planner_measure_contention(r.meter, devs, 2, &c));
    assert_true(c.bandwidth > 0 && isfinite(c.bandwidth));
    for (int i = 0; i < 2; i++)
        assert_true(alone[i] > 0 && slowdown[i] >= 1 && isfinite(slowdown[i]));
    assert_int_equal(planner_measure_contention(r.meter, &devs[1], 2, &c),
                     CLV_ERR_INVALID);
    assert_message("cpu:b|npu_sim:adreno|clocks");
    assert_int_equal(planner_measure_contention(r.meter, devs, 1, &c),
                     CLV_ERR_INVALID);
    finish(&r);
}

/* ------------------------------------------------------------------------ */
/* What goes wrong                                                           */

static void test_too_large(void **state)
{
    (void)state;
    const planner_meter_params small = {.max_pool = 1 << 20};
    rig r = rig_make_with("snapdragon-8gen3.ini",
                          "core.plugins=cpu,npu_sim npu_sim.compute=off "
                          "core.devices=cpu,npu_sim",
                          &small);
    const planner_workload large = {MATMUL(CLV_DTYPE_F16), 1, 1024, 1024,
                                    .depth = 0};
    const planner_workload fits = {MATMUL(CLV_DTYPE_F16), 1, 1024, 256,
                                   .depth = 0};
    const char *const ids[] = {"cpu", "npu_sim:adreno"};
    for (int i = 0; i < 2; i++) {
        planner_sample s;
        assert_int_equal(
            planner_measure_workload(r.meter, device(&r, ids[i]), &large, &s),
            CLV_ERR_LIMIT);
        assert_message("matmul|at most 1024 KiB");
        assert_true(time_of(&r, device(&r, ids[i]), &fits) > 0);
    }
    finish(&r);
}

static void test_not_taken(void **state)
{
    (void)state;
    rig r = chip("int8-npu.ini");
    planner_sample s;
    assert_int_equal(planner_measure_workload(r.meter,
                                              device(&r, "npu_sim:npu"),
                                              &workloads[10], &s),
                     CLV_ERR_UNSUPPORTED);
    assert_message("npu_sim:npu|add f32 [128, 512]|matmul only");
    planner_workload length = workloads[3];
    length.n = 63;
    assert_int_equal(planner_measure_workload(
                         r.meter, device(&r, "npu_sim:npu"), &length, &s),
                     CLV_ERR_UNSUPPORTED);
    assert_message("fixed length");
    finish(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_graphs),
        cmocka_unit_test(test_ids),
        cmocka_unit_test(test_experts),
        cmocka_unit_test(test_no_such_work),
        cmocka_unit_test(test_chips),
        cmocka_unit_test(test_window),
        cmocka_unit_test(test_overheads),
        cmocka_unit_test(test_copies),
        cmocka_unit_test(test_short_queues),
        cmocka_unit_test(test_contention),
        cmocka_unit_test(test_own_memory),
        cmocka_unit_test(test_jitter),
        cmocka_unit_test(test_cpu),
        cmocka_unit_test(test_kernels),
        cmocka_unit_test(test_two_cpus),
        cmocka_unit_test(test_too_large),
        cmocka_unit_test(test_not_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
