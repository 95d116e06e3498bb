/* Generation: stop reasons, streaming, cancellation, statistics. */
#include "rig.h"

#define N_PROMPT 12

static clv_context *ctx;
static clv_model *model;
static llm_source *source;
static int32_t prompt[N_PROMPT];
static int32_t greedy[40]; /* what follows the prompt, by hand */

static int32_t best(const float *logits)
{
    int32_t id = 0;
    for (int32_t i = 1; i < (int32_t)source->hparams.n_vocab; i++)
        if (logits[i] > logits[id])
            id = i;
    return id;
}

static int setup(void **state)
{
    (void)state;
    tiny_params p = tiny_defaults();
    p.seed = 11;
    ctx = rig_context();
    model = rig_model(ctx, &p, &source);
    tiny_ids(source, 3, prompt, N_PROMPT);
    clv_session *s = rig_session(model, 128, 0, 0);
    const float *logits;
    assert_ok(clv_session_eval(s, prompt, N_PROMPT, CLV_LOGITS_LAST, &logits));
    for (int i = 0; i < 40; i++) {
        greedy[i] = best(logits);
        assert_ok(clv_session_eval(s, &greedy[i], 1, CLV_LOGITS_LAST, &logits));
    }
    clv_session_destroy(s);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    clv_model_destroy(model);
    clv_context_destroy(ctx);
    return 0;
}

/* ------------------------------------------------------------------------ */

/* One generation and its result. */
typedef struct outcome {
    clv_session *session;
    clv_sampler *sampler;
    clv_generate_params params;
    clv_generate_stats stats;
    int32_t ids[128];
    uint32_t n_ids;
    uint32_t stop_after, cancel_after; /* tokens; 0: never */
    double fractions[16];
    uint32_t n_fractions, stop_progress;
} outcome;

static int on_token(void *arg, int32_t id, const char *text, uint32_t length)
{
    outcome *o = arg;
    assert_int_equal(length, 0); /* there is no tokenizer */
    assert_string_equal(text, "");
    o->ids[o->n_ids++] = id;
    if (o->n_ids == o->cancel_after)
        clv_session_cancel(o->session);
    return o->n_ids == o->stop_after;
}

static int on_progress(void *arg, const char *what, double fraction)
{
    outcome *o = arg;
    assert_string_equal(what, "prompt");
    o->fractions[o->n_fractions++] = fraction;
    return o->n_fractions == o->stop_progress;
}

static void begin(outcome *o, uint32_t n_ctx, uint32_t n_batch,
                  int32_t n_predict)
{
    clv_sampler_params sampling = clv_sampler_defaults();
    sampling.temperature = 0;
    *o = (outcome){.session = rig_session(model, n_ctx, n_batch, 0)};
    assert_ok(
        clv_sampler_create(&sampling, source->hparams.n_vocab, &o->sampler));
    o->params = (clv_generate_params){
        .prompt = prompt,
        .n_prompt = N_PROMPT,
        .n_predict = n_predict,
        .on_token = on_token,
        .on_token_ctx = o,
        .progress = on_progress,
        .progress_ctx = o,
    };
}

static clv_status generate(outcome *o)
{
    return clv_generate(o->session, o->sampler, &o->params, &o->stats);
}

static void end(outcome *o)
{
    clv_sampler_destroy(o->sampler);
    clv_session_destroy(o->session);
}

static void expect(const outcome *o, uint32_t n, uint32_t stop)
{
    assert_int_equal(o->n_ids, n);
    assert_int_equal(o->stats.n_generated, n);
    assert_int_equal(o->stats.stop, stop);
    assert_memory_equal(o->ids, greedy, n * sizeof *greedy);
}

