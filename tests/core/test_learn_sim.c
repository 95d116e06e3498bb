/*
 * What is learned on simulated chips, which are exact: what making programs
 * ready takes, which is weighed against what runs take; and what submits,
 * dispatches, waits and copies take.
 */
#include "layers.h"
#include "tmpdir.h"

#include "../../core/exec/exec.h"
#include "../../core/plan/plan.h"
#include "../../planner/planner.h"
#include "../../planner/profile/store.h"

#include <math.h>

static const layers_shape shape = {.n_layers = 2,
                                   .hidden = 2048,
                                   .heads = 16,
                                   .groups = 4,
                                   .head_dim = 128,
                                   .ffn = 8192,
                                   .vocabulary = 2048,
                                   .context = 512,
                                   .tokens = 300,
                                   .dtype = CLV_DTYPE_I4,
                                   .quant = CLV_QUANT_PER_CHANNEL};

#define MAX_STATES 8

typedef struct world {
    clv_config *config;
    clv_context *ctx;
    layers l;
    clv_tensor *states[MAX_STATES];
    uint32_t n_states;
} world;

static tmpdir dir;

static void open_chip(world *w, const char *chip, const char *settings,
                      const layers_shape *s)
{
    char text[2048], path[1024], *save = NULL;
    memset(w, 0, sizeof *w);
    assert_ok(clv_config_create(&w->config));
    snprintf(path, sizeof path, "%s/conf/soc/%s.ini",
             getenv("CLEAVE_TEST_SOURCE"), chip);
    assert_ok(clv_config_load_file(w->config, path));
    snprintf(text, sizeof text,
             "core.plugin_dirs=%s/plugins core.plugins=npu_sim "
             "core.allow_unsafe_plugins=on core.cache_dir=%s core.probe=off "
             "core.plan=tensor npu_sim.compute=off %s",
             getenv("CLEAVE_TEST_BUILD"), dir.path, settings);
    for (char *word = strtok_r(text, " ", &save); word;
         word = strtok_r(NULL, " ", &save))
        assert_ok(clv_config_set(w->config, word, "test"));
    const clv_context_params params = {.config = w->config};
    assert_ok(clv_context_create(&params, &w->ctx));
    layers_build(&w->l, w->ctx, s);
}

static void open_world(world *w, const char *settings, const layers_shape *s)
{
    open_chip(w, "snapdragon-8gen3", settings, s);
}

static void close_world(world *w)
{
    for (uint32_t i = 0; i < w->n_states; i++)
        clv_tensor_destroy(w->states[i]);
    layers_free(&w->l);
    clv_context_destroy(w->ctx);
    clv_config_destroy(w->config);
}

static clv_plan *plan_of(world *w)
{
    clv_plan *plan;
    assert_ok(clv_plan_create(w->ctx, w->l.graph, NULL, &plan));
    assert_non_null(plan->forecast);
    return plan;
}

static clv_exec *exec_of(world *w, clv_plan *plan)
{
    clv_exec *exec;
    assert_ok(clv_exec_create(plan, &exec));
    for (clv_value v = 0; v < w->l.graph->n_tensors; v++) {
        const clv_tensor_desc *desc = &w->l.graph->tensors[v];
        if (desc->usage != CLV_USAGE_STATE || w->l.graph->values[v].base != v)
            continue;
        assert_true(w->n_states < MAX_STATES);
        clv_tensor **state = &w->states[w->n_states++];
        assert_ok(clv_tensor_create(w->ctx, desc->dtype, desc->rank, desc->dims,
                                    state));
        assert_ok(clv_exec_bind(exec, v, *state));
    }
    return exec;
}

static double records_slow = 1; /* runs that are recorded, so many times */

/* Of a run, ns. */
static double run(clv_exec *exec)
{
    clv_learned learned;
    const int64_t rows = 300;
    assert_ok(clv_exec_run(exec, &rows, 1));
    const double ns = exec->latest.ns;
    if (exec->latest.part_ns)
        exec->latest.ns *= records_slow;
    assert_ok(clv_exec_learn(exec, &learned));
    return ns;
}

/* Compiles and runs once. What compiling took, ns. */
static double prepare(world *w, clv_plan *plan)
{
    const uint64_t before = clv_context_programs(w->ctx).virtual_ns;
    clv_exec *exec = exec_of(w, plan);
    const double ns =
        (double)(clv_context_programs(w->ctx).virtual_ns - before);
    run(exec);
    clv_exec_destroy(exec);
    return ns;
}

static void assert_about(double a, double b, double error)
{
    if (!(fabs(a / b - 1) <= error))
        fail_msg("%.0f ns is not about %.0f ns", a, b);
}

/* By a model at first, by what it took later, and as what the cache makes of
 * it. */
