/*
 * How the host waits: on a simulated chip, where what it costs can be told to
 * the nanosecond, and on the reference device, where it must not cost processor
 * time.
 */
#include "../plugins/ref/context.h"

#include "../../planner/planner.h"

#include <time.h>

#define WIDTH 64
#define ROWS 8
#define MAX_ROWS 64
#define LAYERS 12

/* Two devices, on both of which a product takes tens of microseconds. */
static const char *const chip[] = {
    "npu_sim:a.model=roofline",     "npu_sim:b.model=roofline",
    "npu_sim:a.kind=gpu",           "npu_sim:b.kind=gpu",
    "npu_sim:a.f16_tflops=0.0002",  "npu_sim:b.f16_tflops=0.0001",
    "npu_sim:a.f32_tflops=0.0002",  "npu_sim:b.f32_tflops=0.0001",
    "npu_sim:a.flag_wait=off",      "npu_sim:b.flag_wait=off",
    "npu_sim:a.wait_poll_us=5",     "npu_sim:b.wait_poll_us=5",
    "npu_sim:a.wait_block_us=500",  "npu_sim:b.wait_block_us=500",
    "npu_sim:a.submit_us=15",       "npu_sim:b.submit_us=15",
    "npu_sim:a.submit_empty_us=90", "npu_sim:b.submit_empty_us=90",
    "core.plugins=npu_sim",         "core.devices=npu_sim",
};

static test_context open_chip(const char *sync)
{
    test_context t;
    char text[600];
    const char *build = getenv("CLEAVE_TEST_BUILD");
    assert_non_null(build);
    assert_ok(clv_config_create(&t.config));
    for (size_t i = 0; i < sizeof chip / sizeof *chip; i++)
        assert_ok(clv_config_set(t.config, chip[i], "test"));
    snprintf(text, sizeof text, "core.plugin_dirs=%s/plugins", build);
    assert_ok(clv_config_set(t.config, text, "test"));
    snprintf(text, sizeof text, "core.cache_dir=%s/tests/core", build);
    assert_ok(clv_config_set(t.config, text, "test"));
    assert_ok(clv_config_set(t.config, "core.plan=first", "test"));
    snprintf(text, sizeof text, "core.sync=%s", sync);
    assert_ok(clv_config_set(t.config, text, "test"));
    assert_ok(clv_config_set(t.config, "core.allow_unsafe_plugins=on", "test"));
    clv_context_params params = {.config = t.config};
    assert_ok(clv_context_create(&params, &t.ctx));
    assert_int_equal(clv_context_device_count(t.ctx), 2);
    return t;
}

#define RUNS 3

static const int64_t alike[RUNS] = {ROWS, ROWS, ROWS};

typedef struct outcome {
    double ns[RUNS]; /* of each run, by the chip's clock */
    float y[ROWS * WIDTH];
    uint32_t n_waits; /* of the host, in a run, but the last ones */
} outcome;

typedef struct network {
    clv_graph *g;
    clv_tensor *weight;
    clv_value x, y;
} network;

/* Products divided over both devices, with an activation on one between. */
static network build(clv_context *ctx, core_piece *pieces, uint32_t *n_pieces)
{
    network net;
    const int64_t square[] = {WIDTH, WIDTH};
    test_random r = {3};
    assert_ok(clv_graph_create(&net.g));
    const clv_dim dims[] = {clv_graph_symbol(net.g, "n", 1, MAX_ROWS),
                            clv_dim_fixed(WIDTH)};
    assert_ok(clv_tensor_create(ctx, CLV_DTYPE_F32, 2, square, &net.weight));
    float *w = clv_tensor_data(net.weight);
    for (int i = 0; i < WIDTH * WIDTH; i++)
        w[i] = test_float(&r) / 4;
    net.x = clv_graph_input(net.g, "x", CLV_DTYPE_F32, 2, dims);
    clv_value weight = clv_graph_weight(net.g, "w", net.weight);
    clv_value h = net.x;
    uint32_t n = 0;
    for (uint32_t i = 0; i < LAYERS; i++) {
        h = clv_graph_silu(net.g,
                           clv_graph_matmul(net.g, h, weight, CLV_NO_TENSOR));
        pieces[n++] = (core_piece){
            .node = 2 * i, .ranges = {[CORE_AXIS_ROWS] = {0, WIDTH / 2}}};
        pieces[n++] =
            (core_piece){.node = 2 * i,
                         .device = 1,
                         .ranges = {[CORE_AXIS_ROWS] = {WIDTH / 2, WIDTH}}};
        pieces[n++] = (core_piece){.node = 2 * i + 1};
    }
    net.y = h;
    clv_graph_output(net.g, net.y, "y");
    *n_pieces = n;
    return net;
}

