/* Sessions: batches, truncation, limits, cancellation, several threads. */
#include "rig.h"
#include "runtime/kv_cache.h"

#include <pthread.h>
#include <stdatomic.h>

#define N 50

static clv_context *ctx;
static clv_model *model;
static int32_t ids[N];
static float *expected; /* [N, n_vocab], by one batch */
static uint32_t n_vocab;

static int setup(void **state)
{
    (void)state;
    const tiny_params p = tiny_defaults();
    llm_source *source;
    const float *logits;
    ctx = rig_context();
    model = rig_model(ctx, &p, &source);
    n_vocab = p.n_vocab;
    tiny_ids(source, 5, ids, N);
    clv_session *session = rig_session(model, 64, 64, CLV_DTYPE_F32);
    assert_ok(clv_session_eval(session, ids, N, CLV_LOGITS_ALL, &logits));
    expected = malloc(sizeof *expected * N * n_vocab);
    assert_non_null(expected);
    memcpy(expected, logits, sizeof *expected * N * n_vocab);
    clv_session_destroy(session);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    free(expected);
    clv_model_destroy(model);
    clv_context_destroy(ctx);
    return 0;
}

/* Logits of `rows` tokens from the first on. */
static void assert_logits(const float *logits, uint32_t first, uint32_t rows,
                          double tolerance)
{
    const float *want = expected + (size_t)first * n_vocab;
    double difference = 0, total = 0;
    assert_non_null(logits);
    for (uint32_t i = 0; i < rows * n_vocab; i++) {
        difference += (logits[i] - want[i]) * (double)(logits[i] - want[i]);
        total += want[i] * (double)want[i];
    }
    assert_true(sqrt(difference / total) <= tolerance);
}

static void test_batch_sizes(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {1, 2, 7, 49, 50, 512};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const float *logits;
        clv_session *s = rig_session(model, 0, sizes[i], CLV_DTYPE_F32);
        assert_int_equal(clv_session_n_ctx(s), 128);
        assert_null(clv_session_plan(s));
        assert_ok(clv_session_eval(s, ids, N, CLV_LOGITS_LAST, &logits));
        assert_logits(logits, N - 1, 1, 1e-5);
        assert_non_null(clv_session_plan(s));
        assert_int_equal(clv_session_position(s), N);
        assert_ok(clv_session_truncate(s, 0));
        assert_ok(clv_session_eval(s, ids, N, CLV_LOGITS_ALL, &logits));
        assert_logits(logits, 0, N, 1e-5);
        clv_session_destroy(s);
    }
}

static void test_f16_cache(void **state)
{
    (void)state;
    const float *logits;
    clv_session *f16 = rig_session(model, 64, 0, 0);
    clv_session *f32 = rig_session(model, 64, 0, CLV_DTYPE_F32);
    /* 2 layers, keys and values, 2 heads of 16 */
    assert_int_equal(clv_session_kv_size(f16), 2 * 2 * 64 * 32 * 2);
    assert_int_equal(clv_session_kv_size(f32), 2 * 2 * 64 * 32 * 4);
    assert_ok(clv_session_eval(f16, ids, N, CLV_LOGITS_ALL, &logits));
    assert_logits(logits, 0, N, 2e-3);
    clv_session_destroy(f16);
    clv_session_destroy(f32);
}

static void test_q8_0_cache(void **state)
{
    (void)state;
    clv_session *s = NULL;
    const clv_session_params q8_0 = {.n_ctx = 64, .kv_dtype = CLV_DTYPE_Q8_0};
    assert_fails(clv_session_create(model, &q8_0, &s), CLV_ERR_UNSUPPORTED,
                 "heads of 16 channels are not whole blocks of 32");
    assert_null(s);

    tiny_params p = tiny_defaults();
    p.head_dim = p.rope_dim = 32;
    p.n_heads = 2;
    p.n_kv_heads = 1;
    llm_source *source;
    clv_model *wide = rig_model(ctx, &p, &source);
    const float *exact, *rounded;
    clv_session *f32 = rig_session(wide, 64, 7, CLV_DTYPE_F32);
    s = rig_session(wide, 64, 7, CLV_DTYPE_Q8_0);
    assert_int_equal(clv_session_kv_size(s), 2 * 2 * 64 * 34);
    assert_ok(clv_session_eval(f32, ids, N, CLV_LOGITS_ALL, &exact));
    assert_ok(clv_session_eval(s, ids, N, CLV_LOGITS_ALL, &rounded));
    const double error = sqrt(rig_error(rounded, exact, N * p.n_vocab));
    assert_true(error < 2e-2);
    assert_true(error > 1e-5); /* it is rounded */
    clv_session_destroy(f32);
    clv_session_destroy(s);
    clv_model_destroy(wide);
}

