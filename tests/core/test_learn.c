/*
 * What is learned from runs: forecasts that are corrected, costs that are
 * replaced, plans that are not used again, the best one that is. The
 * measurements are made up and wrong by far; the runs are real.
 */
#include "made_up.h"
#include "test.h"
#include "tmpdir.h"

#include "../../core/exec/exec.h"
#include "../../core/plan/plan.h"
#include "../../planner/learn.h"
#include "../../planner/plan_cache.h"
#include "../../planner/planner.h"
#include "../../planner/profile/store.h"

#include <math.h>

#define ROWS 64
#define WIDTH 128

static tmpdir dir;
static double ns_per_flop[2]; /* of the devices, as measured */

static clv_status fake_work(planner_meter *meter, clv_device *dev,
                            const planner_workload *workload,
                            planner_sample *out)
{
    (void)meter;
    *out = (planner_sample){.workload = *workload,
                            .ns = 1e3 + planner_workload_flops(workload) *
                                            ns_per_flop[dev->plugin_index]};
    return CLV_OK;
}

static clv_status fake_overheads(planner_meter *meter, clv_device *dev,
                                 planner_overheads *out)
{
    (void)meter, (void)dev;
    *out = (planner_overheads){.submit = 1};
    return CLV_OK;
}

static const planner_profile_source fake = {.open = made_up_open,
                                            .close = made_up_close,
                                            .workload = fake_work,
                                            .overheads = fake_overheads,
                                            .contention = made_up_contention};

/* Two matrix products, on two devices of the reference plugin. */
typedef struct world {
    clv_config *config;
    clv_context *ctx;
    planner_profile *profile;
    clv_tensor *weights[2];
    clv_graph *graph;
} world;

static void open_world(world *w, const char *settings)
{
    char text[2048], *save = NULL;
    memset(w, 0, sizeof *w);
    assert_ok(clv_config_create(&w->config));
    snprintf(text, sizeof text,
             "core.plugin_dirs=%s/tests/plugins/ref core.plugins=ref "
             "core.allow_unsafe_plugins=on core.cache_dir=%s core.probe=off "
             "core.plan=tensor core.profile=auto %s",
             getenv("CLEAVE_TEST_BUILD"), dir.path, settings);
    for (char *word = strtok_r(text, " ", &save); word;
         word = strtok_r(NULL, " ", &save))
        assert_ok(clv_config_set(w->config, word, "test"));
    const clv_context_params params = {.config = w->config};
    assert_ok(clv_context_create(&params, &w->ctx));
    assert_ok(planner_profile_of(w->ctx, &w->profile));
    w->profile->source = &fake;

    const int64_t square[] = {WIDTH, WIDTH};
    assert_ok(clv_graph_create(&w->graph));
    const clv_dim dims[] = {clv_graph_symbol(w->graph, "n", 1, ROWS),
                            clv_dim_fixed(WIDTH)};
    clv_value x = clv_graph_input(w->graph, "x", CLV_DTYPE_F32, 2, dims);
    for (int i = 0; i < 2; i++) {
        assert_ok(clv_tensor_create(w->ctx, CLV_DTYPE_F32, 2, square,
                                    &w->weights[i]));
        clv_value weight = clv_graph_weight(w->graph, "w", w->weights[i]);
        x = clv_graph_matmul(w->graph, x, weight, CLV_NO_TENSOR);
    }
    clv_graph_output(w->graph, x, "y");
}

static void close_world(world *w)
{
    clv_graph_destroy(w->graph);
    for (int i = 0; i < 2; i++)
        clv_tensor_destroy(w->weights[i]);
    clv_context_destroy(w->ctx);
    clv_config_destroy(w->config);
}

static void close_with(world *w, clv_plan *plan)
{
    clv_plan_destroy(plan);
    close_world(w);
}

