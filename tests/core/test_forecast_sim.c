/*
 * Forecasts of an even and of random plans on simulated chips against their
 * runs, in virtual time: costs are measured on the chips, node by node, as a
 * profile would. The same of several runs in flight.
 */
#include "test.h"

#include "../../planner/profile/measure.h"
#include "../../planner/planner.h"
#include "../../planner/forecast/flight.h"
#include "../../planner/forecast/forecast.h"

#include "divide.h"
#include "tmpdir.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define HIDDEN 2048
#define HEADS 16
#define GROUPS 2
#define HEAD_DIM 128
#define FFN 6144
#define VOCABULARY 1536
#define CONTEXT 512
#define MAX_PIECES 128
#define MAX_KNOWN 4096
#define MAX_DEVICES 4
#define PLANS 12

/* Of predicted against measured time. */
#define BOUND 0.01
#define PROFILE_BOUND 0.1 /* where models tell the costs */
#define FLIGHT_BOUND 0.05

#define CHUNK 64
#define CHUNKS 6

typedef struct known {
    const clv_device *dev;
    planner_sample sample;
} known;

typedef struct rig {
    clv_config *config;
    clv_context *ctx;
    planner_meter *meter;
    clv_device *devs[MAX_DEVICES];
    uint32_t n;
    planner_overheads overheads[MAX_DEVICES];
    double bandwidth, alone[MAX_DEVICES], slowdown[MAX_DEVICES];
    known *known;
    uint32_t n_known;
    clv_graph *graph;
    clv_tensor *weights[32], *k, *v;
    uint32_t n_weights;
    clv_value pos, k_state, v_state;
    uint32_t dtype; /* of weights */
} rig;

/* ------------------------------------------------------------------------ */
/* Costs                                                                     */

static uint32_t index_of(const rig *r, const clv_device *dev)
{
    uint32_t i = 0;
    while (r->devs[i] != dev)
        i++;
    return i;
}

static bool cost(const void *ctx, const clv_device *dev,
                 const planner_workload *workload, planner_cost *out)
{
    rig *r = (rig *)ctx;
    uint32_t i = 0;
    while (i < r->n_known &&
           (r->known[i].dev != dev ||
            !planner_workload_equal(&r->known[i].sample.workload, workload)))
        i++;
    if (i == r->n_known) {
        assert_true(i < MAX_KNOWN);
        r->known[r->n_known++].dev = dev;
        assert_ok(planner_measure_workload(r->meter, r->devs[index_of(r, dev)],
                                           workload, &r->known[i].sample));
    }
    *out = (planner_cost){r->known[i].sample.ns, r->known[i].sample.energy_nj,
                          true};
    return true;
}

static const planner_overheads *overheads(const void *ctx,
                                          const clv_device *dev)
{
    const rig *r = ctx;
    return &r->overheads[index_of(r, dev)];
}

static double bandwidth(const void *ctx, clv_device *const *devs, uint32_t n)
{
    const rig *r = ctx;
    return n == 1 ? r->alone[index_of(r, devs[0])] : r->bandwidth;
}

static double slowdown(const void *ctx, clv_device *const *devs, uint32_t n,
                       uint32_t index)
{
    const rig *r = ctx;
    (void)n;
    return r->slowdown[index_of(r, devs[index])];
}

/* ------------------------------------------------------------------------ */

static tmpdir dir; /* of the cache */