static void test_memory_for_cache(void **state)
{
    (void)state;
    assert_ok(llm_kv_cache_fits(1 << 20, 1024, 1 << 20));
    assert_fails(
        llm_kv_cache_fits(64 << 20, 4096, 33 << 20), CLV_ERR_LIMIT,
        "KV cache of 4096 positions takes 64.0 MiB, 33.0 MiB of memory "
        "are free; 2048 positions would fit");
    assert_fails(llm_kv_cache_fits(1 << 20, 64, 1 << 16), CLV_ERR_LIMIT,
                 "; 4 positions would fit");
}

static void test_truncate(void **state)
{
    (void)state;
    const float *logits = NULL;
    clv_session *s = rig_session(model, 64, 16, CLV_DTYPE_F32);
    int32_t other[20];
    for (int i = 0; i < 20; i++)
        other[i] = (ids[30 + i] + 1) % (int32_t)n_vocab;
    assert_ok(clv_session_eval(s, ids, 30, CLV_LOGITS_NONE, &logits));
    assert_null(logits);
    assert_ok(clv_session_eval(s, other, 20, CLV_LOGITS_NONE, NULL));
    assert_ok(clv_session_truncate(s, 30));
    assert_int_equal(clv_session_position(s), 30);
    assert_ok(clv_session_eval(s, ids + 30, 20, CLV_LOGITS_ALL, &logits));
    assert_logits(logits, 30, 20, 1e-5);
    assert_ok(clv_session_truncate(s, 10));
    for (uint32_t i = 10; i < 14; i++) {
        assert_ok(clv_session_eval(s, ids + i, 1, CLV_LOGITS_LAST, &logits));
        assert_logits(logits, i, 1, 1e-5);
    }
    assert_fails(clv_session_truncate(s, 15), CLV_ERR_INVALID, "holds 14");
    clv_session_destroy(s);
}

static void test_reuse(void **state)
{
    (void)state;
    const float *logits = NULL;
    clv_session *s = rig_session(model, 64, 16, CLV_DTYPE_F32);
    int32_t text[40];
    uint32_t kept = 99;
    memcpy(text, ids, sizeof text);
    text[33] = (ids[33] + 1) % (int32_t)n_vocab;
    assert_ok(clv_session_reuse(s, text, 40, &kept));
    assert_int_equal(kept, 0);
    assert_ok(clv_session_eval(s, text, 40, CLV_LOGITS_NONE, NULL));
    /* Another end: what is the same stays. */
    assert_ok(clv_session_reuse(s, ids, N, &kept));
    assert_int_equal(kept, 33);
    assert_int_equal(clv_session_position(s), 33);
    assert_ok(clv_session_eval(s, ids + 33, N - 33, CLV_LOGITS_ALL, &logits));
    assert_logits(logits, 33, N - 33, 1e-5);
    /* The same text, or its beginning: the last token is left to evaluate. */
    assert_ok(clv_session_reuse(s, ids, N, &kept));
    assert_int_equal(kept, N - 1);
    assert_ok(clv_session_reuse(s, ids, 20, &kept));
    assert_int_equal(kept, 19);
    assert_ok(clv_session_eval(s, ids + 19, 1, CLV_LOGITS_LAST, &logits));
    assert_logits(logits, 19, 1, 1e-5);
    assert_fails(clv_session_reuse(s, ids, 0, &kept), CLV_ERR_INVALID, "ids");
    assert_int_equal(clv_session_position(s), 20);
    clv_session_destroy(s);
}