/* The first product halved, or all on one device. */
static clv_plan *plan_of(world *w, bool halved)
{
    clv_device *devices[] = {clv_context_device(w->ctx, 0),
                             clv_context_device(w->ctx, 1)};
    const clv_plan_params params = {.devices = devices, .n_devices = 2};
    const core_piece halves[] = {
        {.node = 0, .ranges[CORE_AXIS_ROWS] = {0, WIDTH / 2}},
        {.node = 0, .device = 1, .ranges[CORE_AXIS_ROWS] = {WIDTH / 2, WIDTH}},
        {.node = 1}};
    const core_piece whole[] = {{.node = 0}, {.node = 1}};
    clv_plan *plan;
    assert_ok(planner_from_pieces(w->ctx, w->graph, &params,
                                  halved ? halves : whole, halved ? 3 : 2,
                                  &plan));
    return plan;
}

static int by_value(const void *a, const void *b)
{
    const double *p = a, *q = b;
    return (*p > *q) - (*p < *q);
}

static void add_past(world *w, const clv_plan *plan, uint64_t identity,
                     double ns)
{
    const planner_past past = {.problem = plan->problem,
                               .plan = identity,
                               .n_symbols = 1,
                               .symbols = {ROWS}};
    assert_ok(planner_history_add(&w->profile->history, w->ctx, &past, ns));
}

static double slowest_ns; /* of the latest runs */

/* Runs, and learns of each run; whether costs were learned. ns: the median of
 * the runs, of which a busy machine delays some. */
static bool run(clv_plan *plan, int64_t n, double *ns)
{
    enum { RUNS = 9 };
    clv_exec *exec;
    bool costs = false;
    double all[RUNS];
    assert_ok(clv_exec_create(plan, &exec));
    for (int i = 0; i < RUNS; i++) {
        clv_learned learned;
        assert_ok(clv_exec_run(exec, &n, 1));
        all[i] = exec->latest.ns;
        assert_ok(clv_exec_learn(exec, &learned));
        costs |= learned == CLV_LEARNED_COSTS;
    }
    clv_exec_destroy(exec);
    qsort(all, RUNS, sizeof *all, by_value);
    *ns = all[RUNS / 2];
    slowest_ns = all[RUNS - 1];
    return costs;
}

static double predicted(const clv_plan *plan, int64_t n)
{
    clv_prediction prediction;
    assert_ok(clv_plan_predict(plan, &n, 1, &prediction));
    return prediction.ns;
}

/* On a machine that others use, too. */
static void assert_about(double a, double b)
{
    if (!(a < 5 * b && b < 5 * a))
        fail_msg("%g and %g", a, b);
}

/* ------------------------------------------------------------------------ */

static void test_forecast(void **state)
{
    (void)state;
    world w;
    double ns;
    ns_per_flop[0] = ns_per_flop[1] = 1e-5; /* a thousand times too fast */
    open_world(&w, "");
    assert_ok(clv_profile_graph(w.ctx, w.graph, NULL));
    clv_plan *plan = plan_of(&w, true);
    const double before = predicted(plan, ROWS);
    assert_true(plan->run_ratio == 0);
    assert_true(run(plan, ROWS, &ns));
    assert_true(ns > 20 * before);
    assert_about(predicted(plan, ROWS), ns);

    /* The costs of its nodes, not of this plan only. */
    planner_workload workload;
    planner_cost cost;
    const int64_t n = ROWS;
    planner_workload_of(plan->graph, 0, NULL, &n, &workload);
    clv_device *dev = plan->devices[plan->parts[0].device].dev;
    assert_true(planner_profile_cost(w.profile, dev, &workload, &cost));
    assert_true(cost.measured && cost.ns > 10 * before);
    assert_true(cost.ns < slowest_ns);
    clv_plan_destroy(plan);
    close_world(&w);

    /* In the next process as well. */
    open_world(&w, "");
    plan = plan_of(&w, true);
    assert_about(predicted(plan, ROWS), ns);
    clv_plan_destroy(plan);
    close_world(&w);
}

/* Of a run that was recorded, the device that worked most. *part_ns, *cost_ns:
 * one part of its work, by the run and as learned. plain, slow: what runs
 * without and with records take, as parts of what it worked. */