/* rows: of each run. */
static outcome run_chip(const char *sync, const int64_t rows[RUNS])
{
    test_context t = open_chip(sync);
    core_piece pieces[3 * LAYERS];
    uint32_t n;
    outcome out = {0};
    clv_plan *plan;
    clv_exec *exec;
    network net = build(t.ctx, pieces, &n);
    assert_ok(planner_from_pieces(t.ctx, net.g, NULL, pieces, n, &plan));
    for (uint32_t i = 0; i < plan->n_waits; i++)
        out.n_waits += plan->waits[i].by_host;
    assert_ok(clv_exec_create(plan, &exec));
    float *x = clv_tensor_data(clv_exec_tensor(exec, net.x));
    for (int i = 0; i < ROWS * WIDTH; i++)
        x[i] = (float)(i % 7) - 3;
    for (int i = 0; i < RUNS; i++) {
        clv_moment before, after;
        assert_ok(clv_device_now(clv_context_device(t.ctx, 0), &before));
        assert_ok(clv_exec_run(exec, &rows[i], 1));
        assert_ok(clv_device_now(clv_context_device(t.ctx, 1), &after));
        assert_true(before.is_virtual && after.is_virtual);
        out.ns[i] = after.ns - before.ns;
    }
    memcpy(out.y, clv_tensor_data(clv_exec_tensor(exec, net.y)), sizeof out.y);
    clv_exec_destroy(exec);
    clv_plan_destroy(plan);
    clv_graph_destroy(net.g);
    clv_tensor_destroy(net.weight);
    test_context_destroy(&t);
    return out;
}

/* Each wait of the host that finds work going on ends 495 us sooner. */
static void test_fast_is_faster(void **state)
{
    (void)state;
    outcome fast = run_chip("fast", alike), block = run_chip("block", alike);
    const double saved = 495e3;
    assert_memory_equal(fast.y, block.y, sizeof fast.y);
    /* A layer: b waits for a's activation, a for b's half. */
    assert_int_equal(fast.n_waits, 2 * LAYERS - 1);
    /* Layers are alike, so the first run learns from its first ones. */
    assert_true(block.ns[0] - fast.ns[0] >= saved * (fast.n_waits - 4));
    for (int i = 1; i < RUNS; i++)
        assert_true(block.ns[i] - fast.ns[i] == saved * (fast.n_waits + 1));
    assert_true(fast.ns[1] < fast.ns[0] && fast.ns[1] == fast.ns[2]);
}

static void test_same_run_same_time(void **state)
{
    (void)state;
    outcome one = run_chip("fast", alike), two = run_chip("fast", alike);
    assert_memory_equal(one.ns, two.ns, sizeof one.ns);
    assert_memory_equal(one.y, two.y, sizeof one.y);
}

/* Eight times the work: a few waits are blocked in until that is known, and
 * nobody waits for longer than before when there is less again. */
static void test_other_lengths(void **state)
{
    (void)state;
    const int64_t more[RUNS] = {ROWS, MAX_ROWS, MAX_ROWS};
    const int64_t less[RUNS] = {MAX_ROWS, MAX_ROWS, ROWS};
    outcome up = run_chip("fast", more), down = run_chip("fast", less);
    outcome usual = run_chip("fast", alike);
    assert_true(up.ns[1] > up.ns[2]);
    assert_true(up.ns[1] - up.ns[2] <= 3 * 495e3);
    assert_true(down.ns[2] == usual.ns[2]);
}

/* ------------------------------------------------------------------------ */

static double cpu_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* A wait of 40 ms costs the host next to no processor time, whether it knows
 * how long it will be or not. */
static void test_sleeps(void **state)
{
    (void)state;
    test_context t = test_context_create("core.sync=fast ref.delay_us0=40000");
    clv_graph *g;
    clv_plan *plan;
    clv_exec *exec;
    const clv_dim dims[] = {clv_dim_fixed(4)};
    assert_ok(clv_graph_create(&g));
    clv_value x = clv_graph_input(g, "x", CLV_DTYPE_F32, 1, dims);
    clv_graph_output(g, clv_graph_silu(g, x), "y");
    assert_ok(clv_plan_create(t.ctx, g, NULL, &plan));
    assert_ok(clv_exec_create(plan, &exec));
    for (int i = 0; i < 3; i++) {
        double before = cpu_seconds();
        assert_ok(clv_exec_run(exec, NULL, 0));
        assert_true(cpu_seconds() - before < 0.02);
    }
    clv_exec_destroy(exec);
    clv_plan_destroy(plan);
    clv_graph_destroy(g);
    test_context_destroy(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fast_is_faster),
        cmocka_unit_test(test_same_run_same_time),
        cmocka_unit_test(test_other_lengths),
        cmocka_unit_test(test_sleeps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