static void test_context_overflow(void **state)
{
    (void)state;
    const float *logits;
    clv_session *s = rig_session(model, 40, 16, CLV_DTYPE_F32);
    assert_ok(clv_session_eval(s, ids, 30, CLV_LOGITS_NONE, NULL));
    assert_fails(clv_session_eval(s, ids, 11, CLV_LOGITS_LAST, &logits),
                 CLV_ERR_LIMIT,
                 "context of 40 tokens is too small: 30 in it and 11 more "
                 "need 41; use a larger context (n_ctx 41)");
    assert_int_equal(clv_session_position(s), 30);
    assert_ok(clv_session_eval(s, ids + 30, 10, CLV_LOGITS_ALL, &logits));
    assert_logits(logits, 30, 10, 1e-5);
    assert_fails(clv_session_eval(s, ids, 1, CLV_LOGITS_LAST, &logits),
                 CLV_ERR_LIMIT, "(n_ctx 41)");
    clv_session_destroy(s);
}

static void test_refused(void **state)
{
    (void)state;
    const float *logits;
    const int32_t bad[3] = {1, 160, -1};
    clv_session *s = rig_session(model, 64, 0, 0);
    assert_fails(clv_session_eval(s, bad, 2, CLV_LOGITS_LAST, &logits),
                 CLV_ERR_INVALID, "token 1 is id 160");
    assert_fails(clv_session_eval(s, bad + 2, 1, CLV_LOGITS_LAST, &logits),
                 CLV_ERR_INVALID, "id -1");
    assert_fails(clv_session_eval(s, ids, 0, CLV_LOGITS_LAST, &logits),
                 CLV_ERR_INVALID, "no tokens");
    assert_fails(clv_session_eval(s, ids, 1, 7, &logits), CLV_ERR_INVALID,
                 "logits 7");
    assert_fails(clv_session_eval(s, ids, 1, CLV_LOGITS_LAST, NULL),
                 CLV_ERR_INVALID, "NULL");
    assert_int_equal(clv_session_position(s), 0);
    clv_session_destroy(s);
    clv_session_destroy(NULL);

    clv_session_params p = {.kv_dtype = CLV_DTYPE_Q8_0};
    assert_fails(clv_session_create(model, &p, &s), CLV_ERR_UNSUPPORTED,
                 "q8_0");
    assert_null(s);
    p = (clv_session_params){.n_ctx = UINT32_MAX};
    assert_fails(clv_session_create(model, &p, &s), CLV_ERR_LIMIT,
                 "4294967295");
    p = (clv_session_params){.n_devices = 1};
    assert_fails(clv_session_create(model, &p, &s), CLV_ERR_INVALID,
                 "disagree");
}

static void test_chosen_device(void **state)
{
    (void)state;
    const float *logits;
    clv_session *s;
    clv_device *device = clv_context_device(ctx, 0);
    const clv_session_params p = {
        .n_ctx = 64,
        .kv_dtype = CLV_DTYPE_F32,
        .devices = &device,
        .n_devices = 1,
    };
    assert_ok(clv_session_create(model, &p, &s));
    assert_ok(clv_session_eval(s, ids, N, CLV_LOGITS_LAST, &logits));
    assert_logits(logits, N - 1, 1, 1e-5);
    clv_session_destroy(s);
}

static void count_warnings(void *log_ctx, uint32_t level, const char *line)
{
    if (level == CLV_LOG_WARN && strstr(line, "trained for 128"))
        ++*(int *)log_ctx;
}

static void test_longer_than_trained(void **state)
{
    (void)state;
    int warnings = 0;
    clv_context *logging;
    const clv_context_params params = {
        .log = count_warnings,
        .log_ctx = &warnings,
        .log_level = CLV_LOG_WARN,
    };
    const tiny_params p = tiny_defaults();
    assert_ok(clv_context_create(&params, &logging));
    clv_model *m = rig_model(logging, &p, NULL);
    clv_session *s = rig_session(m, 128, 0, 0);
    assert_int_equal(warnings, 0);
    clv_session_destroy(s);
    s = rig_session(m, 129, 0, 0);
    assert_int_equal(warnings, 1);
    assert_int_equal(clv_session_n_ctx(s), 129);
    clv_session_destroy(s);
    clv_model_destroy(m);
    clv_context_destroy(logging);
}

