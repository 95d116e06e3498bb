/*
 * Variants of ops: a plan has each device compute a node in the way that is
 * fastest there, as far as core.precision allows; the plan says so, is saved
 * and loaded so, and the plugin computes so.
 */
#include "layers.h"
#include "message.h"
#include "tmpdir.h"

#include "../../core/plan/plan.h"
#include "../../planner/profile/profile.h"
#include "../../planner/profile/variants.h"
#include "../plugins/ref/context.h"

#include <math.h>

#define N 6
#define C 64

static tmpdir dir;

typedef struct world {
    clv_config *config;
    clv_context *ctx;
} world;

/* chip: of conf/soc, or NULL; settings: separated by blanks. */
static void open_world(world *w, const char *chip, const char *settings)
{
    char text[2048], path[1024], *save = NULL;
    const char *build = getenv("CLEAVE_TEST_BUILD");
    assert_ok(clv_config_create(&w->config));
    if (chip) {
        snprintf(path, sizeof path, "%s/conf/soc/%s.ini",
                 getenv("CLEAVE_TEST_SOURCE"), chip);
        assert_ok(clv_config_load_file(w->config, path));
    }
    snprintf(text, sizeof text,
             "core.plugin_dirs=%s/plugins:%s/tests/plugins/ref "
             "core.allow_unsafe_plugins=on core.cache_dir=%s core.probe=off %s",
             build, build, dir.path, settings);
    for (char *word = strtok_r(text, " ", &save); word;
         word = strtok_r(NULL, " ", &save))
        assert_ok(clv_config_set(w->config, word, "test"));
    const clv_context_params params = {.config = w->config};
    assert_ok(clv_context_create(&params, &w->ctx));
}

static void close_world(world *w)
{
    clv_context_destroy(w->ctx);
    clv_config_destroy(w->config);
}

/* ------------------------------------------------------------------------ */
/* Chosen by cost                                                            */

static const layers_shape shape = {.n_layers = 2,
                                   .hidden = 2048,
                                   .heads = 16,
                                   .groups = 16,
                                   .head_dim = 128,
                                   .ffn = 4096,
                                   .vocabulary = 2048,
                                   .context = 512,
                                   .tokens = 256,
                                   .dtype = CLV_DTYPE_I8,
                                   .quant = CLV_QUANT_PER_TENSOR};

typedef struct outcome {
    uint32_t n_products, n_wide; /* whole products on the NPU */
    double ns;                   /* predicted */
} outcome;

static outcome plan_on_chip(const char *settings)
{
    world w;
    layers l;
    clv_plan *plan;
    outcome o = {0};
    char text[512], *json;
    snprintf(text, sizeof text,
             "core.plugins=npu_sim npu_sim.compute=off core.plan=layer %s",
             settings);
    open_world(&w, "int8-npu", text);
    layers_build(&l, w.ctx, &shape);
    assert_ok(clv_plan_create(w.ctx, l.graph, NULL, &plan));
    assert_non_null(plan->forecast);
    o.ns = plan->forecast->makespan_ns;
    for (uint32_t i = 0; i < plan->n_pieces; i++) {
        const core_piece *p = &plan->pieces[i];
        const clv_device *dev = plan->devices[p->device].dev;
        if (dev->info.kind != CLV_DEVICE_NPU ||
            l.graph->nodes[p->node].op != CLV_OP_MATMUL) {
            assert_int_equal(p->variant, 0);
            continue;
        }
        o.n_products++;
        o.n_wide += p->variant == 1;
        if (p->variant)
            assert_string_equal(plan->names[i].text, "wide");
    }
    /* Saved and loaded it is the same. */
    clv_plan *again;
    assert_ok(clv_plan_json(plan, &json));
    assert_int_equal(strstr(json, "\"variant\":\"wide\"") != NULL,
                     o.n_wide > 0);
    assert_ok(clv_plan_parse(w.ctx, l.graph, NULL, json, strlen(json), &again));
    assert_int_equal(again->n_pieces, plan->n_pieces);
    for (uint32_t i = 0; i < plan->n_pieces; i++) {
        assert_int_equal(again->pieces[i].variant, plan->pieces[i].variant);
        assert_string_equal(core_plan_device_id(again, again->pieces[i].device),
                            core_plan_device_id(plan, plan->pieces[i].device));
    }
    assert_true(fabs(again->forecast->makespan_ns - o.ns) <= 1e-6 * o.ns);
    clv_plan_destroy(again);
    clv_string_free(json);
    clv_plan_destroy(plan);
    layers_free(&l);
    close_world(&w);
    return o;
}

