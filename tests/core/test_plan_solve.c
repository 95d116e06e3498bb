/*
 * Plans by costs, on simulated chips, whose measurements take no time to speak
 * of: what core.plan asks for, never much slower than the best single device,
 * told when there is nothing to go by, and again after a device is lost.
 */
#include "layers.h"
#include "made_up.h"
#include "../../core/device/loss.h"
#include "message.h"
#include "tmpdir.h"

#include "../../core/plan/plan.h"
#include "../../planner/profile/store.h"
#include "../../core/device/caps.h"
#include "../../core/device/subgraph.h"
#include "../../planner/forecast/forecast.h"
#include "../../planner/candidates/room.h"
#include "../../planner/compare.h"
#include "../../planner/limits.h"
#include "../../planner/prepare.h"

#include <math.h>

static const layers_shape shape = {.n_layers = 1,
                                   .hidden = 2048,
                                   .heads = 16,
                                   .groups = 4,
                                   .head_dim = 128,
                                   .ffn = 8192,
                                   .vocabulary = 2048,
                                   .context = 512,
                                   .tokens = 256,
                                   .dtype = CLV_DTYPE_I4,
                                   .quant = CLV_QUANT_PER_CHANNEL};

typedef struct world {
    clv_config *config;
    clv_context *ctx;
    layers l;
    char log[4096];
} world;

static tmpdir dir;

static void on_log(void *ctx, uint32_t level, const char *line)
{
    world *w = ctx;
    size_t used = strlen(w->log);
    snprintf(w->log + used, sizeof w->log - used, "%u %s\n", level, line);
}

static void open_world(world *w, const char *chip, const char *settings,
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
             "npu_sim.compute=off %s",
             getenv("CLEAVE_TEST_BUILD"), dir.path, settings);
    for (char *word = strtok_r(text, " ", &save); word;
         word = strtok_r(NULL, " ", &save))
        assert_ok(clv_config_set(w->config, word, "test"));
    const clv_context_params params = {.config = w->config,
                                       .log = on_log,
                                       .log_ctx = w,
                                       .log_level = CLV_LOG_INFO};
    assert_ok(clv_context_create(&params, &w->ctx));
    layers_build(&w->l, w->ctx, s);
}

static void close_world(world *w)
{
    layers_free(&w->l);
    clv_context_destroy(w->ctx);
    clv_config_destroy(w->config);
}

static clv_plan *plan_for(world *w, clv_device *const *devices, uint32_t n)
{
    clv_plan *plan;
    const clv_plan_params params = {.devices = devices, .n_devices = n};
    assert_ok(clv_plan_create(w->ctx, w->l.graph, &params, &plan));
    return plan;
}

static double predicted(const clv_plan *plan)
{
    assert_non_null(plan->forecast);
    return plan->forecast->makespan_ns;
}

static bool any_cut(const clv_plan *plan)
{
    for (uint32_t i = 0; i < plan->n_pieces; i++)
        if (!core_piece_is_whole(&plan->pieces[i]))
            return true;
    return false;
}

/* Tensor-level is faster than layer-level, and that is no slower than any
 * device by itself. */
static void test_strategies(void **state)
{
    (void)state;
    world w;
    open_world(&w, "snapdragon-8gen3", "", &shape);
    clv_plan *tensor = plan_for(&w, NULL, 0);
    assert_string_equal(strstr(w.log, "measuring") ? "measuring" : w.log,
                        "measuring");
    assert_true(any_cut(tensor));
    assert_int_equal(clv_plan_summarise(tensor).n_devices, 2);
    assert_ok(clv_config_set(w.config, "core.plan=layer", "test"));
    clv_plan *layer = plan_for(&w, NULL, 0);
    assert_false(any_cut(layer));
    assert_ok(clv_config_set(w.config, "core.plan=tensor", "test"));
    for (uint32_t d = 0; d < 2; d++) {
        clv_device *dev = clv_context_device(w.ctx, d);
        clv_plan *alone = plan_for(&w, &dev, 1);
        assert_true(predicted(layer) <= predicted(alone) * 1.001);
        clv_plan_destroy(alone);
    }
    assert_true(predicted(tensor) < predicted(layer) * 0.95);
    assert_ok(clv_config_set(w.config, "core.plan=first", "test"));
    clv_plan *first = plan_for(&w, NULL, 0);
    assert_int_equal(clv_plan_summarise(first).n_devices, 1);
    clv_plan_destroy(first);
    clv_plan_destroy(layer);
    clv_plan_destroy(tensor);
    close_world(&w);
}

/* Every choice has its time and what else there was. */
static void test_explained(void **state)
{
    (void)state;
    world w;
    open_world(&w, "snapdragon-8gen3", "", &shape);
    clv_plan *plan = plan_for(&w, NULL, 0);
    uint32_t told = 0;
    for (uint32_t i = 0; i < w.l.graph->n_nodes; i++) {
        const core_choice *c = &plan->choices[i];
        assert_true(c->ns > 0);
        assert_null(c->reason);
        told += c->alternative && strstr(c->alternative, " on npu_sim:") &&
                c->alternative_ns > 0;
    }
    assert_true(told > w.l.graph->n_nodes / 2);
    clv_plan_destroy(plan);
    close_world(&w);
}