static void test_predicted(void **state)
{
    (void)state;
    char *json, text[64];
    world w;
    open_world(&w, "", &shape);
    clv_plan *plan = plan_of(&w);
    const double model_ns = plan->prepare_ns;
    assert_ok(clv_plan_json(plan, &json));
    snprintf(text, sizeof text, "\"prepare_ns\":%.0f,", round(model_ns));
    assert_non_null(strstr(json, text));
    const double first_ns = prepare(&w, plan);
    assert_about(model_ns, first_ns, 0.15);
    clv_plan_destroy(plan);
    close_world(&w);
    for (int cached = 0; cached < 2; cached++) {
        open_world(&w, cached ? "" : "core.program_cache=0", &shape);
        assert_ok(
            clv_plan_parse(w.ctx, w.l.graph, NULL, json, strlen(json), &plan));
        const double predicted_ns = plan->prepare_ns;
        const double ns = prepare(&w, plan);
        assert_about(predicted_ns, ns, 0.02);
        if (cached)
            assert_true(ns < 0.1 * first_ns);
        else
            assert_about(ns, first_ns, 0.02);
        clv_plan_destroy(plan);
        close_world(&w);
    }
    clv_string_free(json);
}

/* Layers share their programs. */
static void test_distinct(void **state)
{
    (void)state;
    double ns[2];
    for (uint32_t i = 0; i < 2; i++) {
        layers_shape s = shape;
        world w;
        s.n_layers = i ? 6 : 3;
        open_world(&w, "core.expected_runs=0", &s);
        clv_plan *plan = plan_of(&w);
        ns[i] = plan->prepare_ns;
        clv_plan_destroy(plan);
        close_world(&w);
    }
    assert_true(ns[0] > 0 && ns[1] < 1.3 * ns[0]);
}

/* 300 tokens are 256 and 32 and 12, or fewer lengths, or all on the device that
 * takes any: what is ready and done soonest depends on how often it is run. */
static void test_runs(void **state)
{
    (void)state;
    static const double runs[] = {1, 20, 1000000, 0};
    double prepare_ns[4], run_ns[4];
    for (int i = 0; i < 4; i++) {
        char setting[64];
        world w;
        snprintf(setting, sizeof setting, "core.expected_runs=%.0f", runs[i]);
        open_world(&w, setting, &shape);
        clv_plan *plan = plan_of(&w);
        prepare_ns[i] = plan->prepare_ns;
        run_ns[i] = plan->forecast->makespan_ns;
        print_message("%.0f runs: %.1f + %.1f ms\n", runs[i],
                      prepare_ns[i] / 1e6, run_ns[i] / 1e6);
        clv_plan_destroy(plan);
        close_world(&w);
    }
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 4; j++)
            assert_true(prepare_ns[i] / runs[i] + run_ns[i] <=
                        1.005 * (prepare_ns[j] / runs[i] + run_ns[j]));
    assert_about(run_ns[3], run_ns[2], 0.01);
    assert_true(prepare_ns[0] < 0.1 * prepare_ns[2]);
    assert_true(prepare_ns[1] > 1.1 * prepare_ns[0]);
    assert_true(prepare_ns[1] < 0.9 * prepare_ns[2]);
    assert_true(run_ns[1] < run_ns[0]);
}

/* ------------------------------------------------------------------------ */

/* What a run takes by the forecast, not corrected by what runs took. */
static double forecast(const clv_plan *plan)
{
    const int64_t rows = 300;
    core_forecast *f;
    assert_ok(planner_predict(plan, &rows, &f));
    const double ns = f->makespan_ns;
    core_forecast_free(f);
    return ns;
}

/* Each op on the other device than the one before it. */
static clv_plan *alternating(world *w)
{
    const uint32_t n = w->l.graph->n_nodes;
    core_piece *pieces = calloc(n, sizeof *pieces);
    clv_plan *plan;
    assert_non_null(pieces);
    for (uint32_t i = 0; i < n; i++)
        pieces[i] = (core_piece){
            .node = i,
            .device = !(w->l.graph->nodes[i].op == CLV_OP_MATMUL && i % 3)};
    assert_ok(planner_from_pieces(w->ctx, w->l.graph, NULL, pieces, n, &plan));
    free(pieces);
    return plan;
}

/* The devices' overheads as if they took so many times as long. */
static void spoil(world *w, double factor)
{
    planner_profile *profile;
    assert_ok(planner_profile_of(w->ctx, &profile));
    for (uint32_t d = 0; d < 2; d++) {
        clv_device *dev = clv_context_device(w->ctx, d);
        planner_overheads o = *planner_profile_overheads(profile, dev);
        o.submit *= factor;
        o.submit_idle *= factor;
        o.dispatch *= factor;
        o.wait_poll *= factor;
        o.copy *= factor;
        o.copy_byte *= factor;
        o.copy_row *= factor;
        o.copy_out *= factor;
        o.copy_byte_out *= factor;
        assert_ok(planner_profile_learn_overheads(profile, dev, &o));
    }
}

static uint32_t learned(world *w)
{
    uint32_t bits = 0;
    planner_profile *profile;
    assert_ok(planner_profile_of(w->ctx, &profile));
    for (uint32_t d = 0; d < 2; d++)
        bits |=
            planner_profile_overheads(profile, clv_context_device(w->ctx, d))
                ->learned;
    return bits;
}

