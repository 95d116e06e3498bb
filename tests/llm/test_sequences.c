/* Several sequences in one session: each has the logits that it has alone,
 * whatever the others do, on devices of all kinds. */
#include "rig.h"

#include "../../core/device/device.h"
#include "../core/message.h"

#include <stdio.h>

#define N_SEQUENCES 4
#define N_TOKENS 24
#define N_CTX 32
#define ROUNDS 6

/* The squared error that devices may have beside themselves, in batches of
 * other sizes. */
#define MAX_ERROR 1e-4

typedef struct play {
    rig_world world;
    clv_model *model;
    clv_session *session;
    int32_t ids[N_SEQUENCES][N_TOKENS];
    float *expected[N_SEQUENCES]; /* [N_TOKENS, n_vocab], alone */
    uint32_t n_vocab;
} play;

static void make_expected(play *p, llm_source *source)
{
    const size_t size = sizeof(float) * N_TOKENS * p->n_vocab;
    for (uint32_t i = 0; i < N_SEQUENCES; i++) {
        const float *logits;
        clv_session *alone = rig_session(p->model, N_CTX, 0, CLV_DTYPE_F32);
        assert_int_equal(clv_session_n_sequences(alone), 1);
        tiny_ids(source, 20 + i, p->ids[i], N_TOKENS);
        assert_ok(clv_session_eval(alone, p->ids[i], N_TOKENS, CLV_LOGITS_ALL,
                                   &logits));
        p->expected[i] = malloc(size);
        assert_non_null(p->expected[i]);
        memcpy(p->expected[i], logits, size);
        clv_session_destroy(alone);
    }
}

static void open_play(play *p, const char *conf, const char *settings)
{
    tiny_params tiny = tiny_defaults();
    llm_source *source;
    const clv_session_params params = {.n_ctx = N_CTX,
                                       .n_batch = 8,
                                       .kv_dtype = CLV_DTYPE_F32,
                                       .n_sequences = N_SEQUENCES};
    *p = (play){.n_vocab = tiny.n_vocab};
    rig_open(&p->world, conf, settings);
    p->model = rig_model(p->world.ctx, &tiny, &source);
    make_expected(p, source);
    assert_ok(clv_session_create(p->model, &params, &p->session));
    assert_int_equal(clv_session_n_sequences(p->session), N_SEQUENCES);
}

static void close_play(play *p)
{
    clv_session_destroy(p->session);
    for (uint32_t i = 0; i < N_SEQUENCES; i++)
        free(p->expected[i]);
    clv_model_destroy(p->model);
    rig_close(&p->world);
}

static void judge(const play *p, uint32_t sequence, uint32_t token,
                  const float *logits)
{
    const float *want = p->expected[sequence] + (size_t)token * p->n_vocab;
    const double error = rig_error(logits, want, p->n_vocab);
    if (!(error <= MAX_ERROR))
        fail_msg("sequence %u, token %u: squared error %g", sequence, token,
                 error);
}

static uint32_t position_of(const play *p, uint32_t sequence)
{
    assert_ok(clv_session_select(p->session, sequence));
    return clv_session_position(p->session);
}

/* The next n tokens of a sequence. */
static void go_on(const play *p, uint32_t sequence, uint32_t n)
{
    const uint32_t at = position_of(p, sequence);
    const float *logits;
    assert_ok(clv_session_eval(p->session, p->ids[sequence] + at, n,
                               CLV_LOGITS_LAST, &logits));
    judge(p, sequence, at + n - 1, logits);
}

/* A token of each sequence of a set, the last one first. */
static void step(const play *p, uint32_t set)
{
    clv_step steps[N_SEQUENCES];
    uint32_t n = 0;
    const float *logits;
    for (uint32_t i = N_SEQUENCES; i-- > 0;)
        if (set >> i & 1)
            steps[n++] = (clv_step){i, p->ids[i][position_of(p, i)]};
    assert_ok(clv_session_step(p->session, steps, n, &logits));
    for (uint32_t i = 0; i < n; i++)
        judge(p, steps[i].sequence, position_of(p, steps[i].sequence) - 1,
              logits + (size_t)i * p->n_vocab);
}

/* Prompts of different lengths, one of which is longer than a batch. */
static void begin(const play *p)
{
    static const uint32_t prompts[N_SEQUENCES] = {7, 1, 13, 4};
    for (uint32_t i = 0; i < N_SEQUENCES; i++)
        go_on(p, i, prompts[i]);
}

static void tell(const play *p)
{
    static const uint32_t sets[ROUNDS] = {15, 6, 15, 9, 4, 11};
    begin(p);
    for (uint32_t i = 0; i < ROUNDS; i++)
        step(p, sets[i]);
    /* One goes back, and on in a batch; the others do not notice. */
    assert_int_equal(position_of(p, 0), 11);
    assert_ok(clv_session_truncate(p->session, 5));
    step(p, 14);
    go_on(p, 0, 4);
    step(p, 15);
    assert_int_equal(position_of(p, 0), 10);
}

static void check_on(const char *conf, const char *settings)
{
    play p;
    open_play(&p, conf, settings);
    tell(&p);
    close_play(&p);
}

static void test_cpu(void **state)
{
    (void)state;
    check_on(NULL, "core.plugins=cpu");
    check_on(NULL, "core.plugins=cpu cpu.features=ref");
}

static void test_reference(void **state)
{
    (void)state;
    check_on(NULL, "core.plugins=ref core.devices=ref");
}

