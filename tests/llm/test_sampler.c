/* The sampler against a naive one that sorts everything, and the statistics of
 * its draws. */
#include "check.h"
#include "base/random.h"
#include "naive_sampler.h"

#include <cleave/llm.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_VOCAB NAIVE_VOCAB

/* Draws many times and compares frequencies with the reference by a chi-square
 * statistic: a draw that cannot be is a failure at once. */
static void check_draws(const clv_sampler_params *p, const float *logits,
                        uint32_t n_vocab, const int32_t *history,
                        uint32_t n_history)
{
    double probability[MAX_VOCAB];
    uint32_t counts[MAX_VOCAB] = {0};
    const uint32_t n_draws = 4000;
    clv_sampler *s;
    assert_ok(clv_sampler_create(p, n_vocab, &s));
    for (uint32_t i = 0; i < n_history; i++)
        clv_sampler_accept(s, history[i]);
    const uint32_t n = naive_probabilities(p, logits, n_vocab, history,
                                           n_history, probability);
    for (uint32_t i = 0; i < n_draws; i++) {
        int32_t id = -1;
        assert_ok(clv_sampler_sample(s, logits, &id));
        assert_in_range(id, 0, n_vocab - 1);
        assert_true(probability[id] > 0);
        counts[id]++;
    }
    double chi2 = 0;
    for (uint32_t i = 0; i < n_vocab; i++) {
        const double expected = n_draws * probability[i];
        if (expected > 0)
            chi2 += (counts[i] - expected) * (counts[i] - expected) /
                    (expected > 1 ? expected : 1);
    }
    /* Mean n - 1, deviation sqrt(2(n - 1)): six deviations, fixed seeds. */
    assert_true(chi2 < n + 6 * sqrt(2.0 * n) + 6);
    clv_sampler_destroy(s);
}

static void test_against_reference(void **state)
{
    (void)state;
    llm_random rng;
    llm_random_seed(&rng, 7);
    for (int round = 0; round < 100; round++) {
        const uint32_t n_vocab = 1 + llm_random_next(&rng) % 300;
        float logits[MAX_VOCAB];
        int32_t history[100];
        const uint32_t n_history = llm_random_next(&rng) % 100;
        for (uint32_t i = 0; i < n_vocab; i++)
            logits[i] = (float)(8 * llm_random_uniform(&rng) - 4);
        /* Equal logits, so that the rule for ties matters. */
        for (uint32_t i = 0; i < n_vocab / 4; i++)
            logits[llm_random_next(&rng) % n_vocab] = 1;
        if (round % 4 == 0)
            logits[llm_random_next(&rng) % n_vocab] = -INFINITY;
        logits[0] = 0.5f; /* one is finite */
        for (uint32_t i = 0; i < n_history; i++)
            history[i] = (int32_t)(llm_random_next(&rng) % n_vocab);
        const clv_sampler_params p = {
            .temperature = (float)(0.2 + 2 * llm_random_uniform(&rng)),
            .top_k = round % 3 ? llm_random_next(&rng) % 60 : 0,
            .top_p = round % 5 ? (float)llm_random_uniform(&rng) : 1,
            .min_p = round % 2 ? (float)llm_random_uniform(&rng) * 0.3f : 0,
            .repeat_penalty =
                round % 2 ? (float)(0.5 + llm_random_uniform(&rng)) : 1,
            .repeat_last = llm_random_next(&rng) % 80,
            .seed = (uint64_t)round,
        };
        check_draws(&p, logits, n_vocab, history, n_history);
    }
}

static float part(llm_random *rng, double most)
{
    return (float)(most * llm_random_uniform(rng));
}

/* The samplers that are off by default, one of them a round and all together,
 * over a history that repeats itself. */
