#include "sampler.h"

#include "../base/str.h"
#include "../base/random.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

#define MAX_REPEAT_LAST (1u << 20)

/* A token that may be drawn. Better: more likely, the lower id of equals. */
typedef struct candidate {
    float logit;
    int32_t id;
} candidate;

struct clv_sampler {
    clv_sampler_params params;
    uint32_t n_vocab;
    llm_random rng;
    candidate *candidates; /* [n_vocab] */
    float *weights;        /* [n_vocab], of the candidates */
    /* History, only with a repetition penalty: the last tokens in a ring, and
     * how often each token is in it. */
    int32_t *ring; /* [repeat_last] */
    uint32_t ring_at, ring_used;
    uint32_t *counts; /* [n_vocab] */
};

clv_sampler_params clv_sampler_defaults(void)
{
    return (clv_sampler_params){
        .temperature = 0.8f,
        .top_k = 40,
        .top_p = 0.95f,
        .min_p = 0.05f,
        .repeat_penalty = 1.0f,
        .repeat_last = 64,
    };
}

/* ------------------------------------------------------------------------ */
/* Heap of candidates                                                       */

static bool better(candidate a, candidate b)
{
    return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
}

/* Moves heap[i] down until its children stand in order. best_first: the best
 * is on top, else the worst. */
static void sift_down(candidate *heap, uint32_t n, uint32_t i, bool best_first)
{
    const candidate moved = heap[i];
    for (;;) {
        uint64_t child = 2 * (uint64_t)i + 1;
        if (child >= n)
            break;
        if (child + 1 < n && better(heap[child + 1], heap[child]) == best_first)
            child++;
        if (better(heap[child], moved) != best_first)
            break;
        heap[i] = heap[child];
        i = (uint32_t)child;
    }
    heap[i] = moved;
}

static void make_heap(candidate *heap, uint32_t n, bool best_first)
{
    for (uint32_t i = n / 2; i-- > 0;)
        sift_down(heap, n, i, best_first);
}

/* ------------------------------------------------------------------------ */
/* Steps                                                                    */

static float penalised(const clv_sampler *s, const float *logits, uint32_t id)
{
    const float x = logits[id];
    if (!s->counts || !s->counts[id])
        return x;
    const float p = s->params.repeat_penalty;
    const float y = x > 0 ? x / p : x * p;
    /* A finite logit stays one, so that it stays a candidate. */
    return isfinite(x) ? fmaxf(-FLT_MAX, fminf(FLT_MAX, y)) : x;
}

static bool greedy(const clv_sampler *s, const float *logits, int32_t *id)
{
    candidate best = {.id = -1};
    for (uint32_t i = 0; i < s->n_vocab; i++) {
        const candidate c = {penalised(s, logits, i), (int32_t)i};
        if (isfinite(c.logit) && (best.id < 0 || c.logit > best.logit))
            best = c;
    }
    if (best.id < 0)
        return false;
    *id = best.id;
    return true;
}

/* The top_k best finite logits, in no order; returns their number. */
static uint32_t gather(clv_sampler *s, const float *logits)
{
    candidate *heap = s->candidates;
    const uint32_t k = s->params.top_k ? s->params.top_k : s->n_vocab;
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->n_vocab; i++) {
        const candidate c = {penalised(s, logits, i), (int32_t)i};
        if (!isfinite(c.logit))
            continue;
        if (n < k) {
            heap[n++] = c;
            if (n == k)
                make_heap(heap, n, false);
        } else if (better(c, heap[0])) {
            heap[0] = c;
            sift_down(heap, n, 0, false);
        }
    }
    return n;
}

static float highest(const candidate *c, uint32_t n)
{
    float max = c[0].logit;
    for (uint32_t i = 1; i < n; i++)
        max = fmaxf(max, c[i].logit);
    return max;
}

/* Keeps the fewest best candidates whose probabilities reach top_p. They are
 * taken from a heap one by one and gather at the end of the array, best last,
 * from where they move to the front. */
static uint32_t keep_top_p(clv_sampler *s, uint32_t n)
{
    candidate *c = s->candidates;
    const float max = highest(c, n);
    double total = 0, sum = 0;
    for (uint32_t i = 0; i < n; i++)
        total += exp((double)c[i].logit - max);
    const double wanted = s->params.top_p * total;

    make_heap(c, n, true);
    uint32_t left = n;
    do {
        const candidate best = c[0];
        c[0] = c[--left];
        c[left] = best;
        sift_down(c, left, 0, true);
        sum += exp((double)best.logit - max);
    } while (left && sum < wanted);

    for (uint32_t i = left; i < n; i++)
        c[i - left] = c[i];
    return n - left;
}

/* Keeps those at least min_p times as likely as the best. */
static uint32_t keep_min_p(clv_sampler *s, uint32_t n)
{
    candidate *c = s->candidates;
    const float max = highest(c, n);
    const double least = log((double)s->params.min_p);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < n; i++)
        if ((double)c[i].logit - max >= least)
            c[kept++] = c[i];
    return kept;
}

