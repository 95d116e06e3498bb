/*
 * Devices with memory of their own: what is copied where and how often, states
 * that wander between memories, and what happens when memory or a device is not
 * there. That results are the same is test_exec's and test_cut's.
 */
#include "../plugins/ref/context.h"
#include "../../core/device/loss.h"

#include "../../core/exec/exec.h"
#include "../../core/graph/tensor.h"
#include "../../core/plan/plan.h"
#include "../../planner/planner.h"
#include "../../tools/views/views.h"

#include "message.h"

#include <math.h>

#define ROWS 6
#define COLUMNS 32
#define BYTES (ROWS * COLUMNS * sizeof(float))

/* ------------------------------------------------------------------------ */
/* Regions                                                                   */

static core_bounds bounds(int64_t r0, int64_t r1, int64_t c0, int64_t c1)
{
    return (core_bounds){.begin = {r0, c0}, .end = {r1, c1}};
}

static int64_t area(const core_bounds *b)
{
    return (b->end[0] - b->begin[0]) * (b->end[1] - b->begin[1]);
}

/* Random writes and copies, against a list of all elements. */
static void test_regions(void **state)
{
    (void)state;
    test_random random = {7};
    uint64_t has[8][8];
    core_regions r;
    assert_ok(core_regions_begin(&r, 2, (const int64_t[]){8, 8}, 1));
    for (int i = 0; i < 64; i++)
        has[i / 8][i % 8] = 1;
    for (int round = 0; round < 300; round++) {
        int64_t r0 = test_below(&random, 8), c0 = test_below(&random, 8);
        int64_t r1 = r0 + 1 + test_below(&random, 8 - (uint32_t)r0);
        int64_t c1 = c0 + 1 + test_below(&random, 8 - (uint32_t)c0);
        const core_bounds box = bounds(r0, r1, c0, c1);
        uint64_t bit = (uint64_t)1 << test_below(&random, 3);
        bool write = test_below(&random, 2);
        int64_t lacking = 0, found = 0, whole = 0;
        core_region old;
        for (int64_t y = r0; y < r1; y++)
            for (int64_t x = c0; x < c1; x++) {
                lacking += !(has[y][x] & bit);
                has[y][x] = write ? bit : has[y][x] | bit;
            }
        while (!write && core_regions_missing(&r, &box, bit, &old)) {
            found += area(&old.box);
            assert_ok(core_regions_add(&r, &old.box, bit));
        }
        if (write)
            assert_ok(core_regions_set(&r, &box, bit, CORE_NO_WRITER));
        else
            assert_int_equal(found, lacking);
        for (uint32_t i = 0; i < r.n; i++) {
            const core_bounds *b = &r.list[i].box;
            whole += area(b);
            for (int64_t y = b->begin[0]; y < b->end[0]; y++)
                for (int64_t x = b->begin[1]; x < b->end[1]; x++)
                    assert_int_equal(r.list[i].memories, has[y][x]);
        }
        assert_int_equal(whole, 64);
    }
    const core_bounds all = bounds(0, 8, 0, 8);
    assert_ok(core_regions_set(&r, &all, 2, CORE_NO_WRITER));
    assert_int_equal(r.n, 1);
    core_regions_finish(&r);
}

static void test_runs(void **state)
{
    (void)state;
    const int64_t dims[] = {4, 10};
    core_bounds box = bounds(1, 3, 0, 10);
    core_runs runs;
    assert_true(core_bounds_runs(CLV_DTYPE_F32, 2, dims, &box, &runs));
    assert_int_equal(runs.n, 1);
    assert_int_equal(runs.offset, 40);
    assert_int_equal(runs.bytes, 80);
    box = bounds(1, 4, 2, 5);
    assert_true(core_bounds_runs(CLV_DTYPE_F16, 2, dims, &box, &runs));
    assert_int_equal(runs.n, 3);
    assert_int_equal(runs.offset, 24);
    assert_int_equal(runs.bytes, 6);
    assert_int_equal(runs.pitch, 20);
}

/* ------------------------------------------------------------------------ */
/* y = silu(x w) + x, the product on ref:0 and the rest on ref:1             */

#define SPLIT "ref.ops0=matmul ref.ops1=silu,add "

