/* How texts are divided into batches. The first reference device has lengths,
 * the second takes any. Predicted times are made up here. */
#include "rig.h"

#include "runtime/split.h"
#include "../../core/plan/plan.h"

#include <stdio.h>

/* Linked with --wrap: what n_runs of n tokens take, ns; NULL: unknown. */
static double (*predict)(uint32_t n, uint32_t n_runs, uint32_t n_flight);
static uint32_t n_predicted;
static double of_planned = 1; /* with a plan for runs in flight, of that */
clv_status __wrap_clv_plan_predict_flight(const clv_plan *plan,
                                          const int64_t *symbols,
                                          uint32_t n_symbols, uint32_t n_runs,
                                          uint32_t n_flight,
                                          clv_prediction *out);
clv_status __wrap_clv_plan_predict_flight(const clv_plan *plan,
                                          const int64_t *symbols,
                                          uint32_t n_symbols, uint32_t n_runs,
                                          uint32_t n_flight,
                                          clv_prediction *out)
{
    const uint32_t n = n_symbols > 1
                           ? (uint32_t)symbols[0]
                           : (uint32_t)plan->source->tensors[0].dims[0];
    assert_true(symbols[n_symbols - 1] >= n);
    n_predicted++;
    *out = (clv_prediction){.ns = predict ? predict(n, n_runs, n_flight) : 0};
    out->ns *= plan->flight.n > 1 ? of_planned : 1;
    return predict ? CLV_OK
                   : clv_error(CLV_ERR_NOT_FOUND, "what it takes is not known");
}

/* Batches of up to so many tokens have run. */
static uint32_t has_run = UINT32_MAX;
clv_status __wrap_clv_plan_predict(const clv_plan *plan, const int64_t *symbols,
                                   uint32_t n_symbols, clv_prediction *out);
clv_status __wrap_clv_plan_predict(const clv_plan *plan, const int64_t *symbols,
                                   uint32_t n_symbols, clv_prediction *out)
{
    (void)plan, (void)n_symbols;
    *out = (clv_prediction){.ns = 1, .has_run = symbols[0] <= has_run};
    return CLV_OK;
}

/* All plans work on both devices. */
static bool on_both = true;
/* What devices take together, as a part of what the plan takes; 0: unknown. */
static double together;
clv_plan_summary __real_clv_plan_summarise(const clv_plan *plan);
clv_plan_summary __wrap_clv_plan_summarise(const clv_plan *plan);
clv_plan_summary __wrap_clv_plan_summarise(const clv_plan *plan)
{
    clv_plan_summary summary = __real_clv_plan_summarise(plan);
    summary.n_devices = on_both ? 2 : 1;
    if (together > 0) {
        summary.predicted_ns = 1;
        summary.together_ns = together;
    }
    return summary;
}

/* What a card has, and what one batch works on there; 0: there is no card. */
static uint64_t budget, values;
clv_memory_use __wrap_clv_plans_memory(const clv_plan *const *plans, uint32_t n,
                                       const clv_workspace *workspace,
                                       const clv_device *dev);
clv_memory_use __wrap_clv_plans_memory(const clv_plan *const *plans, uint32_t n,
                                       const clv_workspace *workspace,
                                       const clv_device *dev)
{
    (void)plans, (void)n, (void)workspace, (void)dev;
    return (clv_memory_use){.budget = budget, .values = values};
}

#define LENGTHS "ref.static0=1,128,256,512,1024 "
#define CONTEXT 4096
static uint32_t context = CONTEXT;

typedef struct shop {
    rig_world world;
    clv_model *model;
    llm_source *source;
    llm_kv_cache cache;
    llm_runners runners;
    llm_splits splits;
} shop;

static void open_shop(shop *s, const char *settings, llm_splits asked)
{
    char all[512];
    const tiny_params p = tiny_defaults();
    *s = (shop){.splits = asked};
    snprintf(all, sizeof all, "core.plugins=ref %s", settings);
    rig_open(&s->world, NULL, all);
    s->model = rig_model(s->world.ctx, &p, &s->source);
    assert_ok(llm_kv_cache_init(&s->cache, s->world.ctx, s->model->hp, context,
                                1, CLV_DTYPE_F32));
    s->runners =
        (llm_runners){.model = s->model, .cache = &s->cache, .n_batch = 512};
    assert_ok(llm_runners_reset(&s->runners, NULL, 0, NULL, 0));
}

