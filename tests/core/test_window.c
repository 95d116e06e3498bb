/*
 * Devices that work in the host's memory and can address a part of it only:
 * what their programs reach of weights counts, over all execs, and plans divide
 * it as they divide a card's memory, by what gains most.
 */
#include "layers.h"
#include "message.h"
#include "tmpdir.h"

#include "../../core/device/memory.h"
#include "../../core/plan/plan.h"
#include "../../planner/limits.h"
#include "../../planner/planner.h"

static tmpdir dir;

#define MIB ((uint64_t)1 << 20)

static const layers_shape shape = {.n_layers = 4,
                                   .hidden = 2048,
                                   .heads = 16,
                                   .groups = 16,
                                   .head_dim = 128,
                                   .ffn = 8192,
                                   .vocabulary = 2048,
                                   .context = 512,
                                   .tokens = 256,
                                   .dtype = CLV_DTYPE_I8,
                                   .quant = CLV_QUANT_PER_TENSOR};

typedef struct world {
    clv_config *config;
    clv_context *ctx;
    layers l;
} world;

/* The phone's NPU and its CPU. mib: that the NPU can address. */
static void open_world(world *w, uint32_t mib, const char *more)
{
    char text[2048], path[1024], *save = NULL;
    assert_ok(clv_config_create(&w->config));
    snprintf(path, sizeof path, "%s/conf/soc/int8-npu.ini",
             getenv("CLEAVE_TEST_SOURCE"));
    assert_ok(clv_config_load_file(w->config, path));
    snprintf(text, sizeof text,
             "core.plugin_dirs=%s/plugins core.plugins=npu_sim "
             "core.allow_unsafe_plugins=on core.cache_dir=%s core.probe=off "
             "npu_sim.compute=off npu_sim:npu.address_space=%u %s",
             getenv("CLEAVE_TEST_BUILD"), dir.path, mib, more);
    for (char *word = strtok_r(text, " ", &save); word;
         word = strtok_r(NULL, " ", &save))
        assert_ok(clv_config_set(w->config, word, "test"));
    const clv_context_params params = {.config = w->config};
    assert_ok(clv_context_create(&params, &w->ctx));
    layers_build(&w->l, w->ctx, &shape);
}

static void close_world(world *w)
{
    layers_free(&w->l);
    clv_context_destroy(w->ctx);
    clv_config_destroy(w->config);
}

/* Bytes of weights that the plan has device 0 reach. */
static uint64_t reached(const clv_plan *plan)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < plan->n_loads; i++)
        if (plan->loads[i].device == 0 &&
            core_plan_load_reaches(plan, &plan->loads[i])) {
            core_runs range;
            assert_ok(core_plan_reach(plan, &plan->loads[i], &range));
            sum += range.bytes * range.n;
        }
    return sum;
}

static double planned_ns(world *w, clv_plan **out)
{
    assert_ok(clv_plan_create(w->ctx, w->l.graph, NULL, out));
    assert_non_null((*out)->forecast);
    return (*out)->forecast->makespan_ns;
}

/* The first products whole on the NPU, as many as it can address, the rest on
 * the CPU. */
static double first_nodes_ns(world *w)
{
    clv_plan *plan;
    double best = 0;
    const uint32_t n = w->l.graph->n_nodes;
    core_piece *pieces = calloc(n, sizeof *pieces);
    assert_non_null(pieces);
    clv_device *devices[] = {clv_context_device(w->ctx, 0),
                             clv_context_device(w->ctx, 1)};
    const clv_plan_params params = {.devices = devices, .n_devices = 2};
    for (uint32_t end = 0; end <= n; end++) {
        for (uint32_t i = 0; i < n; i++)
            pieces[i] = (core_piece){
                .node = i,
                .device = i >= end || w->l.graph->nodes[i].op != CLV_OP_MATMUL};
        assert_ok(
            planner_from_pieces(w->ctx, w->l.graph, &params, pieces, n, &plan));
        const bool fits = !planner_limits_over(plan, 0);
        if (fits)
            best = plan->forecast->makespan_ns;
        clv_plan_destroy(plan);
        if (!fits)
            break;
    }
    free(pieces);
    return best;
}