/* Saved and loaded it is the same plan, steps included. */
static void test_replayed(void **state)
{
    (void)state;
    world w;
    char *text;
    clv_plan *again;
    open_world(&w, "two-npus", "", &shape);
    clv_plan *plan = plan_for(&w, NULL, 0);
    assert_ok(clv_plan_json(plan, &text));
    assert_ok(
        clv_plan_parse(w.ctx, w.l.graph, NULL, text, strlen(text), &again));
    assert_int_equal(plan->n_steps, again->n_steps);
    assert_true(predicted(plan) == predicted(again));
    clv_plan_destroy(again);
    clv_plan_destroy(plan);
    clv_string_free(text);
    close_world(&w);
}

/* A plan goes by measurements where it spends its time, or by models that were
 * found to be as good. */
static void test_refined(void **state)
{
    (void)state;
    world w;
    planner_profile *profile;
    open_world(&w, "snapdragon-8gen3", "", &shape);
    clv_plan *plan = plan_for(&w, NULL, 0);
    assert_ok(planner_profile_of(w.ctx, &profile));
    uint32_t n = 0;
    for (uint32_t p = 0; p < plan->n_parts; p++) {
        planner_workload workload;
        planner_cost cost;
        if (plan->forecast->costs_ns[p] < 0.01 * predicted(plan))
            continue;
        planner_workload_of(plan->graph, plan->parts[p].node, NULL, NULL,
                            &workload);
        assert_true(planner_profile_cost(
            profile, plan->devices[plan->parts[p].device].dev, &workload,
            &cost));
        assert_true(cost.measured);
        assert_true(cost.ns == plan->forecast->costs_ns[p]);
        n++;
    }
    assert_true(n > 4);
    clv_plan_destroy(plan);
    close_world(&w);
}

/* Whatever is planned, devices work no more than they may, as the forecast
 * counts it. Of 300 tokens some are for the GPU, as the NPU's programs have
 * fixed lengths: if that takes too long, no plan is made. */
static void test_max_share(void **state)
{
    (void)state;
    static const char *const devices[] = {"npu_sim:adreno", "npu_sim:hexagon"};
    static const int64_t tokens[] = {1, 32, 64, 128, 256, 300};
    for (uint64_t seed = 1; seed <= 24; seed++) {
        test_random r = {seed * 7331};
        world w;
        char setting[128];
        layers_shape s = shape;
        const char *id = devices[seed % 2];
        double most = (1 + test_below(&r, 9)) / 10.0;
        s.n_layers = 1 + test_below(&r, 3);
        s.heads = 8 * (1 + test_below(&r, 3));
        s.hidden = s.heads * s.head_dim;
        s.ffn = s.hidden * (2 + test_below(&r, 3));
        s.tokens = tokens[test_below(&r, 6)];
        s.dtype = test_below(&r, 2) ? CLV_DTYPE_I8 : CLV_DTYPE_I4;
        snprintf(setting, sizeof setting, "%s.max_share=%g", id, most);
        open_world(&w, "snapdragon-8gen3", setting, &s);
        clv_plan *plan;
        clv_status status = clv_plan_create(w.ctx, w.l.graph, NULL, &plan);
        if (status && s.tokens == 300) {
            assert_int_equal(status, CLV_ERR_LIMIT);
            assert_message("not the |of its max_share");
            close_world(&w);
            continue;
        }
        assert_ok(status);
        uint32_t d = strcmp(plan->devices[0].dev->id, id) != 0;
        double share = plan->forecast->busy_ns[d] / predicted(plan);
        if (share > most + 0.02)
            fail_msg("seed %llu: %s works %.1f%% of the time, not %.0f%%",
                     (unsigned long long)seed, id, 100 * share, 100 * most);
        clv_plan_destroy(plan);
        close_world(&w);
    }
}

/* Nobody else is there to do the rest. */
static void test_max_share_alone(void **state)
{
    (void)state;
    static const char *const strategies[] = {"auto", "layer", "first"};
    for (size_t i = 0; i < sizeof strategies / sizeof *strategies; i++) {
        world w;
        char setting[128];
        clv_plan *plan;
        snprintf(setting, sizeof setting,
                 "core.plan=%s npu_sim:adreno.max_share=0.5", strategies[i]);
        open_world(&w, "snapdragon-8gen3", setting, &shape);
        clv_device *dev = clv_context_device(w.ctx, 1);
        const clv_plan_params params = {.devices = &dev, .n_devices = 1};
        assert_string_equal(clv_device_id(dev), "npu_sim:adreno");
        assert_int_equal(clv_plan_create(w.ctx, w.l.graph, &params, &plan),
                         CLV_ERR_LIMIT);
        assert_null(plan);
        assert_message("device 'npu_sim:adreno' works 100% of the time in the "
                       "best plan found, not the 50% of its max_share; raise "
                       "max_share, list another device in core.devices");
        close_world(&w);
    }
}

/* The more energy weighs, the less a plan takes of it, and the longer it
 * takes; each is the best of them by its own measure. */
