/*
 * Bytes on their way to a device's own memory: whatever stretches they come in,
 * of weights only what a device's pieces use, and an error with the figures
 * where they do not fit.
 */
#include "../plugins/ref/context.h"

#include "../../core/graph/tensor.h"
#include "../../planner/planner.h"

#include "message.h"

#define LOCAL "ref.memory1=local,shadow ref.import1=off "

static clv_device *device(const test_context *t)
{
    return clv_context_device(t->ctx, 1);
}

static char *noise(test_random *r, uint64_t size)
{
    char *bytes = malloc(size);
    assert_non_null(bytes);
    for (uint64_t i = 0; i < size; i += sizeof(uint32_t)) {
        uint32_t bits = test_bits(r);
        memcpy(bytes + i, &bits,
               size - i < sizeof bits ? size - i : sizeof bits);
    }
    return bytes;
}

static core_buffer *new_local(clv_device *dev, uint64_t size)
{
    core_buffer *buf;
    assert_ok(core_device_alloc_local(dev, size, "a test", &buf));
    return buf;
}

/* ------------------------------------------------------------------------ */
/* Stretches                                                                 */

static core_runs random_runs(test_random *r, uint64_t size)
{
    core_runs runs = {.n = 1 + test_below(r, 200)};
    runs.bytes = 1 + test_below(r, (uint32_t)(size / runs.n / 2));
    runs.pitch = runs.bytes + test_below(r, 100);
    uint64_t extent = (runs.n - 1) * runs.pitch + runs.bytes;
    runs.offset = extent < size ? test_below(r, (uint32_t)(size - extent)) : 0;
    if (extent > size)
        runs.n = 1;
    return runs;
}

static void check_runs(clv_device *dev, test_random *r, uint64_t size,
                       const core_runs *runs)
{
    const core_runs all = {0, size, size, 1};
    char *host = noise(r, size), *want = noise(r, size), *got = noise(r, size);
    core_buffer *buf = new_local(dev, size);
    assert_ok(core_buffer_write(buf, 0, &all, want));
    assert_ok(core_buffer_write(buf, 0, runs, host));
    for (uint64_t i = 0; i < runs->n; i++)
        memcpy(want + runs->offset + i * runs->pitch,
               host + runs->offset + i * runs->pitch, runs->bytes);
    assert_ok(core_buffer_read(buf, 0, &all, got));
    assert_memory_equal(got, want, size);
    core_buffer *packed;
    const core_runs part = {0, runs->bytes * runs->n, 0, 1};
    assert_ok(core_device_copy(dev, 1, runs, host, false, &packed));
    assert_ok(core_buffer_read(packed, 0, &part, got));
    core_buffer_free(packed);
    for (uint64_t i = 0; i < runs->n; i++)
        assert_memory_equal(got + i * runs->bytes,
                            host + runs->offset + i * runs->pitch, runs->bytes);
    assert_ok(core_buffer_zero(buf, 0, runs));
    for (uint64_t i = 0; i < runs->n; i++)
        memset(want + runs->offset + i * runs->pitch, 0, runs->bytes);
    assert_ok(core_buffer_read(buf, 0, &all, got));
    assert_memory_equal(got, want, size);
    core_buffer_free(buf);
    free(got);
    free(want);
    free(host);
}

static void test_stretches(void **state)
{
    (void)state;
    test_random r = {3};
    test_context t = test_context_create(LOCAL);
    for (int round = 0; round < 40; round++) {
        const core_runs runs = random_runs(&r, 20000);
        if (round % 2)
            core_device_hold_staging(device(&t), 1 + test_below(&r, 9000));
        check_runs(device(&t), &r, 20000, &runs);
        if (round % 2)
            core_device_release_staging(device(&t));
    }
    assert_int_equal(device(&t)->local_bytes, 0);
    test_context_destroy(&t);
}

/* More than the buffers between take at once. */
static void test_large(void **state)
{
    (void)state;
    test_random r = {4};
    const uint64_t size = 36u << 20;
    test_context t = test_context_create(LOCAL);
    const core_runs one = {100, size - 200, size, 1};
    const core_runs three = {7, 11u << 20, 12u << 20, 3};
    core_device_hold_staging(device(&t), size);
    check_runs(device(&t), &r, size, &one);
    check_runs(device(&t), &r, size, &three);
    core_device_release_staging(device(&t));
    assert_null(device(&t)->stage);
    test_context_destroy(&t);
}

/* ------------------------------------------------------------------------ */
/* Weights                                                                   */

#define ROWS 24
#define IN 64
#define OUT 32

typedef struct fixture {
    test_context t;
    clv_graph *graph;
    clv_tensor *weight;
    clv_value x, y;
    clv_plan *plan;
} fixture;

static fixture open_fixture(const char *settings)
{
    fixture f = {.t = test_context_create(settings)};
    const int64_t dims[] = {OUT, IN};
    const clv_dim rows[] = {clv_dim_fixed(ROWS), clv_dim_fixed(IN)};
    test_random r = {9};
    assert_ok(clv_tensor_create(f.t.ctx, CLV_DTYPE_F32, 2, dims, &f.weight));
    float *w = clv_tensor_data(f.weight);
    for (int i = 0; i < OUT * IN; i++)
        w[i] = test_float(&r);
    assert_ok(clv_graph_create(&f.graph));
    f.x = clv_graph_input(f.graph, "x", CLV_DTYPE_F32, 2, rows);
    f.y = clv_graph_matmul(
        f.graph, f.x, clv_graph_weight(f.graph, "w", f.weight), CLV_NO_TENSOR);
    clv_graph_output(f.graph, f.y, "y");
    assert_ok(clv_graph_check(f.graph));
    return f;
}