static void learn_recorded(double plain, double slow, double *part_ns,
                           double *cost_ns)
{
    const int64_t n = ROWS;
    world w;
    clv_exec *exec;
    clv_learned learned;
    planner_workload workload;
    planner_cost cost;
    double worked[2] = {0};
    uint32_t p = 0;
    ns_per_flop[0] = ns_per_flop[1] = 1e-5;
    open_world(&w, "core.cache_dir=");
    assert_ok(clv_profile_graph(w.ctx, w.graph, NULL));
    clv_plan *plan = plan_of(&w, true);
    assert_ok(clv_exec_create(plan, &exec));
    exec->observe = true;
    assert_ok(clv_exec_run(exec, &n, 1));
    for (uint32_t i = 0; i < plan->n_parts; i++)
        worked[plan->parts[i].device] += exec->latest.part_ns[i];
    const double most = fmax(worked[0], worked[1]);
    while (worked[plan->parts[p].device] != most)
        p++;
    *part_ns = exec->latest.part_ns[p];
    add_past(&w, plan, plan->identity, plain * most);
    exec->latest.ns = slow * most;
    assert_ok(clv_exec_learn(exec, &learned));
    planner_workload_of(plan->graph, plan->parts[p].node, NULL, &n, &workload);
    assert_true(planner_profile_cost(
        w.profile, plan->devices[plan->parts[p].device].dev, &workload, &cost));
    *cost_ns = cost.ns;
    clv_exec_destroy(exec);
    close_with(&w, plan);
}

/* Records take time. As far as a device worked for longer than a run takes
 * without them it was in its work, and else between. */
static void test_records(void **state)
{
    (void)state;
    double part, cost;
    learn_recorded(2, 10, &part, &cost);
    if (fabs(cost / part - 1) > 1e-6)
        fail_msg("%g ns, not %g", cost, part);
    learn_recorded(0.5, 1.1, &part, &cost);
    if (fabs(cost / part - 0.5) > 1e-6)
        fail_msg("%g ns, not half of %g", cost, part);
}

/* What one kernel took for several nodes is divided among them by their work,
 * and counts for all of it in the sums. */
static void test_fused(void **state)
{
    (void)state;
    const int64_t n = ROWS;
    clv_kernel_sum sums[8];
    double work[2] = {0}, flops;
    world w;
    clv_exec *exec;
    ns_per_flop[0] = ns_per_flop[1] = 1e-5;
    open_world(&w, "ref.trace_nodes0=2 ref.trace_fused0=2");
    assert_ok(clv_profile_graph(w.ctx, w.graph, NULL));
    clv_plan *plan = plan_of(&w, false);
    assert_ok(clv_exec_create(plan, &exec));
    clv_trace_enable(w.ctx, true);
    exec->observe = true;
    assert_ok(clv_exec_run(exec, &n, 1));
    const double *ns = exec->latest.part_ns;
    assert_true(ns[0] > 0 && fabs(ns[1] / ns[0] - 1) < 1e-6);
    const uint32_t n_sums = clv_trace_kernels(w.ctx, sums, 8);
    for (uint32_t i = 0; i < 2; i++)
        plan->node_work(plan->graph, i, &n, &work[i], &flops);
    double bytes = 0, taken = 0;
    for (uint32_t i = 0; i < n_sums; i++)
        if (sums[i].op[0]) {
            bytes += sums[i].bytes;
            taken += sums[i].ns;
        }
    if (bytes != work[0] + work[1])
        fail_msg("%g bytes, not %g", bytes, work[0] + work[1]);
    assert_true(fabs(taken / (ns[0] + ns[1]) - 1) < 1e-6);
    clv_exec_destroy(exec);
    close_with(&w, plan);
}

/* Of prompts little is known, of single tokens much: a model that fits these
 * does not answer for those. */
static void check_few_among(uint32_t many)
{
    static const int64_t outs[] = {128, 1024};
    planner_sample shown[42];
    planner_cost c;
    uint32_t n = 0;
    world w;
    const int64_t one = 1;
    open_world(&w, "core.cache_dir=");
    clv_device *dev = clv_context_device(w.ctx, 0);
    for (; n < many; n++) {
        planner_workload_of(w.graph, 0, NULL, &one, &shown[n].workload);
        shown[n].workload.in = 4096;
        shown[n].workload.out = 1024 * (n + 1);
        shown[n] = (planner_sample){.workload = shown[n].workload,
                                    .ns = 1000. * (n + 1)};
    }
    for (int i = 0; i < 2; i++, n++) {
        shown[n] = (planner_sample){.workload = shown[0].workload};
        shown[n].workload.n = 512;
        shown[n].workload.out = outs[i];
        shown[n].ns = 60. * 1024 * (2 - i); /* no linear model has that */
    }
    assert_ok(planner_profile_learn(w.profile, dev, shown, n));
    planner_workload workload = shown[n - 1].workload;
    workload.out = 8192;
    assert_true(planner_profile_cost(w.profile, dev, &workload, &c));
    assert_false(c.measured);
    if (fabs(c.ns / (60. * 8192) - 1) > 0.2)
        fail_msg("among %u: %g, not about %g", many, c.ns, 60. * 8192);
    close_world(&w);
}