static void test_objective(void **state)
{
    (void)state;
    static const double weights[] = {0, 0.05, 0.5, 1};
    double ns[4], nj[4];
    for (int i = 0; i < 4; i++) {
        world w;
        char setting[64];
        snprintf(setting, sizeof setting, "core.objective=%g", weights[i]);
        open_world(&w, "snapdragon-8gen3", setting, &shape);
        clv_plan *plan = plan_for(&w, NULL, 0);
        ns[i] = predicted(plan);
        nj[i] = plan->forecast->energy_nj;
        clv_plan_destroy(plan);
        close_world(&w);
    }
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++) {
            double mine = pow(ns[i], 1 - weights[i]) * pow(nj[i], weights[i]);
            double other = pow(ns[j], 1 - weights[i]) * pow(nj[j], weights[i]);
            assert_true(mine <= other * 1.005);
        }
    assert_true(nj[3] < 0.6 * nj[0] && ns[3] > 1.1 * ns[0]);
    assert_true(nj[1] <= 1.05 * nj[0] && ns[1] < 1.03 * ns[0]);
}

/* Times of two clocks cannot be compared: such devices share no plan, and
 * where core.devices names none the simulated ones are used. */
static void test_clocks(void **state)
{
    (void)state;
    static const char *const both =
        "core.plugins=cpu,npu_sim core.devices=npu_sim,cpu";
    world w;
    clv_plan *plan;
    for (int i = 0; i < 3; i++) {
        char settings[128];
        snprintf(settings, sizeof settings, "%s core.plan=%s", both,
                 (const char *[]){"first", "layer", "tensor"}[i]);
        open_world(&w, "snapdragon-8gen3", settings, &shape);
        assert_int_equal(clv_context_device_count(w.ctx), 3);
        assert_int_equal(clv_plan_create(w.ctx, w.l.graph, NULL, &plan),
                         CLV_ERR_INVALID);
        assert_message("'cpu' works in real time|'npu_sim:hexagon' in virtual "
                       "time|core.devices");
        close_world(&w);
    }
    open_world(&w, "snapdragon-8gen3", "core.plugins=cpu,npu_sim", &shape);
    assert_int_equal(clv_context_device_count(w.ctx), 2);
    if (!strstr(w.log, "cpu is left out: its work takes real time"))
        fail_msg("not said: %s", w.log);
    plan = plan_for(&w, NULL, 0);
    assert_non_null(plan->forecast);
    clv_plan_destroy(plan);
    close_world(&w);
    open_world(&w, "snapdragon-8gen3",
               "core.plugins=cpu,npu_sim core.plan=first npu_sim.clock=real",
               &shape);
    assert_int_equal(clv_context_device_count(w.ctx), 3);
    clv_plan_destroy(plan_for(&w, NULL, 0));
    close_world(&w);
}

/* Nothing is measured, and nothing known: the log says so. */
static void test_unknown(void **state)
{
    (void)state;
    world w;
    tmpdir cache = dir;
    assert_true(tmpdir_make(&dir));
    open_world(&w, "snapdragon-8gen3", "core.profile=off", &shape);
    clv_plan *plan = plan_for(&w, NULL, 0);
    assert_false(any_cut(plan));
    assert_null(plan->forecast);
    assert_non_null(strstr(w.log, "no plan by costs"));
    assert_non_null(strstr(w.log, "cleave profile"));
    clv_plan_destroy(plan);
    close_world(&w);
    tmpdir_remove(&dir);
    dir = cache;
}

static void test_device_lost(void **state)
{
    (void)state;
    world w;
    open_world(&w, "two-npus", "", &shape);
    clv_plan_destroy(plan_for(&w, NULL, 0));
    core_device_lose(clv_context_device(w.ctx, 1));
    w.log[0] = 0;
    clv_plan *plan = plan_for(&w, NULL, 0);
    assert_int_equal(plan->n_devices, 2);
    assert_true(predicted(plan) > 0);
    assert_null(strstr(w.log, "measuring"));
    clv_plan_destroy(plan);
    close_world(&w);
}

/* Whatever the chip and the length. */
static void test_never_slower(void **state)
{
    (void)state;
    static const char *const chips[] = {"snapdragon-8gen3", "two-npus",
                                        "int8-npu"};
    static const int64_t lengths[] = {1, 64, 300};
    for (int c = 0; c < 3; c++)
        for (int i = 0; i < 3; i++) {
            world w;
            layers_shape s = shape;
            s.tokens = lengths[i];
            s.hidden = 1024;
            s.ffn = 4096;
            open_world(&w, chips[c], "core.plan=tensor", &s);
            clv_plan *plan = plan_for(&w, NULL, 0);
            for (uint32_t d = 0; d < clv_context_device_count(w.ctx); d++) {
                clv_device *dev = clv_context_device(w.ctx, d);
                clv_plan *alone;
                const clv_plan_params params = {.devices = &dev,
                                                .n_devices = 1};
                if (clv_plan_create(w.ctx, w.l.graph, &params, &alone))
                    continue; /* it does not take all */
                assert_true(predicted(plan) <= predicted(alone) * 1.001);
                clv_plan_destroy(alone);
            }
            clv_plan_destroy(plan);
            close_world(&w);
        }
}

/* ------------------------------------------------------------------------ */
/* Devices with a clock of the host's, whose times are made up               */

static const layers_shape tiny = {.n_layers = 1,
                                  .hidden = 64,
                                  .heads = 4,
                                  .groups = 2,
                                  .head_dim = 16,
                                  .ffn = 128,
                                  .vocabulary = 96,
                                  .context = 32,
                                  .tokens = 8,
                                  .dtype = CLV_DTYPE_F16};