typedef struct fixture {
    test_context t;
    clv_graph *g;
    clv_tensor *weight;
    clv_value x, y;
    clv_plan *plan;
} fixture;

static fixture begin(const char *settings)
{
    fixture f = {.t = test_context_create(settings)};
    const int64_t dims[] = {COLUMNS, COLUMNS};
    assert_ok(clv_graph_create(&f.g));
    assert_ok(clv_tensor_create(f.t.ctx, CLV_DTYPE_F32, 2, dims, &f.weight));
    float *w = clv_tensor_data(f.weight);
    for (int i = 0; i < COLUMNS; i++)
        w[i * COLUMNS + i] = 1;
    const clv_dim n[] = {clv_graph_symbol(f.g, "n", 1, ROWS),
                         clv_dim_fixed(COLUMNS)};
    f.x = clv_graph_input(f.g, "x", CLV_DTYPE_F32, 2, n);
    clv_value h = clv_graph_matmul(
        f.g, f.x, clv_graph_weight(f.g, "w", f.weight), CLV_NO_TENSOR);
    f.y = clv_graph_add(f.g, clv_graph_silu(f.g, h), f.x);
    clv_graph_output(f.g, f.y, "y");
    return f;
}

/* On ref:0 alone. */
static clv_status plan_alone(fixture *f)
{
    clv_device *dev = clv_context_device(f->t.ctx, 0);
    const clv_plan_params params = {.devices = &dev, .n_devices = 1};
    return clv_plan_create(f->t.ctx, f->g, &params, &f->plan);
}

static void finish(fixture *f)
{
    clv_plan_destroy(f->plan);
    clv_graph_destroy(f->g);
    clv_tensor_destroy(f->weight);
    test_context_destroy(&f->t);
}

/* Rows past those of a run are not touched. */
static void run_rows(fixture *f, int64_t n)
{
    clv_exec *exec;
    assert_ok(clv_exec_create(f->plan, &exec));
    float *x = clv_tensor_data(clv_exec_tensor(exec, f->x));
    float *y = clv_tensor_data(clv_exec_tensor(exec, f->y));
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        x[i] = (float)(i % 5);
        y[i] = -1;
    }
    assert_ok(clv_exec_run(exec, &n, 1));
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        float want = x[i] / (1 + expf(-x[i])) + x[i];
        assert_float_equal(y[i], i < n * COLUMNS ? want : -1, 1e-4);
    }
    clv_exec_destroy(exec);
}

static void test_copies(void **state)
{
    (void)state;
    fixture f = begin(SPLIT "ref.memory0=local,coherent "
                            "ref.memory1=local,shadow ref.import1=off");
    assert_ok(clv_plan_create(f.t.ctx, f.g, NULL, &f.plan));
    const clv_plan *p = f.plan;
    assert_true(p->devices[0].local && !p->devices[0].staged);
    assert_true(p->devices[1].local && p->devices[1].staged);
    /* x to both, the product out and in, y out; and the weight once. */
    assert_int_equal(p->n_copies, 5);
    assert_int_equal(clv_plan_summarise(p).n_copies, 6);
    for (uint32_t i = 0; i < p->n_copies; i++)
        assert_int_equal(p->copies[i].bytes, BYTES);
    assert_int_equal(p->devices[0].memory.size, 2 * BYTES);
    assert_int_equal(p->memory.size, BYTES);
    assert_int_equal(p->devices[1].staging_size, 3 * BYTES);
    run_rows(&f, ROWS);
    run_rows(&f, 2);
    finish(&f);
}

/* One device alone: what it needs comes first, in one step. */
static void test_alone(void **state)
{
    (void)state;
    fixture f = begin("ref.memory0=local,shadow ref.import0=off");
    assert_ok(plan_alone(&f));
    assert_int_equal(f.plan->n_steps, 1);
    assert_int_equal(f.plan->n_copies, 2);
    assert_int_equal(f.plan->memory.size, 0);
    run_rows(&f, 3);
    char *md;
    assert_ok(view_plan(f.plan, "md", &md));
    assert_non_null(strstr(md, "In the memory of ref:0"));
    assert_non_null(strstr(md, "in 2 copies through memory that the host"));
    clv_string_free(md);
    finish(&f);
}

