/* Models on devices with static shapes: runs of exact lengths and padded ones
 * give the results of the CPU. On the simulated phone, whose NPU has lengths 1,
 * 32, 64 and so on, and whose GPU takes any. */
#include "rig.h"

#include "../../core/device/device.h"
#include "../../core/plan/plan.h"

#define N 300
#define N_TEXT 3

/* The bound for products in f16, and for attention with an exponential in f16:
 * 1e-3 by clv_error_class. Errors of models are far below. */
#define MAX_ERROR 1e-4

static const char phone[] = "core.plugins=npu_sim core.devices=npu_sim";

/* There are no predictions here, whatever the profiles contain: lengths are
 * then exact where possible. Linked with --wrap. */
clv_plan_summary __real_clv_plan_summarise(const clv_plan *plan);
clv_plan_summary __wrap_clv_plan_summarise(const clv_plan *plan);
clv_plan_summary __wrap_clv_plan_summarise(const clv_plan *plan)
{
    clv_plan_summary summary = __real_clv_plan_summarise(plan);
    summary.predicted_ns = 0;
    return summary;
}

static rig_world cpu, sim;
static clv_model *cpu_model, *sim_model;
static clv_device *npu, *gpu;
static int32_t ids[N + N_TEXT];
static float *expected; /* [N + N_TEXT, n_vocab] by the CPU */
static uint32_t n_vocab;

/* A text, not random tokens: logits of those are near to each other. */
static void make_text(clv_session *s)
{
    const float *logits;
    for (uint32_t i = 0; i < N + N_TEXT; i++)
        ids[i] = (int32_t)((i * 7919 + 13) % (n_vocab - 3)) + 2;
    assert_ok(clv_session_eval(s, ids, N, CLV_LOGITS_ALL, &logits));
    memcpy(expected, logits, sizeof *expected * N * n_vocab);
    for (uint32_t i = N; i < N + N_TEXT; i++) {
        ids[i] = rig_best(expected + (size_t)(i - 1) * n_vocab, n_vocab);
        assert_ok(clv_session_eval(s, &ids[i], 1, CLV_LOGITS_LAST, &logits));
        memcpy(expected + (size_t)i * n_vocab, logits,
               sizeof *expected * n_vocab);
    }
}

static int setup(void **state)
{
    (void)state;
    const char *path = rig_shared("models/nano-f16.gguf");
    rig_open(&cpu, NULL, "core.plugins=cpu");
    assert_ok(clv_model_load(cpu.ctx, path, NULL, &cpu_model));
    n_vocab = clv_model_describe(cpu_model)->n_vocab;
    expected = malloc(sizeof *expected * (N + N_TEXT) * n_vocab);
    assert_non_null(expected);
    clv_session *s = rig_session(cpu_model, 512, 512, CLV_DTYPE_F32);
    make_text(s);
    clv_session_destroy(s);
    rig_open(&sim, "soc/snapdragon-8gen3.ini", phone);
    assert_ok(clv_context_find_device(sim.ctx, "npu_sim:hexagon", &npu));
    assert_ok(clv_context_find_device(sim.ctx, "npu_sim:adreno", &gpu));
    assert_ok(clv_model_load(sim.ctx, path, NULL, &sim_model));
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    clv_model_destroy(sim_model);
    clv_model_destroy(cpu_model);
    rig_close(&sim);
    rig_close(&cpu);
    free(expected);
    return 0;
}

/* On the phone; n_devices 1: on the NPU alone. */
static clv_session *phone_session(uint32_t n_ctx, uint32_t n_batch,
                                  uint32_t n_devices)
{
    clv_device *devices[2] = {npu, gpu};
    const clv_session_params params = {
        .n_ctx = n_ctx,
        .n_batch = n_batch,
        .kv_dtype = CLV_DTYPE_F32,
        .devices = devices,
        .n_devices = n_devices,
    };
    clv_session *s;
    assert_ok(clv_session_create(sim_model, &params, &s));
    return s;
}

/* Rows of the latest run. */
static int64_t run_length(const clv_session *s)
{
    return clv_session_plan(s)->source->tensors[0].dims[0];
}