static void close_shop(shop *s)
{
    llm_runners_finish(&s->runners);
    llm_kv_cache_finish(&s->cache);
    clv_model_destroy(s->model);
    rig_close(&s->world);
    predict = NULL;
    of_planned = 1;
    has_run = UINT32_MAX;
    together = 0;
    on_both = true;
    budget = values = 0;
    context = CONTEXT;
}

static void check_at(shop *s, uint32_t n, uint32_t position, uint32_t length,
                     uint32_t n_flight)
{
    const llm_split_text text = {
        .n = n, .position = position, .n_ctx = context};
    llm_split split;
    assert_ok(llm_split_choose(&s->splits, &s->runners, &text, &split));
    assert_int_equal(split.length, length);
    assert_int_equal(split.n_flight, n_flight);
}

static void check(shop *s, uint32_t n, uint32_t length, uint32_t n_flight)
{
    check_at(s, n, 0, length, n_flight);
}

static bool is_planned(shop *s, uint32_t n)
{
    const llm_split_text text = {.n = n, .n_ctx = context};
    llm_split split;
    assert_ok(llm_split_choose(&s->splits, &s->runners, &text, &split));
    return split.planned;
}

/* ------------------------------------------------------------------------ */

/* Each run costs as much as 200 tokens do. */
static double long_ones(uint32_t n, uint32_t n_runs, uint32_t n_flight)
{
    (void)n_flight;
    return n_runs * (200.0 + n);
}

/* In flight, runs of 256 tokens take half of it. */
static double in_flight(uint32_t n, uint32_t n_runs, uint32_t n_flight)
{
    const double gain = n == 256 && n_flight > 1 ? 1.0 / n_flight : 0;
    return n_runs * n * (1 - gain);
}

/* By 2% for each more in flight. */
static double little(uint32_t n, uint32_t n_runs, uint32_t n_flight)
{
    return n_runs * n * (1 - 0.02 * n_flight);
}

/* Both batches of 1024 and those of 256 in flight gain. */
static double both_ways(uint32_t n, uint32_t n_runs, uint32_t n_flight)
{
    return in_flight(n, n_runs, n_flight) * (n == 1024 ? 0.8 : 1);
}

static double much(uint32_t n, uint32_t n_runs, uint32_t n_flight)
{
    return n_runs * n / (double)n_flight;
}

static void test_lengths(void **state)
{
    (void)state;
    shop s;
    open_shop(&s, LENGTHS, (llm_splits){0});
    predict = long_ones;
    check(&s, 1024, 1024, 1);
    assert_int_equal(s.runners.n, 1); /* its plan is used next */
    assert_int_equal(s.runners.items[0]->shape.n_tokens, 1024);
    assert_null(s.runners.items[0]->exec);
    check(&s, 2048, 1024, 1);
    check(&s, 900, 1024, 1);
    assert_int_equal(s.runners.n, 1);
    check(&s, 512, 512, 1);
    assert_int_equal(s.runners.n, 2);
    check(&s, 768, 512, 1); /* 512 and 256 rather than three of 256 */
    check(&s, 300, 512, 1); /* the plan of 300 tokens decides */
    check_at(&s, 1024, 3000, 1024, 1);
    check_at(&s, 600, CONTEXT - 600, 512, 1);
    assert_int_equal(s.runners.n, 2);
    close_shop(&s);
    open_shop(&s, "ref.static0=1,128,512", (llm_splits){0});
    predict = long_ones;
    check(&s, 2048, 512, 1);
    close_shop(&s);
}

static void test_flights(void **state)
{
    (void)state;
    shop s;
    open_shop(&s, LENGTHS, (llm_splits){0});
    predict = in_flight;
    check(&s, 1024, 256, 2);
    check(&s, 512, 256, 2);
    predict = little; /* what is kept does not change */
    check(&s, 1024, 256, 2);
    llm_split_forget(&s.splits);
    check(&s, 2048, 512, 1);
    predict = NULL;
    llm_split_forget(&s.splits);
    check(&s, 2048, 512, 1);
    predict = in_flight;
    on_both = false;
    check(&s, 3072, 512, 1);
    close_shop(&s);
}

