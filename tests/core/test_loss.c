/* Devices of the reference plugin that fail or hang in a run: who is blamed,
 * that the rest goes on, and that a device which was given up may wake up. */
#include "../plugins/ref/context.h"
#include "../../core/device/loss.h"

#include "../../core/exec/workspace.h"

#include <math.h>
#include <time.h>

#define COLUMNS 16
#define ROWS 6

#define SPLIT "ref.ops0=matmul ref.ops1=silu,add "
#define LIMIT "core.wait_timeout=0.2 "

/* y = silu(x w) + x, n times over. */
typedef struct fixture {
    test_context t;
    clv_graph *g;
    clv_tensor *weight;
    clv_value x, y;
    clv_plan *plan;
    clv_exec *exec;
    int depth;
} fixture;

static void build(fixture *f)
{
    assert_ok(clv_graph_create(&f->g));
    clv_dim dims[] = {clv_graph_symbol(f->g, "n", 1, ROWS),
                      clv_dim_fixed(COLUMNS)};
    f->x = clv_graph_input(f->g, "x", CLV_DTYPE_F32, 2, dims);
    clv_value w = clv_graph_weight(f->g, "ffn.weight", f->weight);
    f->y = f->x;
    for (int i = 0; i < f->depth; i++) {
        clv_value h = clv_graph_matmul(f->g, f->y, w, CLV_NO_TENSOR);
        f->y = clv_graph_add(f->g, clv_graph_silu(f->g, h), f->y);
    }
    clv_graph_output(f->g, f->y, "y");
}

static fixture begin(const char *settings, int depth)
{
    fixture f = {.t = test_context_create(settings), .depth = depth};
    test_random r = {5};
    assert_ok(clv_tensor_create(f.t.ctx, CLV_DTYPE_F32, 2,
                                (const int64_t[]){COLUMNS, COLUMNS},
                                &f.weight));
    float *w = clv_tensor_data(f.weight);
    for (int i = 0; i < COLUMNS * COLUMNS; i++)
        w[i] = test_float(&r);
    build(&f);
    assert_ok(clv_plan_create(f.t.ctx, f.g, NULL, &f.plan));
    assert_ok(clv_exec_create(f.plan, &f.exec));
    return f;
}

static void drop_exec(fixture *f)
{
    clv_exec_destroy(f->exec);
    clv_plan_destroy(f->plan);
    clv_graph_destroy(f->g);
    f->exec = NULL;
    f->plan = NULL;
    f->g = NULL;
}

static void finish(fixture *f)
{
    drop_exec(f);
    clv_tensor_destroy(f->weight);
    test_context_destroy(&f->t);
}

static clv_status run(fixture *f)
{
    const int64_t n = ROWS;
    float *x = clv_tensor_data(clv_exec_tensor(f->exec, f->x));
    for (int i = 0; i < ROWS * COLUMNS; i++)
        x[i] = (float)(i % 7) / 8;
    return clv_exec_run(f->exec, &n, 1);
}

static void check_result(fixture *f)
{
    const float *w = clv_tensor_data(f->weight);
    const float *y = clv_tensor_data(clv_exec_tensor(f->exec, f->y));
    for (int i = 0; i < ROWS; i++) {
        double row[COLUMNS], next[COLUMNS];
        for (int c = 0; c < COLUMNS; c++)
            row[c] = (double)((i * COLUMNS + c) % 7) / 8;
        for (int d = 0; d < f->depth; d++) {
            for (int o = 0; o < COLUMNS; o++) {
                double h = 0;
                for (int c = 0; c < COLUMNS; c++)
                    h += row[c] * (double)w[o * COLUMNS + c];
                next[o] = h / (1 + exp(-h)) + row[o];
            }
            memcpy(row, next, sizeof row);
        }
        for (int c = 0; c < COLUMNS; c++)
            if (!(fabs((double)y[i * COLUMNS + c] - row[c]) <=
                  1e-4 * (1 + fabs(row[c]))))
                fail_msg("row %d, column %d: %g, not %g", i, c,
                         (double)y[i * COLUMNS + c], row[c]);
    }
}

static void hang(clv_device *dev)
{
    assert_ok(dev->api->fault_inject(dev->handle, CLV_FAULT_HANG));
}

static clv_device *device(const fixture *f, uint32_t index)
{
    return clv_context_device(f->t.ctx, index);
}