/* Tokens by themselves leave patches of four columns empty but for one, and a
 * picture of four columns costs little where the vector unit is fast. Where it
 * is slow, the picture costs more than it saves. */
static void test_equivalent_shape(void **state)
{
    (void)state;
    const outcome none = plan_on_chip("npu_sim:npu.vector=1000");
    const outcome fast =
        plan_on_chip("npu_sim:npu.vector=1000 npu_sim:npu.patch_columns=4");
    const outcome slow =
        plan_on_chip("npu_sim:npu.vector=0.05 npu_sim:npu.patch_columns=4");
    assert_true(none.n_products > 0);
    assert_int_equal(none.n_wide, 0);
    assert_true(fast.n_products > 0);
    assert_int_equal(fast.n_wide, fast.n_products);
    assert_true(fast.ns < 1.1 * none.ns);
    assert_int_equal(slow.n_wide, 0);
}

/* What is known of a variant is its own, in this process and in the next. */
static void test_profiled(void **state)
{
    (void)state;
    double ns[2][2];
    for (int again = 0; again < 2; again++) {
        world w;
        layers l;
        clv_plan *plan;
        planner_profile *profile;
        open_world(&w, "int8-npu",
                   "core.plugins=npu_sim npu_sim.compute=off "
                   "npu_sim:npu.vector=500 npu_sim:npu.patch_columns=8 "
                   "core.plan=layer");
        layers_build(&l, w.ctx, &shape);
        assert_ok(clv_plan_create(w.ctx, l.graph, NULL, &plan));
        assert_ok(planner_profile_of(w.ctx, &profile));
        uint32_t node = 0;
        while (l.graph->nodes[node].op != CLV_OP_MATMUL)
            node++;
        for (uint32_t way = 0; way < 2; way++) {
            planner_workload work;
            planner_cost cost;
            planner_workload_of(l.graph, node, NULL, NULL, &work);
            work.kind.way = way;
            assert_true(planner_profile_cost(
                profile, clv_context_device(w.ctx, 0), &work, &cost));
            assert_true(cost.measured);
            ns[again][way] = cost.ns;
            work.kind.way = 77;
            assert_false(planner_profile_cost(
                profile, clv_context_device(w.ctx, 0), &work, &cost));
        }
        clv_plan_destroy(plan);
        layers_free(&l);
        close_world(&w);
    }
    assert_true(ns[0][1] < ns[0][0]);
    assert_true(fabs(ns[1][0] - ns[0][0]) < 1e-6 * ns[0][0]);
    assert_true(fabs(ns[1][1] - ns[0][1]) < 1e-6 * ns[0][1]);
}

/* ------------------------------------------------------------------------ */
/* core.precision                                                            */

static void expect_ways(world *w, const char *precision,
                        const clv_op_caps *caps, uint32_t n,
                        const uint32_t *ids)
{
    char text[64];
    snprintf(text, sizeof text, "core.precision=%s", precision);
    assert_ok(clv_config_set(w->config, text, "test"));
    const planner_ways ways = planner_ways_of(w->ctx, caps);
    assert_int_equal(ways.n, n);
    assert_memory_equal(ways.ids, ids, n * sizeof *ids);
    clv_op_caps limited = *caps;
    planner_limit_variants(w->ctx, &limited, 1);
    assert_int_equal(limited.n_variants, ids[0] ? n : n - 1);
}

