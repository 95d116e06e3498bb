/* Plans and runs on the reference plugin's two devices, compared with direct
 * evaluation. */
#include "../plugins/ref/context.h"

#include "../../core/plan/plan.h"
#include "../../core/graph/tensor.h"
#include "../../tools/views/views.h"

#include <math.h>

#define COLUMNS 16
#define ROWS 6

static clv_tensor *make_tensor(clv_context *ctx, uint32_t rank, int64_t a,
                               int64_t b, test_random *r)
{
    clv_tensor *t;
    assert_ok(clv_tensor_create(ctx, CLV_DTYPE_F32, rank,
                                (const int64_t[]){a, b}, &t));
    float *x = clv_tensor_data(t);
    for (uint64_t i = 0; i < clv_tensor_size(t) / 4; i++)
        x[i] = test_float(r);
    return t;
}

/* ------------------------------------------------------------------------ */
/* Random graphs over [n, COLUMNS], evaluated beside by plain loops.          */

#define MAX_VALUES 40
#define N_WEIGHTS 3

typedef struct random_graph {
    clv_graph *g;
    clv_value values[MAX_VALUES];
    float data[MAX_VALUES][ROWS * COLUMNS]; /* expected */
    bool output[MAX_VALUES];
    uint32_t n;
    clv_tensor *weights[N_WEIGHTS]; /* [COLUMNS, COLUMNS] */
    clv_value weight_values[N_WEIGHTS];
} random_graph;

static void eval_matmul(const float *x, const float *w, int64_t n, float *y)
{
    for (int64_t i = 0; i < n; i++) {
        for (int o = 0; o < COLUMNS; o++) {
            double sum = 0;
            for (int c = 0; c < COLUMNS; c++)
                sum += (double)x[i * COLUMNS + c] * (double)w[o * COLUMNS + c];
            y[i * COLUMNS + o] = (float)sum;
        }
    }
}

static void eval_softmax(const float *x, int64_t n, float *y)
{
    for (int64_t i = 0; i < n; i++) {
        double sum = 0;
        for (int c = 0; c < COLUMNS; c++)
            sum += exp((double)x[i * COLUMNS + c]);
        for (int c = 0; c < COLUMNS; c++)
            y[i * COLUMNS + c] = (float)(exp((double)x[i * COLUMNS + c]) / sum);
    }
}

static double eval_silu(double x)
{
    return x / (1 + exp(-x));
}

/* Adds one op on earlier values, and what it gives for n rows. */
static void add_random_op(random_graph *rg, test_random *r, int64_t n)
{
    uint32_t a = test_below(r, rg->n), b = test_below(r, rg->n);
    uint32_t w = test_below(r, N_WEIGHTS);
    const float *x = rg->data[a], *z = rg->data[b];
    float *y = rg->data[rg->n];
    clv_value va = rg->values[a], vb = rg->values[b], out;
    switch (test_below(r, 6)) {
    case 0:
        out = clv_graph_matmul(rg->g, va, rg->weight_values[w], CLV_NO_TENSOR);
        eval_matmul(x, clv_tensor_data(rg->weights[w]), n, y);
        break;
    case 1:
        out = clv_graph_softmax(rg->g, va);
        eval_softmax(x, n, y);
        break;
    case 2:
        out = clv_graph_silu(rg->g, va);
        for (int64_t i = 0; i < n * COLUMNS; i++)
            y[i] = (float)eval_silu((double)x[i]);
        break;
    case 3:
        out = clv_graph_glu(rg->g, va, vb, CLV_ACT_SILU);
        for (int64_t i = 0; i < n * COLUMNS; i++)
            y[i] = (float)(eval_silu((double)x[i]) * (double)z[i]);
        break;
    case 4:
        out = clv_graph_mul(rg->g, va, vb);
        for (int64_t i = 0; i < n * COLUMNS; i++)
            y[i] = x[i] * z[i];
        break;
    default:
        out = clv_graph_add(rg->g, va, vb);
        for (int64_t i = 0; i < n * COLUMNS; i++)
            y[i] = x[i] + z[i];
    }
    rg->values[rg->n++] = out;
}