static void test_limit(void **state)
{
    (void)state;
    outcome o;
    begin(&o, 128, 5, 20);
    assert_ok(generate(&o));
    expect(&o, 20, CLV_STOP_LIMIT);
    assert_int_equal(o.stats.n_prompt, N_PROMPT);
    assert_true(o.stats.prompt_ns > 0 && o.stats.generate_ns > 0);
    assert_int_equal(o.n_fractions, 3); /* batches of 5, 5 and 2 */
    assert_true(fabs(o.fractions[0] - 5.0 / 12) < 1e-9);
    assert_true(o.fractions[2] == 1);
    assert_int_equal(clv_session_position(o.session), N_PROMPT + 19);

    /* With its last token as the prompt, the text continues. */
    o.params.prompt = &greedy[19];
    o.params.n_prompt = 1;
    o.params.n_predict = 20;
    assert_ok(generate(&o));
    assert_memory_equal(o.ids, greedy, sizeof greedy);
    end(&o);
}

static void test_nothing_to_predict(void **state)
{
    (void)state;
    outcome o;
    begin(&o, 128, 0, 0);
    assert_ok(generate(&o));
    expect(&o, 0, CLV_STOP_LIMIT);
    assert_int_equal(clv_session_position(o.session), N_PROMPT);
    end(&o);
}

static void test_full_context(void **state)
{
    (void)state;
    outcome o;
    begin(&o, 20, 0, -1);
    assert_ok(generate(&o));
    expect(&o, 9, CLV_STOP_CONTEXT); /* 8 in the cache and one more */
    end(&o);

    begin(&o, N_PROMPT, 0, 5);
    assert_ok(generate(&o));
    expect(&o, 1, CLV_STOP_CONTEXT);
    end(&o);

    begin(&o, N_PROMPT - 1, 0, 5);
    assert_fails(generate(&o), CLV_ERR_LIMIT,
                 "prompt: context of 11 tokens is too small: 0 in it and 12 "
                 "more need 12");
    assert_int_equal(clv_session_position(o.session), 0);
    end(&o);
}

static void test_end_token(void **state)
{
    (void)state;
    outcome o;
    uint32_t n = 0; /* tokens before the first that is like the tenth */
    while (greedy[n] != greedy[9])
        n++;
    source->hparams.eos = greedy[9];
    begin(&o, 128, 0, 20);
    assert_ok(generate(&o));
    expect(&o, n, CLV_STOP_END);
    end(&o);

    begin(&o, 128, 0, 20);
    o.params.ignore_end = true;
    assert_ok(generate(&o));
    expect(&o, 20, CLV_STOP_LIMIT);
    end(&o);
    source->hparams.eos = -1;
}

static void test_callback_stops(void **state)
{
    (void)state;
    outcome o;
    begin(&o, 128, 0, 20);
    o.stop_after = 3;
    assert_ok(generate(&o));
    expect(&o, 3, CLV_STOP_CALLBACK);
    end(&o);
}

static void test_cancel(void **state)
{
    (void)state;
    outcome o;
    begin(&o, 128, 0, 20);
    o.cancel_after = 4;
    assert_int_equal(generate(&o), CLV_ERR_CANCELLED);
    assert_int_equal(o.n_ids, 4);
    assert_int_equal(o.stats.n_generated, 4);
    assert_int_equal(o.stats.n_prompt, N_PROMPT);
    end(&o);

    /* Too late: it does not cancel the next generation. */
    begin(&o, 128, 0, 20);
    o.cancel_after = 20;
    assert_ok(generate(&o));
    expect(&o, 20, CLV_STOP_LIMIT);
    assert_ok(clv_session_truncate(o.session, 0));
    o.n_ids = o.n_fractions = 0;
    assert_ok(generate(&o));
    expect(&o, 20, CLV_STOP_LIMIT);
    end(&o);

    begin(&o, 128, 5, 20);
    o.stop_progress = 2;
    assert_fails(generate(&o), CLV_ERR_CANCELLED, "10 of 12 prompt tokens");
    assert_int_equal(o.stats.n_prompt, 10);
    assert_int_equal(clv_session_position(o.session), 0);
    o.stop_progress = 0;
    assert_ok(generate(&o)); /* as if nothing had been */
    expect(&o, 20, CLV_STOP_LIMIT);
    end(&o);
}