static void test_precision(void **state)
{
    (void)state;
    world w;
    open_world(&w, NULL, "core.plugins=ref");
    clv_op_caps caps = {.answer = CLV_ANSWER_YES,
                        .error_class = CLV_ERROR_Q8,
                        .n_variants = 4,
                        .variants = {{5, CLV_ERROR_F16, "halves"},
                                     {6, CLV_ERROR_Q8_TENSOR, "tensor"},
                                     {7, CLV_ERROR_F32, "float"},
                                     {8, CLV_ERROR_Q8, "other"}}};
    expect_ways(&w, "plain", &caps, 4, (uint32_t[]){0, 5, 7, 8});
    expect_ways(&w, "fast", &caps, 5, (uint32_t[]){0, 5, 6, 7, 8});
    expect_ways(&w, "best", &caps, 1, (uint32_t[]){7});
    /* Unstated is 1e-3, between one scale a block and one a tensor. */
    caps.error_class = CLV_ERROR_UNSTATED;
    expect_ways(&w, "plain", &caps, 4, (uint32_t[]){0, 5, 7, 8});
    caps.error_class = CLV_ERROR_EXACT;
    expect_ways(&w, "plain", &caps, 1, (uint32_t[]){0});
    expect_ways(&w, "best", &caps, 1, (uint32_t[]){0});
    caps.n_variants = 0;
    expect_ways(&w, "fast", &caps, 1, (uint32_t[]){0});
    close_world(&w);
}

/* ------------------------------------------------------------------------ */
/* Computed                                                                  */

/* y = x w^T */
typedef struct product {
    clv_graph *graph;
    clv_tensor *w;
    clv_value x, y;
} product;

static void make_product(world *w, product *p, uint32_t dtype)
{
    const int64_t dims[] = {C, C};
    const clv_dim rows[] = {clv_dim_fixed(N), clv_dim_fixed(C)};
    float values[C * C];
    test_random r = {3};
    for (int i = 0; i < C * C; i++)
        values[i] = test_float(&r);
    assert_ok(clv_graph_create(&p->graph));
    assert_ok(clv_tensor_create(w->ctx, dtype, 2, dims, &p->w));
    if (dtype == CLV_DTYPE_F32)
        memcpy(clv_tensor_data(p->w), values, sizeof values);
    else
        clv_format_of(dtype)->encode(values, clv_tensor_data(p->w), C * C);
    p->x = clv_graph_input(p->graph, "x", CLV_DTYPE_F32, 2, rows);
    p->y = clv_graph_matmul(
        p->graph, p->x, clv_graph_weight(p->graph, "w", p->w), CLV_NO_TENSOR);
    clv_graph_output(p->graph, p->y, "y");
}

static void free_product(product *p)
{
    clv_graph_destroy(p->graph);
    clv_tensor_destroy(p->w);
}

static void run_product(product *p, clv_plan *plan, float y[N * C])
{
    clv_exec *exec;
    test_random r = {4};
    assert_ok(clv_exec_create(plan, &exec));
    float *x = clv_tensor_data(clv_exec_tensor(exec, p->x));
    for (int i = 0; i < N * C; i++)
        x[i] = test_float(&r);
    assert_ok(clv_exec_run(exec, NULL, 0));
    memcpy(y, clv_tensor_data(clv_exec_tensor(exec, p->y)), N * C * sizeof *y);
    clv_exec_destroy(exec);
}

/* The plan's JSON with a variant for its only piece. */
static clv_status parse_with(world *w, product *p, clv_plan *plan,
                             const char *value, clv_plan **out)
{
    char *json, *text;
    assert_ok(clv_plan_json(plan, &json));
    char *pieces = strstr(json, "\"pieces\":[");
    assert_non_null(pieces);
    char *at = strstr(pieces, "\"node\":0,");
    assert_non_null(at);
    assert_true(asprintf(&text, "%.*s\"variant\":%s,%s", (int)(at - json), json,
                         value, at) > 0);
    const clv_status status =
        clv_plan_parse(w->ctx, p->graph, NULL, text, strlen(text), out);
    free(text);
    clv_string_free(json);
    return status;
}

static double difference(const float *a, const float *b)
{
    double sum = 0, all = 0;
    for (int i = 0; i < N * C; i++) {
        sum += pow((double)a[i] - (double)b[i], 2);
        all += pow((double)b[i], 2);
    }
    return sum / all;
}