static void build_random(random_graph *rg, clv_context *ctx, test_random *r,
                         int64_t n)
{
    rg->n = 0;
    assert_ok(clv_graph_create(&rg->g));
    clv_dim rows = clv_graph_symbol(rg->g, "n", 1, ROWS);
    clv_dim dims[] = {rows, clv_dim_fixed(COLUMNS)};
    for (int i = 0; i < N_WEIGHTS; i++) {
        rg->weights[i] = make_tensor(ctx, 2, COLUMNS, COLUMNS, r);
        rg->weight_values[i] = clv_graph_weight(rg->g, "w", rg->weights[i]);
    }
    for (int i = 0; i < 2; i++) {
        rg->values[rg->n] = clv_graph_input(rg->g, "x", CLV_DTYPE_F32, 2, dims);
        for (int j = 0; j < ROWS * COLUMNS; j++)
            rg->data[rg->n][j] = test_float(r);
        rg->n++;
    }
    uint32_t count = 3 + test_below(r, MAX_VALUES - 3);
    memset(rg->output, 0, sizeof rg->output);
    while (rg->n < count)
        add_random_op(rg, r, n);
    for (uint32_t i = 2; i < rg->n; i++)
        if (i + 1 == rg->n || !test_below(r, 6)) {
            rg->output[i] = true;
            clv_graph_output(rg->g, rg->values[i], "y");
        }
    assert_ok(clv_graph_check(rg->g));
}

static void check_outputs(random_graph *rg, clv_exec *exec, int64_t n)
{
    for (uint32_t i = 0; i < rg->n; i++) {
        if (!rg->output[i])
            continue;
        const float *y = clv_tensor_data(clv_exec_tensor(exec, rg->values[i]));
        for (int64_t j = 0; j < n * COLUMNS; j++) {
            double expected = (double)rg->data[i][j];
            if (isnan(expected) || isinf(expected))
                continue;
            double tolerance = 1e-4 * (1 + fabs(expected));
            if (!(fabs((double)y[j] - expected) <= tolerance))
                fail_msg("value %u, element %lld: %g, not %g", i, (long long)j,
                         (double)y[j], expected);
        }
    }
}

/* Whether one of the steps writes what the other uses. */
static bool passes_data(const clv_plan *plan, uint32_t s, uint32_t t)
{
    const core_part *parts = plan->parts;
    for (uint32_t v = 0; v < plan->graph->n_tensors; v++) {
        bool used[2] = {false}, written[2] = {false};
        const uint32_t steps[] = {s, t};
        for (int i = 0; i < 2; i++) {
            const core_step *step = &plan->steps[steps[i]];
            for (uint32_t p = 0; p < step->n_parts; p++) {
                const clv_node *node =
                    &plan->graph->nodes[parts[step->first_part + p].node];
                for (uint32_t j = 0; j < node->n_inputs; j++)
                    used[i] |= node->inputs[j] == v;
                for (uint32_t j = 0; j < node->n_outputs; j++)
                    written[i] |= node->outputs[j] == v;
            }
        }
        if ((written[0] && (used[1] || written[1])) || (written[1] && used[0]))
            return true;
    }
    return false;
}

/* Devices wait for results, and never for memory to be free. */
static void check_waits(const clv_plan *plan)
{
    for (uint32_t s = 0; s < plan->n_steps; s++) {
        const core_step *step = &plan->steps[s];
        for (uint32_t i = 0; i < step->n_waits; i++) {
            const core_wait *wait = &plan->waits[step->first_wait + i];
            uint32_t t = 0;
            while (plan->steps[t].device != wait->device ||
                   plan->steps[t].signal != wait->value)
                t++;
            assert_true(t < s);
            assert_true(passes_data(plan, s, t));
        }
    }
}

/* Placement in the plan's own terms: no two values that live at the same time
 * share bytes, and a value crossing devices is waited for. */
static void check_plan(const clv_plan *plan)
{
    for (uint32_t a = 0; a < plan->graph->n_tensors; a++) {
        const core_place *p = &plan->places[a];
        if (p->home != CORE_HOME_ARENA)
            continue;
        const core_memplan *memory =
            p->memory ? &plan->devices[p->memory - 1].memory : &plan->memory;
        assert_true(p->offset + p->size <= memory->size);
        for (uint32_t b = 0; b < a; b++) {
            const core_place *q = &plan->places[b];
            bool apart = p->offset + p->size <= q->offset ||
                         q->offset + q->size <= p->offset;
            if (q->home != CORE_HOME_ARENA || q->memory != p->memory || apart ||
                q->in_place == a || p->in_place == b)
                continue;
            assert_true(p->first_part > q->last_part ||
                        q->first_part > p->last_part ||
                        (p->in_place != CLV_NO_TENSOR &&
                         p->first_part >= q->last_part) ||
                        (q->in_place != CLV_NO_TENSOR &&
                         q->first_part >= p->last_part));
        }
    }
}

