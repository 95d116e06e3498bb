/* Every allocation of the core fails once: each call answers with an error that
 * says so, leaks nothing, and what is there still works. */
#include "test.h"

#include "../../core/plan/plan.h"
#include "../../tools/views/views.h"

#include "fail_alloc.h"
#include "solve_problem.h"
#include "tmpdir.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static tmpdir dir;

/* ------------------------------------------------------------------------ */

static clv_status make_config(clv_config **out, const char *probe)
{
    char text[4][512];
    /* A process for each plugin and allocation takes long: one plugin then. */
    const bool one = !strcmp(probe, "always");
    const char *build = getenv("CLEAVE_TEST_BUILD");
    snprintf(text[0], sizeof *text,
             "core.plugin_dirs=%s/tests/plugins/ref:%s/plugins", build, build);
    snprintf(text[1], sizeof *text, "core.cache_dir=%s/cache", dir.path);
    snprintf(text[2], sizeof *text, "core.probe=%s", probe);
    snprintf(text[3], sizeof *text, "cpu.threads=2");
    const char *const set[] = {text[0],
                               text[1],
                               text[2],
                               text[3],
                               "core.allow_unsafe_plugins=on",
                               one ? "core.plugins=ref"
                                   : "core.plugins=ref,cpu",
                               "core.plan=first",
                               "ref.ops0=matmul",
                               "ref.ops1=add,set_rows,attention",
                               "ref.states1=weights"};
    clv_status status = clv_config_create(out);
    for (size_t i = 0; i < sizeof set / sizeof *set && !status; i++)
        status = clv_config_set(*out, set[i], "test");
    if (status) {
        clv_config_destroy(*out);
        *out = NULL;
    }
    return status;
}

static const char ini[] = "[core]\nlog_level = info\nplugins = cpu, ref\n"
                          "[cpu]\nthreads = 1\n";

static clv_status configure(void *arg)
{
    clv_config *config;
    (void)arg;
    clv_status status = make_config(&config, "off");
    if (!status)
        status = clv_config_load_file(config, tmpdir_file(&dir, "a.ini"));
    if (!status)
        status = clv_config_load_env(config);
    clv_config_destroy(config);
    return status;
}

static void test_config(void **state)
{
    (void)state;
    tmpdir_text(&dir, "a.ini", ini);
    test_allocations(configure, NULL);
}

/* A plugin that got no memory is told of; the context is there. */
static clv_status open_context(clv_config *config, clv_context **out)
{
    clv_context_params params = {.config = config, .trace = true};
    clv_status status = clv_context_create(&params, out);
    if (status)
        assert_null(*out);
    for (uint32_t i = 0; !status && i < clv_context_candidate_count(*out);
         i++) {
        const clv_candidate *c = clv_context_candidate(*out, i);
        if (c->status == CLV_ERR_REFUSED) /* not among core.plugins */
            continue;
        if (c->status && (c->status != CLV_ERR_NO_MEMORY || !c->reason[0]))
            fail_msg("status %d: %s", c->status, c->reason);
    }
    return status;
}

static clv_status open_and_close(void *arg)
{
    clv_config *config;
    clv_context *ctx;
    clv_status status = make_config(&config, arg);
    if (!status)
        status = open_context(config, &ctx);
    if (!status)
        clv_context_destroy(ctx);
    clv_config_destroy(config);
    return status;
}

static void test_contexts(void **state)
{
    (void)state;
    char off[] = "off", always[] = "always", once[] = "auto";
    test_allocations(open_and_close, off);
    test_allocations(open_and_close, always);
    test_allocations(open_and_close, once);
}

/* ------------------------------------------------------------------------ */

#define COLUMNS 8
#define ROWS 4

typedef struct pieces {
    clv_context *ctx;
    bool brief; /* nothing is printed */
    clv_tensor *w, *bias, *cache;
    clv_graph *g;
    clv_plan *plan;
    clv_exec *exec;
    clv_value x, y, rows, state;
} pieces;