/* Shorter batches are not planned where longer ones are faster. */
static void test_longer_first(void **state)
{
    (void)state;
    shop s;
    open_shop(&s, LENGTHS, (llm_splits){0});
    predict = both_ways;
    check(&s, 1024, 1024, 1);
    check(&s, 768, 256, 2);
    close_shop(&s);
}

/* What the caller asks for stays. */
static void test_asked_for(void **state)
{
    (void)state;
    shop s;
    open_shop(&s, LENGTHS, (llm_splits){.n_batch = 128});
    predict = much;
    check(&s, 1024, 128, 4);
    check(&s, 256, 128, 2);
    check(&s, 255, 128, 1);
    close_shop(&s);
    open_shop(&s, LENGTHS, (llm_splits){.n_flight = 3});
    predict = long_ones;
    check(&s, 2048, 1024, 3);
    close_shop(&s);
    open_shop(&s, LENGTHS, (llm_splits){.n_batch = 128, .n_flight = 1});
    n_predicted = 0;
    predict = much;
    check(&s, 1024, 128, 1);
    assert_int_equal(n_predicted, 0);
    close_shop(&s);
}

static uint32_t count_of(const shop *s, uint32_t n_tokens)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->runners.n; i++)
        n += s->runners.items[i]->shape.n_tokens == n_tokens;
    return n;
}

/* Devices that take any length have a graph for batches up to each length. */
static void test_open_length(void **state)
{
    (void)state;
    shop s;
    open_shop(&s, "", (llm_splits){0});
    predict = much;
    check(&s, 512, 512, 1);
    assert_int_equal(s.runners.n, 0);
    check(&s, 1024, 512, 2);
    check(&s, 4096, 512, 4);
    n_predicted = 0;
    check(&s, 4096, 512, 4);
    assert_int_equal(n_predicted, 0);
    on_both = false;
    llm_split_forget(&s.splits);
    check(&s, 4096, 512, 1);
    assert_int_equal(s.runners.n, 3); /* plans that lose are not made again */
    for (uint32_t i = 0; i < s.runners.n; i++)
        assert_null(s.runners.items[i]->exec);
    close_shop(&s);
}

/* Longer batches are taken where they are faster, no longer than the text needs
 * and the context allows. */
static void test_open_longer(void **state)
{
    (void)state;
    shop s;
    open_shop(&s, "ref.devices=1", (llm_splits){0});
    predict = long_ones;
    check(&s, 512, 512, 1);
    check(&s, 513, 1024, 1);
    check(&s, 1024, 1024, 1);
    assert_int_equal(count_of(&s, 2048), 0);
    assert_non_null(s.runners.items[0]->exec);
    check(&s, 1025, 2048, 1);
    check(&s, 4096, 2048, 1);
    assert_int_equal(count_of(&s, 2048), 1);
    close_shop(&s);
    open_shop(&s, "ref.devices=1", (llm_splits){0});
    predict = long_ones;
    check(&s, 4096, 2048, 1);
    assert_int_equal(count_of(&s, 1024), 0); /* shorter ones are not planned */
    check(&s, 600, 1024, 1);                 /* in the graph that is there */
    assert_int_equal(count_of(&s, 1024), 0);
    close_shop(&s);
    context = 1500;
    open_shop(&s, "ref.devices=1", (llm_splits){0});
    predict = long_ones;
    check(&s, 1400, 1500, 1);
    close_shop(&s);
}

/* Batches of 2048 tokens take 6% less than those of 512. */
static double less(uint32_t n, uint32_t n_runs, uint32_t n_flight)
{
    (void)n_flight;
    return n_runs * (45.0 + n);
}

/* They take so much more. */
static double factor;
static double more(uint32_t n, uint32_t n_runs, uint32_t n_flight)
{
    (void)n_flight;
    return (double)n_runs * n * (n > 512 ? factor : 1);
}

/* In real time, longer batches have a trial once the plain ones have run, and
 * then go by what they took. */