static void run_random_with(const char *settings, uint64_t seed, bool cpu)
{
    test_random r = {seed};
    test_context t = test_context_make(settings, cpu);
    random_graph *rg = malloc(sizeof *rg);
    for (int round = 0; round < 6; round++) {
        int64_t n = 1 + test_below(&r, ROWS);
        clv_plan *plan;
        clv_exec *exec;
        build_random(rg, t.ctx, &r, n);
        assert_ok(clv_plan_create(t.ctx, rg->g, NULL, &plan));
        check_plan(plan);
        check_waits(plan);
        clv_plan_summary s = clv_plan_summarise(plan);
        assert_true(s.transient_size <= s.transient_naive);
        assert_ok(clv_exec_create(plan, &exec));
        for (int i = 0; i < 2; i++)
            memcpy(clv_tensor_data(clv_exec_tensor(exec, rg->values[i])),
                   rg->data[i], sizeof rg->data[i]);
        for (int i = 0; i < 3; i++) {
            assert_ok(clv_exec_run(exec, &n, 1));
            check_outputs(rg, exec, n);
        }
        clv_exec_destroy(exec);
        clv_plan_destroy(plan);
        clv_graph_destroy(rg->g);
        for (int i = 0; i < N_WEIGHTS; i++)
            clv_tensor_destroy(rg->weights[i]);
    }
    free(rg);
    test_context_destroy(&t);
}

static void run_random(const char *settings, uint64_t seed)
{
    run_random_with(settings, seed, false);
}

static void test_random_one_device(void **state)
{
    (void)state;
    run_random("ref.in_place0=on", 21);
}

#define SPLIT "ref.ops0=matmul,add ref.ops1=softmax,silu,glu,mul "

static void test_random_host_waits(void **state)
{
    (void)state;
    run_random(SPLIT "ref.delay_us0=200", 22);
    run_random(SPLIT "ref.delay_us1=200 ref.in_place0=on ref.in_place1=on", 23);
}

static void test_random_device_waits(void **state)
{
    (void)state;
    run_random(SPLIT "ref.flag_wait0=on ref.flag_wait1=on ref.delay_us0=200",
               24);
    run_random(SPLIT "ref.flag_wait0=on ref.flag_wait1=on ref.delay_us1=200 "
                     "ref.in_place0=on ref.in_place1=on",
               25);
    run_random(SPLIT "ref.flag_wait1=on ref.delay_us0=100", 26);
}

/* What passes between programs is no transient of theirs. */
static void test_random_fused(void **state)
{
    (void)state;
    run_random(SPLIT "ref.hide0=on ref.hide1=on", 27);
}

/* Devices with memory of their own, alone, with each other and with the CPU. */
static void test_random_own_memory(void **state)
{
    (void)state;
    run_random("ref.memory0=local,coherent ref.in_place0=on", 31);
    run_random("ref.memory0=local,shadow ref.import0=off ref.hide0=on", 32);
    run_random(SPLIT "ref.memory0=local,coherent ref.in_place0=on "
                     "ref.in_place1=on ref.delay_us0=200",
               33);
    run_random(SPLIT "ref.memory0=local,coherent ref.memory1=local,coherent "
                     "ref.flag_wait0=on ref.flag_wait1=on ref.delay_us1=200",
               34);
    run_random(SPLIT "ref.memory0=local,shadow ref.memory1=local,coherent "
                     "ref.flag_wait0=on ref.flag_wait1=on ref.delay_us0=200",
               35);
    run_random_with("ref.ops0=matmul ref.ops1=silu ref.memory0=local,shadow "
                    "ref.memory1=local,shadow ref.import1=off",
                    36, true);
}

/* A real plugin takes what the reference devices leave. */
static void test_random_with_cpu(void **state)
{
    (void)state;
    run_random_with("ref.ops0=none ref.ops1=none", 28, true);
    run_random_with("ref.ops0=matmul ref.ops1=silu ref.in_place1=on", 29, true);
    run_random_with("ref.ops0=softmax,glu ref.ops1=add ref.flag_wait0=on", 30,
                    true);
}

/* ------------------------------------------------------------------------ */
/* A fixed graph: y = silu(x w) + x, with the matmul on one device and the rest
 * on the other.                                                              */