static int32_t draw(clv_sampler *s, uint32_t n)
{
    const candidate *c = s->candidates;
    const float max = highest(c, n);
    double total = 0;
    for (uint32_t i = 0; i < n; i++) {
        s->weights[i] =
            (float)exp(((double)c[i].logit - max) / s->params.temperature);
        total += s->weights[i];
    }
    double at = llm_random_uniform(&s->rng) * total;
    uint32_t chosen = n;
    for (uint32_t i = 0; i < n; i++) {
        if (s->weights[i] <= 0)
            continue;
        chosen = i; /* rounding may leave `at` past the last one */
        at -= s->weights[i];
        if (at < 0)
            break;
    }
    return c[chosen].id;
}

clv_status clv_sampler_sample(clv_sampler *sampler, const float *logits,
                              int32_t *id)
{
    clv_sampler *s = sampler;
    if (!s || !logits || !id)
        return clv_error(CLV_ERR_INVALID,
                         "clv_sampler_sample: sampler, logits or id is NULL");
    bool found;
    if (s->params.temperature <= 0) {
        found = greedy(s, logits, id);
    } else {
        uint32_t n = gather(s, logits);
        found = n > 0;
        if (n > 1 && s->params.top_p < 1)
            n = keep_top_p(s, n);
        if (n > 1 && s->params.min_p > 0)
            n = keep_min_p(s, n);
        if (found)
            *id = draw(s, n);
    }
    if (!found)
        return clv_error(CLV_ERR_INVALID,
                         "none of %u logits is finite; the model's weights are "
                         "damaged or too large for their type",
                         s->n_vocab);
    return CLV_OK;
}

void clv_sampler_accept(clv_sampler *sampler, int32_t id)
{
    clv_sampler *s = sampler;
    if (!s || !s->ring || id < 0 || (uint32_t)id >= s->n_vocab)
        return;
    const uint32_t size = s->params.repeat_last;
    if (s->ring_used == size)
        s->counts[s->ring[s->ring_at]]--;
    else
        s->ring_used++;
    s->ring[s->ring_at] = id;
    s->ring_at = (s->ring_at + 1) % size;
    s->counts[id]++;
}

clv_status llm_sampler_check(const clv_sampler *sampler, uint32_t n_vocab)
{
    if (sampler->n_vocab == n_vocab)
        return CLV_OK;
    return clv_error(CLV_ERR_INVALID,
                     "the sampler is for %u tokens, the model has %u",
                     sampler->n_vocab, n_vocab);
}

/* ------------------------------------------------------------------------ */
/* Creation                                                                 */

static clv_status check_params(const clv_sampler_params *p, uint32_t n_vocab)
{
    if (!n_vocab || n_vocab > INT32_MAX)
        return clv_error(CLV_ERR_INVALID,
                         "sampler for a vocabulary of %u; it must be 1..%d",
                         n_vocab, INT32_MAX);
    if (!isfinite(p->temperature))
        return clv_error(CLV_ERR_INVALID,
                         "temperature is %g; it must be a finite number, 0 for "
                         "the most likely token",
                         p->temperature);
    if (!(p->top_p >= 0 && p->top_p <= 1))
        return clv_error(CLV_ERR_INVALID, "top-p is %g; it must be in 0..1",
                         p->top_p);
    if (!(p->min_p >= 0 && p->min_p <= 1))
        return clv_error(CLV_ERR_INVALID, "min-p is %g; it must be in 0..1",
                         p->min_p);
    if (!isfinite(p->repeat_penalty) || p->repeat_penalty <= 0)
        return clv_error(CLV_ERR_INVALID,
                         "repetition penalty is %g; it must be above 0, 1 for "
                         "none",
                         p->repeat_penalty);
    if (p->repeat_last > MAX_REPEAT_LAST)
        return clv_error(CLV_ERR_LIMIT,
                         "repetition penalty over the last %u tokens; at most "
                         "%u",
                         p->repeat_last, MAX_REPEAT_LAST);
    return CLV_OK;
}

clv_status clv_sampler_create(const clv_sampler_params *params,
                              uint32_t n_vocab, clv_sampler **out)
{
    if (!out)
        return clv_error(CLV_ERR_INVALID, "clv_sampler_create: out is NULL");
    *out = NULL;
    const clv_sampler_params p = params ? *params : clv_sampler_defaults();
    CLV_TRY(check_params(&p, n_vocab));

    clv_sampler *s = calloc(1, sizeof *s);
    if (!s)
        goto no_memory;
    s->params = p;
    s->n_vocab = n_vocab;
    llm_random_seed(&s->rng, p.seed);
    if (p.temperature > 0) {
        s->candidates = calloc(n_vocab, sizeof *s->candidates);
        s->weights = calloc(n_vocab, sizeof *s->weights);
        if (!s->candidates || !s->weights)
            goto no_memory;
    }
    if (p.repeat_penalty != 1 && p.repeat_last) {
        s->ring = calloc(p.repeat_last, sizeof *s->ring);
        s->counts = calloc(n_vocab, sizeof *s->counts);
        if (!s->ring || !s->counts)
            goto no_memory;
    }
    *out = s;
    return CLV_OK;

no_memory:
    clv_sampler_destroy(s);
    return llm_no_memory("a sampler");
}

void clv_sampler_destroy(clv_sampler *sampler)
{
    if (!sampler)
        return;
    free(sampler->candidates);
    free(sampler->weights);
    free(sampler->ring);
    free(sampler->counts);
    free(sampler);
}