static void pause_ms(long ms)
{
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

/* Everything again on the devices that are left. */
static void check_goes_on(fixture *f, clv_device *expected)
{
    drop_exec(f);
    build(f);
    assert_ok(clv_plan_create(f->t.ctx, f->g, NULL, &f->plan));
    assert_int_equal(f->plan->n_devices, 1);
    assert_ptr_equal(f->plan->devices[0].dev, expected);
    assert_ok(clv_exec_create(f->plan, &f->exec));
    assert_ok(run(f));
    check_result(f);
}

/* ------------------------------------------------------------------------ */

static void test_hang(void **state)
{
    (void)state;
    fixture f = begin(LIMIT, 1);
    assert_ok(run(&f));
    check_result(&f);
    hang(device(&f, 0));
    uint64_t begun = clv_now_ns();
    assert_int_equal(run(&f), CLV_ERR_TIMEOUT);
    uint64_t took = clv_now_ns() - begun;
    assert_true(took >= 200000000 && took < 5000000000);
    assert_error_says("step 0 (matmul ffn.weight): device 'ref:0'");
    assert_error_says("0.2 s (core.wait_timeout)");
    assert_true(clv_device_lost(device(&f, 0)));
    assert_true(core_device_abandoned(device(&f, 0)));
    assert_false(clv_exit_safe());
    /* At once, from now on. */
    begun = clv_now_ns();
    assert_int_equal(run(&f), CLV_ERR_TIMEOUT);
    assert_error_says("step 0 (matmul ffn.weight): device 'ref:0'");
    assert_true(clv_now_ns() - begun < 100000000);
    check_goes_on(&f, device(&f, 1));
    finish(&f);
}

/* Who only waits for a hung device is told, and is not to blame. */
static void check_waiter(const char *settings, uint32_t hung)
{
    fixture f = begin(settings, 3);
    hang(device(&f, hung));
    assert_int_equal(run(&f), CLV_ERR_TIMEOUT);
    assert_error_says("step 0 (matmul ffn.weight): device 'ref:0'");
    assert_true(clv_device_lost(device(&f, hung)));
    assert_false(clv_device_lost(device(&f, !hung)));
    drop_exec(&f);
    build(&f);
    assert_int_equal(clv_plan_create(f.t.ctx, f.g, NULL, &f.plan),
                     CLV_ERR_UNSUPPORTED); /* ref:1 takes no matmul */
    finish(&f);
}

static void test_hang_reaches_waiters(void **state)
{
    (void)state;
    check_waiter(LIMIT SPLIT, 0);
    check_waiter(LIMIT SPLIT "ref.flag_wait0=on ref.flag_wait1=on", 0);
    /* Listed first, so the first that is waited for. */
    check_waiter(LIMIT SPLIT "ref.flag_wait0=on ref.flag_wait1=on "
                             "core.devices=ref:1,ref:0",
                 1);
}

/* The device works on when everything it knew has been destroyed. */
static void test_wakes_up(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        fixture f = begin("core.wait_timeout=0.05 ref.delay_us0=300000", 2);
        assert_int_equal(run(&f), CLV_ERR_TIMEOUT);
        clv_device *dev = device(&f, 0);
        const core_exec_step *step = &f.exec->steps[0];
        const clv_tensor *arena = f.exec->workspace->shared[0];
        assert_true(clv_tensor_contested(arena));
        assert_ptr_equal(step->program->dev, dev);
        finish(&f);
        pause_ms(500);
    }
}

/* The limit is a step's: a long run is no reason to give a device up. */
static void test_slow_but_moving(void **state)
{
    (void)state;
    fixture f = begin("core.wait_timeout=0.8 " SPLIT
                      "ref.flag_wait1=on ref.delay_us0=250000",
                      4);
    uint64_t begun = clv_now_ns();
    assert_ok(run(&f));
    assert_true(clv_now_ns() - begun > 900000000);
    check_result(&f);
    finish(&f);
    /* The second device waits for long, for a step that is under way. */
    f = begin("core.wait_timeout=0.8 " SPLIT "ref.flag_wait0=on "
              "ref.flag_wait1=on ref.delay_us0=250000 "
              "core.devices=ref:1,ref:0",
              4);
    assert_ok(run(&f));
    check_result(&f);
    finish(&f);
}

static void test_no_limit(void **state)
{
    (void)state;
    fixture f = begin("core.wait_timeout=0 ref.delay_us0=50000", 1);
    assert_int_equal(f.exec->limit_ns, UINT64_MAX);
    assert_ok(run(&f));
    check_result(&f);
    finish(&f);
}

/* A device whose work failed is left out, and nothing of it runs any more. */
static void test_failure(void **state)
{
    (void)state;
    fixture f = begin("ref.fail_after0=1 ref.ops0=matmul,add ref.ops1=all "
                      "ref.flag_wait0=on ref.flag_wait1=on ref.delay_us0=20000",
                      4);
    assert_int_equal(run(&f), CLV_ERR_DEVICE_LOST);
    assert_error_says("step 0 (matmul ffn.weight): device 'ref:0'");
    assert_error_says("it was told to fail");
    assert_true(clv_device_lost(device(&f, 0)));
    assert_false(core_device_abandoned(device(&f, 0)));
    assert_false(clv_device_lost(device(&f, 1)));
    clv_device *lost = device(&f, 0);
    check_goes_on(&f, device(&f, 1));
    drop_exec(&f);
    build(&f);
    clv_plan_params named = {.devices = &lost, .n_devices = 1};
    assert_int_equal(clv_plan_create(f.t.ctx, f.g, &named, &f.plan),
                     CLV_ERR_DEVICE_LOST);
    assert_error_says("device 'ref:0' is lost");
    core_device_lose(device(&f, 1));
    assert_int_equal(clv_plan_create(f.t.ctx, f.g, NULL, &f.plan),
                     CLV_ERR_DEVICE_LOST);
    assert_error_says("no device is left");
    assert_error_says("ref:0, ref:1");
    finish(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slow_but_moving),
        cmocka_unit_test(test_no_limit),
        cmocka_unit_test(test_failure),
        cmocka_unit_test(test_hang),
        cmocka_unit_test(test_hang_reaches_waiters),
        cmocka_unit_test(test_wakes_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