static const layers_shape deep = {.n_layers = 8,
                                  .hidden = 1024,
                                  .heads = 8,
                                  .groups = 2,
                                  .head_dim = 128,
                                  .ffn = 4096,
                                  .vocabulary = 1024,
                                  .context = 512,
                                  .tokens = 256,
                                  .dtype = CLV_DTYPE_I8,
                                  .quant = CLV_QUANT_PER_CHANNEL};

static struct {
    double slowness[2]; /* of the devices, ns a floating point operation */
    double submit;
} made_up;

static clv_status made_up_work(planner_meter *meter, clv_device *dev,
                               const planner_workload *workload,
                               planner_sample *out)
{
    (void)meter;
    *out = (planner_sample){.workload = *workload,
                            .ns = 10 + planner_workload_flops(workload) *
                                           made_up.slowness[dev->plugin_index]};
    return CLV_OK;
}

static clv_status made_up_overheads(planner_meter *meter, clv_device *dev,
                                    planner_overheads *out)
{
    (void)meter, (void)dev;
    *out = (planner_overheads){.submit = made_up.submit,
                               .submit_idle = made_up.submit,
                               .copy = 100,
                               .copy_byte = 0.1};
    return CLV_OK;
}

static const planner_profile_source made_up_source = {
    .open = made_up_open,
    .close = made_up_close,
    .workload = made_up_work,
    .overheads = made_up_overheads,
    .contention = made_up_contention};

static void open_made_up(world *w, const char *settings)
{
    char text[2048], *save = NULL;
    memset(w, 0, sizeof *w);
    assert_ok(clv_config_create(&w->config));
    snprintf(text, sizeof text,
             "core.plugin_dirs=%s/tests/plugins/ref core.plugins=ref "
             "core.allow_unsafe_plugins=on core.cache_dir= core.probe=off "
             "core.plan=auto %s",
             getenv("CLEAVE_TEST_BUILD"), settings);
    for (char *word = strtok_r(text, " ", &save); word;
         word = strtok_r(NULL, " ", &save))
        assert_ok(clv_config_set(w->config, word, "test"));
    const clv_context_params params = {.config = w->config};
    assert_ok(clv_context_create(&params, &w->ctx));
    planner_profile *profile;
    assert_ok(planner_profile_of(w->ctx, &profile));
    profile->source = &made_up_source;
    layers_build(&w->l, w->ctx, &tiny);
}

/* A device that brings nothing to speak of gets no work: it is slow, or slow to
 * begin, or what it needs has to be copied. Which comes first does not matter.
 */
static void test_no_help(void **state)
{
    (void)state;
    static const struct {
        double slowness[2], submit;
        const char *settings, *used; /* NULL: both */
    } cases[] = {
        {{1, 1}, 0, "", NULL},
        {{1, 80}, 0, "", "ref:0"}, /* would bring 1% */
        {{80, 1}, 0, "", "ref:1"},
        {{1, 1}, 1e7, "", "ref:0"},
        {{1, 0.9}, 1e7, "", "ref:1"},
        {{0.002, 0.002}, 0, "ref.memory1=local,coherent", "ref:0"},
        {{0.02, 0.00002}, 0, "ref.memory1=local,coherent", "ref:1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        world w;
        memcpy(made_up.slowness, cases[i].slowness, sizeof made_up.slowness);
        made_up.submit = cases[i].submit;
        open_made_up(&w, cases[i].settings);
        assert_ok(clv_profile_graph(w.ctx, w.l.graph, NULL));
        clv_plan *plan = plan_for(&w, NULL, 0);
        uint32_t n = clv_plan_summarise(plan).n_devices;
        const char *first = clv_device_id(clv_plan_device(plan, 0));
        if (n != (cases[i].used ? 1 : 2) ||
            (cases[i].used && strcmp(first, cases[i].used)))
            fail_msg("case %zu: %u devices, the first is %s", i, n, first);
        clv_plan_destroy(plan);
        close_world(&w);
    }
}

/* Nodes that compute, where the next one runs on another device. */
static uint32_t count_changes(const clv_plan *plan)
{
    uint32_t n = 0, last = UINT32_MAX;
    for (uint32_t p = 0; p < plan->n_parts; p++) {
        if (core_part_copies(plan, p))
            continue;
        n += last != UINT32_MAX && plan->parts[p].device != last;
        last = plan->parts[p].device;
    }
    return n;
}

/* A fast device that holds a part of the weights gets the first layers:
 * repeated blocks divided all alike would need exchanges in each. */
static void test_front(void **state)
{
    (void)state;
    world w;
    made_up.slowness[0] = 1e-4; /* weights take longer to copy */
    made_up.slowness[1] = 1e-6;
    made_up.submit = 2e5;
    open_made_up(&w, "ref.memory1=local,coherent");
    layers_free(&w.l);
    layers_build(&w.l, w.ctx, &deep);
    uint64_t weights = 0, size;
    for (uint32_t v = 0; v < w.l.graph->n_tensors; v++)
        if (w.l.graph->tensors[v].usage == CLV_USAGE_WEIGHT &&
            !core_desc_size(&w.l.graph->tensors[v], NULL, &size))
            weights += size;
    clv_context_device(w.ctx, 1)->info.memory_size = weights / 2;
    assert_ok(clv_profile_graph(w.ctx, w.l.graph, NULL));
    clv_plan *plan = plan_for(&w, NULL, 0);
    assert_int_equal(clv_plan_summarise(plan).n_devices, 2);
    if (count_changes(plan) > 3)
        fail_msg("%u changes of device", count_changes(plan));
    assert_true(planner_limits_bytes(plan, 1) <= weights / 2);
    clv_plan_destroy(plan);
    close_world(&w);
}

static uint32_t count_streamed(const clv_plan *plan)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < plan->n_pieces; i++)
        n += plan->pieces[i].streamed;
    return n;
}