/* Where an NPU has programs of one length, rows are padded. */
static void test_static(void **state)
{
    (void)state;
    check_on("soc/snapdragon-8gen3.ini",
             "core.plugins=npu_sim core.devices=npu_sim");
}

static void test_driver(void **state)
{
    char settings[128];
    (void)state;
    snprintf(settings, sizeof settings, "core.plugins=%s",
             getenv("CLEAVE_TEST_DRIVER"));
    check_on(NULL, settings);
}

static void test_loss(void **state)
{
    (void)state;
    play p;
    clv_device *dev;
    open_play(&p, NULL,
              "core.plugins=ref,cpu core.devices=ref,cpu "
              "ref.ops0=matmul,glu ref.ops1=rms_norm,add,attention "
              "ref.flag_wait1=on");
    begin(&p);
    step(&p, 15);
    for (uint32_t i = 0; (dev = clv_context_device(p.world.ctx, i)); i++)
        if (dev->api->fault_inject)
            break;
    assert_non_null(dev);
    assert_ok(dev->api->fault_inject(dev->handle, CLV_FAULT_LOST));
    step(&p, 15);
    assert_true(clv_device_lost(dev));
    go_on(&p, 2, 5);
    step(&p, 7);
    close_play(&p);
}

static void refuse(const play *p, const clv_step *steps, uint32_t n,
                   clv_status status, const char *parts)
{
    const float *logits;
    const uint32_t at = position_of(p, 0);
    assert_int_equal(clv_session_step(p->session, steps, n, &logits), status);
    assert_message(parts);
    assert_int_equal(position_of(p, 0), at);
}

static void test_refusals(void **state)
{
    (void)state;
    play p;
    clv_step many[9] = {{0, 1}};
    open_play(&p, NULL, "core.plugins=cpu");
    begin(&p);
    const int32_t n_vocab = (int32_t)p.n_vocab;
    refuse(&p, many, 0, CLV_ERR_INVALID, "no session, steps or logits");
    refuse(&p, many, 9, CLV_ERR_LIMIT, "9 steps|8 tokens");
    refuse(&p, (clv_step[]){{0, 1}, {N_SEQUENCES, 1}}, 2, CLV_ERR_INVALID,
           "step 1|sequence 4|n_sequences");
    refuse(&p, (clv_step[]){{0, n_vocab}}, 1, CLV_ERR_INVALID, "vocabulary");
    refuse(&p, (clv_step[]){{0, -1}}, 1, CLV_ERR_INVALID, "vocabulary");
    refuse(&p, (clv_step[]){{0, 1}, {2, 1}, {0, 2}}, 3, CLV_ERR_INVALID,
           "steps 0 and 2");
    assert_int_equal(clv_session_select(p.session, N_SEQUENCES),
                     CLV_ERR_INVALID);
    assert_message("sequence 4 of 4");
    clv_session_cancel(p.session);
    refuse(&p, (clv_step[]){{0, 1}, {1, 1}}, 2, CLV_ERR_CANCELLED, "cancelled");
    step(&p, 3);
    /* A full one does not stop the others. */
    while (position_of(&p, 0) < N_CTX) {
        const float *logits;
        assert_ok(
            clv_session_step(p.session, (clv_step[]){{0, 1}}, 1, &logits));
    }
    refuse(&p, (clv_step[]){{1, 1}, {0, 1}}, 2, CLV_ERR_LIMIT,
           "sequence 0|context of 32");
    step(&p, 14);
    close_play(&p);
}

/* A step may have more tokens than a sequence has positions. */
static void test_short(void **state)
{
    (void)state;
    enum { N = 9 };
    play p;
    clv_session *s;
    clv_step steps[N];
    const clv_session_params params = {
        .n_ctx = 3, .kv_dtype = CLV_DTYPE_F32, .n_sequences = N};
    open_play(&p, NULL, "core.plugins=cpu");
    assert_ok(clv_session_create(p.model, &params, &s));
    for (uint32_t token = 0; token < 3; token++) {
        const float *logits;
        for (uint32_t i = 0; i < N; i++)
            steps[i] = (clv_step){i, p.ids[i % N_SEQUENCES][token]};
        assert_ok(clv_session_step(s, steps, N, &logits));
        for (uint32_t i = 0; i < N; i++)
            judge(&p, i % N_SEQUENCES, token, logits + (size_t)i * p.n_vocab);
    }
    clv_session_destroy(s);
    close_play(&p);
}

/* Each sequence has a cache of its own, and too many are refused. */
static void test_size(void **state)
{
    (void)state;
    play p;
    clv_session *alone, *s;
    open_play(&p, NULL, "core.plugins=cpu");
    alone = rig_session(p.model, N_CTX, 8, CLV_DTYPE_F32);
    assert_int_equal(clv_session_kv_size(p.session),
                     N_SEQUENCES * clv_session_kv_size(alone));
    clv_session_destroy(alone);
    const clv_session_params params = {.n_ctx = 64, .n_sequences = UINT32_MAX};
    assert_int_equal(clv_session_create(p.model, &params, &s), CLV_ERR_LIMIT);
    assert_message("64 positions|sequences|too large");
    close_play(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cpu),      cmocka_unit_test(test_reference),
        cmocka_unit_test(test_static),   cmocka_unit_test(test_loss),
        cmocka_unit_test(test_refusals), cmocka_unit_test(test_size),
        cmocka_unit_test(test_short),
    };
    const struct CMUnitTest driver[] = {cmocka_unit_test(test_driver)};
    return rig_on_driver() ? cmocka_run_group_tests(driver, NULL, NULL)
                           : cmocka_run_group_tests(tests, NULL, NULL);
}