static void test_others_against_reference(void **state)
{
    (void)state;
    llm_random rng;
    llm_random_seed(&rng, 19);
    for (int round = 0; round < 80; round++) {
        const uint32_t n_vocab = 2 + llm_random_next(&rng) % 60;
        const int which = round % 8; /* 7: all */
        float logits[MAX_VOCAB];
        int32_t history[120];
        const uint32_t n_history = llm_random_next(&rng) % 120;
        const uint32_t period = 1 + llm_random_next(&rng) % 30;
        for (uint32_t i = 0; i < n_vocab; i++)
            logits[i] = (float)(6 * llm_random_uniform(&rng) - 3);
        for (uint32_t i = 0; i < n_history; i++)
            history[i] = i >= period && llm_random_next(&rng) % 9
                             ? history[i - period]
                             : (int32_t)(llm_random_next(&rng) % n_vocab);
        const clv_logit_bias bias[2] = {
            {(int32_t)(llm_random_next(&rng) % n_vocab), 2},
            {(int32_t)(n_vocab - 1), round % 2 ? -INFINITY : -1}};
        clv_sampler_params p = {
            .temperature = 0.3f + part(&rng, 2),
            .top_p = 1,
            .repeat_penalty = 1,
            .repeat_last = llm_random_next(&rng) % 80,
            .seed = (uint64_t)round,
        };
        if (which == 0 || which == 7) {
            p.frequency_penalty = part(&rng, 0.3);
            p.presence_penalty = part(&rng, 2) - 1;
        }
        if (which == 1 || which == 7) {
            p.dry_multiplier = part(&rng, 2);
            p.dry_base = 1 + part(&rng, 1);
            p.dry_allowed_length = 1 + (uint32_t)round % 3;
            p.dry_last = 1 + llm_random_next(&rng) % 130;
        }
        if (which == 2 || which == 7)
            p.top_n_sigma = 0.2f + part(&rng, 2);
        if (which == 3 || which == 7)
            p.typical_p = part(&rng, 1);
        if (which == 4 || which == 7) {
            p.xtc_probability = part(&rng, 1);
            p.xtc_threshold = part(&rng, 0.2);
        }
        if (which == 5 || which == 7) {
            p.dynatemp_range = part(&rng, 1);
            p.dynatemp_exponent = 0.5f + part(&rng, 2);
        }
        if (which == 6 || which == 7) {
            p.bias = bias;
            p.n_bias = 2;
        }
        check_draws(&p, logits, n_vocab, history, n_history);
    }
}

/* The order of a chain matters: of 0.6, 0.3, 0.1, top_k 2 first leaves 2/3 and
 * 1/3, of which 0.6 needs one; else the first two are needed for 0.65. */
static void test_chain(void **state)
{
    (void)state;
    const float logits[3] = {logf(0.6f), logf(0.3f), logf(0.1f)};
    static const struct {
        const char *chain;
        int drawn;
    } cases[] = {{"top_k;top_p", 1}, {"top_p;top_k", 2}, {"", 3}, {"top_k", 2}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        clv_sampler_params p = clv_sampler_defaults();
        int counts[3] = {0};
        clv_sampler *s;
        p.top_k = 2;
        p.top_p = 0.65f;
        p.chain = cases[i].chain;
        assert_ok(clv_sampler_create(&p, 3, &s));
        for (int j = 0; j < 200; j++) {
            int32_t id;
            assert_ok(clv_sampler_sample(s, logits, &id));
            counts[id]++;
        }
        assert_int_equal(!!counts[0] + !!counts[1] + !!counts[2],
                         cases[i].drawn);
        clv_sampler_destroy(s);
    }
    clv_sampler_params p = clv_sampler_defaults();
    clv_sampler *s;
    p.chain = "top_k;topp";
    assert_fails(clv_sampler_create(&p, 3, &s), CLV_ERR_INVALID, "'topp'");
}

static clv_tokenizer *bundled_tokenizer(void)
{
    char path[4096];
    clv_tokenizer *tok;
    snprintf(path, sizeof path, "%s/models/nano-q8_0.gguf",
             getenv("CLEAVE_TEST_SOURCE"));
    assert_ok(clv_tokenizer_load(path, &tok));
    return tok;
}

