#include "naive_sampler.h"

#include <math.h>
#include <stdlib.h>

typedef struct choice {
    double logit, p, key;
    int32_t id;
} choice;

typedef struct chain {
    choice c[NAIVE_VOCAB];
    uint32_t n;
} chain;

static int by_key(const void *a, const void *b)
{
    const choice *x = a, *y = b;
    if (x->key != y->key)
        return x->key < y->key ? 1 : -1;
    return x->id < y->id ? -1 : 1;
}

static void sort_by_logit(chain *s)
{
    for (uint32_t i = 0; i < s->n; i++)
        s->c[i].key = s->c[i].logit;
    qsort(s->c, s->n, sizeof *s->c, by_key);
}

static void softmax(chain *s)
{
    double sum = 0, max = -INFINITY;
    for (uint32_t i = 0; i < s->n; i++)
        max = fmax(max, s->c[i].logit);
    for (uint32_t i = 0; i < s->n; i++)
        sum += s->c[i].p = exp(s->c[i].logit - max);
    for (uint32_t i = 0; i < s->n; i++)
        s->c[i].p /= sum;
}

static double entropy(const chain *s)
{
    double sum = 0;
    for (uint32_t i = 0; i < s->n; i++)
        sum -= s->c[i].p > 0 ? s->c[i].p * log(s->c[i].p) : 0;
    return sum;
}

/* The first ones whose probabilities reach p. */
static void keep_until(chain *s, double p)
{
    double sum = 0;
    uint32_t kept = 0;
    do
        sum += s->c[kept++].p;
    while (kept < s->n && sum < p);
    s->n = kept;
}

static void penalise(chain *s, const clv_sampler_params *p,
                     const int32_t *history, uint32_t n)
{
    for (uint32_t i = 0; i < s->n; i++) {
        uint32_t count = 0;
        for (uint32_t j = 0; j < p->repeat_last && j < n; j++)
            count += history[n - 1 - j] == s->c[i].id;
        double *x = &s->c[i].logit;
        if (!count)
            continue;
        *x = *x > 0 ? (float)*x / p->repeat_penalty
                    : (float)*x * p->repeat_penalty;
        *x = (float)*x -
             (float)(count * p->frequency_penalty + p->presence_penalty);
    }
}

/* For each earlier place, how much of the end of the history ends there. */
static void dry(chain *s, const clv_sampler_params *p, const int32_t *history,
                uint32_t n)
{
    const uint32_t from = n > p->dry_last ? n - p->dry_last : 0;
    if (p->dry_multiplier <= 0)
        return;
    for (uint32_t i = 0; i < s->n; i++) {
        uint32_t longest = 0;
        for (uint32_t at = from + 1; at < n; at++) {
            uint32_t length = 0;
            if (history[at] != s->c[i].id)
                continue;
            while (at >= from + 1 + length &&
                   history[at - 1 - length] == history[n - 1 - length])
                length++;
            longest = length > longest ? length : longest;
        }
        if (longest >= p->dry_allowed_length && longest)
            s->c[i].logit =
                (float)(s->c[i].logit -
                        p->dry_multiplier *
                            pow(p->dry_base, longest - p->dry_allowed_length));
    }
}

static void top_n_sigma(chain *s, double n)
{
    double mean = 0, squares = 0;
    for (uint32_t i = 0; i < s->n; i++)
        mean += s->c[i].logit / s->n;
    for (uint32_t i = 0; i < s->n; i++)
        squares += pow(s->c[i].logit - mean, 2) / s->n;
    sort_by_logit(s);
    while (n > 0 && s->c[s->n - 1].logit < s->c[0].logit - n * sqrt(squares))
        s->n--;
}

static void typical(chain *s, double p)
{
    if (p <= 0 || p >= 1)
        return;
    softmax(s);
    const double h = entropy(s);
    for (uint32_t i = 0; i < s->n; i++)
        s->c[i].key = (float)-fabs(-log(s->c[i].p) - h);
    qsort(s->c, s->n, sizeof *s->c, by_key);
    keep_until(s, p);
}

static void xtc(chain *s, double threshold)
{
    uint32_t likely = 0;
    sort_by_logit(s);
    softmax(s);
    while (likely < s->n && s->c[likely].p >= threshold)
        likely++;
    if (likely < 2 || threshold > 0.5)
        return;
    for (uint32_t i = likely - 1; i < s->n; i++)
        s->c[i - (likely - 1)] = s->c[i];
    s->n -= likely - 1;
}

static void temperature(chain *s, const clv_sampler_params *p)
{
    double t = p->temperature;
    softmax(s);
    if (p->dynatemp_range > 0 && s->n > 1) {
        const double low = fmax(0, t - p->dynatemp_range);
        const double high = t + p->dynatemp_range;
        t = low +
            (high - low) * pow(entropy(s) / log(s->n), p->dynatemp_exponent);
    }
    for (uint32_t i = 0; i < s->n; i++)
        s->c[i].logit /= t;
    softmax(s);
}

static chain run(const clv_sampler_params *p, const float *logits,
                 uint32_t n_vocab, const int32_t *history, uint32_t n_history,
                 bool exclude)
{
    chain s = {.n = 0};
    for (uint32_t i = 0; i < n_vocab; i++) {
        float x = logits[i];
        for (uint32_t j = 0; j < p->n_bias; j++)
            x += p->bias[j].id == (int32_t)i ? p->bias[j].bias : 0;
        if (isfinite(x))
            s.c[s.n++] = (choice){.logit = x, .id = (int32_t)i};
    }
    penalise(&s, p, history, n_history);
    dry(&s, p, history, n_history);
    top_n_sigma(&s, p->top_n_sigma);
    sort_by_logit(&s);
    if (p->top_k && p->top_k < s.n)
        s.n = p->top_k;
    typical(&s, p->typical_p);
    sort_by_logit(&s);
    softmax(&s);
    if (p->top_p < 1)
        keep_until(&s, p->top_p);
    while (s.c[s.n - 1].p < p->min_p * s.c[0].p)
        s.n--;
    if (exclude)
        xtc(&s, p->xtc_threshold);
    temperature(&s, p);
    return s;
}

uint32_t naive_probabilities(const clv_sampler_params *p, const float *logits,
                             uint32_t n_vocab, const int32_t *history,
                             uint32_t n_history, double *probability)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < n_vocab; i++)
        probability[i] = 0;
    for (int exclude = 0; exclude < 2; exclude++) {
        const double part =
            exclude ? p->xtc_probability : 1 - p->xtc_probability;
        const chain s =
            run(p, logits, n_vocab, history, n_history, exclude != 0);
        for (uint32_t i = 0; i < s.n; i++)
            probability[s.c[i].id] += part * s.c[i].p;
    }
    for (uint32_t i = 0; i < n_vocab; i++)
        n += probability[i] > 0;
    return n;
}
