/* The sampler against a naive one that sorts everything, and the statistics of
 * its draws. */
#include "check.h"
#include "base/random.h"

#include <cleave/llm.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MAX_VOCAB 512

typedef struct choice {
    double logit, p; /* p: probability of being drawn */
    int32_t id;
} choice;

static int by_logit(const void *a, const void *b)
{
    const choice *x = a, *y = b;
    if (x->logit != y->logit)
        return x->logit < y->logit ? 1 : -1;
    return x->id < y->id ? -1 : 1;
}

static void softmax(choice *c, uint32_t n, double temperature)
{
    double sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += c[i].p = exp((c[i].logit - c[0].logit) / temperature);
    for (uint32_t i = 0; i < n; i++)
        c[i].p /= sum;
}

/* Probability of every token by the definition in llm.h; returns the number of
 * tokens that can be drawn. */
static uint32_t reference(const clv_sampler_params *p, const float *logits,
                          uint32_t n_vocab, const int32_t *history,
                          uint32_t n_history, double *probability)
{
    choice c[MAX_VOCAB];
    uint32_t n = 0;
    for (uint32_t i = 0; i < n_vocab; i++) {
        double x = logits[i];
        probability[i] = 0;
        if (!isfinite(x))
            continue;
        bool seen = false;
        for (uint32_t j = 0; j < p->repeat_last && j < n_history; j++)
            seen |= history[n_history - 1 - j] == (int32_t)i;
        if (seen)
            x = x > 0 ? (float)x / p->repeat_penalty
                      : (float)x * p->repeat_penalty;
        c[n++] = (choice){(float)x, 0, (int32_t)i};
    }
    qsort(c, n, sizeof *c, by_logit);
    if (p->top_k && p->top_k < n)
        n = p->top_k;
    softmax(c, n, 1);
    if (p->top_p < 1) {
        double sum = 0;
        uint32_t kept = 0;
        do
            sum += c[kept++].p;
        while (kept < n && sum < p->top_p);
        n = kept;
    }
    while (c[n - 1].p < p->min_p * c[0].p)
        n--;
    softmax(c, n, p->temperature);
    for (uint32_t i = 0; i < n; i++)
        probability[c[i].id] = c[i].p;
    return n;
}

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
    const uint32_t n =
        reference(p, logits, n_vocab, history, n_history, probability);
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
    refuse(clv_sampler_defaults(), 0, "vocabulary");
    clv_sampler_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_reference),
        cmocka_unit_test(test_greedy),
        cmocka_unit_test(test_history_window),
        cmocka_unit_test(test_nothing_finite),
        cmocka_unit_test(test_same_seed),
        cmocka_unit_test(test_extremes),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