static clv_status make_tensors(pieces *p)
{
    static float wrapped[COLUMNS] = {1, 1, 1, 1, 1, 1, 1, 1};
    const int64_t square[] = {COLUMNS, COLUMNS}, row = COLUMNS;
    clv_status status =
        clv_tensor_create(p->ctx, CLV_DTYPE_F32, 2, square, &p->w);
    if (!status)
        status = clv_tensor_create(p->ctx, CLV_DTYPE_F32, 2, square, &p->cache);
    if (!status)
        status = clv_tensor_wrap(p->ctx, CLV_DTYPE_F32, 1, &row, wrapped,
                                 sizeof wrapped, CLV_ACCESS_READ, NULL, NULL,
                                 &p->bias);
    for (int i = 0; i < COLUMNS && !status; i++)
        ((float *)clv_tensor_data(p->w))[i * COLUMNS + i] = 2;
    return status;
}

static clv_status make_graph(pieces *p)
{
    const int64_t square[] = {COLUMNS, COLUMNS};
    clv_status status = clv_graph_create(&p->g);
    if (status)
        return status;
    clv_dim n = clv_graph_symbol(p->g, "n", 1, ROWS);
    clv_dim dims[] = {n, clv_dim_fixed(COLUMNS)};
    p->x = clv_graph_input(p->g, "x", CLV_DTYPE_F32, 2, dims);
    p->rows = clv_graph_input(p->g, "rows", CLV_DTYPE_I32, 1, &n);
    p->state = clv_graph_state(p->g, "cache", CLV_DTYPE_F32, 2, square);
    clv_value w = clv_graph_weight(p->g, "w", p->w);
    clv_value bias = clv_graph_weight(p->g, "bias", p->bias);
    clv_value h = clv_graph_matmul(p->g, p->x, w, CLV_NO_TENSOR);
    for (int i = 0; i < 3; i++)
        h = clv_graph_silu(p->g, clv_graph_add(p->g, h, bias));
    p->y = clv_graph_add(p->g, h, p->x);
    clv_graph_set_rows(p->g, p->state, p->y, p->rows);
    clv_graph_output(p->g, p->y, "y");
    return clv_graph_check(p->g);
}

static clv_status print(const pieces *p, const char *format)
{
    char *text;
    clv_status status = view_plan(p->plan, format, &text);
    if (!status)
        clv_string_free(text);
    return status;
}

static void check_result(const pieces *p)
{
    const float *y = clv_tensor_data(clv_exec_tensor(p->exec, p->y));
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        double x = (double)i / 8, h = 2 * x;
        for (int k = 0; k < 3; k++)
            h = (h + 1) / (1 + exp(-(h + 1)));
        assert_true(fabs((double)y[i] - (h + x)) < 1e-3 * (1 + h));
    }
    assert_memory_equal(clv_tensor_data(p->cache), y,
                        ROWS * COLUMNS * sizeof *y);
}

static clv_status run(pieces *p)
{
    const int64_t n = ROWS;
    float *x = clv_tensor_data(clv_exec_tensor(p->exec, p->x));
    int32_t *rows = clv_tensor_data(clv_exec_tensor(p->exec, p->rows));
    for (int i = 0; i < ROWS * COLUMNS; i++)
        x[i] = (float)i / 8;
    for (int i = 0; i < ROWS; i++)
        rows[i] = i;
    clv_status status = clv_exec_run(p->exec, &n, 1);
    if (!status)
        check_result(p);
    return status;
}

static clv_status work(pieces *p)
{
    clv_status status = make_tensors(p);
    if (!status)
        status = make_graph(p);
    if (!status)
        status = clv_plan_create(p->ctx, p->g, NULL, &p->plan);
    if (!status && !p->brief)
        status = print(p, "md");
    if (!status && !p->brief)
        status = print(p, "json");
    if (!status)
        status = clv_exec_create(p->plan, &p->exec);
    if (!status)
        status = clv_exec_bind(p->exec, p->state, p->cache);
    for (int i = 0; i < 2 && !status; i++) {
        status = run(p);
        if (status) { /* the next one works */
            char message[512];
            snprintf(message, sizeof message, "%s", clv_last_error());
            assert_ok(run(p));
            clv_error(status, "%s", message);
        }
    }
    return status;
}