static void close_fixture(fixture *f)
{
    clv_plan_destroy(f->plan);
    clv_graph_destroy(f->graph);
    clv_tensor_destroy(f->weight);
    test_context_destroy(&f->t);
}

/* In two, at `at` of the axis: the second part on the device with memory. */
static void plan_cut(fixture *f, uint32_t axis, int64_t at, int64_t extent)
{
    core_piece pieces[2] = {{.device = 0}, {.device = 1}};
    pieces[0].ranges[axis] = (core_range){0, at};
    pieces[1].ranges[axis] = (core_range){at, extent};
    assert_ok(
        planner_from_pieces(f->t.ctx, f->graph, NULL, pieces, 2, &f->plan));
}

static void run(fixture *f)
{
    clv_exec *exec;
    assert_ok(clv_exec_create(f->plan, &exec));
    const float *w = clv_tensor_data(f->weight);
    float *x = clv_tensor_data(clv_exec_tensor(exec, f->x));
    for (int i = 0; i < ROWS * IN; i++)
        x[i] = (float)(i % 7) - 3;
    assert_ok(clv_exec_run(exec, NULL, 0));
    const float *y = clv_tensor_data(clv_exec_tensor(exec, f->y));
    for (int r = 0; r < ROWS; r++)
        for (int o = 0; o < OUT; o++) {
            double sum = 0;
            for (int i = 0; i < IN; i++)
                sum += (double)x[r * IN + i] * w[o * IN + i];
            assert_float_equal(y[r * OUT + o], sum, 1e-3);
        }
    clv_exec_destroy(exec);
}

static uint64_t copied(const clv_plan *plan)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < plan->n_loads; i++)
        if (plan->loads[i].holding == CORE_HOLD_COPY)
            sum += plan->loads[i].range.bytes * plan->loads[i].range.n;
    return sum;
}

/* A piece's device gets its part of the weight and no more, whether that is
 * rows or columns; another exec of the plan copies nothing again. */
static void test_parts(void **state)
{
    (void)state;
    static const struct {
        uint32_t axis;
        int64_t at, extent;
    } cuts[] = {{CORE_AXIS_ROWS, 24, OUT}, {CORE_AXIS_CHANNELS, 48, IN}};
    for (int i = 0; i < 2; i++) {
        fixture f = open_fixture(LOCAL);
        plan_cut(&f, cuts[i].axis, cuts[i].at, cuts[i].extent);
        const uint64_t part = OUT * IN * sizeof(float) / 4;
        assert_int_equal(copied(f.plan), part);
        run(&f);
        assert_int_equal(device(&f.t)->local_bytes, part);
        run(&f);
        assert_int_equal(device(&f.t)->local_bytes, part);
        close_fixture(&f);
    }
}

/* ------------------------------------------------------------------------ */
/* Room and progress                                                         */

static clv_status plan_alone(fixture *f)
{
    clv_device *dev = device(&f->t);
    const clv_plan_params params = {.devices = &dev, .n_devices = 1};
    return clv_plan_create(f->t.ctx, f->graph, &params, &f->plan);
}

static void test_room(void **state)
{
    (void)state;
    clv_exec *exec;
    fixture f = open_fixture(LOCAL);
    device(&f.t)->info.memory_size = 64; /* of which 2 are kept in reserve */
    assert_int_equal(plan_alone(&f), CLV_ERR_LIMIT);
    assert_message("device 'ref:1' lacks 17346 bytes of memory");
    assert_message("use a smaller model");
    device(&f.t)->info.memory_size = 1u << 20;
    assert_ok(plan_alone(&f));
    device(&f.t)->info.memory_size = 64;
    assert_int_equal(clv_exec_create(f.plan, &exec), CLV_ERR_NO_MEMORY);
    assert_message("device 'ref:1' has 0 MiB of memory");
    assert_message("use a smaller model");
    assert_null(exec);
    device(&f.t)->info.memory_size = 1u << 20;
    run(&f);
    close_fixture(&f);
}

typedef struct listener {
    char what[64];
    double last;
    int n, cancel_at;
} listener;

static int on_progress(void *ctx, const char *what, double fraction)
{
    listener *l = ctx;
    assert_true(fraction >= l->last && fraction <= 1);
    snprintf(l->what, sizeof l->what, "%s", what);
    l->last = fraction;
    return ++l->n == l->cancel_at;
}

static void test_progress(void **state)
{
    (void)state;
    listener l = {.n = 0};
    fixture f = open_fixture(LOCAL);
    f.t.ctx->progress = on_progress;
    f.t.ctx->progress_ctx = &l;
    assert_ok(plan_alone(&f));
    l.cancel_at = 1;
    clv_exec *exec;
    assert_int_equal(clv_exec_create(f.plan, &exec), CLV_ERR_CANCELLED);
    assert_string_equal(l.what, "copying weights to ref:1");
    assert_int_equal(device(&f.t)->local_bytes, 0);
    l = (listener){.n = 0};
    run(&f);
    assert_int_equal(l.n, 2);
    assert_true(l.last >= 1);
    run(&f);
    assert_int_equal(l.n, 2);
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stretches), cmocka_unit_test(test_large),
        cmocka_unit_test(test_parts),     cmocka_unit_test(test_room),
        cmocka_unit_test(test_progress),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