static void open_chip(rig *r, const char *chip)
{
    const char *build = getenv("CLEAVE_TEST_BUILD");
    const char *source = getenv("CLEAVE_TEST_SOURCE");
    char text[512];
    *r = (rig){.known = calloc(MAX_KNOWN, sizeof *r->known),
               .dtype = CLV_DTYPE_I4};
    assert_true(build && source && r->known);
    assert_ok(clv_config_create(&r->config));
    snprintf(text, sizeof text, "%s/conf/soc/%s.ini", source, chip);
    assert_ok(clv_config_load_file(r->config, text));
    snprintf(text, sizeof text, "core.plugin_dirs=%s/plugins", build);
    assert_ok(clv_config_set(r->config, text, "test"));
    snprintf(text, sizeof text, "core.cache_dir=%s", dir.path);
    assert_ok(clv_config_set(r->config, text, "test"));
    assert_ok(clv_config_set(r->config, "core.plugins=npu_sim", "test"));
    assert_ok(clv_config_set(r->config, "npu_sim.compute=off", "test"));
    assert_ok(clv_context_create(&(clv_context_params){.config = r->config},
                                 &r->ctx));
    r->n = clv_context_device_count(r->ctx);
    assert_true(r->n >= 2 && r->n <= MAX_DEVICES);
    const planner_meter_params params = {
        .max_seconds = 1, .repetitions = 1, .max_pool = 1 << 30};
    assert_ok(planner_meter_create(r->ctx, &params, &r->meter));
    for (uint32_t i = 0; i < r->n; i++) {
        r->devs[i] = clv_context_device(r->ctx, i);
        assert_ok(
            planner_measure_overheads(r->meter, r->devs[i], &r->overheads[i]));
    }
    planner_contention contention = {.alone = r->alone,
                                     .slowdown = r->slowdown};
    assert_ok(planner_measure_contention(r->meter, r->devs, r->n, &contention));
    r->bandwidth = contention.bandwidth;
}

static void close_chip(rig *r)
{
    clv_graph_destroy(r->graph);
    for (uint32_t i = 0; i < r->n_weights; i++)
        clv_tensor_destroy(r->weights[i]);
    clv_tensor_destroy(r->k);
    clv_tensor_destroy(r->v);
    planner_meter_destroy(r->meter);
    clv_context_destroy(r->ctx);
    clv_config_destroy(r->config);
    free(r->known);
}

/* rows 0: a vector of F32; else int4 with a scale for each row, or int8 with
 * one for all. */
static clv_value weight(rig *r, int64_t rows, int64_t columns)
{
    const int64_t dims[] = {rows ? rows : columns, columns}, one[] = {1};
    const bool whole = r->dtype == CLV_DTYPE_I8;
    clv_tensor **t = &r->weights[r->n_weights++];
    assert_ok(clv_tensor_create(r->ctx, rows ? r->dtype : CLV_DTYPE_F32,
                                rows ? 2 : 1, dims, t));
    if (rows) {
        clv_tensor **scales = &r->weights[r->n_weights++];
        assert_ok(clv_tensor_create(r->ctx, CLV_DTYPE_F32, 1,
                                    whole ? one : dims, scales));
        assert_ok(clv_tensor_set_quant(
            *t, whole ? CLV_QUANT_PER_TENSOR : CLV_QUANT_PER_CHANNEL, 0,
            *scales));
    }
    return clv_graph_weight(r->graph, "w", *t);
}

static clv_value product(rig *r, clv_value x, int64_t out, int64_t in)
{
    return clv_graph_matmul(r->graph, x, weight(r, out, in), CLV_NO_TENSOR);
}

static clv_value attend(rig *r, clv_value x, clv_value pos, clv_dim rows)
{
    clv_graph *g = r->graph;
    clv_value freq = weight(r, 0, HEAD_DIM / 2);
    clv_value q = product(r, x, HEADS * HEAD_DIM, HIDDEN);
    clv_value k = product(r, x, GROUPS * HEAD_DIM, HIDDEN);
    clv_value v = product(r, x, GROUPS * HEAD_DIM, HIDDEN);
    q = clv_graph_rope(g, q, pos, freq, CLV_ROPE_HALVES, HEAD_DIM, 0);
    k = clv_graph_rope(g, k, pos, freq, CLV_ROPE_HALVES, HEAD_DIM, 0);
    clv_graph_set_rows(g, r->k_state, k, pos);
    clv_graph_set_rows(g, r->v_state, v, pos);
    const clv_attention_params params = {.head_dim = HEAD_DIM, .rows = rows};
    clv_value y = clv_graph_attention(g, q, r->k_state, r->v_state, pos,
                                      CLV_NO_TENSOR, &params);
    return product(r, y, HIDDEN, HEADS * HEAD_DIM);
}