/* Inputs, outputs and the arena are in memory that the host sees, too, where
 * it is coherent: nothing is copied twice. */
static void test_seen(void **state)
{
    (void)state;
    fixture f = begin("ref.memory0=local,coherent ref.import0=off");
    assert_ok(plan_alone(&f));
    assert_int_equal(f.plan->n_copies, 2);
    assert_true(f.plan->devices[0].staged);
    assert_int_equal(f.plan->shared_device, 1);
    assert_int_equal(f.plan->devices[0].staging_size, 0);
    run_rows(&f, 3);
    run_rows(&f, ROWS);
    finish(&f);
    f = begin(SPLIT "ref.memory0=local,coherent "
                    "ref.memory1=local,coherent ref.import1=off");
    assert_ok(clv_plan_create(f.t.ctx, f.g, NULL, &f.plan));
    assert_int_equal(f.plan->shared_device, 2);
    assert_int_equal(f.plan->devices[1].staging_size, 0);
    run_rows(&f, ROWS);
    run_rows(&f, 2);
    finish(&f);
}

/* The other device copies from and to what that one maps, or not. */
static void test_mapped(void **state)
{
    (void)state;
    fixture f = begin(SPLIT "ref.memory0=local,coherent ref.import0=off "
                            "ref.memory1=local,coherent ref.import1=mapped");
    assert_ok(clv_plan_create(f.t.ctx, f.g, NULL, &f.plan));
    assert_int_equal(f.plan->shared_device, 1);
    assert_true(f.plan->devices[1].staged);
    assert_int_equal(f.plan->devices[1].staging_size, 0);
    for (uint32_t i = 0; i < f.plan->n_copies; i++)
        assert_false(f.plan->copies[i].relayed);
    run_rows(&f, ROWS);
    run_rows(&f, 2);
    finish(&f);
    f = begin(SPLIT "ref.memory0=local,coherent ref.import0=mapped "
                    "ref.memory1=local,coherent ref.import1=off");
    assert_ok(clv_plan_create(f.t.ctx, f.g, NULL, &f.plan));
    assert_int_equal(f.plan->shared_device, 1);
    assert_int_equal(f.plan->devices[1].staging_size, 3 * BYTES);
    run_rows(&f, ROWS);
    finish(&f);
}

static void test_no_room(void **state)
{
    (void)state;
    fixture f = begin("ref.memory0=local,coherent ref.max_buffer0=1024");
    assert_int_equal(plan_alone(&f), CLV_ERR_UNSUPPORTED);
    assert_message("no device takes node 0");
    assert_message("device 'ref:0' holds at most 1024 bytes");
    assert_message("leave it to another device");
    finish(&f);
    f = begin("ref.memory0=local ref.import0=off");
    assert_int_equal(plan_alone(&f), CLV_ERR_UNSUPPORTED);
    assert_message("none that the host sees");
    finish(&f);
}

/* What the programs of an exec hold. */
static uint64_t held(fixture *f)
{
    clv_exec *exec;
    uint64_t sum = 0;
    assert_ok(clv_exec_create(f->plan, &exec));
    for (uint32_t i = 0; i < f->plan->n_steps; i++)
        sum += exec->steps[i].program ? exec->steps[i].program->info.memory_size
                                      : 0;
    clv_exec_destroy(exec);
    return sum;
}

/* How much more than without second copies of weights. */
static uint64_t held_twice(const char *settings, fixture *f)
{
    char text[256];
    *f = begin(settings);
    assert_ok(plan_alone(f));
    const uint64_t without = held(f);
    finish(f);
    snprintf(text, sizeof text, "%s ref.repacks0=on", settings);
    *f = begin(text);
    assert_ok(plan_alone(f));
    run_rows(f, ROWS);
    return held(f) - without;
}

/* Second copies of weights have what the rest of the plan leaves, but for a
 * sixteenth. */