typedef struct fixture {
    test_context t;
    clv_graph *g;
    clv_tensor *weight;
    clv_value x, y;
    clv_plan *plan;
    clv_exec *exec;
} fixture;

static fixture begin(const char *settings)
{
    fixture f = {.t = test_context_create(settings)};
    test_random r = {5};
    assert_ok(clv_graph_create(&f.g));
    f.weight = make_tensor(f.t.ctx, 2, COLUMNS, COLUMNS, &r);
    clv_dim dims[] = {clv_graph_symbol(f.g, "n", 1, ROWS),
                      clv_dim_fixed(COLUMNS)};
    f.x = clv_graph_input(f.g, "x", CLV_DTYPE_F32, 2, dims);
    clv_value w = clv_graph_weight(f.g, "ffn.weight", f.weight);
    clv_value h = clv_graph_matmul(f.g, f.x, w, CLV_NO_TENSOR);
    f.y = clv_graph_add(f.g, clv_graph_silu(f.g, h), f.x);
    clv_graph_output(f.g, f.y, "y");
    return f;
}

static void finish(fixture *f)
{
    clv_exec_destroy(f->exec);
    clv_plan_destroy(f->plan);
    clv_graph_destroy(f->g);
    clv_tensor_destroy(f->weight);
    test_context_destroy(&f->t);
}

static void make_exec(fixture *f)
{
    assert_ok(clv_plan_create(f->t.ctx, f->g, NULL, &f->plan));
    assert_ok(clv_exec_create(f->plan, &f->exec));
}

static void test_no_device_takes_it(void **state)
{
    (void)state;
    fixture f = begin("ref.ops0=matmul ref.ops1=add");
    assert_int_equal(clv_plan_create(f.t.ctx, f.g, NULL, &f.plan),
                     CLV_ERR_UNSUPPORTED);
    assert_null(f.plan);
    assert_error_says("silu");
    assert_error_says("f32 [<=6,16]");
    assert_error_says("ref:0: op 6 is not among ops0");
    assert_error_says("ref:1: op 6 is not among ops1");
    finish(&f);
}

static void test_plan_shows_choices(void **state)
{
    (void)state;
    char *md, *json;
    fixture f = begin("ref.ops0=matmul ref.ops1=silu,add");
    make_exec(&f);
    clv_plan_summary s = clv_plan_summarise(f.plan);
    assert_int_equal(s.n_steps, 2);
    assert_int_equal(s.n_devices, 2);
    assert_int_equal(s.n_copies, 0);
    assert_ok(view_plan(f.plan, "md", &md));
    assert_non_null(strstr(md, "| 1 | ref:1 | 1..2 | 0 on ref:0 (host) |"));
    assert_non_null(strstr(md, "matmul ffn.weight"));
    assert_non_null(strstr(md, "ref:0: op 6 is not among ops0"));
    assert_ok(clv_plan_json(f.plan, &json));
    assert_non_null(strstr(json, "\"waits\":[{\"device\":0,\"value\":1,"
                                 "\"by\":\"host\"}]"));
    clv_string_free(md);
    clv_string_free(json);
    assert_int_equal(clv_graph_silu(f.g, f.x), CLV_NO_TENSOR);
    assert_error_says("planned");
    finish(&f);
}

static void test_plan_arguments(void **state)
{
    (void)state;
    fixture f = begin("");
    clv_device *dev = clv_context_device(f.t.ctx, 1);
    clv_device *twice[] = {dev, dev};
    clv_plan_params one = {.devices = &dev, .n_devices = 1},
                    two = {.devices = twice, .n_devices = 2},
                    none = {.devices = &dev, .n_devices = 0};
    assert_int_equal(clv_plan_create(f.t.ctx, f.g, &two, &f.plan),
                     CLV_ERR_INVALID);
    assert_int_equal(clv_plan_create(f.t.ctx, f.g, &none, &f.plan),
                     CLV_ERR_NOT_FOUND);
    assert_ok(clv_plan_create(f.t.ctx, f.g, &one, &f.plan));
    assert_ptr_equal(f.plan->devices[f.plan->parts[0].device].dev, dev);
    clv_graph *empty;
    clv_plan *plan;
    assert_ok(clv_graph_create(&empty));
    assert_int_equal(clv_plan_create(f.t.ctx, empty, NULL, &plan),
                     CLV_ERR_INVALID);
    clv_value x = clv_graph_input(empty, "x", CLV_DTYPE_F32, 1,
                                  (clv_dim[]){clv_dim_fixed(4)});
    clv_graph_silu(empty, x);
    assert_int_equal(clv_plan_create(f.t.ctx, empty, NULL, &plan),
                     CLV_ERR_INVALID);
    assert_error_says("clv_graph_output");
    clv_graph_destroy(empty);
    finish(&f);
}