/* A layer of a transformer for so many tokens. */
static void build(rig *r, int64_t tokens)
{
    assert_ok(clv_graph_create(&r->graph));
    clv_graph *g = r->graph;
    const clv_dim n = clv_dim_fixed(tokens);
    const clv_dim shape[] = {n, clv_dim_fixed(HIDDEN)};
    const int64_t cache[] = {CONTEXT, GROUPS * HEAD_DIM};
    assert_ok(clv_tensor_create(r->ctx, CLV_DTYPE_F16, 2, cache, &r->k));
    assert_ok(clv_tensor_create(r->ctx, CLV_DTYPE_F16, 2, cache, &r->v));
    clv_value pos = clv_graph_input(g, "pos", CLV_DTYPE_I32, 1, &n);
    r->pos = pos;
    clv_value x = clv_graph_input(g, "x", CLV_DTYPE_F32, 2, shape);
    r->k_state = clv_graph_state(g, "k", CLV_DTYPE_F16, 2, cache);
    r->v_state = clv_graph_state(g, "v", CLV_DTYPE_F16, 2, cache);
    clv_value norm = weight(r, 0, HIDDEN);
    clv_dim rows = clv_graph_symbol(g, "rows", 1, CONTEXT);
    clv_value h = clv_graph_rms_norm(g, x, norm, 1e-5f);
    x = clv_graph_add(g, x, attend(r, h, pos, rows));
    h = clv_graph_rms_norm(g, x, norm, 1e-5f);
    clv_value gate = product(r, h, FFN, HIDDEN);
    clv_value up = product(r, h, FFN, HIDDEN);
    h = clv_graph_glu(g, gate, up, CLV_ACT_SILU);
    x = clv_graph_add(g, x, product(r, h, HIDDEN, FFN));
    clv_graph_output(g, product(r, x, VOCABULARY, HIDDEN), "logits");
    assert_ok(clv_graph_check(g));
}

/* ------------------------------------------------------------------------ */
/* Plans                                                                     */

static clv_plan *plan_with(rig *r, const core_piece *some, uint32_t n_some,
                           uint32_t node)
{
    core_piece pieces[MAX_PIECES + TEST_MAX_PIECES];
    uint32_t n = 0;
    clv_plan *plan;
    for (uint32_t i = 0; i < r->graph->n_nodes; i++) {
        if (i == node)
            for (uint32_t j = 0; j < n_some; j++)
                pieces[n++] = some[j];
        else
            pieces[n++] = (core_piece){.node = i, .device = r->n - 1};
    }
    clv_status status =
        planner_from_pieces(r->ctx, r->graph, NULL, pieces, n, &plan);
    if (status)
        assert_int_equal(status, CLV_ERR_UNSUPPORTED);
    return plan;
}

/* Each node divided in a way that its devices take, all else being whole on the
 * last device, which takes everything. */
static clv_plan *random_plan(rig *r, test_random *random, bool replicas)
{
    core_piece pieces[MAX_PIECES];
    uint32_t n = 0;
    clv_plan *plan;
    for (uint32_t i = 0; i < r->graph->n_nodes; i++) {
        uint32_t count = 0;
        assert_true(n + TEST_MAX_PIECES <= MAX_PIECES);
        do {
            clv_plan_destroy(count ? plan : NULL);
            count = replicas
                        ? test_divide_or_replicate(r->graph, random, i, r->n,
                                                   &pieces[n])
                        : test_divide(r->graph, random, i, r->n, &pieces[n]);
            plan = plan_with(r, &pieces[n], count, i);
        } while (!plan);
        clv_plan_destroy(plan);
        n += count;
    }
    assert_ok(planner_from_pieces(r->ctx, r->graph, NULL, pieces, n, &plan));
    return plan;
}

