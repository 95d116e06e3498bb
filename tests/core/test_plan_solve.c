/*
 * Plans by costs, on simulated chips, whose measurements take no time to speak
 * of: what core.plan and core.objective ask for, never much slower than the
 * best single device, told when there is nothing to go by, and again after a
 * device is lost.
 */
#include "plan_world.h"

#include "../../core/device/loss.h"
#include "../../planner/profile/store.h"

#include <math.h>

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_strategies),  cmocka_unit_test(test_explained),
        cmocka_unit_test(test_replayed),    cmocka_unit_test(test_refined),
        cmocka_unit_test(test_objective),   cmocka_unit_test(test_unknown),
        cmocka_unit_test(test_device_lost), cmocka_unit_test(test_never_slower),
    };
    return cmocka_run_group_tests(tests, make_cache, remove_cache);
}