/* By the simulation's clock. */
static double run_ns(world *w, clv_plan *plan)
{
    clv_exec *exec;
    clv_moment before, after;
    clv_device *dev = clv_context_device(w->ctx, 0);
    const int64_t rows = 256;
    clv_tensor *states[32];
    uint32_t n = 0;
    assert_ok(clv_exec_create(plan, &exec));
    for (uint32_t v = 0; v < w->l.graph->n_tensors; v++) {
        const clv_tensor_desc *desc = &w->l.graph->tensors[v];
        if (desc->usage != CLV_USAGE_STATE)
            continue;
        assert_ok(clv_tensor_create(w->ctx, desc->dtype, desc->rank, desc->dims,
                                    &states[n]));
        assert_ok(clv_exec_bind(exec, v, states[n++]));
    }
    assert_ok(
        clv_exec_run(exec, &rows, 1)); /* states are where they are used */
    assert_ok(clv_device_now(dev, &before));
    assert_ok(clv_exec_run(exec, &rows, 1));
    assert_ok(clv_device_now(dev, &after));
    clv_exec_destroy(exec);
    while (n)
        clv_tensor_destroy(states[--n]);
    return after.ns - before.ns;
}

/* What the search counts for the preparation of each piece, near a plan. */
static void price(world *w, const clv_plan *plan, planner_candidates *c)
{
    const clv_graph *graph = w->l.graph;
    const uint32_t n = plan->n_devices;
    const clv_subgraph view = core_graph_view(graph);
    clv_op_caps *caps = calloc((size_t)n * graph->n_nodes, sizeof *caps);
    uint32_t *options = calloc(graph->n_nodes, sizeof *options);
    planner_profile *profile;
    assert_ok(planner_profile_of(w->ctx, &profile));
    const planner_costs costs = planner_costs_of(profile);
    assert_non_null(caps);
    assert_non_null(options);
    for (uint32_t d = 0; d < n; d++)
        assert_ok(core_device_caps(plan->devices[d].dev, &view,
                                   caps + (size_t)d * graph->n_nodes));
    assert_ok(planner_candidates_make(plan, caps, &costs,
                                      PLANNER_STRATEGY_TENSOR, 0, NULL, c));
    for (uint32_t i = 0; i < graph->n_nodes; i++)
        options[i] = c->nodes[i].first_option;
    planner_prepare_prices(plan, options, profile, c);
    free(options);
    free(caps);
}

/* Programs that take long to compile have a price in the search; copies of
 * weights, on a queue or beside work, are no programs. */
static void test_streamed_prepared(void **state)
{
    (void)state;
    for (int queues = 0; queues < 2; queues++) {
        char settings[256];
        world w;
        planner_candidates c;
        uint32_t n_copies = 0, n_priced = 0;
        snprintf(settings, sizeof settings,
                 "core.plan=tensor core.expected_runs=10 "
                 "npu_sim:card.memory=64 npu_sim:card.copy_queues=%d "
                 "npu_sim:card.compile_base_us=2000",
                 queues);
        open_world(&w, "small-card", settings, &deep);
        assert_ok(clv_profile_graph(w.ctx, w.l.graph, NULL));
        clv_plan *plan = plan_for(&w, NULL, 0);
        assert_true(plan->prepare_ns > 0);
        assert_true(planner_is_legal_plan(plan));
        assert_true(count_streamed(plan) > 0);
        price(&w, plan, &c);
        for (uint32_t i = 0; i < c.problem.n_pieces; i++) {
            const bool copies = c.cuts[i].node == CORE_NO_PIECE;
            n_copies +=
                copies && (c.pieces[i].device >= plan->n_devices) == queues;
            n_priced += c.pieces[i].extra_ns > 0;
            assert_true(!copies || c.pieces[i].extra_ns == 0);
        }
        assert_true(n_copies > 0);
        assert_true(n_priced > 0);
        planner_candidates_finish(&c);
        clv_plan_destroy(plan);
        close_world(&w);
    }
}

/* A card that holds half of the weights computes with the others too: they come
 * through its link while it works. */