/* Overheads that were measured wrongly are right after some runs: for a plan
 * that never ran, too, and in the next process. */
static void try_overheads(const char *settings, double factor, uint32_t wanted)
{
    layers_shape s = shape;
    char *text;
    world w;
    s.tokens = 1;
    open_world(&w, settings, &s);
    clv_plan *plan = plan_of(&w);
    clv_plan_destroy(plan);
    assert_int_equal(learned(&w), 0);
    spoil(&w, factor);
    plan = alternating(&w);
    const double wrong_ns = forecast(plan);
    clv_exec *exec = exec_of(&w, plan);
    double ns = 0;
    for (int i = 0; i < 5; i++)
        ns = run(exec);
    clv_exec_destroy(exec);
    assert_true(fabs(wrong_ns / ns - 1) > 0.1);
    assert_about(forecast(plan), ns, 0.03);
    clv_plan_destroy(plan);
    assert_int_equal(learned(&w) & wanted, wanted);
    close_world(&w);

    open_world(&w, settings, &s);
    plan = plan_of(&w);
    assert_int_equal(learned(&w) & wanted, wanted);
    assert_ok(clv_profile_print(w.ctx, NULL, 0, "md", &text));
    assert_non_null(strstr(text, "corrected by runs: "));
    clv_string_free(text);
    const double other_ns = forecast(plan);
    exec = exec_of(&w, plan);
    run(exec);
    assert_about(other_ns, run(exec), 0.03);
    clv_exec_destroy(exec);
    clv_plan_destroy(plan);
    close_world(&w);
}

#define HOST                                                                   \
    (PLANNER_LEARNED_SUBMIT_IDLE | PLANNER_LEARNED_DISPATCH |                  \
     PLANNER_LEARNED_WAIT_POLL)

static void test_too_long(void **state)
{
    (void)state;
    try_overheads("", 4, HOST);
}

static void test_too_short(void **state)
{
    (void)state;
    try_overheads("", 0.1, HOST);
}

/* A run that takes far longer while devices record says little of others. */
static void test_another_way(void **state)
{
    (void)state;
    layers_shape s = shape;
    world w;
    s.tokens = 1;
    open_world(&w, "", &s);
    clv_plan_destroy(plan_of(&w));
    spoil(&w, 4);
    clv_plan *plan = alternating(&w);
    clv_exec *exec = exec_of(&w, plan);
    records_slow = 2;
    for (int i = 0; i < 5; i++)
        run(exec);
    records_slow = 1;
    clv_exec_destroy(exec);
    clv_plan_destroy(plan);
    assert_int_equal(learned(&w), 0);
    close_world(&w);
}

/* A device with memory of its own copies what others need. */
static void test_copies(void **state)
{
    (void)state;
    try_overheads("npu_sim:adreno.memory=4096 npu_sim:adreno.link=10 "
                  "npu_sim:adreno.copy_us=40",
                  4, HOST | PLANNER_LEARNED_COPY);
}

/* The link's bandwidth is learned from weights that stream, beside many small
 * copies. */
static void test_streams(void **state)
{
    (void)state;
    static const double factors[] = {4, 16};
    for (int i = 0; i < 2; i++) {
        world w;
        planner_profile *profile;
        uint32_t streamed = 0;
        open_chip(&w, "small-card",
                  "npu_sim:card.memory=40 npu_sim:card.copy_queues=1", &shape);
        clv_plan *plan = plan_of(&w);
        for (uint32_t k = 0; k < plan->n_pieces; k++)
            streamed += plan->pieces[k].streamed;
        assert_true(streamed > 0);
        const double right_ns = forecast(plan);
        spoil(&w, factors[i]);
        clv_exec *exec = exec_of(&w, plan);
        double ns = 0;
        for (int k = 0; k < 5; k++)
            ns = run(exec);
        clv_exec_destroy(exec);
        clv_device *dev;
        assert_ok(clv_context_find_device(w.ctx, "npu_sim:card", &dev));
        assert_ok(planner_profile_of(w.ctx, &profile));
        const planner_overheads *o = planner_profile_overheads(profile, dev);
        print_message("%u streamed, %g ns as %g ns was forecast; %g ns a "
                      "byte\n",
                      streamed, ns, right_ns, o->copy_byte);
        assert_about(o->copy_byte, 1.0 / 12, 0.06);
        assert_about(forecast(plan), ns, 0.05);
        clv_plan_destroy(plan);
        close_world(&w);
        tmpdir_remove(&dir);
        tmpdir_make(&dir);
    }
}

static int with_dir(void **state)
{
    (void)state;
    tmpdir_make(&dir);
    return 0;
}

static int without_dir(void **state)
{
    (void)state;
    tmpdir_remove(&dir);
    return 0;
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, with_dir, without_dir)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_predicted), TEST(test_distinct),    TEST(test_runs),
        TEST(test_too_long),  TEST(test_too_short),   TEST(test_copies),
        TEST(test_streams),   TEST(test_another_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