/* The rows of all products on all devices: they work at the same time. */
static clv_plan *even_plan(rig *r)
{
    core_piece pieces[MAX_PIECES];
    uint32_t n = 0;
    clv_plan *plan;
    for (uint32_t i = 0; i < r->graph->n_nodes; i++) {
        int64_t rows = core_cut_extent(r->graph, i, CORE_AXIS_ROWS);
        bool cut = r->graph->nodes[i].op == CLV_OP_MATMUL;
        for (uint32_t d = cut ? 0 : r->n - 1; d < r->n; d++) {
            core_piece *p = &pieces[n++];
            *p = (core_piece){.node = i, .device = d};
            if (cut)
                p->ranges[CORE_AXIS_ROWS] = (core_range){
                    rows * d / r->n / 32 * 32,
                    d + 1 < r->n ? rows * (d + 1) / r->n / 32 * 32 : rows};
        }
    }
    assert_ok(planner_from_pieces(r->ctx, r->graph, NULL, pieces, n, &plan));
    return plan;
}

/* Products on the first device and all else on the last: one waits for the
 * other. */
static clv_plan *split_plan(rig *r)
{
    core_piece pieces[MAX_PIECES];
    clv_plan *plan;
    for (uint32_t i = 0; i < r->graph->n_nodes; i++)
        pieces[i] = (core_piece){
            .node = i,
            .device = r->graph->nodes[i].op == CLV_OP_MATMUL ? 0 : r->n - 1};
    assert_ok(planner_from_pieces(r->ctx, r->graph, NULL, pieces,
                                  r->graph->n_nodes, &plan));
    return plan;
}

static double now(const rig *r)
{
    clv_moment moment;
    assert_ok(clv_device_now(r->devs[0], &moment));
    return moment.ns;
}

static double measure(rig *r, clv_plan *plan, const int64_t *symbols)
{
    clv_exec *exec;
    double ns = 0;
    assert_ok(clv_exec_create(plan, &exec));
    assert_ok(clv_exec_bind(exec, r->k_state, r->k));
    assert_ok(clv_exec_bind(exec, r->v_state, r->v));
    for (int i = 0; i < 2; i++) {
        ns = now(r);
        assert_ok(clv_exec_run(exec, symbols, 1));
        ns = now(r) - ns;
    }
    clv_exec_destroy(exec);
    return ns;
}

static void try_chip(const char *chip, int64_t tokens)
{
    rig r;
    test_random random = {(uint64_t)tokens};
    const planner_costs costs = {&r, cost, overheads, bandwidth, slowdown};
    const int64_t symbols[] = {300};
    double worst = 0;
    open_chip(&r, chip);
    build(&r, tokens);
    for (int i = 0; i < PLANS; i++) {
        clv_plan *plan = i ? random_plan(&r, &random, true) : even_plan(&r);
        assert_ok(
            planner_forecast_make(plan, &costs, symbols, &plan->forecast));
        double predicted = plan->forecast->makespan_ns;
        double measured = measure(&r, plan, symbols);
        double error = fabs(predicted / measured - 1);
        worst = fmax(worst, error);
        if (error > BOUND)
            print_error("%s, %d tokens: plan %d of %u steps: %.0f ns were "
                        "predicted, it took %.0f\n",
                        chip, (int)tokens, i, plan->n_steps, predicted,
                        measured);
        clv_plan_destroy(plan);
    }
    print_message("%s, %d tokens: at most %.2f%% off\n", chip, (int)tokens,
                  100 * worst);
    close_chip(&r);
    assert_true(worst <= BOUND);
}

/* Relative error of clv_plan_predict(). */
static double predict(rig *r, clv_plan *plan, const int64_t *symbols)
{
    clv_prediction prediction;
    assert_ok(clv_plan_predict(plan, symbols, 1, &prediction));
    assert_true(prediction.energy_nj > 0);
    core_forecast_free(plan->forecast);
    plan->forecast = NULL;
    double measured = measure(r, plan, symbols);
    return fabs(prediction.ns / measured - 1);
}