static void test_second_copies(void **state)
{
    (void)state;
    const uint64_t weight = COLUMNS * COLUMNS * sizeof(float);
    fixture f;
    assert_int_equal(held_twice("ref.memory0=local,coherent", &f), weight);
    finish(&f);
    assert_int_equal(held_twice("ref.memory0=local,coherent "
                                "ref.memory_size0=65536",
                                &f),
                     weight);
    finish(&f);
    uint64_t left = held_twice("ref.memory0=local,coherent "
                               "ref.memory_size0=8192",
                               &f);
    assert_true(left > 0 && left < weight);
    assert_int_equal(left, 8192 - 8192 / 16 - weight -
                               f.plan->devices[0].memory.size);
    finish(&f);
    assert_int_equal(held_twice("ref.memory0=local,coherent "
                                "ref.memory_size0=6700",
                                &f),
                     0);
    finish(&f);
}

/* ------------------------------------------------------------------------ */
/* States                                                                    */

typedef struct store {
    test_context t;
    clv_tensor *kv;
    clv_graph *graphs[2];  /* sets rows, gets rows */
    clv_plan *plans[2][2]; /* by device */
    clv_exec *execs[2][2];
    clv_value ids[2], kv_value[2], rows[2];
} store;

static void open_store(store *s, const char *settings)
{
    const int64_t dims[] = {ROWS, COLUMNS};
    const clv_dim one = clv_dim_fixed(1);
    const clv_dim row[] = {one, clv_dim_fixed(COLUMNS)};
    *s = (store){.t = test_context_create(settings)};
    assert_ok(clv_tensor_create(s->t.ctx, CLV_DTYPE_F32, 2, dims, &s->kv));
    for (int i = 0; i < 2; i++) {
        clv_graph *g;
        assert_ok(clv_graph_create(&g));
        s->graphs[i] = g;
        s->kv_value[i] = clv_graph_state(g, "kv", CLV_DTYPE_F32, 2, dims);
        s->ids[i] = clv_graph_input(g, "ids", CLV_DTYPE_I32, 1, &one);
        if (i) {
            s->rows[i] = clv_graph_get_rows(g, s->kv_value[i], s->ids[i]);
            clv_graph_output(g, s->rows[i], "rows");
        } else {
            s->rows[i] = clv_graph_input(g, "rows", CLV_DTYPE_F32, 2, row);
            clv_graph_set_rows(g, s->kv_value[i], s->rows[i], s->ids[i]);
        }
        for (uint32_t d = 0; d < 2; d++) {
            clv_device *dev = clv_context_device(s->t.ctx, d);
            const clv_plan_params params = {.devices = &dev, .n_devices = 1};
            assert_ok(clv_plan_create(s->t.ctx, g, &params, &s->plans[i][d]));
            assert_ok(clv_exec_create(s->plans[i][d], &s->execs[i][d]));
            assert_ok(clv_exec_bind(s->execs[i][d], s->kv_value[i], s->kv));
        }
    }
}

static void close_store(store *s)
{
    for (int i = 0; i < 2; i++) {
        for (int d = 0; d < 2; d++) {
            clv_exec_destroy(s->execs[i][d]);
            clv_plan_destroy(s->plans[i][d]);
        }
        clv_graph_destroy(s->graphs[i]);
    }
    clv_tensor_destroy(s->kv);
    test_context_destroy(&s->t);
}

static void set_row(store *s, int device, int32_t row, float value)
{
    clv_exec *exec = s->execs[0][device];
    float *x = clv_tensor_data(clv_exec_tensor(exec, s->rows[0]));
    *(int32_t *)clv_tensor_data(clv_exec_tensor(exec, s->ids[0])) = row;
    for (int i = 0; i < COLUMNS; i++)
        x[i] = value + (float)i;
    assert_ok(clv_exec_run(exec, NULL, 0));
}

static clv_status get_row(store *s, int device, int32_t row, float *value)
{
    clv_exec *exec = s->execs[1][device];
    *(int32_t *)clv_tensor_data(clv_exec_tensor(exec, s->ids[1])) = row;
    clv_status status = clv_exec_run(exec, NULL, 0);
    const float *y = clv_tensor_data(clv_exec_tensor(exec, s->rows[1]));
    *value = y[0];
    return status;
}

static void assert_row(store *s, int device, int32_t row, float want)
{
    float got;
    assert_ok(get_row(s, device, row, &got));
    assert_float_equal(got, want, 0);
}