static void test_few_among_many(void **state)
{
    (void)state;
    check_few_among(10);
    check_few_among(40);
}

/* What a kernel takes to begin is not scaled up with the work. */
static void test_short_sample(void **state)
{
    (void)state;
    const int64_t one = 1;
    planner_sample shown[2];
    planner_cost c;
    world w;
    open_world(&w, "core.cache_dir=");
    clv_device *dev = clv_context_device(w.ctx, 0);
    planner_workload product;
    planner_workload_of(w.graph, 0, NULL, &one, &product);
    planner_workload bare = product;
    product.n = product.in = product.out = 4096; /* shows the device's rates */
    shown[0] = (planner_sample){.workload = product, .ns = 1e6};
    bare.kind.op = CLV_OP_ADD;
    bare.kind.weight_dtype = CLV_DTYPE_NONE;
    bare.in = bare.out = 1024;
    shown[1] = (planner_sample){.workload = bare, .ns = 1e4};
    assert_ok(planner_profile_learn(w.profile, dev, shown, 2));
    bare.n = 4096;
    assert_true(planner_profile_cost(w.profile, dev, &bare, &c));
    assert_false(c.measured);
    if (!(c.ns > 1e4 && c.ns < 1e6))
        fail_msg("%g ns", c.ns);
    close_world(&w);
}

/* A plan that took longer than the others promise is left. */
static void test_not_again(void **state)
{
    (void)state;
    world w;
    ns_per_flop[0] = ns_per_flop[1] = 1;
    open_world(&w, "core.cache_dir=");
    clv_plan *plan, *other;
    assert_ok(clv_profile_graph(w.ctx, w.graph, NULL));
    assert_ok(clv_plan_create(w.ctx, w.graph, NULL, &plan));
    assert_int_equal(clv_plan_summarise(plan).n_devices, 2);
    const planner_past past = {.problem = plan->problem,
                               .plan = plan->identity,
                               .n_symbols = 1,
                               .symbols = {ROWS}};
    assert_ok(planner_history_add(&w.profile->history, w.ctx, &past,
                                  10 * plan->forecast->makespan_ns));
    assert_ok(clv_plan_create(w.ctx, w.graph, NULL, &other));
    assert_false(clv_plan_equal(plan, other));
    assert_int_equal(clv_plan_summarise(other).n_devices, 1);
    assert_true(clv_plan_summarise(other).predicted_ns <
                10 * plan->forecast->makespan_ns);
    clv_plan_destroy(other);
    clv_plan_destroy(plan);
    close_world(&w);
}

/* One that took less is used, though costs promise nothing of it. */
static void test_best_again(void **state)
{
    (void)state;
    world w;
    double ns;
    ns_per_flop[0] = 1e3; /* a hundred thousand times too slow */
    ns_per_flop[1] = 1e4;
    open_world(&w, "");
    clv_plan *plan = plan_of(&w, true), *again;
    run(plan, ROWS, &ns);
    assert_ok(clv_plan_create(w.ctx, w.graph, NULL, &again));
    assert_true(clv_plan_equal(plan, again));
    /* Also without a search, where another one was found. */
    clv_plan *other = plan_of(&w, false);
    const uint64_t question = other->question = again->question;
    planner_plan_cache_keep(other);
    clv_plan_destroy(other);
    clv_plan_destroy(again);
    assert_ok(clv_plan_create(w.ctx, w.graph, NULL, &again));
    assert_true(clv_plan_equal(plan, again));
    assert_true(question && again->question == question);
    clv_plan_destroy(again);
    clv_plan_destroy(plan);
    close_world(&w);
}

