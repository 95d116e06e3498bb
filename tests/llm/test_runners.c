/* Which runner a batch uses, and which are cached. The first reference device
 * has lengths, the second takes any. Predicted times are made up here. */
#include "rig.h"

#include "runtime/runners.h"
#include "../../core/plan/plan.h"

#include <stdio.h>

/* Linked with --wrap: the predicted time of n rows is predict(n), 0: unknown.
 */
static double (*predict)(int64_t n);
clv_plan_summary __real_clv_plan_summarise(const clv_plan *plan);
clv_plan_summary __wrap_clv_plan_summarise(const clv_plan *plan);
clv_plan_summary __wrap_clv_plan_summarise(const clv_plan *plan)
{
    clv_plan_summary summary = __real_clv_plan_summarise(plan);
    summary.predicted_ns =
        predict ? predict(plan->source->tensors[0].dims[0]) : 0;
    return summary;
}

#define LENGTHS "ref.static0=1,16,64 "

typedef struct shop {
    rig_world world;
    clv_model *model;
    llm_source *source;
    llm_kv_cache cache;
    llm_runners runners;
} shop;

static void open_shop(shop *s, const char *settings, uint32_t n_batch)
{
    char all[512];
    const tiny_params p = tiny_defaults();
    *s = (shop){0};
    snprintf(all, sizeof all, "core.plugins=ref %s", settings);
    rig_open(&s->world, NULL, all);
    s->model = rig_model(s->world.ctx, &p, &s->source);
    assert_ok(llm_kv_cache_init(&s->cache, s->world.ctx, s->model->hp, 128, 1,
                                CLV_DTYPE_F32));
    s->runners = (llm_runners){
        .model = s->model, .cache = &s->cache, .n_batch = n_batch};
    assert_ok(llm_runners_reset(&s->runners, NULL, 0, NULL, 0));
}

static void close_shop(shop *s)
{
    llm_runners_finish(&s->runners);
    llm_kv_cache_finish(&s->cache);
    clv_model_destroy(s->model);
    rig_close(&s->world);
    predict = NULL;
}

/* Length of the run of n tokens. */
static uint32_t get(shop *s, uint32_t n, uint32_t n_free, bool prepare)
{
    const llm_request request = {.n = n, .n_free = n_free, .prepare = prepare};
    llm_runner *runner;
    assert_ok(llm_runners_get(&s->runners, &request, &runner));
    assert_non_null(runner->exec);
    assert_ptr_equal(s->runners.items[0], runner);
    assert_true(runner->shape.n_tokens >= n);
    return runner->shape.n_tokens;
}

/* ------------------------------------------------------------------------ */

static void check_tried(const int64_t *lengths, uint32_t n_lengths, uint32_t n,
                        uint32_t n_free, const char *want)
{
    uint32_t tried[LLM_MAX_TRIED];
    char text[64] = "";
    const uint32_t count =
        llm_lengths_to_try(lengths, n_lengths, n, n_free, tried);
    for (uint32_t i = 0; i < count; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%u",
                 i ? " " : "", tried[i]);
    assert_string_equal(text, want);
}

static void test_lengths(void **state)
{
    (void)state;
    static const int64_t phone[] = {1, 32, 64, 128, 256, 512, 1024};
    static const int64_t odd[] = {5, 12};
    check_tried(NULL, 0, 300, 512, "300");
    check_tried(phone, 7, 300, 4096, "300 512 320");
    check_tried(phone, 7, 600, 4096, "600 1024 640 608");
    check_tried(phone, 7, 525, 4096, "525 1024 544");
    check_tried(phone, 7, 256, 4096, "256");
    check_tried(phone, 7, 2, 4096, "2 32");
    check_tried(phone, 7, 1, 4096, "1");
    check_tried(phone, 7, 2100, 4096, "2100 2112");
    check_tried(phone, 7, 4096, 4096, "4096");
    check_tried(phone, 7, 300, 511, "300 320");
    check_tried(phone, 7, 300, 300, "300");
    check_tried(odd, 2, 13, 99, "13 17");
    check_tried(odd, 2, 3, 99, "3 5");
    check_tried(odd + 1, 1, 25, 99, "25 36");
}