static clv_status compute_in(clv_context *ctx, bool brief)
{
    pieces p = {.ctx = ctx, .brief = brief};
    clv_status status = work(&p);
    clv_exec_destroy(p.exec);
    clv_plan_destroy(p.plan);
    clv_graph_destroy(p.g);
    clv_tensor_destroy(p.w);
    clv_tensor_destroy(p.bias);
    clv_tensor_destroy(p.cache);
    return status;
}

static clv_status compute(void *arg)
{
    return compute_in(arg, false);
}

static clv_status write_trace(void *arg)
{
    return clv_trace_write(arg, tmpdir_file(&dir, "trace.json"));
}

/* In one context all along, which stays usable. Its trace is written while it
 * is short: each run makes it longer. */
static void test_compute(void **state)
{
    (void)state;
    clv_config *config;
    clv_context *ctx;
    assert_ok(make_config(&config, "off"));
    assert_ok(open_context(config, &ctx));
    assert_int_equal(clv_context_device_count(ctx), 3);
    assert_ok(compute(ctx));
    test_allocations(write_trace, ctx);
    test_allocations(compute, ctx);
    assert_ok(write_trace(ctx)); /* that failures left things in */
    for (uint32_t i = 0; i < 3; i++)
        assert_false(clv_device_lost(clv_context_device(ctx, i)));
    clv_context_destroy(ctx);
    clv_config_destroy(config);
}

/* A cache that lies as a device wishes, and comes back to the host. */
typedef struct cached {
    clv_context *ctx;
    clv_tensor *states[2];
    clv_graph *g;
    clv_plan *plan;
    clv_exec *exec;
} cached;

static clv_status attend(cached *c)
{
    const int64_t dims[] = {5, 4};
    const clv_dim two = clv_dim_fixed(2);
    const clv_dim row[] = {two, clv_dim_fixed(4)};
    const clv_dim q[] = {two, clv_dim_fixed(8)};
    clv_device *dev = clv_context_device(c->ctx, 1);
    const clv_plan_params params = {.devices = &dev, .n_devices = 1};
    const clv_attention_params heads = {.head_dim = 4};
    clv_value v[2];
    clv_status status = clv_graph_create(&c->g);
    if (status)
        return status;
    clv_value pos = clv_graph_input(c->g, "pos", CLV_DTYPE_I32, 1, &two);
    clv_value rows = clv_graph_input(c->g, "rows", CLV_DTYPE_F32, 2, row);
    clv_value x = clv_graph_input(c->g, "q", CLV_DTYPE_F32, 2, q);
    for (int i = 0; i < 2; i++) {
        v[i] = clv_graph_state(c->g, i ? "v" : "k", CLV_DTYPE_F16, 2, dims);
        clv_graph_set_rows(c->g, v[i], rows, pos);
    }
    clv_graph_output(
        c->g,
        clv_graph_attention(c->g, x, v[0], v[1], pos, CLV_NO_TENSOR, &heads),
        "y");
    status = clv_plan_create(c->ctx, c->g, &params, &c->plan);
    if (!status)
        assert_int_equal(c->plan->graph->tensors[v[1]].layout,
                         CLV_LAYOUT_WEIGHTS);
    if (!status)
        status = clv_exec_create(c->plan, &c->exec);
    for (int i = 0; i < 2 && !status; i++) {
        status =
            clv_tensor_create(c->ctx, CLV_DTYPE_F16, 2, dims, &c->states[i]);
        if (!status)
            status = clv_exec_bind(c->exec, v[i], c->states[i]);
    }
    for (int i = 0; i < 2 && !status; i++) {
        float *data = clv_tensor_data(clv_exec_tensor(c->exec, rows));
        for (int j = 0; j < 8; j++)
            data[j] = 1;
        status = clv_exec_run(c->exec, NULL, 0);
        if (!status && !(data = clv_tensor_data(c->states[1])))
            status = CLV_ERR_NO_MEMORY;
        if (!status) /* both rows are set at position 0 */
            assert_int_equal(((uint16_t *)data)[3], 0x3c00);
    }
    return status;
}