/* What was searched for is found again by the next process, without a search:
 * another plan in its place is taken. Then its runs turn out to be slow. */
static void test_found_again(void **state)
{
    (void)state;
    world w;
    clv_plan *plan, *other, *again;
    ns_per_flop[0] = ns_per_flop[1] = 1;
    open_world(&w, "");
    assert_ok(clv_plan_create(w.ctx, w.graph, NULL, &plan));
    assert_int_equal(clv_plan_summarise(plan).n_devices, 2);
    assert_int_not_equal(plan->question, 0);
    assert_non_null(plan->choices[0].alternative);
    char *alternative = strdup(plan->choices[0].alternative);
    clv_plan_destroy(plan);
    close_world(&w);

    open_world(&w, "");
    assert_ok(clv_plan_create(w.ctx, w.graph, NULL, &plan));
    assert_int_equal(clv_plan_summarise(plan).n_devices, 2);
    assert_string_equal(plan->choices[0].alternative, alternative);
    assert_true(clv_plan_summarise(plan).together_ns > 0);
    other = plan_of(&w, false);
    other->question = plan->question;
    planner_plan_cache_keep(other);
    clv_plan_destroy(plan);
    close_with(&w, other);

    open_world(&w, "core.objective=1"); /* another question */
    assert_ok(clv_plan_create(w.ctx, w.graph, NULL, &again));
    close_with(&w, again);

    open_world(&w, "");
    assert_ok(clv_plan_create(w.ctx, w.graph, NULL, &again));
    assert_int_equal(clv_plan_summarise(again).n_devices, 1);
    const planner_past past = {.problem = again->problem,
                               .plan = again->identity,
                               .n_symbols = 1,
                               .symbols = {ROWS}};
    assert_ok(planner_history_add(&w.profile->history, w.ctx, &past,
                                  2 * again->forecast->makespan_ns));
    clv_plan_destroy(again);
    assert_ok(clv_plan_create(w.ctx, w.graph, NULL, &again));
    assert_int_equal(clv_plan_summarise(again).n_devices, 2);
    close_with(&w, again);
    free(alternative);
}

/* Costs that changed: the plan is searched for again, and it is forgotten where
 * its own runs changed them. */
static void test_found_no_more(void **state)
{
    (void)state;
    world w;
    clv_plan *plan, *other, *again;
    double ns;
    ns_per_flop[0] = ns_per_flop[1] = 1e-5;
    open_world(&w, "");
    assert_ok(clv_plan_create(w.ctx, w.graph, NULL, &plan));
    other = plan_of(&w, clv_plan_summarise(plan).n_devices == 1);
    other->question = plan->question;
    other->forecast->makespan_ns *= 1.2;
    planner_plan_cache_keep(other);
    clv_plan_destroy(other);
    assert_ok(clv_plan_create(w.ctx, w.graph, NULL, &again));
    assert_true(clv_plan_equal(again, plan));
    clv_plan_destroy(again);

    assert_true(run(plan, ROWS, &ns));
    assert_ok(planner_plan_cache_find(plan, w.graph, plan->question, &again));
    assert_null(again);
    close_with(&w, plan);
}

/* The best plan so far is over two devices: one alone is run once, though it is
 * not promised to be faster. longer: the plan took longer than costs said. */
static void try_alone(bool longer)
{
    world w;
    ns_per_flop[0] = ns_per_flop[1] = 1;
    open_world(&w, "");
    assert_ok(clv_profile_graph(w.ctx, w.graph, NULL));
    clv_plan *whole = plan_of(&w, false), *divided, *next;
    const double most = 0.95 * whole->forecast->makespan_ns;
    assert_ok(clv_plan_create(w.ctx, w.graph, NULL, &divided));
    assert_true(divided->forecast->makespan_ns < 0.7 * most);
    const double took = longer ? most : divided->forecast->makespan_ns;
    planner_plan_cache_keep_best(divided);
    add_past(&w, divided, divided->identity, took);
    planner_plan_cache_forget(divided); /* as when runs change costs */
    assert_ok(clv_plan_create(w.ctx, w.graph, NULL, &next));
    assert_int_equal(clv_plan_summarise(next).n_devices, 1);
    add_past(&w, whole, next->identity, 1.1 * took);
    clv_plan_destroy(next);
    assert_ok(clv_plan_create(w.ctx, w.graph, NULL, &next));
    assert_true(clv_plan_equal(next, divided));
    clv_plan_destroy(next);
    clv_plan_destroy(divided);
    close_with(&w, whole);
}