static void check_store(const char *settings)
{
    store s;
    open_store(&s, settings);
    assert_row(&s, 0, 5, 0); /* zeros, as made */
    set_row(&s, 0, 2, 10);
    assert_row(&s, 0, 2, 10);
    assert_row(&s, 1, 2, 10);
    set_row(&s, 1, 3, 20);
    assert_row(&s, 0, 3, 20);
    assert_row(&s, 0, 2, 10);
    set_row(&s, 0, 2, 30);
    float *kv = clv_tensor_data(s.kv);
    assert_non_null(kv);
    assert_float_equal(kv[2 * COLUMNS], 30, 0);
    assert_float_equal(kv[3 * COLUMNS + 1], 21, 0);
    kv[4 * COLUMNS] = 40;
    assert_row(&s, 0, 4, 40);
    assert_row(&s, 1, 4, 40);
    assert_false(clv_tensor_lost(s.kv));
    close_store(&s);
}

static void test_state_wanders(void **state)
{
    (void)state;
    check_store("ref.memory0=local,coherent");
    check_store("ref.memory1=local,shadow ref.import1=off");
    check_store("ref.memory0=local,coherent ref.memory1=local,shadow");
}

/* Runs by either device, and writes of the host, in any order. How often a run
 * found that nothing had moved since the one before. */
static uint32_t wander(const char *settings, uint32_t seed)
{
    test_random r = {seed};
    float want[ROWS] = {0};
    uint32_t n_settled = 0;
    store s;
    open_store(&s, settings);
    for (int i = 0; i < 2000; i++) {
        const int device = test_below(&r, 4) == 0;
        const int32_t row = (int32_t)test_below(&r, ROWS);
        const uint32_t what = test_below(&r, 16);
        n_settled += s.execs[what < 11][device]->settled_moves ==
                     1 + atomic_load(&s.t.ctx->state_moves);
        if (what < 11) {
            assert_row(&s, device, row, want[row]);
        } else if (what < 15) {
            want[row] = (float)i;
            set_row(&s, device, row, want[row]);
        } else {
            float *kv = clv_tensor_data(s.kv);
            assert_non_null(kv);
            assert_float_equal(kv[row * COLUMNS], want[row], 0);
            want[row] = kv[row * COLUMNS] = (float)-i;
        }
    }
    close_store(&s);
    return n_settled;
}

static void test_states_settle(void **state)
{
    (void)state;
    assert_true(wander("ref.memory0=local,coherent", 1) > 30);
    assert_true(wander("ref.memory0=local,coherent ref.import0=off", 2) > 30);
    assert_true(
        wander("ref.memory0=local,coherent ref.memory1=local,shadow", 3) > 30);
}

/* What only a lost device had is gone, and said to be. */
static void test_state_lost(void **state)
{
    (void)state;
    store s;
    float value;
    open_store(&s, "ref.memory0=local,shadow");
    set_row(&s, 0, 2, 10);
    clv_device *dev = clv_context_device(s.t.ctx, 0);
    core_device_lose(dev);
    assert_true(clv_tensor_lost(s.kv));
    assert_null(clv_tensor_data(s.kv));
    assert_message("in the memory of device 'ref:0', which is lost");
    assert_int_equal(get_row(&s, 1, 2, &value), CLV_ERR_DEVICE_LOST);
    assert_message("state 'kv'");
    close_store(&s);
    open_store(&s, "ref.memory0=local,shadow");
    set_row(&s, 0, 2, 10);
    assert_row(&s, 1, 2, 10); /* the host has it too */
    core_device_lose(clv_context_device(s.t.ctx, 0));
    assert_false(clv_tensor_lost(s.kv));
    assert_row(&s, 1, 2, 10);
    close_store(&s);
}

/* ------------------------------------------------------------------------ */
/* What the host moves between steps                                         */

/* d = silu(kv[pos] + silu(silu(x))), and in between kv[pos] is set to the
 * latter; what is added and the second silu on ref:1, the rest on ref:0. */
typedef struct relayed {
    clv_graph *g;
    clv_value kv, pos, x, d;
    clv_plan *plan;
} relayed;

