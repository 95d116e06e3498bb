/*
 * Weights in a mapped file that the host's memory does not hold: what is kept
 * and what is read, that results are the same, and what it is expected to take.
 */
#include "../plugins/ref/context.h"
#include "message.h"
#include "tmpdir.h"

#include "../../core/base/file_pages.h"
#include "../../core/exec/exec.h"
#include "../../planner/forecast/forecast.h"
#include "../../planner/memory/file_weights.h"
#include "../../planner/planner.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <math.h>
#include <sys/mman.h>
#include <sys/vfs.h>

#define MIB ((uint64_t)1 << 20)
#define C 256 /* channels */
#define BYTES ((uint64_t)C * C * sizeof(float))
#define LAYERS 24
#define WIDE 8 /* as many times C rows has the matrix of the outputs */
#define EXPERTS 8
#define USED 2 /* of them by a token */
#define TOKENS 3

typedef struct fixture {
    tmpdir dir;
    char path[1024];
    clv_file_map map;
    test_context t;
    clv_tensor *weights[LAYERS + 1];
    uint32_t n_weights;
    clv_graph *g;
    clv_value x, y;
    clv_plan *plan;
} fixture;

/* The file: floats that keep products near 1. */
static void write_file(fixture *f, uint64_t size)
{
    test_random r = {1};
    float *data = malloc(size);
    assert_non_null(data);
    for (uint64_t i = 0; i < size / sizeof *data; i++)
        data[i] = test_float(&r) * 0.1f;
    snprintf(f->path, sizeof f->path, "%s",
             tmpdir_write(&f->dir, "weights", data, size));
    free(data);
    const int fd = open(f->path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(fsync(fd), 0);
    close(fd);
    assert_ok(clv_file_map_open(f->path, &f->map));
    /* What was written may lie in pages of megabytes, which go as a whole. */
    core_file_give_up(f->map.data, f->map.size);
}

static void begin(fixture *f, const char *settings, uint64_t size)
{
    *f = (fixture){.n_weights = 0};
    assert_true(tmpdir_make(&f->dir));
    write_file(f, size);
    f->t = test_context_create(settings);
    assert_ok(clv_graph_create(&f->g));
}

static void finish(fixture *f)
{
    clv_plan_destroy(f->plan);
    clv_graph_destroy(f->g);
    for (uint32_t i = 0; i < f->n_weights; i++)
        clv_tensor_destroy(f->weights[i]);
    test_context_destroy(&f->t);
    clv_file_map_close(&f->map);
    tmpdir_remove(&f->dir);
}

/* The next bytes of the file, at `at`. */
static clv_value add_weight(fixture *f, uint64_t at, uint32_t rank,
                            const int64_t *dims)
{
    uint64_t size = sizeof(float);
    for (uint32_t i = 0; i < rank; i++)
        size *= (uint64_t)dims[i];
    assert_true(at + size <= f->map.size);
    clv_tensor **tensor = &f->weights[f->n_weights++];
    assert_ok(clv_tensor_wrap(f->t.ctx, CLV_DTYPE_F32, rank, dims,
                              (void *)(uintptr_t)(f->map.data + at), size,
                              CLV_ACCESS_READ, NULL, NULL, tensor));
    return clv_graph_weight(f->g, "w", *tensor);
}

/* Products one after another; wide: the last one has WIDE * C rows. */
static void begin_chain(fixture *f, const char *settings, bool wide)
{
    const clv_dim dims[] = {clv_dim_fixed(TOKENS), clv_dim_fixed(C)};
    begin(f, settings, (LAYERS + WIDE) * BYTES);
    clv_value x = f->x = clv_graph_input(f->g, "x", CLV_DTYPE_F32, 2, dims);
    for (uint32_t i = 0; i < LAYERS; i++)
        x = clv_graph_matmul(f->g, x,
                             add_weight(f, i * BYTES, 2, (int64_t[]){C, C}),
                             CLV_NO_TENSOR);
    if (wide)
        x = clv_graph_matmul(
            f->g, x, add_weight(f, LAYERS * BYTES, 2, (int64_t[]){WIDE * C, C}),
            CLV_NO_TENSOR);
    f->y = x;
    clv_graph_output(f->g, x, "y");
    assert_ok(clv_plan_create(f->t.ctx, f->g, NULL, &f->plan));
}

static bool is_read(const fixture *f, uint32_t weight)
{
    const clv_graph *g = f->plan->graph;
    for (clv_value v = 0; v < g->n_tensors; v++)
        if (g->values[v].weight == f->weights[weight])
            return f->plan->file.read[v];
    fail_msg("no weight %u", weight);
    return false;
}

static uint32_t count_read(const fixture *f, uint32_t first, uint32_t n)
{
    uint32_t sum = 0;
    for (uint32_t i = first; i < first + n; i++)
        sum += is_read(f, i);
    return sum;
}

/* A file of 8 MiB; the chain takes 6 of it. */
static void test_enough(void **state)
{
    (void)state;
    fixture f;
    begin_chain(&f, "core.host_memory=6", false);
    assert_null(f.plan->file.read);
    assert_int_equal(f.plan->file.used, LAYERS * BYTES);
    assert_int_equal(f.plan->n_steps, 1);
    assert_int_equal(core_plan_file_sum(f.plan, NULL), 0);
    finish(&f);
    begin_chain(&f, "", false);
    assert_true(f.plan->file.room > 0);
    finish(&f);
}

/* Beside what is kept there is room for a weight in use and what is asked for;
 * a step has no more of the file than is given up at once. */
static void test_divided(void **state)
{
    (void)state;
    fixture f;
    begin_chain(&f, "core.host_memory=2", false);
    const core_plan_file *file = &f.plan->file;
    assert_non_null(file->read);
    assert_int_equal(file->room, 2 * MIB);
    const uint32_t n = count_read(&f, 0, LAYERS);
    assert_true((LAYERS - n + 1) * BYTES + file->ahead <= file->room);
    assert_true((LAYERS - n + 2) * BYTES + file->ahead > file->room);
    assert_int_equal(core_plan_file_sum(f.plan, NULL), n * BYTES);
    for (uint32_t i = 0; i < LAYERS; i += LAYERS / 3)
        assert_int_equal(count_read(&f, i, LAYERS / 3), n / 3);
    for (uint32_t s = 0; s < f.plan->n_steps; s++) {
        const core_step *step = &f.plan->steps[s];
        uint64_t sum = 0;
        for (uint32_t p = 0; p < step->n_parts; p++)
            sum += core_plan_file_bytes(f.plan, step->first_part + p, NULL);
        assert_true(sum <= BYTES || sum <= planner_file_step(f.plan));
    }
    finish(&f);
}

/* It would need as much room when it is read. */
static void test_large_one(void **state)
{
    (void)state;
    fixture f;
    begin_chain(&f, "core.host_memory=4", true);
    assert_false(is_read(&f, LAYERS));
    const uint32_t n = count_read(&f, 0, LAYERS);
    assert_true((LAYERS - n + WIDE + 1) * BYTES <= 4 * MIB);
    assert_true(n < LAYERS);
    finish(&f);
    begin_chain(&f, "core.host_memory=1", true);
    assert_int_equal(count_read(&f, 0, LAYERS + 1), LAYERS + 1);
    finish(&f);
}

static void test_virtual_time(void **state)
{
    (void)state;
    fixture f;
    begin_chain(&f, "core.host_memory=1 ref.virtual0=on ref.virtual1=on",
                false);
    assert_null(f.plan->file.read);
    finish(&f);
}

/* ------------------------------------------------------------------------ */
/* Runs                                                                      */

static void set_input(const fixture *f, clv_run *run, uint64_t seed)
{
    test_random r = {seed};
    float *x = clv_tensor_data(clv_run_tensor(run, f->x));
    for (uint32_t i = 0; i < TOKENS * C; i++)
        x[i] = test_float(&r);
}

/* With the input of two seeds, twice one after the other and once both at the
 * same time. */
static void run_all(fixture *f, float *y)
{
    clv_exec *exec;
    clv_workspace *workspace;
    clv_run *runs[2];
    const uint64_t size = TOKENS * C * sizeof *y;
    assert_ok(clv_exec_create(f->plan, &exec));
    assert_ok(clv_workspace_create(f->t.ctx, &workspace));
    runs[0] = clv_exec_own_run(exec);
    assert_ok(clv_run_create(exec, workspace, &runs[1]));
    for (uint32_t i = 0; i < 6; i++) {
        set_input(f, runs[i & 1], i & 1);
        assert_ok(clv_run_submit(runs[i & 1], NULL, 0));
        if (i != 4)
            assert_ok(clv_run_wait(runs[i & 1]));
    }
    assert_ok(clv_run_wait(runs[0]));
    for (uint32_t i = 0; i < 2; i++)
        memcpy(y + i * TOKENS * C,
               clv_tensor_data(clv_run_tensor(runs[i], f->y)), size);
    clv_run_destroy(runs[1]);
    clv_exec_destroy(exec);
    clv_workspace_destroy(workspace);
}

static uint32_t count_resident(const fixture *f)
{
    static unsigned char there[(LAYERS + WIDE) * BYTES / 4096];
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uint32_t n = 0;
    assert_int_equal(
        mincore((void *)(uintptr_t)f->map.data, LAYERS * BYTES, there), 0);
    for (uint32_t i = 0; i < LAYERS * BYTES / page; i++)
        n += there[i] & 1;
    return n;
}

static void test_same_results(void **state)
{
    (void)state;
    static float plain[2 * TOKENS * C], read[2 * TOKENS * C];
    const uint64_t pages = LAYERS * BYTES / (uint64_t)sysconf(_SC_PAGESIZE);
    struct statfs fs;
    fixture f;
    begin_chain(&f, "core.host_memory=100", false);
    run_all(&f, plain);
    finish(&f);
    begin_chain(&f, "core.host_memory=2", false);
    run_all(&f, read);
    assert_memory_equal(plain, read, sizeof plain);
    assert_int_equal(statfs(f.path, &fs), 0);
    if (fs.f_type != TMPFS_MAGIC) /* which has no disk */
        assert_true(count_resident(&f) < pages / 2);
    finish(&f);
}

/* Of a run that fails nothing is waited for. */
static void test_failed_run(void **state)
{
    (void)state;
    fixture f;
    clv_exec *exec;
    begin_chain(&f, "core.host_memory=2", false);
    assert_ok(clv_exec_create(f.plan, &exec));
    clv_run *run = clv_exec_own_run(exec);
    for (uint32_t i = 0; i < 3; i++) {
        assert_ok(clv_run_submit(run, NULL, 0));
        clv_run_cancel(run);
        const clv_status status = clv_run_wait(run);
        assert_true(!status || status == CLV_ERR_CANCELLED);
    }
    assert_ok(clv_exec_run(exec, NULL, 0));
    clv_exec_destroy(exec);
    finish(&f);
}

/* ------------------------------------------------------------------------ */
/* Experts                                                                   */

/* A product, then one with some experts of a stack. */
static void begin_experts(fixture *f, const char *settings)
{
    begin(f, settings, (LAYERS + WIDE) * BYTES);
    const clv_dim n = clv_graph_symbol(f->g, "n", 1, 100);
    const clv_dim wide[] = {n, clv_dim_fixed(C)};
    const clv_dim few[] = {n, clv_dim_fixed(USED)};
    const clv_value x = clv_graph_input(f->g, "x", CLV_DTYPE_F32, 2, wide);
    const clv_value ids = clv_graph_input(f->g, "ids", CLV_DTYPE_I32, 2, few);
    const clv_value rows = clv_graph_input(f->g, "rows", CLV_DTYPE_I32, 1, &n);
    const clv_value table = /* of which a run gathers rows */
        add_weight(f, (LAYERS - 4) * BYTES, 2, (int64_t[]){4 * C, C});
    const clv_value dense = add_weight(f, 0, 2, (int64_t[]){C, C});
    const clv_value experts =
        add_weight(f, BYTES, 3, (int64_t[]){EXPERTS, C, C});
    const clv_value z =
        clv_graph_add(f->g, clv_graph_matmul(f->g, x, dense, CLV_NO_TENSOR),
                      clv_graph_get_rows(f->g, table, rows));
    clv_graph_output(
        f->g,
        clv_graph_matmul_experts(f->g, z, experts, ids, CLV_NO_TENSOR, false),
        "y");
    assert_ok(clv_plan_create(f->t.ctx, f->g, NULL, &f->plan));
}

/* Products of all tokens stay in memory, and of the experts what else finds
 * room. */
static void test_experts(void **state)
{
    (void)state;
    fixture f;
    begin_experts(&f, "core.host_memory=1");
    assert_non_null(f.plan->file.read);
    assert_int_equal(f.plan->file.used, (EXPERTS + 1) * BYTES);
    assert_int_equal(count_read(&f, 0, 3), 0);
    const double missed = 1 - (MIB - BYTES) / (double)(EXPERTS * BYTES);
    assert_true(fabs(f.plan->file.missed - missed) < 1e-6);
    const double one = (double)core_plan_file_sum(f.plan, (int64_t[]){1});
    assert_true(fabs(one - missed * USED * BYTES) <= 1);
    const double all = (double)core_plan_file_sum(f.plan, NULL);
    assert_true(fabs(all - missed * EXPERTS * BYTES) <= 1);
    finish(&f);
    begin_experts(&f, "core.host_memory=3");
    assert_null(f.plan->file.read);
    finish(&f);
}

/* ------------------------------------------------------------------------ */
/* What it takes                                                             */

#define PRODUCT 1000.0 /* ns */

static bool cost(const void *ctx, const clv_device *dev,
                 const planner_workload *workload, planner_cost *out)
{
    (void)ctx, (void)dev, (void)workload;
    *out = (planner_cost){.ns = PRODUCT};
    return true;
}

static const planner_overheads *overheads(const void *ctx,
                                          const clv_device *dev)
{
    static const planner_overheads none;
    (void)ctx, (void)dev;
    return &none;
}

static double bandwidth(const void *ctx, clv_device *const *devs, uint32_t n)
{
    (void)ctx, (void)devs, (void)n;
    return 0;
}

static double slowdown(const void *ctx, clv_device *const *devs, uint32_t n,
                       uint32_t index)
{
    (void)ctx, (void)devs, (void)n, (void)index;
    return 1;
}

static double forecast(const fixture *f)
{
    const planner_costs costs = {NULL, cost, overheads, bandwidth, slowdown};
    core_forecast *made;
    assert_ok(planner_forecast_make(f->plan, &costs, NULL, &made));
    const double ns = made->makespan_ns;
    core_forecast_free(made);
    return ns;
}

/* The file is read beside the work, and what takes longer counts. */
static void test_forecast(void **state)
{
    (void)state;
    fixture f;
    begin_chain(&f, "core.host_memory=2 core.file_speed=1000", false);
    core_plan_file *file = &f.plan->file;
    const double bytes = (double)core_plan_file_sum(f.plan, NULL);
    assert_true(fabs(file->speed - 1) < 1e-9); /* a byte a ns */
    assert_true(forecast(&f) > bytes - (double)file->ahead - 1);
    assert_true(forecast(&f) < bytes + LAYERS * PRODUCT);
    file->speed = bytes / (0.1 * LAYERS * PRODUCT);
    assert_true(fabs(forecast(&f) - LAYERS * PRODUCT) < 0.1 * PRODUCT);
    file->speed = 0;
    assert_true(fabs(forecast(&f) - LAYERS * PRODUCT) < 1);
    finish(&f);
}

/* Measured once, and then known. */
static void test_speed(void **state)
{
    (void)state;
    fixture f;
    begin_chain(&f, "core.host_memory=2", false);
    const double speed = f.plan->file.speed;
    assert_true(speed > 0);
    clv_plan_destroy(f.plan);
    assert_ok(clv_plan_create(f.t.ctx, f.g, NULL, &f.plan));
    assert_true(f.plan->file.speed == speed);
    finish(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_enough),
        cmocka_unit_test(test_divided),
        cmocka_unit_test(test_large_one),
        cmocka_unit_test(test_virtual_time),
        cmocka_unit_test(test_same_results),
        cmocka_unit_test(test_failed_run),
        cmocka_unit_test(test_experts),
        cmocka_unit_test(test_forecast),
        cmocka_unit_test(test_speed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