static clv_status lay_out(void *arg)
{
    cached c = {.ctx = arg};
    clv_status status = attend(&c);
    clv_exec_destroy(c.exec);
    clv_plan_destroy(c.plan);
    clv_graph_destroy(c.g);
    clv_tensor_destroy(c.states[0]);
    clv_tensor_destroy(c.states[1]);
    return status;
}

static void test_layouts(void **state)
{
    (void)state;
    clv_config *config;
    clv_context *ctx;
    assert_ok(make_config(&config, "off"));
    assert_ok(open_context(config, &ctx));
    test_allocations(lay_out, ctx);
    clv_context_destroy(ctx);
    clv_config_destroy(config);
}

/* And from the configuration to the result, in a context of its own. */
static clv_status all_of_it(void *arg)
{
    clv_config *config;
    clv_context *ctx = NULL;
    (void)arg;
    clv_status status = make_config(&config, "off");
    if (!status)
        status = open_context(config, &ctx);
    if (!status && clv_context_device_count(ctx) < 3)
        status = clv_error(CLV_ERR_NO_MEMORY, "a plugin had no memory");
    if (!status)
        status = compute_in(ctx, true);
    clv_context_destroy(ctx);
    clv_config_destroy(config);
    return status;
}

/* What opening a context allocates has failed in another test. One that stays
 * open keeps the plugins loaded: each time, that would take longer than the
 * rest. */
static void test_all(void **state)
{
    (void)state;
    char off[] = "off";
    clv_config *config;
    clv_context *ctx;
    assert_ok(make_config(&config, off));
    assert_ok(open_context(config, &ctx));
    test_allocations_from(count_allocations(open_and_close, off), all_of_it,
                          NULL);
    clv_context_destroy(ctx);
    clv_config_destroy(config);
}

/* The search, with layers that repeat and memory that does not suffice. */
static clv_status solve(void *arg)
{
    const problem *q = arg;
    planner_solution solution;
    double ns;
    uint32_t options[PROBLEM_NODES];
    clv_status status = planner_search(&q->p, 0, &solution);
    if (status)
        return status;
    for (uint32_t i = 0; i < q->p.n_nodes; i++)
        options[i] = solution.choices[i].option;
    planner_solution_finish(&solution);
    return planner_solve_evaluate(&q->p, options, NULL, NULL, &ns);
}

static void test_solve(void **state)
{
    (void)state;
    test_random r = {5};
    problem *small = problem_new(2), *layers = problem_new(2);
    layer_node(&r, small, false);
    layer_node(&r, small, false);
    test_allocations(solve, small);
    for (int i = 0; i < 2; i++)
        layer_node(&r, layers, false);
    repeat_nodes(layers, 2, 6, true);
    for (uint32_t i = 0; i < layers->p.n_pieces; i++)
        layers->pieces[i].weight_bytes = (uint64_t)layers->pieces[i].ns;
    layers->devices[0].memory = 2000;
    test_allocations(solve, layers);
    uint32_t known[PROBLEM_NODES];
    for (uint32_t i = 0; i < small->p.n_nodes; i++)
        known[i] = small->nodes[i].first_option;
    small->p.known = known;
    test_allocations(solve, small);
    free(small);
    free(layers);
}

static int setup(void **state)
{
    (void)state;
    return tmpdir_make(&dir) ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    tmpdir_remove(&dir);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_config),  cmocka_unit_test(test_contexts),
        cmocka_unit_test(test_compute), cmocka_unit_test(test_layouts),
        cmocka_unit_test(test_all),     cmocka_unit_test(test_solve),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