static void test_symbols_are_checked(void **state)
{
    (void)state;
    fixture f = begin("");
    int64_t n = 3, wrong[] = {0, ROWS + 1, -1};
    make_exec(&f);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(clv_exec_run(f.exec, &wrong[i], 1), CLV_ERR_INVALID);
        assert_error_says("symbol 'n'");
    }
    assert_int_equal(clv_exec_run(f.exec, &n, 2), CLV_ERR_INVALID);
    assert_int_equal(clv_exec_run(f.exec, NULL, 1), CLV_ERR_INVALID);
    assert_ok(clv_exec_run(f.exec, &n, 1));
    assert_null(clv_exec_tensor(f.exec, CLV_NO_TENSOR));
    assert_null(clv_exec_tensor(f.exec, 1));
    finish(&f);
}

/* More steps than the queue holds. */
static void test_full_queue(void **state)
{
    (void)state;
    test_context t = test_context_create(
        "ref.ops0=add ref.ops1=mul ref.flag_wait0=on ref.flag_wait1=on "
        "ref.delay_us0=300");
    clv_graph *g;
    clv_plan *plan;
    clv_exec *exec;
    assert_ok(clv_graph_create(&g));
    clv_value x = clv_graph_input(g, "x", CLV_DTYPE_F32, 1,
                                  (clv_dim[]){clv_dim_fixed(4)});
    clv_value y = x;
    for (int i = 0; i < 20; i++)
        y = clv_graph_mul(g, clv_graph_add(g, y, y), x);
    clv_graph_output(g, y, "y");
    assert_ok(clv_plan_create(t.ctx, g, NULL, &plan));
    assert_int_equal(clv_plan_summarise(plan).n_steps, 40);
    assert_ok(clv_exec_create(plan, &exec));
    float *in = clv_tensor_data(clv_exec_tensor(exec, x));
    for (int i = 0; i < 4; i++)
        in[i] = (float)(i + 1) / 4;
    for (int run = 0; run < 3; run++) {
        assert_ok(clv_exec_run(exec, NULL, 0));
        const float *out = clv_tensor_data(clv_exec_tensor(exec, y));
        for (int i = 0; i < 4; i++)
            assert_float_equal(out[i], in[i] * powf(2 * in[i], 20), 1e-2);
    }
    clv_exec_destroy(exec);
    clv_plan_destroy(plan);
    clv_graph_destroy(g);
    test_context_destroy(&t);
}

/* ------------------------------------------------------------------------ */
/* Failures                                                                  */

static void check_failure(const char *settings, const char *device,
                          const char *step)
{
    fixture f = begin(settings);
    int64_t n = ROWS;
    make_exec(&f);
    assert_ok(clv_exec_run(f.exec, &n, 1));
    assert_int_equal(clv_exec_run(f.exec, &n, 1), CLV_ERR_DEVICE_LOST);
    assert_error_says(step);
    assert_error_says("it was told to fail");
    assert_error_says(device);
    assert_int_equal(clv_exec_run(f.exec, &n, 1), CLV_ERR_DEVICE_LOST);
    assert_error_says(step);
    finish(&f);
}

static void test_device_failures(void **state)
{
    (void)state;
    const char *first = "step 0 (matmul ffn.weight): device 'ref:0'";
    const char *second = "step 1 (silu): device 'ref:1'";
    const char *without0 = "device 'ref:0' is left out";
    const char *without1 = "device 'ref:1' is left out";
    check_failure("ref.ops0=matmul ref.ops1=silu,add ref.fail_after0=2",
                  without0, first);
    check_failure("ref.ops0=matmul ref.ops1=silu,add ref.fail_after1=2",
                  without1, second);
    check_failure("ref.ops0=matmul ref.ops1=silu,add ref.fail_after1=2 "
                  "ref.flag_wait1=on",
                  without1, second);
    check_failure("ref.fail_after0=2", without0, first);
}

/* A device that waits for a failed one is not left hanging, and the failure
 * named is the one that came first. */