/* What most penalises after this text: the token that DRY takes most from. */
static double dry_difference(clv_sampler_params p, const char *text)
{
    const clv_tokenizer *tok = p.tokenizer;
    int32_t *ids, id, next;
    uint64_t n;
    double found = 0;
    assert_ok(clv_tokenize(tok, text, strlen(text), 0, &ids, &n));
    next = ids[--n]; /* what would go on */
    const uint32_t n_vocab = clv_tokenizer_describe(tok).n_vocab;
    float *logits = calloc(n_vocab, sizeof *logits);
    clv_sampler *s;
    p.temperature = 0;
    assert_ok(clv_sampler_create(&p, n_vocab, &s));
    clv_sampler_prime(s, ids, n);
    /* The lead that the token needs to be chosen all the same. */
    for (double lead = 0.001; lead < 100; lead *= 1.1) {
        logits[next] = (float)lead;
        assert_ok(clv_sampler_sample(s, logits, &id));
        if (id == next)
            break;
        found = lead;
    }
    clv_sampler_destroy(s);
    clv_tokens_free(ids);
    free(logits);
    return found;
}

static void test_dry_breakers(void **state)
{
    (void)state;
    clv_tokenizer *tok = bundled_tokenizer();
    clv_sampler_params p = clv_sampler_defaults();
    static const char *const custom[] = {"c"}, *const two[] = {"=", "e f"};
    p.tokenizer = tok;
    p.dry_multiplier = 1;
    /* " b" to " f" are repeated, five tokens: 1.75^(5 - 2). */
    const char text[] = "a b c d e f g = a b c d e f g";
    assert_float_equal(dry_difference(p, text), 5.36, 0.6);
    /* Behind the colon, two are: 1.75^0. */
    assert_float_equal(dry_difference(p, "a b c d: e f g = a b c d: e f g"), 1,
                       0.1);
    p.dry_breakers = custom;
    p.n_dry_breakers = 1;
    assert_float_equal(dry_difference(p, text), 1.75, 0.2);
    p.dry_breakers = two;
    p.n_dry_breakers = 2;
    assert_true(dry_difference(p, text) == 0);
    p.tokenizer = NULL;
    clv_sampler *s;
    assert_fails(clv_sampler_create(&p, 9, &s), CLV_ERR_INVALID, "tokenizer");
    clv_tokenizer_destroy(tok);
}

/* Over many draws from one distribution, the mean surprise comes near tau. */
static void test_mirostat(void **state)
{
    (void)state;
    const uint32_t n_vocab = 500;
    float logits[500];
    double log_total = 0;
    for (uint32_t i = 0; i < n_vocab; i++) {
        logits[i] = -1.2f * logf((float)i + 1); /* as words are */
        log_total += exp(logits[i]);
    }
    log_total = log(log_total);
    for (uint32_t version = 1; version <= 2; version++) {
        for (float tau = 2; tau < 5; tau += 1) {
            clv_sampler_params p = clv_sampler_defaults();
            clv_sampler *s;
            double sum = 0;
            p.temperature = 1;
            p.mirostat = version;
            p.mirostat_tau = tau;
            assert_ok(clv_sampler_create(&p, n_vocab, &s));
            for (int i = 0; i < 3000; i++) {
                int32_t id;
                assert_ok(clv_sampler_sample(s, logits, &id));
                if (i >= 500)
                    sum += (log_total - logits[id]) / log(2) / 2500;
            }
            /* Of what is left they are that surprising, of all somewhat more.
             */
            assert_true(sum > tau - 0.3 && sum < tau + 1.2);
            clv_sampler_destroy(s);
        }
    }
}