static void test_streamed(void **state)
{
    (void)state;
    static const char *const settings[] = {
        "core.plan=tensor npu_sim:card.memory=64",
        "core.plan=tensor npu_sim:card.memory=64 npu_sim:card.copy_queues=1"};
    double ns[2];
    for (int i = 0; i < 2; i++) {
        world w;
        open_world(&w, "small-card", settings[i], &deep);
        assert_ok(clv_profile_graph(w.ctx, w.l.graph, NULL));
        clv_device *cpu;
        assert_ok(clv_context_find_device(w.ctx, "npu_sim:cpu", &cpu));
        clv_plan *alone = plan_for(&w, &cpu, 1);
        clv_plan *plan = plan_for(&w, NULL, 0);
        assert_true(count_streamed(plan) > 0);
        assert_int_equal(count_streamed(alone), 0);
        for (uint32_t d = 0; d < plan->n_devices; d++)
            assert_true(planner_limits_bytes(plan, d) <= plan->devices[d].room);
        assert_int_equal(plan->n_queues, plan->n_devices + (uint32_t)i);
        ns[i] = run_ns(&w, plan);
        assert_true(fabs(predicted(plan) / ns[i] - 1) < 0.05);
        assert_true(ns[i] < 0.5 * predicted(alone));
        clv_plan_destroy(plan);
        clv_plan_destroy(alone);
        close_world(&w);
    }
    assert_true(ns[1] < 0.95 * ns[0]);
}

/* Copies take from the memory that the CPU reads meanwhile. */
static void test_streamed_beside(void **state)
{
    (void)state;
    static const double together[] = {70, 45};
    double ns[2];
    for (int i = 0; i < 2; i++) {
        world w;
        char settings[256];
        layers_shape few = deep;
        few.tokens = 1;
        snprintf(settings, sizeof settings,
                 "core.plan=tensor npu_sim:card.memory=64 "
                 "npu_sim:card.copy_queues=1 npu_sim:card.link=28 "
                 "npu_sim.memory_bandwidth=%g",
                 together[i]);
        open_world(&w, "small-card", settings, &few);
        assert_ok(clv_profile_graph(w.ctx, w.l.graph, NULL));
        clv_plan *plan = plan_for(&w, NULL, 0);
        ns[i] = run_ns(&w, plan);
        print_message("%g GB/s: %u streamed, %g ms, predicted %g\n",
                      together[i], count_streamed(plan), ns[i] * 1e-6,
                      predicted(plan) * 1e-6);
        assert_true(i || count_streamed(plan) > 0);
        assert_true(fabs(predicted(plan) / ns[i] - 1) < 0.03);
        clv_plan_destroy(plan);
        close_world(&w);
    }
    assert_true(ns[1] > 1.02 * ns[0]);
}

/* With less memory, where the largest weights do not fit beside the values
 * between nodes, parts of weights come through; with longer prompts, smaller
 * ones. */
static void test_streamed_parts(void **state)
{
    (void)state;
    static const struct {
        const char *settings;
        int64_t tokens;
        double most; /* of the time of the CPU alone */
    } cases[] = {{"core.plan=tensor npu_sim:card.memory=18 "
                  "npu_sim:card.copy_queues=1",
                  256, 0.7},
                 {"core.plan=tensor npu_sim:card.memory=30 "
                  "npu_sim:card.copy_queues=1",
                  512, 0.9}};
    for (uint32_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        world w;
        layers_shape prompt = deep;
        prompt.tokens = cases[i].tokens;
        open_world(&w, "small-card", cases[i].settings, &prompt);
        assert_ok(clv_profile_graph(w.ctx, w.l.graph, NULL));
        clv_device *cpu;
        assert_ok(clv_context_find_device(w.ctx, "npu_sim:cpu", &cpu));
        clv_plan *alone = plan_for(&w, &cpu, 1);
        clv_plan *plan = plan_for(&w, NULL, 0);
        assert_true(planner_is_legal_plan(plan));
        assert_true(count_streamed(plan) > 0);
        assert_true(predicted(plan) < cases[i].most * predicted(alone));
        clv_plan_destroy(plan);
        clv_plan_destroy(alone);
        close_world(&w);
    }
}

/* Another plan for the same runs, as one that was learned asks for, has the
 * weights and the workspace of the first: it is no worse. */
static void test_streamed_again(void **state)
{
    (void)state;
    static const char *const settings[] = {
        "core.plan=tensor npu_sim:card.memory=40 npu_sim:card.copy_queues=1",
        "core.plan=tensor npu_sim:card.memory=64 npu_sim:card.copy_queues=1",
        "core.plan=tensor npu_sim:card.memory=96 npu_sim:card.copy_queues=1"};
    for (int i = 0; i < 3; i++) {
        world w;
        open_world(&w, "small-card", settings[i], &deep);
        assert_ok(clv_profile_graph(w.ctx, w.l.graph, NULL));
        clv_plan *first = plan_for(&w, NULL, 0), *again;
        clv_workspace *workspace;
        clv_exec *exec;
        assert_ok(clv_workspace_create(w.ctx, &workspace));
        assert_ok(clv_exec_create_in(first, workspace, &exec));
        clv_exec_destroy(exec);
        const clv_plan_params params = {.workspace = workspace};
        assert_ok(clv_plan_create(w.ctx, w.l.graph, &params, &again));
        print_message("first %g ms, again %g ms\n", predicted(first) * 1e-6,
                      predicted(again) * 1e-6);
        assert_true(planner_is_legal_plan(again));
        assert_true(predicted(again) < 1.03 * predicted(first));
        clv_plan_destroy(again);
        clv_workspace_destroy(workspace);
        clv_plan_destroy(first);
        close_world(&w);
    }
}

/* What an exec left is no burden for a plan that divides weights otherwise: its
 * memory is the next one's. */
