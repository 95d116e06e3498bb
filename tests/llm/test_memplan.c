/* The memory that the plan of a real model reserves for intermediate values,
 * compared with a simple allocator. No weights are read. */
#include "rig.h"

#include "runtime/runner.h"
#include "../core/memplan_rivals.h"
#include "../../core/plan/plan.h"

#include <stdio.h>

#define ALIGN 64

/* The intermediate values one by one, as if none used the memory of another. */
static uint32_t collect(const clv_plan *plan, planner_lifetime *t)
{
    uint32_t n = 0;
    for (uint32_t v = 0; v < plan->graph->n_tensors; v++) {
        const core_place *place = &plan->places[v];
        if (place->home == CORE_HOME_ARENA && plan->graph->values[v].base == v)
            t[n++] = (planner_lifetime){place->size, place->first_part,
                                        place->last_part};
    }
    return n;
}

static void expect_apart(const clv_plan *plan)
{
    const uint32_t n = plan->graph->n_tensors;
    for (uint32_t a = 0; a < n; a++)
        for (uint32_t b = 0; b < a; b++) {
            const core_place *p = &plan->places[a], *q = &plan->places[b];
            /* One may end where the other, in its place, begins. */
            if (p->home != CORE_HOME_ARENA || q->home != CORE_HOME_ARENA ||
                plan->graph->values[a].base == plan->graph->values[b].base ||
                p->first_part >= q->last_part || q->first_part >= p->last_part)
                continue;
            assert_true(p->offset + p->size <= q->offset ||
                        q->offset + q->size <= p->offset);
        }
}

static void compare(const clv_plan *plan)
{
    const uint32_t n_tensors = plan->graph->n_tensors;
    planner_lifetime *t = calloc(n_tensors, sizeof *t);
    uint64_t *place = calloc(n_tensors, sizeof *place);
    bool *placed = calloc(n_tensors, sizeof *placed);
    assert_true(t && place && placed);
    const uint32_t n = collect(plan, t);
    const uint64_t unshared = rival_unshared(t, n, ALIGN);
    const uint64_t bound = rival_bound(t, n, plan->n_parts, ALIGN);
    const uint64_t fit =
        rival_first_fit(t, n, plan->n_parts, ALIGN, placed, place);
    const uint64_t size = plan->memory.size;
    print_message("%u values: %.1f MB unshared, %.1f MB first fit, %.1f MB "
                  "planned, %.1f MB must be unless values take over others' "
                  "memory: %.1f%% saved\n",
                  n, (double)unshared / 1e6, (double)fit / 1e6,
                  (double)size / 1e6, (double)bound / 1e6,
                  100 - 100 * (double)size / (double)unshared);
    assert_int_equal(plan->memory.naive, unshared);
    assert_int_equal(size, plan->memory.live);
    assert_true(size <= bound && size <= fit);
    assert_true(size <= unshared / 60);
    free(placed);
    free(place);
    free(t);
}

static void test_llama3(void **state)
{
    (void)state;
    rig_world world;
    clv_model *model;
    llm_kv_cache cache;
    llm_runner *runner;
    const llm_shape shape = {.n_tokens = 1024};
    rig_open(&world, NULL, "core.plugins=cpu");
    assert_ok(
        clv_model_load(world.ctx, "synth:llama3-8b:q8_0:zero", NULL, &model));
    assert_ok(llm_kv_cache_init(&cache, world.ctx, model->hp, 1024, 1,
                                CLV_DTYPE_F16));
    assert_ok(llm_runner_create(model, &cache, &shape, &runner));
    assert_ok(llm_runner_plan(runner, &(llm_runner_params){0}));
    expect_apart(runner->plan);
    compare(runner->plan);
    llm_runner_destroy(runner);
    llm_kv_cache_finish(&cache);
    clv_model_destroy(model);
    rig_close(&world);
}

/* A step of one token on a device with own memory: ids and positions are copied
 * to it, logits from it. */
static void test_decode(void **state)
{
    (void)state;
    static const char *const names[] = {"ids", "pos", "logits"};
    rig_world world;
    llm_kv_cache cache;
    llm_runner *runner;
    const tiny_params params = tiny_defaults();
    const llm_shape shape = {.n_tokens = 1, .fixed = true};
    rig_open(&world, NULL,
             "core.plugins=ref core.devices=ref:0 "
             "ref.memory0=local,shadow ref.import0=off");
    clv_model *model = rig_model(world.ctx, &params, NULL);
    assert_ok(
        llm_kv_cache_init(&cache, world.ctx, model->hp, 32, 1, CLV_DTYPE_F32));
    assert_ok(llm_runner_create(model, &cache, &shape, &runner));
    assert_ok(llm_runner_plan(runner, &(llm_runner_params){0}));
    const clv_plan *plan = runner->plan;
    assert_int_equal(plan->n_steps, 1);
    assert_int_equal(plan->n_waits, 0);
    assert_int_equal(plan->n_copies, 3);
    for (uint32_t i = 0; i < 3; i++) {
        const core_copy *c = &plan->copies[i];
        const clv_value host =
            plan->graph->values[c->out ? c->to : c->from].base;
        assert_int_equal(c->out, i == 2);
        assert_string_equal(plan->graph->values[host].name, names[i]);
        assert_int_equal(c->bytes, plan->places[host].size);
    }
    llm_runner_destroy(runner);
    llm_kv_cache_finish(&cache);
    clv_model_destroy(model);
    rig_close(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_llama3),
                                       cmocka_unit_test(test_decode)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