/* By the context's own profile: whole nodes were measured, parts of them are
 * for models to tell. */
static void test_profile(void **state)
{
    (void)state;
    const int64_t symbols[] = {300}, wrong[] = {CONTEXT + 1};
    clv_prediction none;
    clv_plan *whole, *even;
    rig r;
    open_chip(&r, "snapdragon-8gen3");
    build(&r, 256);
    even = even_plan(&r);
    assert_int_equal(clv_plan_predict(even, symbols, 1, &none),
                     CLV_ERR_NOT_FOUND);
    assert_ok(clv_profile_graph(r.ctx, r.graph, NULL));
    whole = plan_with(&r, NULL, 0, UINT32_MAX);
    double of_whole = predict(&r, whole, symbols);
    double of_even = predict(&r, even, symbols);
    print_message("with a profile: whole %.2f%%, even %.2f%% off\n",
                  100 * of_whole, 100 * of_even);
    assert_true(of_whole <= BOUND);
    assert_true(of_even <= PROFILE_BOUND);
    assert_int_equal(clv_plan_predict(whole, symbols, 2, &none),
                     CLV_ERR_INVALID);
    assert_int_equal(clv_plan_predict(whole, wrong, 1, &none), CLV_ERR_INVALID);
    assert_error_says("'rows' is 513, outside 1..512");
    clv_plan_destroy(whole);
    clv_plan_destroy(even);
    close_chip(&r);
}

/* Another context finds in the cache what was measured, and measures nothing.
 */
static void test_cache(void **state)
{
    (void)state;
    clv_prediction prediction;
    rig r;
    open_chip(&r, "snapdragon-8gen3");
    build(&r, 256);
    clv_plan *plan = plan_with(&r, NULL, 0, UINT32_MAX);
    double before = now(&r);
    assert_ok(clv_plan_predict(plan, NULL, 0, &prediction));
    assert_true(prediction.ns > 0 && now(&r) == before);
    clv_plan_destroy(plan);
    close_chip(&r);
}

static void test_prefill(void **state)
{
    (void)state;
    try_chip("snapdragon-8gen3", 256);
    try_chip("two-npus", 128);
}

static void test_decode(void **state)
{
    (void)state;
    try_chip("snapdragon-8gen3", 1);
    try_chip("two-npus", 1);
}

/* ------------------------------------------------------------------------ */
/* Runs in flight                                                            */

static void submit_chunk(const rig *r, clv_run *run, uint32_t chunk)
{
    const int64_t symbols[] = {(chunk + 1) * CHUNK};
    int32_t *pos = clv_tensor_data(clv_run_tensor(run, r->pos));
    for (uint32_t i = 0; i < CHUNK; i++)
        pos[i] = (int32_t)(chunk * CHUNK + i);
    assert_ok(clv_run_submit(run, symbols, 1));
}

/* The second time, when all programs have run. */
static double measure_flight(rig *r, clv_plan *plan, uint32_t n_flight)
{
    clv_exec *exec;
    clv_run *runs[CHUNKS];
    clv_workspace *workspaces[CHUNKS];
    double ns = 0;
    assert_ok(clv_exec_create(plan, &exec));
    assert_ok(clv_exec_bind(exec, r->k_state, r->k));
    assert_ok(clv_exec_bind(exec, r->v_state, r->v));
    for (uint32_t i = 0; i < n_flight; i++) {
        assert_ok(clv_workspace_create(r->ctx, &workspaces[i]));
        assert_ok(clv_run_create(exec, workspaces[i], &runs[i]));
    }
    for (int turn = 0; turn < 2; turn++) {
        ns = now(r);
        for (uint32_t done = 0, given = 0; done < CHUNKS; done++) {
            while (given < CHUNKS && given < done + n_flight) {
                submit_chunk(r, runs[given % n_flight], given);
                given++;
            }
            assert_ok(clv_run_wait(runs[done % n_flight]));
        }
        ns = now(r) - ns;
    }
    for (uint32_t i = 0; i < n_flight; i++) {
        clv_run_destroy(runs[i]);
        clv_workspace_destroy(workspaces[i]);
    }
    clv_exec_destroy(exec);
    return ns;
}