static void plan_relayed(const test_context *t, relayed *r)
{
    const int64_t dims[] = {ROWS, COLUMNS};
    const clv_dim one = clv_dim_fixed(1);
    const clv_dim row[] = {one, clv_dim_fixed(COLUMNS)};
    const core_piece pieces[] = {
        {.node = 0}, {.node = 1, .device = 1}, {.node = 2},
        {.node = 3}, {.node = 4, .device = 1}, {.node = 5, .device = 1},
        {.node = 6}};
    assert_ok(clv_graph_create(&r->g));
    r->kv = clv_graph_state(r->g, "kv", CLV_DTYPE_F32, 2, dims);
    r->pos = clv_graph_input(r->g, "pos", CLV_DTYPE_I32, 1, &one);
    r->x = clv_graph_input(r->g, "x", CLV_DTYPE_F32, 2, row);
    const clv_value a = clv_graph_silu(r->g, clv_graph_silu(r->g, r->x));
    clv_graph_set_rows(r->g, r->kv, clv_graph_silu(r->g, a), r->pos);
    const clv_value old = clv_graph_get_rows(r->g, r->kv, r->pos);
    r->d = clv_graph_silu(r->g, clv_graph_add(r->g, old, a));
    clv_graph_output(r->g, r->d, "d");
    assert_ok(planner_from_pieces(t->ctx, r->g, NULL, pieces,
                                  sizeof pieces / sizeof *pieces, &r->plan));
}

static float silu(float x)
{
    return x / (1 + expf(-x));
}

/* The host waits for what it moves, and for nothing else. */
static void test_relays(void **state)
{
    (void)state;
    test_context t = test_context_create("ref.memory0=coherent "
                                         "ref.memory1=local,coherent "
                                         "ref.import1=off ref.flag_wait0=on "
                                         "ref.flag_wait1=on");
    relayed r;
    clv_exec *exec;
    clv_tensor *kv;
    uint32_t n[2] = {0};
    plan_relayed(&t, &r);
    const clv_plan *p = r.plan;
    for (uint32_t s = 0; s < p->n_steps; s++) {
        bool relays = false;
        for (uint32_t i = 0; i < p->n_copies; i++)
            relays |= p->copies[i].relayed && !p->copies[i].out &&
                      p->parts[p->copies[i].part].step == s;
        for (uint32_t i = 0; i < p->steps[s].n_waits; i++) {
            const core_wait *wait = &p->waits[p->steps[s].first_wait + i];
            assert_int_equal(wait->by_host, relays);
            n[relays]++;
        }
    }
    assert_true(n[0] >= 2 && n[1] == 1);
    assert_ok(clv_exec_create(r.plan, &exec));
    assert_ok(clv_tensor_create(t.ctx, CLV_DTYPE_F32, 2,
                                (const int64_t[]){ROWS, COLUMNS}, &kv));
    assert_ok(clv_exec_bind(exec, r.kv, kv));
    for (int round = 1; round < 4; round++) {
        float *x = clv_tensor_data(clv_exec_tensor(exec, r.x));
        *(int32_t *)clv_tensor_data(clv_exec_tensor(exec, r.pos)) = round;
        for (int i = 0; i < COLUMNS; i++)
            x[i] = (float)(round * i);
        assert_ok(clv_exec_run(exec, NULL, 0));
        const float *d = clv_tensor_data(clv_exec_tensor(exec, r.d));
        for (int i = 0; i < COLUMNS; i++) {
            const float a = silu(silu((float)(round * i)));
            assert_float_equal(d[i], silu(silu(a) + a), 1e-3);
        }
    }
    clv_exec_destroy(exec);
    clv_tensor_destroy(kv);
    clv_plan_destroy(r.plan);
    clv_graph_destroy(r.g);
    test_context_destroy(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_regions),
        cmocka_unit_test(test_runs),
        cmocka_unit_test(test_copies),
        cmocka_unit_test(test_alone),
        cmocka_unit_test(test_seen),
        cmocka_unit_test(test_mapped),
        cmocka_unit_test(test_no_room),
        cmocka_unit_test(test_second_copies),
        cmocka_unit_test(test_state_wanders),
        cmocka_unit_test(test_states_settle),
        cmocka_unit_test(test_state_lost),
        cmocka_unit_test(test_relays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