/* Within the window lies what gains most: faster than the first nodes in order,
 * and slower than with all of them. */
static void test_gains_most(void **state)
{
    (void)state;
    world w;
    clv_plan *plan;
    open_world(&w, 0, "");
    const double all = planned_ns(&w, &plan);
    const uint64_t most = core_graph_weight_bytes(w.l.graph);
    assert_int_equal(reached(plan), 0); /* nothing limits it */
    assert_int_equal(planner_limits_bytes(plan, 0), 0);
    clv_plan_destroy(plan);
    close_world(&w);
    assert_true(most > 192 * MIB);

    open_world(&w, 160, "");
    const double within = planned_ns(&w, &plan);
    const double first = first_nodes_ns(&w);
    assert_true(reached(plan) > 64 * MIB);
    assert_true(planner_limits_bytes(plan, 0) <= 160 * MIB);
    if (within <= all)
        fail_msg("%.0f ns, and %.0f without a limit", within, all);
    if (within >= 0.97 * first)
        fail_msg("%.0f ns, and with the first products %.0f; %.0f %llu", within,
                 first, all, (unsigned long long)reached(plan));
    clv_plan_destroy(plan);
    close_world(&w);
}

/* What execs reach counts once for all of them, until the last one is gone. */
static void test_shared(void **state)
{
    (void)state;
    world w;
    clv_plan *plan, *again;
    clv_exec *exec, *other;
    open_world(&w, 160, "");
    clv_device *npu = clv_context_device(w.ctx, 0);
    planned_ns(&w, &plan);
    const uint64_t bytes = reached(plan);
    assert_int_equal(clv_device_room(npu), 160 * MIB);
    assert_ok(clv_exec_create(plan, &exec));
    assert_int_equal(clv_device_room(npu), 160 * MIB - bytes);
    assert_ok(clv_exec_create(plan, &other));
    assert_int_equal(clv_device_room(npu), 160 * MIB - bytes);
    /* The same work finds its weights there, though hardly any room is left. */
    planned_ns(&w, &again);
    assert_true(reached(again) >= bytes / 2);
    assert_true(planner_limits_bytes(again, 0) <= again->devices[0].room);
    clv_plan_destroy(again);
    const clv_plan *plans[] = {plan};
    const clv_memory_use use = clv_plans_memory(plans, 1, NULL, npu);
    assert_int_equal(use.budget, 160 * MIB);
    assert_int_equal(use.in_place, bytes);
    clv_exec_destroy(exec);
    assert_int_equal(clv_device_room(npu), 160 * MIB - bytes);
    clv_exec_destroy(other);
    assert_int_equal(clv_device_room(npu), 160 * MIB);
    clv_plan_destroy(plan);
    close_world(&w);
}

/* A plan from elsewhere that reaches too far cannot be run, and leaves nothing.
 */
static void test_too_far(void **state)
{
    (void)state;
    world w;
    clv_plan *plan, *far;
    clv_exec *exec;
    char *json;
    open_world(&w, 0, "");
    planned_ns(&w, &plan);
    assert_ok(clv_plan_json(plan, &json));
    clv_plan_destroy(plan);
    close_world(&w);
    open_world(&w, 32, "");
    clv_device *npu = clv_context_device(w.ctx, 0);
    assert_ok(clv_plan_parse(w.ctx, w.l.graph, NULL, json, strlen(json), &far));
    assert_int_equal(clv_exec_create(far, &exec), CLV_ERR_NO_MEMORY);
    assert_non_null(
        strstr(clv_last_error(), "device 'npu_sim:npu' can address 32 MiB"));
    assert_int_equal(clv_device_room(npu), 32 * MIB);
    clv_plan_destroy(far);
    clv_string_free(json);
    close_world(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gains_most),
        cmocka_unit_test(test_shared),
        cmocka_unit_test(test_too_far),
    };
    if (!tmpdir_make(&dir))
        return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    tmpdir_remove(&dir);
    return failed;
}