typedef struct flown {
    double predicted, measured;
} flown;

/* What is told apart by the forecast is told apart by the chip, likewise. */
static void compare_order(const char *chip, const flown *a, const flown *b)
{
    if (a->predicted < b->predicted * (1 - FLIGHT_BOUND) &&
        a->measured > b->measured)
        fail_msg("%s: %.0f ns were predicted of more in flight, else %.0f; "
                 "they took %.0f, else %.0f",
                 chip, a->predicted, b->predicted, a->measured, b->measured);
}

/* Relative error. */
static double try_flight(rig *r, const char *chip, clv_plan *plan)
{
    const planner_costs costs = {r, cost, overheads, bandwidth, slowdown};
    static const uint32_t flights[] = {1, 2, 4};
    int64_t symbols[CHUNKS];
    flown all[3];
    double worst = 0;
    for (uint32_t i = 0; i < CHUNKS; i++)
        symbols[i] = (i + 1) * CHUNK;
    assert_ok(planner_forecast_make(plan, &costs, NULL, &plan->forecast));
    for (uint32_t i = 0; i < 3; i++) {
        flown *f = &all[i];
        assert_ok(planner_forecast_flight(plan, &costs, symbols, CHUNKS,
                                          flights[i], &f->predicted));
        f->measured = measure_flight(r, plan, flights[i]);
        const double error = fabs(f->predicted / f->measured - 1);
        worst = fmax(worst, error);
        if (error > FLIGHT_BOUND)
            print_error("%s, %u in flight, %u steps: %.0f ns were predicted, "
                        "they took %.0f\n",
                        chip, flights[i], plan->n_steps, f->predicted,
                        f->measured);
        for (uint32_t j = 0; j < i; j++) {
            compare_order(chip, f, &all[j]);
            compare_order(chip, &all[j], f);
        }
    }
    return worst;
}

static void fly_chip(const char *chip)
{
    test_random random = {CHUNK};
    double worst = 0;
    rig r;
    open_chip(&r, chip);
    r.dtype = CLV_DTYPE_I8;
    build(&r, CHUNK);
    for (int i = 0; i < 6; i++) {
        clv_plan *plan = i == 0   ? even_plan(&r)
                         : i == 1 ? split_plan(&r)
                                  : random_plan(&r, &random, false);
        worst = fmax(worst, try_flight(&r, chip, plan));
        clv_plan_destroy(plan);
    }
    print_message("%s, in flight: at most %.2f%% off\n", chip, 100 * worst);
    close_chip(&r);
    assert_true(worst <= FLIGHT_BOUND);
}

static void test_flight(void **state)
{
    (void)state;
    static const char *const chips[] = {
        "int8-npu",    "llm-npu",    "scheinfer-a",      "scheinfer-b",
        "scheinfer-c", "small-card", "snapdragon-8gen3", "two-npus"};
    for (uint32_t i = 0; i < sizeof chips / sizeof *chips; i++)
        fly_chip(chips[i]);
}

/* A plan for so many runs in flight. */
static clv_plan *plan_for(rig *r, uint32_t n_flight)
{
    int64_t symbols[CHUNKS];
    const clv_plan_params params = {.n_flight = n_flight,
                                    .flight_symbols = symbols};
    clv_plan *plan;
    for (uint32_t i = 0; i < n_flight; i++)
        symbols[i] = (i + 1) * CHUNK;
    assert_ok(clv_plan_create(r->ctx, r->graph, &params, &plan));
    return plan;
}