static void test_open_trial(void **state)
{
    (void)state;
    shop s;
    open_shop(&s, "ref.devices=1", (llm_splits){0});
    has_run = 0;
    predict = long_ones;
    check(&s, 4096, 2048, 1);
    n_predicted = 0;
    check(&s, 4096, 2048, 1); /* the plain one will not run, so that is kept */
    assert_int_equal(n_predicted, 0);
    llm_split_forget(&s.splits);
    predict = less;
    check(&s, 4096, 512, 1);                 /* it has to gain a tenth */
    assert_int_equal(s.splits.n_choices, 0); /* and is asked again */
    predict = more;
    factor = 1.09;
    has_run = 512;
    check(&s, 4096, 2048, 1);
    has_run = 2048;
    check(&s, 4096, 2048, 1); /* what is kept does not change */
    llm_split_forget(&s.splits);
    check(&s, 4096, 512, 1);
    llm_split_forget(&s.splits);
    has_run = 512;
    factor = 1.11;
    check(&s, 4096, 512, 1);
    llm_split_forget(&s.splits);
    has_run = 2048;
    factor = 0.99;
    check(&s, 4096, 512, 1); /* within what runs differ by */
    llm_split_forget(&s.splits);
    factor = 0.98;
    check(&s, 4096, 2048, 1);
    close_shop(&s);
}

/* Longer batches are reviewed while they teach, and where they took longer than
 * others should. */
static void test_review(void **state)
{
    (void)state;
    shop s;
    llm_split split = {.length = 2048, .n_flight = 1, .plain_ns = 1000};
    open_shop(&s, "ref.devices=1", (llm_splits){0});
    predict = long_ones;
    check(&s, 4096, 2048, 1);
    const llm_runner *runner = s.runners.items[0];
    llm_split_review(&s.splits, &split, runner, true, 1000);
    assert_int_equal(s.splits.n_choices, 1);
    llm_split_review(&s.splits, &split, runner, true, 1001);
    assert_int_equal(s.splits.n_choices, 0);
    check(&s, 4096, 2048, 1);
    llm_split_review(&s.splits, &split, runner, false, 1);
    assert_int_equal(s.splits.n_choices, 0);
    check(&s, 4096, 2048, 1);
    split.length = 512;
    llm_split_review(&s.splits, &split, runner, false, 1001);
    assert_int_equal(s.splits.n_choices, 1);
    close_shop(&s);
}

/* What is asked for stays, and what is not known is not chosen. */
static void test_open_asked_for(void **state)
{
    (void)state;
    shop s;
    open_shop(&s, "ref.devices=1", (llm_splits){.n_batch = 512});
    predict = long_ones;
    check(&s, 4096, 512, 1);
    close_shop(&s);
    open_shop(&s, "ref.devices=1", (llm_splits){0});
    check(&s, 4096, 512, 1);
    close_shop(&s);
}

/* All weights stay where they are beside a longer batch. */
static void test_open_room(void **state)
{
    (void)state;
    shop s;
    open_shop(&s, "", (llm_splits){0});
    predict = long_ones;
    values = 1000;
    budget = clv_model_describe(s.model)->size + values - 1;
    check(&s, 4096, 512, 1);
    llm_split_forget(&s.splits);
    on_both = false; /* all that the plan uses is there */
    check(&s, 4096, 2048, 1);
    on_both = true;
    budget++;
    llm_split_forget(&s.splits);
    check(&s, 4096, 2048, 1);
    predict = much;
    llm_split_forget(&s.splits);
    check(&s, 4096, 512, 1); /* two of them work on twice as much */
    budget += values;
    llm_split_forget(&s.splits);
    check(&s, 4096, 512, 2);
    close_shop(&s);
}

/* A device that has no room for what longer batches need goes on with shorter
 * ones, and keeps what it has. */
static void test_open_fails(void **state)
{
    (void)state;
    shop s;
    open_shop(&s, "ref.devices=1 ref.max_programs0=1", (llm_splits){0});
    predict = long_ones;
    const llm_request request = {.n = 512, .n_free = CONTEXT};
    llm_runner *runner;
    assert_ok(llm_runners_get(&s.runners, &request, &runner));
    check(&s, 4096, 512, 1);
    assert_true(llm_runners_hold(&s.runners, runner));
    assert_non_null(runner->exec);
    assert_false(clv_device_lost(clv_context_device(s.world.ctx, 0)));
    assert_int_equal(count_of(&s, 2048), 0);
    close_shop(&s);
}

static double linear(uint32_t n, uint32_t n_runs, uint32_t n_flight)
{
    (void)n_flight;
    return (double)n_runs * n;
}