static void test_alone(void **state)
{
    (void)state;
    try_alone(true);
}

static void test_alone_as_promised(void **state)
{
    (void)state;
    try_alone(false);
}

/* Where two plans took longer than the best, no more are tried, whatever costs
 * promise, and one that is under way is left for the best. */
static void test_enough(void **state)
{
    (void)state;
    world w;
    double ns;
    ns_per_flop[0] = ns_per_flop[1] = 1;
    open_world(&w, "");
    assert_ok(clv_profile_graph(w.ctx, w.graph, NULL));
    clv_plan *halved = plan_of(&w, true), *whole = plan_of(&w, false), *next;
    const double promised = halved->forecast->makespan_ns;
    planner_plan_cache_keep_best(whole);
    add_past(&w, whole, whole->identity, 3 * promised);
    add_past(&w, whole, 1, 4 * promised);
    assert_ok(clv_plan_create(w.ctx, w.graph, NULL, &next));
    assert_false(clv_plan_equal(next, whole)); /* one was worse */
    clv_plan_destroy(next);
    add_past(&w, whole, 2, 4 * promised);
    assert_ok(clv_plan_create(w.ctx, w.graph, NULL, &next));
    assert_true(clv_plan_equal(next, whole));
    clv_plan_destroy(next);
    assert_false(run(whole, ROWS, &ns));
    for (int i = 0; i < 5; i++)
        add_past(&w, whole, whole->identity, 1); /* ns, the best still */
    assert_true(run(halved, ROWS, &ns));
    clv_plan_destroy(halved);
    close_with(&w, whole);
}

/* What was said of the search. */
typedef struct said {
    uint32_t count, most; /* at most as many as are wanted */
    double fraction;      /* the latest */
} said;

static int listen_to(void *ctx, const char *what, double fraction)
{
    said *s = ctx;
    if (strcmp(what, "planning") != 0)
        return 0;
    assert_true(fraction >= s->fraction);
    s->fraction = fraction;
    return ++s->count > s->most;
}

/* A search says that it goes on, and can be cancelled; one that was done before
 * is not done again. */
static void test_told(void **state)
{
    (void)state;
    world w;
    clv_plan *plan;
    said s = {.most = 0};
    ns_per_flop[0] = ns_per_flop[1] = 1;
    open_world(&w, "");
    w.ctx->progress = listen_to;
    w.ctx->progress_ctx = &s;
    assert_int_equal(clv_plan_create(w.ctx, w.graph, NULL, &plan),
                     CLV_ERR_CANCELLED);
    assert_int_equal(s.count, 1);
    s = (said){.most = 1000};
    assert_ok(clv_plan_create(w.ctx, w.graph, NULL, &plan));
    assert_true(s.count > 1 && s.fraction == 1);
    clv_plan_destroy(plan);
    s = (said){.most = 0};
    assert_ok(clv_plan_create(w.ctx, w.graph, NULL, &plan));
    assert_int_equal(s.count, 0);
    close_with(&w, plan);
}

static void test_off(void **state)
{
    (void)state;
    world w;
    clv_exec *exec;
    clv_learned learned;
    const int64_t n = ROWS;
    open_world(&w, "core.profile=off");
    clv_plan *plan = plan_of(&w, false);
    assert_ok(clv_exec_create(plan, &exec));
    for (int i = 0; i < 4; i++) {
        assert_ok(clv_exec_run(exec, &n, 1));
        assert_ok(clv_exec_learn(exec, &learned));
        assert_int_equal(learned, CLV_LEARNED_NOTHING);
    }
    clv_exec_destroy(exec);
    clv_plan_destroy(plan);
    close_world(&w);
    assert_int_not_equal(access(tmpdir_file(&dir, "runs"), F_OK), 0);
}

