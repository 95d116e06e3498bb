/*
 * Plans by costs where a device's memory does not hold all weights: which ones
 * come through its link in each run, what was left in it, and which experts it
 * has.
 */
#include "plan_world.h"

#include "../../core/device/caps.h"
#include "../../core/device/subgraph.h"
#include "../../planner/candidates/room.h"
#include "../../planner/compare.h"
#include "../../planner/limits.h"
#include "../../planner/prepare.h"
#include "../../planner/profile/store.h"

#include <math.h>

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

/* ------------------------------------------------------------------------ */
/* Experts                                                                  */

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_streamed),
        cmocka_unit_test(test_streamed_prepared),
        cmocka_unit_test(test_streamed_beside),
        cmocka_unit_test(test_streamed_parts),
        cmocka_unit_test(test_streamed_again),
        cmocka_unit_test(test_left_weights),
        cmocka_unit_test(test_all_held),
        cmocka_unit_test(test_experts),
        cmocka_unit_test(test_popular_experts),
    };
    return cmocka_run_group_tests(tests, make_cache, remove_cache);
}