static void test_left_weights(void **state)
{
    (void)state;
    static const char settings[] =
        "npu_sim:card.memory=40 npu_sim:card.copy_queues=1";
    double fresh = 0;
    for (int i = 0; i < 2; i++) {
        world w;
        clv_device *card;
        clv_exec *exec;
        open_world(&w, "small-card", settings, &deep);
        assert_ok(clv_profile_graph(w.ctx, w.l.graph, NULL));
        assert_ok(clv_context_find_device(w.ctx, "npu_sim:card", &card));
        const uint64_t all = clv_device_room(card);
        if (i) {
            clv_plan *other = plan_for(&w, NULL, 0);
            assert_true(any_cut(other));
            assert_ok(clv_exec_create(other, &exec));
            clv_exec_destroy(exec);
            clv_plan_destroy(other);
            assert_true(clv_device_room(card) < all - (8u << 20));
        }
        assert_ok(clv_config_set(w.config, "core.plan=layer", "test"));
        clv_plan *layer = plan_for(&w, NULL, 0);
        fresh = i ? fresh : predicted(layer);
        assert_true(predicted(layer) < 1.001 * fresh);
        assert_ok(clv_exec_create(layer, &exec));
        const clv_memory_use use =
            clv_plans_memory((const clv_plan *const *)&layer, 1, NULL, card);
        assert_true(use.weights > 0);
        assert_true(all - clv_device_room(card) <=
                    use.weights + use.states + use.values + (1u << 20));
        clv_exec_destroy(exec);
        clv_plan_destroy(layer);
        close_world(&w);
    }
}

/* A card whose memory all weights fill is not short of memory for another plan,
 * which works with the same weights. */
static void test_all_held(void **state)
{
    (void)state;
    world w;
    open_world(&w, "small-card",
               "core.plan=tensor npu_sim:card.memory=192 "
               "npu_sim:card.copy_queues=1",
               &deep);
    assert_ok(clv_profile_graph(w.ctx, w.l.graph, NULL));
    clv_plan *first = plan_for(&w, NULL, 0);
    clv_exec *exec;
    assert_ok(clv_exec_create(first, &exec));
    clv_plan *second = plan_for(&w, NULL, 0);
    bool filled = false;
    for (uint32_t d = 0; d < second->n_devices; d++) {
        const core_plan_device *of = &second->devices[d];
        filled |= of->room < core_graph_weight_bytes(w.l.graph);
        assert_false(planner_is_scarce(w.l.graph, of));
    }
    assert_true(filled);
    assert_int_equal(count_streamed(second), 0);
    clv_plan_destroy(second);
    clv_exec_destroy(exec);
    clv_plan_destroy(first);
    close_world(&w);
}

static bool cuts_experts(const clv_plan *plan)
{
    for (uint32_t i = 0; i < plan->n_pieces; i++)
        if (plan->pieces[i].ranges[CORE_AXIS_EXPERTS].end)
            return true;
    return false;
}

static const layers_shape moe = {.n_layers = 6,
                                 .hidden = 1024,
                                 .heads = 8,
                                 .groups = 2,
                                 .head_dim = 128,
                                 .ffn = 2048,
                                 .vocabulary = 1024,
                                 .context = 512,
                                 .tokens = 1,
                                 .dtype = CLV_DTYPE_Q8_0,
                                 .n_experts = 8,
                                 .n_used = 2};

/* A card holds half of the experts: both devices compute those that they have,
 * at the same time. */
static void test_experts(void **state)
{
    (void)state;
    world w;
    open_world(&w, "small-card",
               "core.plan=tensor npu_sim:card.memory=200 "
               "npu_sim:card.bandwidth=60",
               &moe);
    assert_ok(clv_profile_graph(w.ctx, w.l.graph, NULL));
    clv_plan *plan = plan_for(&w, NULL, 0);
    assert_true(cuts_experts(plan));
    assert_true(planner_is_legal_plan(plan));
    const double ns = run_ns(&w, plan);
    assert_true(fabs(predicted(plan) / ns - 1) < 0.05);
    /* Whole products are the best without this axis: there is one token. */
    assert_ok(clv_config_set(w.config, "core.plan=layer", "test"));
    clv_plan *whole = plan_for(&w, NULL, 0);
    assert_false(cuts_experts(whole));
    print_message("experts: %.3f ms, whole %.3f ms, %.2f times as fast\n",
                  ns / 1e6, predicted(whole) / 1e6, predicted(whole) / ns);
    assert_true(ns < 0.9 * predicted(whole));
    clv_plan_destroy(whole);
    clv_plan_destroy(plan);
    close_world(&w);
}

/* Bytes of experts that the plan has on a device, and chances of one of them to
 * be chosen there, on average. */
static double chance_there(const clv_plan *plan, uint32_t device,
                           uint64_t *bytes)
{
    double sum = 0, n = 0;
    *bytes = 0;
    for (uint32_t i = 0; i < plan->n_parts; i++) {
        const clv_node *node = &plan->graph->nodes[plan->parts[i].node];
        if (node->op != CLV_OP_MATMUL_EXPERTS ||
            plan->parts[i].device != device)
            continue;
        const clv_tensor_desc *w = &plan->graph->tensors[node->inputs[1]];
        const core_value *value = &plan->graph->values[node->inputs[1]];
        double experts, products;
        uint64_t size;
        assert_ok(core_desc_size(w, NULL, &size));
        assert_true(core_tensor_expected(value->weight, value->origin[0],
                                         value->origin[0] + w->dims[0], 1,
                                         &experts, &products));
        *bytes += size;
        sum += experts;
        n += (double)w->dims[0];
    }
    return n > 0 ? sum / n : 0;
}