/* Mirostat 2 by hand: mu 4 leaves surprises up to 4 bits. */
static void test_mirostat_truncates(void **state)
{
    (void)state;
    const float logits[4] = {0, -1, -2, -3.5f}; /* 0.6, 1.6, 3.1, 5.6 bits */
    clv_sampler_params p = clv_sampler_defaults();
    clv_sampler *s;
    int32_t id;
    p.temperature = 1;
    p.mirostat = 2;
    p.mirostat_tau = 2;
    p.mirostat_eta = 0; /* mu stays at 2 * tau */
    assert_ok(clv_sampler_create(&p, 4, &s));
    int seen[4] = {0};
    for (int i = 0; i < 500; i++) {
        assert_ok(clv_sampler_sample(s, logits, &id));
        seen[id]++;
    }
    assert_true(seen[0] && seen[1] && seen[2] && !seen[3]);
    clv_sampler_destroy(s);
}

static void test_reset(void **state)
{
    (void)state;
    const float logits[3] = {3, 2, 1};
    const int32_t seen[2] = {0, 1};
    clv_sampler_params p = clv_sampler_defaults();
    clv_sampler *s;
    int32_t id;
    p.temperature = 0;
    p.presence_penalty = 10;
    assert_ok(clv_sampler_create(&p, 3, &s));
    clv_sampler_prime(s, seen, 2);
    assert_ok(clv_sampler_sample(s, logits, &id));
    assert_int_equal(id, 2);
    clv_sampler_restart(s);
    assert_ok(clv_sampler_sample(s, logits, &id));
    assert_int_equal(id, 2);
    clv_sampler_reset(s);
    assert_ok(clv_sampler_sample(s, logits, &id));
    assert_int_equal(id, 0);
    clv_sampler_destroy(s);
}

static void test_greedy(void **state)
{
    (void)state;
    const float logits[6] = {1, NAN, 3, 3, INFINITY, 2};
    clv_sampler_params p = clv_sampler_defaults();
    p.temperature = 0;
    clv_sampler *s;
    int32_t id;
    assert_ok(clv_sampler_create(&p, 6, &s));
    assert_ok(clv_sampler_sample(s, logits, &id));
    assert_int_equal(id, 2); /* the first of equals; not finite ones never */
    clv_sampler_destroy(s);

    p.repeat_penalty = 2;
    assert_ok(clv_sampler_create(&p, 6, &s));
    clv_sampler_accept(s, 2);
    assert_ok(clv_sampler_sample(s, logits, &id));
    assert_int_equal(id, 3);
    clv_sampler_accept(s, 3);
    assert_ok(clv_sampler_sample(s, logits, &id));
    assert_int_equal(id, 5);
    clv_sampler_accept(s, 1000); /* outside the vocabulary: ignored */
    clv_sampler_accept(s, -1);
    clv_sampler_destroy(s);
}

/* A token leaves the history only when its last occurrence does. */
static void test_history_window(void **state)
{
    (void)state;
    const float logits[4] = {4, 3, 2, 1};
    clv_sampler_params p = clv_sampler_defaults();
    p.temperature = 0;
    p.repeat_penalty = 10;
    p.repeat_last = 3;
    clv_sampler *s;
    int32_t id;
    assert_ok(clv_sampler_create(&p, 4, &s));
    const int32_t history[6] = {0, 0, 1, 2, 3, 3};
    const int32_t expected[6] = {1, 1, 2, 3, 0, 0};
    for (int i = 0; i < 6; i++) {
        clv_sampler_accept(s, history[i]);
        assert_ok(clv_sampler_sample(s, logits, &id));
        assert_int_equal(id, expected[i]);
    }
    clv_sampler_destroy(s);
}

static void test_nothing_finite(void **state)
{
    (void)state;
    const float logits[3] = {NAN, -INFINITY, INFINITY};
    for (int greedy = 0; greedy < 2; greedy++) {
        clv_sampler_params p = clv_sampler_defaults();
        p.temperature = greedy ? 0 : 1;
        clv_sampler *s;
        int32_t id = 42;
        assert_ok(clv_sampler_create(&p, 3, &s));
        assert_fails(clv_sampler_sample(s, logits, &id), CLV_ERR_INVALID,
                     "finite");
        assert_int_equal(id, 42);
        clv_sampler_destroy(s);
    }
}