static double least_at_64(int64_t n)
{
    return n == 64 ? 500 : n == 16 ? 300 : 1000 + (double)n;
}

static double by_rows(int64_t n)
{
    return (double)n;
}

static void test_least_predicted(void **state)
{
    (void)state;
    shop s;
    open_shop(&s, LENGTHS, 64);
    predict = least_at_64;
    assert_int_equal(get(&s, 20, 128, true), 64);
    assert_int_equal(get(&s, 12, 128, true), 16);
    assert_int_equal(get(&s, 12, 15, true), 12); /* no space to pad */
    assert_int_equal(get(&s, 16, 128, true), 16);
    assert_int_equal(get(&s, 1, 128, true), 1);
    predict = by_rows;
    assert_int_equal(get(&s, 21, 128, true), 21);
    predict = NULL;
    assert_int_equal(get(&s, 22, 128, true), 22);
    close_shop(&s);
}

/* Lengths without a plan are left out. If no length has one, the error is that
 * of the exact length. */
static void test_only_static(void **state)
{
    (void)state;
    shop s;
    llm_runner *runner;
    const llm_request tight = {.n = 50, .n_free = 60};
    open_shop(&s, LENGTHS "ref.devices=1", 64);
    assert_int_equal(get(&s, 2, 128, false), 16);
    assert_int_equal(get(&s, 17, 128, false), 64);
    assert_int_equal(get(&s, 64, 128, false), 64);
    assert_int_equal(get(&s, 1, 128, false), 1);
    assert_fails(llm_runners_get(&s.runners, &tight, &runner),
                 CLV_ERR_UNSUPPORTED, "[50]");
    assert_int_equal(s.runners.n, 3);
    close_shop(&s);
}

/* A runner that pads little is used without planning. */
static void test_near(void **state)
{
    (void)state;
    shop s;
    open_shop(&s, LENGTHS, 64);
    assert_int_equal(get(&s, 40, 128, false), 40);
    assert_int_equal(get(&s, 38, 128, false), 40);
    assert_int_equal(get(&s, 37, 128, false), 37);
    assert_int_equal(get(&s, 36, 128, false), 37);
    assert_int_equal(get(&s, 41, 128, false), 41);
    assert_int_equal(get(&s, 39, 39, false), 39);
    assert_int_equal(s.runners.n, 4);
    assert_int_equal(get(&s, 38, 128, true), 38); /* prepared: its own */
    assert_int_equal(get(&s, 38, 128, false), 38);
    close_shop(&s);
}

/* Ski rental: a longer runner is used until the time it has wasted reaches that
 * of compiling. */
static void test_rent_or_buy(void **state)
{
    (void)state;
    shop s;
    open_shop(&s, LENGTHS, 64);
    predict = by_rows;
    assert_int_equal(get(&s, 60, 128, false), 60);
    s.runners.compile_ns = 100; /* that of 20 saves 40 */
    assert_int_equal(get(&s, 20, 128, false), 60);
    assert_int_equal(get(&s, 20, 128, false), 60);
    assert_int_equal(get(&s, 20, 128, false), 60);
    s.runners.compile_ns = 100;
    assert_int_equal(get(&s, 20, 128, false), 20);
    assert_int_equal(get(&s, 20, 128, false), 20);
    s.runners.compile_ns = 10;
    assert_int_equal(get(&s, 40, 128, false), 40);
    s.runners.compile_ns = 100;
    assert_int_equal(get(&s, 5, 128, false), 20); /* the least of those there */
    assert_int_equal(get(&s, 5, 10, false), 5);
    close_shop(&s);
}