/* A card with room for some of the experts has those that are chosen most, and
 * that is faster than if any could be chosen. A little faster is not enough. */
static void test_popular_experts(void **state)
{
    (void)state;
    static const float chances[] = {0.9f,  0.5f,  0.2f,  0.1f,
                                    0.08f, 0.08f, 0.07f, 0.07f};
    world w;
    open_world(&w, "small-card",
               "core.plan=tensor npu_sim:card.memory=130 "
               "npu_sim:card.bandwidth=400",
               &moe);
    assert_ok(clv_profile_graph(w.ctx, w.l.graph, NULL));
    clv_plan *equal = plan_for(&w, NULL, 0);
    for (uint32_t i = 0; i < w.l.n_weights; i++)
        if (clv_tensor_rank(w.l.weights[i]) == 3)
            assert_ok(clv_tensor_set_popularity(w.l.weights[i], chances));
    clv_plan *popular = plan_for(&w, NULL, 0);
    uint32_t card = 0;
    while (card < popular->n_devices && !popular->devices[card].local)
        card++;
    assert_true(card < popular->n_devices);
    uint64_t there, elsewhere;
    assert_true(planner_is_legal_plan(popular));
    assert_true(cuts_experts(popular));
    assert_true(chance_there(popular, card, &there) >
                2 * chance_there(popular, !card, &elsewhere));
    assert_true(there > 0 && elsewhere > 0);
    print_message("popular experts: %.3f ms instead of %.3f ms\n",
                  predicted(popular) / 1e6, predicted(equal) / 1e6);
    assert_true(predicted(popular) < 0.8 * predicted(equal));
    equal->forecast->makespan_ns = 1.05 * popular->forecast->makespan_ns;
    assert_true(planner_is_better_plan(popular, equal));
    assert_false(planner_is_more_popular_plan(popular, equal));
    equal->forecast->makespan_ns = 1.15 * popular->forecast->makespan_ns;
    assert_true(planner_is_more_popular_plan(popular, equal));
    clv_plan_destroy(popular);
    clv_plan_destroy(equal);
    close_world(&w);
}

/* Of two drivers of one piece of hardware the faster one is used. */
static void test_same_hardware(void **state)
{
    (void)state;
    const char *build = getenv("CLEAVE_TEST_BUILD");
    char settings[1024];
    made_up.slowness[0] = 1;
    made_up.slowness[1] = 0.5;
    made_up.submit = 0;
    snprintf(settings, sizeof settings,
             "core.plugin_dirs=%s/tests/plugins/ref:%s/plugins "
             "core.plugins=cpu,ref",
             build, build);
    for (int same = 0; same < 2; same++) {
        world w;
        open_made_up(&w, settings);
        clv_device *devices[2] = {NULL};
        for (uint32_t i = 0; i < clv_context_device_count(w.ctx); i++) {
            clv_device *dev = clv_context_device(w.ctx, i);
            if (!strcmp(clv_device_id(dev), "cpu"))
                devices[0] = dev;
            if (!strcmp(clv_device_id(dev), "ref:1"))
                devices[1] = dev;
        }
        assert_true(devices[0] && devices[1]);
        memset(devices[0]->info.uuid, 1, sizeof devices[0]->info.uuid);
        memset(devices[1]->info.uuid, same ? 1 : 2,
               sizeof devices[1]->info.uuid);
        const clv_profile_params params = {.devices = devices, .n_devices = 2};
        assert_ok(clv_profile_graph(w.ctx, w.l.graph, &params));
        clv_plan *plan = plan_for(&w, devices, 2);
        assert_int_equal(clv_plan_summarise(plan).n_devices, same ? 1 : 2);
        if (same)
            assert_ptr_equal(clv_plan_device(plan, 0), devices[1]);
        clv_plan_destroy(plan);
        close_world(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_strategies),
        cmocka_unit_test(test_explained),
        cmocka_unit_test(test_replayed),
        cmocka_unit_test(test_refined),
        cmocka_unit_test(test_max_share),
        cmocka_unit_test(test_max_share_alone),
        cmocka_unit_test(test_objective),
        cmocka_unit_test(test_clocks),
        cmocka_unit_test(test_unknown),
        cmocka_unit_test(test_device_lost),
        cmocka_unit_test(test_never_slower),
        cmocka_unit_test(test_front),
        cmocka_unit_test(test_streamed),
        cmocka_unit_test(test_experts),
        cmocka_unit_test(test_popular_experts),
        cmocka_unit_test(test_streamed_prepared),
        cmocka_unit_test(test_streamed_beside),
        cmocka_unit_test(test_streamed_parts),
        cmocka_unit_test(test_streamed_again),
        cmocka_unit_test(test_left_weights),
        cmocka_unit_test(test_all_held),
        cmocka_unit_test(test_same_hardware),
        cmocka_unit_test(test_no_help),
    };
    if (!tmpdir_make(&dir))
        return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    tmpdir_remove(&dir);
    return failed;
}