/* ------------------------------------------------------------------------ */

static void test_cancel_before(void **state)
{
    (void)state;
    const float *logits;
    clv_session *s = rig_session(model, 64, 4, CLV_DTYPE_F32);
    assert_ok(clv_session_eval(s, ids, 10, CLV_LOGITS_NONE, NULL));
    clv_session_cancel(s);
    assert_fails(clv_session_eval(s, ids, 20, CLV_LOGITS_LAST, &logits),
                 CLV_ERR_CANCELLED, "cancelled after 0 of 20");
    assert_int_equal(clv_session_position(s), 10);
    /* Only once, and the cache is still correct. */
    assert_ok(clv_session_eval(s, ids + 10, 20, CLV_LOGITS_ALL, &logits));
    assert_logits(logits, 10, 20, 1e-5);
    clv_session_destroy(s);
}

typedef struct canceller {
    clv_session *session;
    atomic_bool stop;
} canceller;

static void *keep_cancelling(void *arg)
{
    canceller *c = arg;
    while (!atomic_load(&c->stop)) {
        clv_session_cancel(c->session);
        sched_yield();
    }
    return NULL;
}

static void test_cancel_from_thread(void **state)
{
    (void)state;
    const float *logits;
    clv_session *s = rig_session(model, 64, 1, CLV_DTYPE_F32);
    canceller c = {.session = s};
    pthread_t thread;
    clv_status status;
    assert_int_equal(pthread_create(&thread, NULL, keep_cancelling, &c), 0);
    do {
        assert_ok(clv_session_truncate(s, 0));
        status = clv_session_eval(s, ids, N, CLV_LOGITS_LAST, &logits);
    } while (!status);
    atomic_store(&c.stop, true);
    pthread_join(thread, NULL);
    assert_int_equal(status, CLV_ERR_CANCELLED);
    assert_int_equal(clv_session_position(s), 0);
    clv_session_destroy(s);
}

/* ------------------------------------------------------------------------ */

typedef struct worker {
    pthread_t thread;
    bool right;
} worker;

/* Asserts only after joining: cmocka's jump back belongs to its thread. */
static void *work(void *arg)
{
    worker *w = arg;
    const clv_session_params p = {
        .n_ctx = 64, .n_batch = 8, .kv_dtype = CLV_DTYPE_F32};
    clv_session *s;
    const float *logits = NULL;
    w->right = !clv_session_create(model, &p, &s);
    for (int round = 0; w->right && round < 5; round++) {
        w->right = !clv_session_truncate(s, 0) &&
                   !clv_session_eval(s, ids, N, CLV_LOGITS_LAST, &logits);
        for (uint32_t i = 0; w->right && i < n_vocab; i++)
            w->right =
                fabsf(logits[i] - expected[(N - 1) * n_vocab + i]) < 1e-3f;
    }
    clv_session_destroy(s);
    return NULL;
}

static void test_threads(void **state)
{
    (void)state;
    worker workers[3] = {0};
    for (int i = 0; i < 3; i++)
        assert_int_equal(
            pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    for (int i = 0; i < 3; i++) {
        pthread_join(workers[i].thread, NULL);
        assert_true(workers[i].right);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_batch_sizes),
        cmocka_unit_test(test_f16_cache),
        cmocka_unit_test(test_q8_0_cache),
        cmocka_unit_test(test_memory_for_cache),
        cmocka_unit_test(test_truncate),
        cmocka_unit_test(test_reuse),
        cmocka_unit_test(test_context_overflow),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_chosen_device),
        cmocka_unit_test(test_longer_than_trained),
        cmocka_unit_test(test_cancel_before),
        cmocka_unit_test(test_cancel_from_thread),
        cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