/* The penalty includes the prompt. */
static void test_penalty_counts_prompt(void **state)
{
    (void)state;
    outcome o;
    begin(&o, 128, 0, 1);
    clv_sampler_params sampling = clv_sampler_defaults();
    sampling.temperature = 0;
    sampling.repeat_penalty = 1e6f;
    sampling.repeat_last = N_PROMPT;
    clv_sampler_destroy(o.sampler);
    assert_ok(
        clv_sampler_create(&sampling, source->hparams.n_vocab, &o.sampler));
    const float *logits;
    assert_ok(clv_session_eval(o.session, prompt, N_PROMPT, CLV_LOGITS_LAST,
                               &logits));
    float *copy = malloc(source->hparams.n_vocab * sizeof *copy);
    assert_non_null(copy);
    memcpy(copy, logits, source->hparams.n_vocab * sizeof *copy);
    for (int i = 0; i < N_PROMPT; i++)
        copy[prompt[i]] = copy[prompt[i]] > 0 ? 0 : -INFINITY;
    const int32_t wanted = best(copy);
    free(copy);
    assert_ok(clv_session_truncate(o.session, 0));
    assert_ok(generate(&o));
    assert_int_equal(o.ids[0], wanted);
    end(&o);
}

/* After a shift, the text goes on as one that begins with what was kept. */
static void test_context_shift(void **state)
{
    (void)state;
    outcome o;
    begin(&o, 24, 7, 40);
    o.params.shift = true;
    o.params.n_keep = 5;
    assert_ok(generate(&o));
    assert_int_equal(o.stats.stop, CLV_STOP_LIMIT);
    assert_int_equal(o.n_ids, 40);

    int32_t text[24];
    uint32_t n = N_PROMPT;
    clv_session *s = rig_session(model, 128, 0, 0);
    const float *logits;
    memcpy(text, prompt, sizeof prompt);
    for (uint32_t i = 0; i < 40; i++) {
        assert_ok(clv_session_truncate(s, 0));
        assert_ok(clv_session_eval(s, text, n, CLV_LOGITS_LAST, &logits));
        assert_int_equal(o.ids[i], best(logits));
        if (n == 24) { /* 5, and 10 of the other 19 */
            memmove(text + 5, text + 14, 10 * sizeof *text);
            n = 15;
        }
        text[n++] = o.ids[i];
    }
    clv_session_destroy(s);
    end(&o);

    /* Of a prompt that fills the context nothing is left to forget. */
    begin(&o, N_PROMPT + 1, 0, 10);
    o.params.shift = true;
    o.params.n_keep = UINT32_MAX;
    assert_ok(generate(&o));
    assert_int_equal(o.stats.stop, CLV_STOP_CONTEXT);
    assert_int_equal(o.n_ids, 2);
    end(&o);
}

static void test_refused(void **state)
{
    (void)state;
    outcome o;
    begin(&o, 128, 0, 5);
    o.params.n_prompt = 0;
    assert_fails(generate(&o), CLV_ERR_INVALID, "prompt is empty");
    o.params.n_prompt = N_PROMPT;
    o.params.n_predict = -2;
    assert_fails(generate(&o), CLV_ERR_INVALID, "-2 tokens");
    assert_fails(clv_generate(o.session, NULL, &o.params, NULL),
                 CLV_ERR_INVALID, "NULL");
    o.params.n_predict = 5;
    clv_sampler_destroy(o.sampler);
    assert_ok(clv_sampler_create(NULL, 7, &o.sampler));
    assert_fails(generate(&o), CLV_ERR_INVALID, "for 7 tokens");
    end(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_limit),
        cmocka_unit_test(test_nothing_to_predict),
        cmocka_unit_test(test_full_context),
        cmocka_unit_test(test_end_token),
        cmocka_unit_test(test_callback_stops),
        cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_penalty_counts_prompt),
        cmocka_unit_test(test_context_shift),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