/* A plan for runs in flight is taken if it gains a tenth, on devices in real
 * time. */
static void test_planned(void **state)
{
    (void)state;
    shop s;
    open_shop(&s, LENGTHS, (llm_splits){0});
    predict = linear;
    of_planned = 0.95;
    together = 0.8;
    assert_false(is_planned(&s, 1024));
    llm_split_forget(&s.splits);
    of_planned = 0.85;
    together = 0.95; /* not enough for a plan to be tried */
    assert_false(is_planned(&s, 1024));
    llm_split_forget(&s.splits);
    together = 0.8;
    assert_true(is_planned(&s, 1024));
    check(&s, 1024, 512, 2);
    check(&s, 512, 512, 1); /* one alone has a plan for that */
    assert_false(is_planned(&s, 512));
    on_both = false;
    llm_split_forget(&s.splits);
    assert_false(is_planned(&s, 1024));
    close_shop(&s);
    open_shop(&s, "", (llm_splits){.n_flight = 2}); /* as asked for */
    predict = linear;
    together = 0.8;
    assert_false(is_planned(&s, 1024));
    llm_split_forget(&s.splits);
    of_planned = 0.85;
    assert_true(is_planned(&s, 1024));
    assert_int_equal(s.runners.n, 3); /* and one for 1024 tokens at once */
    check(&s, 1024, 512, 2);
    close_shop(&s);
}

/* Two in flight take a sixth less than one, four of them of_four. Runs of 1024
 * tokens take less than those of 512, too. */
static double of_four;
static double four_less(uint32_t n, uint32_t n_runs, uint32_t n_flight)
{
    const double alone = n == 1024 ? 0.9 : 1, two = n == 1024 ? 0.812 : 0.84;
    return n_runs * n * (n_flight == 1 ? alone : n_flight == 2 ? two : of_four);
}

/* In real time, once several in flight have gained a tenth, more of them need
 * not gain another one: 3% will do. What has other lengths or a plan of its own
 * has to. */
static void test_more_in_flight(void **state)
{
    (void)state;
    shop s;
    open_shop(&s, "ref.static0=1,512,1024", (llm_splits){0});
    predict = four_less;
    of_four = 0.81;
    check(&s, 2048, 512, 4);
    llm_split_forget(&s.splits);
    of_four = 0.82; /* 2.4% less */
    check(&s, 2048, 512, 2);
    llm_split_forget(&s.splits);
    of_four = 0.81;
    together = 0.8;
    of_planned = 0.92;
    assert_false(is_planned(&s, 2048));
    llm_split_forget(&s.splits);
    of_planned = 0.89;
    assert_true(is_planned(&s, 2048));
    close_shop(&s);
}

/* A text that fills the context is compared too. */
static void test_full_context(void **state)
{
    (void)state;
    shop s;
    open_shop(&s, LENGTHS, (llm_splits){0});
    predict = long_ones;
    check_at(&s, 1636, CONTEXT - 1636, 1024, 1);
    close_shop(&s);
}

/* In real time a tenth has to be gained, and what then takes longer is given
 * up. */
static void test_judged(void **state)
{
    (void)state;
    const llm_split_text text = {.n = 2048, .n_ctx = context};
    shop s;
    open_shop(&s, "", (llm_splits){0});
    predict = much;
    check(&s, 2048, 512, 4);
    llm_split_judge(&s.splits, &text, s.runners.items[0], 2048);
    check(&s, 2048, 512, 4);
    llm_split_judge(&s.splits, &text, s.runners.items[0], 2049);
    check(&s, 2048, 512, 1);
    predict = little;
    llm_split_forget(&s.splits);
    check(&s, 2048, 512, 1);
    close_shop(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_flights),
        cmocka_unit_test(test_longer_first),
        cmocka_unit_test(test_asked_for),
        cmocka_unit_test(test_open_length),
        cmocka_unit_test(test_open_longer),
        cmocka_unit_test(test_open_trial),
        cmocka_unit_test(test_review),
        cmocka_unit_test(test_open_asked_for),
        cmocka_unit_test(test_open_room),
        cmocka_unit_test(test_open_fails),
        cmocka_unit_test(test_judged),
        cmocka_unit_test(test_planned),
        cmocka_unit_test(test_more_in_flight),
        cmocka_unit_test(test_full_context),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