/* ------------------------------------------------------------------------ */

static planner_past at(uint64_t plan, int64_t n)
{
    return (planner_past){
        .problem = 1, .plan = plan, .n_symbols = 1, .symbols = {n}};
}

static void add(planner_history *h, const world *w, uint64_t plan, int64_t n,
                double ns)
{
    const planner_past run = at(plan, n);
    assert_ok(planner_history_add(h, w->ctx, &run, ns));
}

static double found(planner_history *h, const world *w, uint64_t plan,
                    int64_t n)
{
    planner_past past;
    return planner_history_find(h, w->ctx, plan, &n, 1, &past)
               ? planner_past_median(&past)
               : NAN;
}

static void assert_counts(planner_history *h, const world *w, uint64_t problem,
                          int64_t symbol, uint32_t n, uint32_t worse)
{
    planner_past run = at(0, symbol);
    uint32_t n_plans, n_worse;
    run.problem = problem;
    planner_history_count(h, w->ctx, &run, 1.5, &n_plans, &n_worse);
    assert_int_equal(n_plans, n);
    assert_int_equal(n_worse, worse);
}

static void test_history(void **state)
{
    (void)state;
    world w;
    planner_history a = {.n = 0}, b = {.n = 0};
    open_world(&w, "");
    planner_history_begin(&a);
    planner_history_begin(&b);
    assert_true(isnan(found(&a, &w, 7, 1)));
    for (int i = 0; i < 9; i++) /* the latest five count: 40 to 80 */
        add(&a, &w, 7, 100, 10 * i);
    assert_true(found(&a, &w, 7, 100) == 60);
    add(&a, &w, 7, 1000, 5);
    assert_true(found(&a, &w, 7, 300) == 60); /* the nearest */
    assert_true(found(&a, &w, 7, 400) == 5);
    assert_true(isnan(found(&a, &w, 8, 100)));
    add(&a, &w, 8, 1, 3);
    assert_counts(&a, &w, 1, 100, 2, 1);  /* 60 and 3 */
    assert_counts(&a, &w, 1, 1000, 2, 1); /* 5 and 3 */
    assert_counts(&a, &w, 2, 1, 0, 0);

    /* Two processes write in turn; nothing is lost. */
    assert_true(isnan(found(&b, &w, 9, 1)));
    add(&b, &w, 9, 1, 4);
    planner_history_finish(&a, w.ctx);
    planner_history_finish(&b, w.ctx);
    planner_history c = {.n = 0};
    planner_history_begin(&c);
    assert_true(found(&c, &w, 7, 100) == 60);
    assert_true(found(&c, &w, 8, 1) == 3);
    assert_true(found(&c, &w, 9, 1) == 4);

    /* The oldest go. */
    for (uint64_t i = 0; i < 600; i++)
        add(&c, &w, 100 + i, 1, 1);
    assert_true(isnan(found(&c, &w, 7, 100)));
    assert_true(found(&c, &w, 699, 1) == 1);
    planner_history_finish(&c, w.ctx);
    close_world(&w);
}

/* ------------------------------------------------------------------------ */

static int with_dir(void **state)
{
    (void)state;
    return tmpdir_make(&dir) ? 0 : -1;
}

static int without_dir(void **state)
{
    (void)state;
    tmpdir_remove(&dir);
    return 0;
}

#define WITH_DIR(test)                                                         \
    cmocka_unit_test_setup_teardown(test, with_dir, without_dir)

int main(void)
{
    const struct CMUnitTest tests[] = {WITH_DIR(test_forecast),
                                       WITH_DIR(test_not_again),
                                       WITH_DIR(test_best_again),
                                       WITH_DIR(test_found_again),
                                       WITH_DIR(test_found_no_more),
                                       WITH_DIR(test_told),
                                       WITH_DIR(test_enough),
                                       WITH_DIR(test_alone),
                                       WITH_DIR(test_alone_as_promised),
                                       WITH_DIR(test_off),
                                       WITH_DIR(test_history),
                                       WITH_DIR(test_fused),
                                       WITH_DIR(test_records),
                                       WITH_DIR(test_few_among_many),
                                       WITH_DIR(test_short_sample)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