static void test_failure_reaches_waiters(void **state)
{
    (void)state;
    check_failure("ref.ops0=matmul ref.ops1=silu,add ref.fail_after0=2 "
                  "ref.flag_wait1=on ref.delay_us0=2000",
                  "device 'ref:0' is left out",
                  "step 0 (matmul ffn.weight): device 'ref:0'");
}

/* ------------------------------------------------------------------------ */
/* States                                                                    */

static void test_state_keeps_rows(void **state)
{
    (void)state;
    test_context t = test_context_create("");
    clv_graph *g;
    clv_plan *plan;
    clv_exec *exec;
    assert_ok(clv_graph_create(&g));
    clv_dim n = clv_graph_symbol(g, "n", 1, 4);
    clv_value cache = clv_graph_state(g, "cache", CLV_DTYPE_F32, 2,
                                      (const int64_t[]){8, COLUMNS});
    clv_value src = clv_graph_input(g, "src", CLV_DTYPE_F32, 2,
                                    (clv_dim[]){n, clv_dim_fixed(COLUMNS)});
    clv_value ids = clv_graph_input(g, "ids", CLV_DTYPE_I32, 1, &n);
    clv_graph_set_rows(g, cache, src, ids);
    clv_value all = clv_graph_input(g, "all", CLV_DTYPE_I32, 1,
                                    (clv_dim[]){clv_dim_fixed(9)});
    clv_value y = clv_graph_get_rows(g, cache, all);
    clv_graph_output(g, y, "y");
    assert_ok(clv_plan_create(t.ctx, g, NULL, &plan));
    assert_ok(clv_exec_create(plan, &exec));

    int64_t two = 2;
    assert_int_equal(clv_exec_run(exec, &two, 1), CLV_ERR_INVALID);
    assert_error_says("state 'cache' has no memory");
    test_random r = {9};
    clv_tensor *small = make_tensor(t.ctx, 2, 7, COLUMNS, &r), *memory;
    assert_int_equal(clv_exec_bind(exec, cache, small), CLV_ERR_INVALID);
    assert_error_says("f32 [8,16]");
    assert_int_equal(clv_exec_bind(exec, src, small), CLV_ERR_INVALID);
    assert_ok(clv_tensor_create(t.ctx, CLV_DTYPE_F32, 2,
                                (const int64_t[]){8, COLUMNS}, &memory));
    assert_ok(clv_exec_bind(exec, cache, memory));

    float expected[9][COLUMNS] = {{0}};
    int32_t *where = clv_tensor_data(clv_exec_tensor(exec, ids));
    int32_t *which = clv_tensor_data(clv_exec_tensor(exec, all));
    float *rows = clv_tensor_data(clv_exec_tensor(exec, src));
    for (int i = 0; i < 9; i++)
        which[i] = i; /* row 8 does not exist */
    for (int run = 0; run < 4; run++) {
        for (int i = 0; i < 2; i++) {
            where[i] = run * 2 + i;
            for (int c = 0; c < COLUMNS; c++)
                expected[where[i]][c] = rows[i * COLUMNS + c] = test_float(&r);
        }
        assert_ok(clv_exec_run(exec, &two, 1));
        const float *out = clv_tensor_data(clv_exec_tensor(exec, y));
        assert_memory_equal(out, expected, 8 * sizeof *expected);
        assert_true(isnan(out[8 * COLUMNS]));
        assert_memory_equal(clv_tensor_data(memory), expected,
                            8 * sizeof *expected);
    }
    clv_exec_destroy(exec);
    clv_plan_destroy(plan);
    clv_graph_destroy(g);
    clv_tensor_destroy(memory);
    clv_tensor_destroy(small);
    test_context_destroy(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_one_device),
        cmocka_unit_test(test_random_host_waits),
        cmocka_unit_test(test_random_device_waits),
        cmocka_unit_test(test_random_fused),
        cmocka_unit_test(test_random_own_memory),
        cmocka_unit_test(test_random_with_cpu),
        cmocka_unit_test(test_no_device_takes_it),
        cmocka_unit_test(test_plan_shows_choices),
        cmocka_unit_test(test_plan_arguments),
        cmocka_unit_test(test_symbols_are_checked),
        cmocka_unit_test(test_full_queue),
        cmocka_unit_test(test_device_failures),
        cmocka_unit_test(test_failure_reaches_waiters),
        cmocka_unit_test(test_state_keeps_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