static void assert_rows(const float *logits, uint32_t first, uint32_t n)
{
    const float *want = expected + (size_t)first * n_vocab;
    assert_true(rig_error(logits, want, (uint64_t)n * n_vocab) <= MAX_ERROR);
    for (uint32_t i = 0; i < n; i++)
        rig_assert_choice(logits + (size_t)i * n_vocab,
                          want + (size_t)i * n_vocab, n_vocab, MAX_ERROR);
}

/* Tokens first .. first + n of the text, then. */
static void eval(clv_session *s, uint32_t first, uint32_t n, uint32_t which)
{
    const float *logits;
    assert_int_equal(clv_session_position(s), first);
    assert_ok(clv_session_eval(s, ids + first, n, which, &logits));
    if (which == CLV_LOGITS_ALL)
        assert_rows(logits, first, n);
    else
        assert_rows(logits, first + n - 1, 1);
    assert_int_equal(clv_session_position(s), first + n);
}

/* ------------------------------------------------------------------------ */

static const uint32_t lengths[] = {1, 2, 31, 32, 33, 64, 100, 300};

static void test_prompts(void **state)
{
    (void)state;
    clv_session *s = phone_session(512, 512, 2);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        assert_ok(clv_session_truncate(s, 0));
        eval(s, 0, lengths[i], CLV_LOGITS_LAST);
        eval(s, lengths[i], 1, CLV_LOGITS_LAST);
        eval(s, lengths[i] + 1, 1, CLV_LOGITS_LAST);
    }
    clv_session_destroy(s);
}

static void test_all_logits(void **state)
{
    (void)state;
    clv_session *s = phone_session(512, 512, 2);
    for (size_t i = 0; i + 1 < sizeof lengths / sizeof *lengths; i++) {
        assert_ok(clv_session_truncate(s, 0));
        eval(s, 0, lengths[i], CLV_LOGITS_ALL);
    }
    clv_session_destroy(s);
}

static void test_batches(void **state)
{
    (void)state;
    clv_session *s = phone_session(512, 64, 2);
    eval(s, 0, 140, CLV_LOGITS_ALL);
    assert_int_equal(run_length(s), 12);
    eval(s, 140, 64, CLV_LOGITS_LAST);
    assert_int_equal(run_length(s), 64);
    eval(s, 204, 96, CLV_LOGITS_LAST);
    assert_int_equal(run_length(s), 32);
    clv_session_destroy(s);
}

/* The NPU alone has to pad; later tokens overwrite the padding. */
static void test_padded(void **state)
{
    (void)state;
    static const struct {
        uint32_t n;
        int64_t length;
    } runs[] = {{31, 32}, {2, 32}, {33, 64}, {1, 1},
                {64, 64}, {3, 32}, {7, 32}};
    for (uint32_t which = 0; which < 2; which++) {
        clv_session *s = phone_session(256, 128, 1);
        uint32_t at = 0;
        for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
            eval(s, at, runs[i].n, which);
            at += runs[i].n;
            assert_int_equal(run_length(s), runs[i].length);
        }
        assert_ok(clv_session_truncate(s, 20));
        eval(s, 20, 11, which);
        assert_int_equal(run_length(s), 32);
        clv_session_destroy(s);
    }
}

/* Padding needs space in the context: without it runs are exact, or fail. */
static void test_context_full(void **state)
{
    (void)state;
    const float *logits;
    clv_session *s = phone_session(40, 64, 1);
    eval(s, 0, 5, CLV_LOGITS_LAST);
    assert_int_equal(run_length(s), 32);
    eval(s, 5, 10, CLV_LOGITS_LAST);
    assert_fails(clv_session_eval(s, ids + 15, 10, CLV_LOGITS_LAST, &logits),
                 CLV_ERR_UNSUPPORTED, "fixed length");
    assert_int_equal(clv_session_position(s), 15);
    for (uint32_t i = 15; i < 40; i++)
        eval(s, i, 1, CLV_LOGITS_LAST);
    assert_fails(clv_session_eval(s, ids, 1, CLV_LOGITS_LAST, &logits),
                 CLV_ERR_LIMIT, "n_ctx 41");
    clv_session_destroy(s);
    s = phone_session(40, 64, 2);
    eval(s, 0, 37, CLV_LOGITS_LAST);
    eval(s, 37, 3, CLV_LOGITS_ALL);
    clv_session_destroy(s);
}