/* Of four runs in flight, over those of a plan for one run. */
static double gain_of_planning(const char *chip)
{
    clv_plan *plans[2];
    double ns[2];
    rig r;
    open_chip(&r, chip);
    r.dtype = CLV_DTYPE_I8;
    build(&r, CHUNK);
    for (uint32_t i = 0; i < 2; i++) {
        plans[i] = plan_for(&r, i ? 4 : 1);
        ns[i] = measure_flight(&r, plans[i], 4);
    }
    const int64_t symbols[] = {CONTEXT};
    const double alone =
        measure(&r, plans[1], symbols) / measure(&r, plans[0], symbols);
    print_message("%s, planned for 4 in flight: %.3f of the time, one alone "
                  "%.3f\n",
                  chip, ns[1] / ns[0], alone);
    assert_true(alone > 1 - BOUND);
    for (uint32_t i = 0; i < 2; i++)
        clv_plan_destroy(plans[i]);
    close_chip(&r);
    return ns[0] / ns[1];
}

/* On the first chip whole nodes on one device are best, on the next two it
 * takes prices on work, and on the last one the plan of one run is the best. */
static void test_planned_flight(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        double gain; /* at least */
    } chips[] = {{"int8-npu", 1.1},
                 {"two-npus", 1.05},
                 {"snapdragon-8gen3", 1.03},
                 {"llm-npu", 1 - FLIGHT_BOUND}};
    for (uint32_t i = 0; i < sizeof chips / sizeof *chips; i++)
        assert_true(gain_of_planning(chips[i].name) > chips[i].gain);
}

static void test_wrong_flight(void **state)
{
    (void)state;
    const int64_t wrong[] = {CHUNK, CONTEXT + 1};
    clv_plan *plan;
    rig r;
    open_chip(&r, "int8-npu");
    build(&r, CHUNK);
    assert_int_equal(
        clv_plan_create(r.ctx, r.graph,
                        &(clv_plan_params){.n_flight = CLV_PLAN_MAX_FLIGHT + 1},
                        &plan),
        CLV_ERR_INVALID);
    assert_error_says("65 runs at once; n_flight is at most 64");
    assert_int_equal(
        clv_plan_create(
            r.ctx, r.graph,
            &(clv_plan_params){.n_flight = 2, .flight_symbols = wrong}, &plan),
        CLV_ERR_INVALID);
    assert_error_says("'rows' is 513, outside 1..512");
    close_chip(&r);
}

/* A program of fixed shapes reads the whole cache, one with any shape the rows
 * in use; forecasts know it. */
static void test_static_attention(void **state)
{
    (void)state;
    const int64_t few[] = {1}, all[] = {CONTEXT};
    rig r;
    const planner_costs costs = {&r, cost, overheads, bandwidth, slowdown};
    open_chip(&r, "snapdragon-8gen3");
    build(&r, 1);
    uint32_t attention = 0;
    while (r.graph->nodes[attention].op != CLV_OP_ATTENTION)
        attention++;
    for (uint32_t d = 0; d < 2; d++) {
        const core_piece piece = {.node = attention, .device = d};
        clv_plan *plan = plan_with(&r, &piece, 1, attention);
        double with_few = measure(&r, plan, few);
        double with_all = measure(&r, plan, all);
        bool is_static = r.devs[d]->info.flags & CLV_DEVICE_STATIC_SHAPES;
        assert_true(is_static == !d);
        assert_true(is_static ? with_few == with_all
                              : with_few < with_all - 1000);
        core_forecast *forecast;
        assert_ok(planner_forecast_make(plan, &costs, few, &forecast));
        assert_true(fabs(forecast->makespan_ns / with_few - 1) < BOUND);
        core_forecast_free(forecast);
        clv_plan_destroy(plan);
    }
    close_chip(&r);
}

/* Virtual time of two rows that choose 2 of 8 experts each: the same ones, or
 * others. */