/* The device computes as the plan says. */
static void test_computed(void **state)
{
    (void)state;
    world w;
    product p;
    clv_plan *plan, *other;
    float plain[N * C], halves[N * C], backward[N * C];
    open_world(&w, NULL,
               "core.plugins=ref ref.devices=1 ref.variants0=on "
               "core.precision=fast");
    make_product(&w, &p, CLV_DTYPE_F32);
    assert_ok(clv_plan_create(w.ctx, p.graph, NULL, &plan));
    run_product(&p, plan, plain);
    assert_ok(parse_with(&w, &p, plan, "\"halves\"", &other));
    run_product(&p, other, halves);
    clv_plan_destroy(other);
    assert_true(difference(halves, plain) > 1e-10);
    assert_true(difference(halves, plain) < 1e-6);
    assert_ok(parse_with(&w, &p, plan, "\"backward\"", &other));
    run_product(&p, other, backward);
    clv_plan_destroy(other);
    assert_true(difference(backward, plain) < 1e-12);
    clv_plan_destroy(plan);
    free_product(&p);
    close_world(&w);
}

static void test_refused(void **state)
{
    (void)state;
    world w;
    product p;
    clv_plan *plan, *other;
    open_world(&w, NULL, "core.plugins=ref ref.devices=1 ref.variants0=on");
    make_product(&w, &p, CLV_DTYPE_F32);
    assert_ok(clv_plan_create(w.ctx, p.graph, NULL, &plan));
    const struct {
        const char *value;
        clv_status status;
        const char *message;
    } cases[] = {
        {"\"sideways\"", CLV_ERR_UNSUPPORTED,
         "plan: piece 0: device 'ref:0' has no variant 'sideways' of its node"},
        {"\"halves\"", CLV_ERR_REFUSED,
         "variant 'halves' of device 'ref:0' is less precise than"},
        {"3", CLV_ERR_FORMAT, "plan: piece 0: its variant is no name"},
        {"\"\"", CLV_ERR_FORMAT, "plan: piece 0: its variant is no name"},
        {"\"a-name-that-is-longer-than-any\"", CLV_ERR_FORMAT,
         "plan: piece 0: its variant is no name"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(parse_with(&w, &p, plan, cases[i].value, &other),
                         cases[i].status);
        assert_non_null(strstr(clv_last_error(), cases[i].message));
        assert_null(strchr(clv_last_error(), '\n'));
    }
    clv_plan_destroy(plan);
    free_product(&p);
    close_world(&w);
}

/* Products with blocks of integers are float ones where that is asked for. */
static void test_best(void **state)
{
    (void)state;
    float y[2][N * C];
    for (int best = 0; best < 2; best++) {
        world w;
        product p;
        clv_plan *plan;
        open_world(&w, NULL,
                   best ? "core.plugins=cpu cpu.threads=1 core.precision=best"
                        : "core.plugins=cpu cpu.threads=1");
        make_product(&w, &p, CLV_DTYPE_Q8_0);
        assert_ok(clv_plan_create(w.ctx, p.graph, NULL, &plan));
        clv_op_caps caps;
        const clv_subgraph view = core_graph_view(p.graph);
        assert_ok(core_device_caps(clv_context_device(w.ctx, 0), &view, &caps));
        if (!caps.n_variants) { /* its kernel does not round */
            clv_plan_destroy(plan);
            free_product(&p);
            close_world(&w);
            skip();
        }
        assert_int_equal(plan->names != NULL, best);
        if (best)
            assert_string_equal(plan->names[0].text, "float");
        run_product(&p, plan, y[best]);
        clv_plan_destroy(plan);
        free_product(&p);
        close_world(&w);
    }
    assert_true(difference(y[0], y[1]) > 1e-10);
    assert_true(difference(y[0], y[1]) < 1e-4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equivalent_shape),
        cmocka_unit_test(test_profiled),
        cmocka_unit_test(test_precision),
        cmocka_unit_test(test_computed),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_best),
    };
    if (!tmpdir_make(&dir))
        return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    tmpdir_remove(&dir);
    return failed;
}