static void test_prepared(void **state)
{
    (void)state;
    const clv_plan *plan;
    clv_session *s = phone_session(512, 300, 2);
    assert_ok(clv_session_prepare(s, 300, &plan));
    assert_int_equal(plan->source->tensors[0].dims[0], 300);
    assert_int_equal(plan->source->n_symbols, 1);
    eval(s, 0, 300, CLV_LOGITS_LAST);
    assert_ptr_equal(clv_session_plan(s), plan);
    clv_session_destroy(s);
}

/* A saved plan for a length is used on any devices. */
static void test_saved(void **state)
{
    (void)state;
    const clv_plan *plan;
    char *text;
    clv_session *s = phone_session(512, 300, 1), *again;
    assert_ok(clv_session_prepare(s, 50, &plan));
    assert_int_equal(plan->source->tensors[0].dims[0], 64);
    assert_ok(clv_plan_json(plan, &text));
    clv_session_destroy(s);
    const char *const plans[] = {text};
    const clv_session_params params = {.n_ctx = 512,
                                       .n_batch = 300,
                                       .kv_dtype = CLV_DTYPE_F32,
                                       .plans = plans,
                                       .n_plans = 1};
    assert_ok(clv_session_create(sim_model, &params, &again));
    eval(again, 0, 50, CLV_LOGITS_LAST);
    assert_int_equal(run_length(again), 64);
    assert_int_equal(clv_session_plan(again)->devices[0].n_steps, 1);
    assert_ptr_equal(clv_session_plan(again)->devices[0].dev, npu);
    clv_session_destroy(again);
    clv_string_free(text);
}

/* The NPU fails in a padded run: the GPU continues, with any length. */
static void test_loss(void **state)
{
    (void)state;
    rig_world w;
    clv_device *list[2];
    clv_session *s;
    const float *logits;
    rig_open(&w, "soc/snapdragon-8gen3.ini", phone);
    clv_model *model;
    assert_ok(clv_model_load(w.ctx, rig_shared("models/nano-f16.gguf"), NULL,
                             &model));
    assert_ok(clv_context_find_device(w.ctx, "npu_sim:hexagon", &list[0]));
    assert_ok(clv_context_find_device(w.ctx, "npu_sim:adreno", &list[1]));
    const clv_session_params params = {.n_ctx = 256,
                                       .n_batch = 64,
                                       .kv_dtype = CLV_DTYPE_F32,
                                       .devices = list,
                                       .n_devices = 2};
    assert_ok(clv_session_create(model, &params, &s));
    eval(s, 0, 32, CLV_LOGITS_LAST);
    assert_int_equal(run_length(s), 32);
    assert_ok(list[0]->api->fault_inject(list[0]->handle, CLV_FAULT_LOST));
    eval(s, 32, 32, CLV_LOGITS_ALL);
    assert_true(clv_device_lost(list[0]));
    assert_int_equal(run_length(s), 32);
    assert_int_equal(clv_session_plan(s)->source->n_symbols, 2);
    eval(s, 64, 1, CLV_LOGITS_LAST);
    assert_ok(list[1]->api->fault_inject(list[1]->handle, CLV_FAULT_LOST));
    assert_fails(clv_session_eval(s, ids, 2, CLV_LOGITS_LAST, &logits),
                 CLV_ERR_DEVICE_LOST, "no other device is left");
    clv_session_destroy(s);
    clv_model_destroy(model);
    rig_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_prompts),      cmocka_unit_test(test_all_logits),
        cmocka_unit_test(test_batches),      cmocka_unit_test(test_padded),
        cmocka_unit_test(test_context_full), cmocka_unit_test(test_prepared),
        cmocka_unit_test(test_saved),        cmocka_unit_test(test_loss),
    };
    if (!rig_has_shared("models/nano-f16.gguf"))
        return RIG_SKIPPED;
    return cmocka_run_group_tests(tests, setup, teardown);
}