/* The most recently used are cached; an older length is made again. */
static void test_oldest_goes(void **state)
{
    (void)state;
    shop s;
    open_shop(&s, LENGTHS, 64);
    for (uint32_t n = 2; n < 2 + LLM_MAX_RUNNERS; n++)
        assert_int_equal(get(&s, n, 128, false), n);
    llm_runner *second = s.runners.items[LLM_MAX_RUNNERS - 2];
    assert_int_equal(get(&s, 2, 128, false), 2); /* now the latest */
    assert_int_equal(get(&s, 14, 128, false), 14);
    assert_int_equal(s.runners.n, LLM_MAX_RUNNERS);
    assert_false(llm_runners_hold(&s.runners, second));
    assert_int_equal(s.runners.items[1]->shape.n_tokens, 2);
    assert_int_equal(get(&s, 3, 128, false), 3);
    for (uint32_t n = 20; n < 20 + 2 * LLM_MAX_CHOICES; n++)
        assert_true(get(&s, n, 128, false) >= n);
    assert_int_equal(s.runners.n, LLM_MAX_RUNNERS);
    close_shop(&s);
}

/* Devices have space for a number of programs; old runners are destroyed. */
static void test_room_for_programs(void **state)
{
    (void)state;
    shop s;
    llm_runner *runner;
    const llm_request request = {.n = 4, .n_free = 128};
    open_shop(&s,
              "ref.devices=1 ref.static0=1,2,3,4,5,6,7,8 "
              "ref.max_programs0=3",
              64);
    for (uint32_t n = 1; n <= 8; n++) {
        assert_int_equal(get(&s, n, 128, false), n);
        assert_int_equal(s.runners.n, n < 3 ? n : 3);
    }
    close_shop(&s);
    open_shop(&s, "ref.ops0=matmul ref.max_programs0=2 ref.static0=4", 64);
    assert_fails(llm_runners_get(&s.runners, &request, &runner), CLV_ERR_LIMIT,
                 "2 programs are resident");
    assert_int_equal(s.runners.n, 0);
    close_shop(&s);
}

/* If no device has static shapes, a graph serves all lengths up to its own: the
 * batch's and those that are much shorter, of which the shortest is for eight
 * whatever the batch is; also on a single device. */
static void test_open_length(void **state)
{
    (void)state;
    static const char *const settings[] = {"", "ref.devices=1"};
    static const struct {
        uint32_t n_batch, n, length;
    } cases[] = {
        {30, 20, 30},  {30, 2, 8},     {30, 30, 30},   {30, 1, 1},
        {100, 32, 32}, {100, 33, 100}, {100, 9, 32},   {100, 8, 8},
        {16, 8, 8},    {16, 9, 16},    {15, 8, 15},    {4, 2, 4},
        {64, 9, 32},   {64, 33, 64},   {127, 33, 127}, {128, 33, 128},
        {128, 32, 32}, {128, 8, 8},
    };
    for (int i = 0; i < 2; i++)
        for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
            shop s;
            open_shop(&s, settings[i], cases[k].n_batch);
            predict = by_rows;
            assert_int_equal(get(&s, cases[k].n, 128, false), cases[k].length);
            close_shop(&s);
        }
}

/* One that is there serves again, and another one is made beside it. */
static void test_open_lengths(void **state)
{
    (void)state;
    shop s;
    open_shop(&s, "", 100);
    predict = by_rows;
    assert_int_equal(get(&s, 20, 128, false), 32);
    assert_int_equal(get(&s, 32, 128, true), 32);
    assert_int_equal(s.runners.n, 1);
    assert_int_equal(get(&s, 90, 128, false), 100);
    assert_int_equal(get(&s, 3, 128, false), 8);
    assert_int_equal(get(&s, 9, 128, false), 32);
    assert_int_equal(get(&s, 1, 128, false), 1);
    assert_int_equal(s.runners.n, 4);
    close_shop(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_least_predicted),
        cmocka_unit_test(test_only_static),
        cmocka_unit_test(test_near),
        cmocka_unit_test(test_rent_or_buy),
        cmocka_unit_test(test_oldest_goes),
        cmocka_unit_test(test_room_for_programs),
        cmocka_unit_test(test_open_length),
        cmocka_unit_test(test_open_lengths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