static double experts_ns(const char *choices, bool same)
{
    enum { ALL = 8, USED = 2, WIDTH = 512 };
    const int64_t w_dims[] = {ALL, WIDTH, WIDTH};
    const clv_dim scores_dims[] = {clv_dim_fixed(2), clv_dim_fixed(ALL)};
    const clv_dim x_dims[] = {clv_dim_fixed(2), clv_dim_fixed(WIDTH)};
    char text[512];
    clv_config *config;
    clv_context *ctx;
    clv_graph *g;
    clv_tensor *w;
    clv_plan *plan;
    clv_exec *exec;
    clv_moment begin, end;
    assert_ok(clv_config_create(&config));
    snprintf(text, sizeof text, "%s/conf/soc/small-card.ini",
             getenv("CLEAVE_TEST_SOURCE"));
    assert_ok(clv_config_load_file(config, text));
    snprintf(text, sizeof text, "core.plugin_dirs=%s/plugins",
             getenv("CLEAVE_TEST_BUILD"));
    assert_ok(clv_config_set(config, text, "test"));
    snprintf(text, sizeof text, "npu_sim.choices=%s", choices);
    assert_ok(clv_config_set(config, text, "test"));
    assert_ok(clv_config_set(config, "core.plugins=npu_sim", "test"));
    assert_ok(clv_config_set(config, "core.plan=first", "test"));
    assert_ok(
        clv_context_create(&(clv_context_params){.config = config}, &ctx));
    assert_ok(clv_graph_create(&g));
    assert_ok(clv_tensor_create(ctx, CLV_DTYPE_F32, 3, w_dims, &w));
    const clv_value x = clv_graph_input(g, "x", CLV_DTYPE_F32, 2, x_dims);
    const clv_value scores =
        clv_graph_input(g, "scores", CLV_DTYPE_F32, 2, scores_dims);
    const clv_value y = clv_graph_matmul_experts(
        g, x, clv_graph_weight(g, "w", w), clv_graph_top_k(g, scores, USED),
        CLV_NO_TENSOR, false);
    clv_graph_output(g, y, "y");
    assert_ok(clv_graph_check(g));
    assert_ok(clv_plan_create(ctx, g, NULL, &plan));
    assert_ok(clv_exec_create(plan, &exec));
    float *row = clv_tensor_data(clv_exec_tensor(exec, scores));
    for (uint32_t i = 0; i < 2; i++)
        for (uint32_t k = 0; k < USED; k++)
            row[i * ALL + k + (same ? 0 : i * USED)] = 1;
    assert_ok(clv_exec_run(exec, NULL, 0)); /* copies weights */
    clv_device *dev = clv_plan_device(plan, 0);
    assert_ok(clv_device_now(dev, &begin));
    assert_ok(clv_exec_run(exec, NULL, 0));
    assert_ok(clv_device_now(dev, &end));
    clv_exec_destroy(exec);
    clv_plan_destroy(plan);
    clv_graph_destroy(g);
    clv_tensor_destroy(w);
    clv_context_destroy(ctx);
    clv_config_destroy(config);
    return end.ns - begin.ns;
}

/* The simulation reads the experts that rows choose, or as many as by chance:
 * 8 * (1 - (1 - 2/8)^2) = 3.5. */
static void test_choices(void **state)
{
    (void)state;
    const double two = experts_ns("seen", true);
    const double four = experts_ns("seen", false);
    const double by_chance = experts_ns("expected", true);
    assert_true(two > 0 && four > two);
    assert_true(fabs((by_chance - two) / (four - two) - 0.75) < 0.001);
    assert_true(experts_ns("expected", false) == by_chance);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_prefill),
        cmocka_unit_test(test_decode),
        cmocka_unit_test(test_static_attention),
        cmocka_unit_test(test_flight),
        cmocka_unit_test(test_profile),
        cmocka_unit_test(test_cache),
        cmocka_unit_test(test_choices),
        cmocka_unit_test(test_planned_flight),
        cmocka_unit_test(test_wrong_flight),
    };
    if (!tmpdir_make(&dir))
        return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    tmpdir_remove(&dir);
    return failed;
}