static void test_same_seed(void **state)
{
    (void)state;
    float logits[200];
    clv_sampler_params p = clv_sampler_defaults();
    p.top_k = 0;
    p.min_p = 0;
    p.temperature = 2;
    for (int i = 0; i < 200; i++)
        logits[i] = (float)(i % 7);
    int32_t drawn[3][32];
    for (int run = 0; run < 3; run++) {
        clv_sampler *s;
        p.seed = run == 2;
        assert_ok(clv_sampler_create(&p, 200, &s));
        for (int i = 0; i < 32; i++)
            assert_ok(clv_sampler_sample(s, logits, &drawn[run][i]));
        clv_sampler_destroy(s);
    }
    assert_memory_equal(drawn[0], drawn[1], sizeof drawn[0]);
    assert_memory_not_equal(drawn[0], drawn[2], sizeof drawn[0]);
}

static void test_extremes(void **state)
{
    (void)state;
    const float logits[4] = {-3e38f, 3e38f, 1e38f, -INFINITY};
    clv_sampler_params p = clv_sampler_defaults();
    clv_sampler *s;
    int32_t id;
    p.temperature = 1e-38f;
    p.repeat_penalty = 1e-30f; /* would make 3e38 infinite */
    assert_ok(clv_sampler_create(&p, 4, &s));
    clv_sampler_accept(s, 1);
    for (int i = 0; i < 20; i++) {
        assert_ok(clv_sampler_sample(s, logits, &id));
        assert_int_equal(id, 1);
    }
    clv_sampler_destroy(s);
}

static void refuse(clv_sampler_params p, uint32_t n_vocab, const char *what)
{
    clv_sampler *s = (clv_sampler *)&p;
    assert_int_not_equal(clv_sampler_create(&p, n_vocab, &s), CLV_OK);
    assert_null(s);
    assert_non_null(strstr(clv_last_error(), what));
}

static void test_refused(void **state)
{
    (void)state;
    clv_sampler_params p;
#define REFUSE(field, value, what)                                             \
    p = clv_sampler_defaults();                                                \
    p.field = value;                                                           \
    refuse(p, 10, what)
    REFUSE(temperature, NAN, "temperature");
    REFUSE(temperature, INFINITY, "temperature");
    REFUSE(top_p, 1.5f, "top-p");
    REFUSE(top_p, NAN, "top-p");
    REFUSE(min_p, -0.1f, "min-p");
    REFUSE(repeat_penalty, 0, "penalty");
    REFUSE(repeat_penalty, INFINITY, "penalty");
    REFUSE(repeat_last, UINT32_MAX, "4294967295");
    REFUSE(frequency_penalty, NAN, "frequency");
    REFUSE(typical_p, 2, "typical-p");
    REFUSE(dry_multiplier, -1, "DRY multiplier");
    REFUSE(xtc_probability, 1.1f, "XTC");
    REFUSE(mirostat, 3, "mirostat");
    REFUSE(dry_last, 1u << 30, "DRY penalty");
    const clv_logit_bias bad[] = {{10, 1}, {1, NAN}};
    for (int i = 0; i < 2; i++) {
        p = clv_sampler_defaults();
        p.bias = &bad[i];
        p.n_bias = 1;
        refuse(p, 10, "logit bias");
    }
    refuse(clv_sampler_defaults(), 0, "vocabulary");
    clv_sampler_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_reference),
        cmocka_unit_test(test_others_against_reference),
        cmocka_unit_test(test_chain),
        cmocka_unit_test(test_dry_breakers),
        cmocka_unit_test(test_mirostat),
        cmocka_unit_test(test_mirostat_truncates),
        cmocka_unit_test(test_reset),
        cmocka_unit_test(test_greedy),
        cmocka_unit_test(test_history_window),
        cmocka_unit_test(test_nothing_finite),
        cmocka_unit_test(test_same_seed),
        cmocka_unit_test(test_extremes),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
