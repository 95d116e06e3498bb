#include "filters.h"

#include <math.h>
#include <stddef.h>

static void keep_from(llm_candidates *c, double least)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < c->n; i++)
        if (c->items[i].logit >= least)
            c->items[kept++] = c->items[i];
    c->n = kept;
}

void llm_filter_top_n_sigma(llm_candidates *c, float n_sigma)
{
    double sum = 0, squares = 0;
    if (n_sigma <= 0 || c->n < 2)
        return;
    for (uint32_t i = 0; i < c->n; i++)
        sum += c->items[i].logit;
    const double mean = sum / c->n;
    for (uint32_t i = 0; i < c->n; i++)
        squares += (c->items[i].logit - mean) * (c->items[i].logit - mean);
    keep_from(c, llm_candidates_max(c) - n_sigma * sqrt(squares / c->n));
}

void llm_filter_top_k(llm_candidates *c, uint32_t k)
{
    if (k)
        llm_candidates_keep(c, k);
}

void llm_filter_typical(llm_candidates *c, float p)
{
    if (p <= 0 || p >= 1 || c->n < 2)
        return;
    const float max = llm_candidates_max(c);
    const double log_total = log(llm_candidates_total(c, max));
    const double entropy = llm_candidates_entropy(c);
    for (uint32_t i = 0; i < c->n; i++) {
        const double information = log_total - (c->items[i].logit - max);
        c->items[i].key = (float)-fabs(information - entropy);
    }
    llm_candidates_reach(c, p);
}

void llm_filter_top_p(llm_candidates *c, float p)
{
    if (p >= 1 || c->n < 2)
        return;
    for (uint32_t i = 0; i < c->n; i++)
        c->items[i].key = c->items[i].logit;
    llm_candidates_reach(c, p);
}

void llm_filter_min_p(llm_candidates *c, float p)
{
    if (p > 0 && c->n > 1)
        keep_from(c, llm_candidates_max(c) + log((double)p));
}

/* Drops those whose probability is at least the threshold, but the least likely
 * of them. */
void llm_filter_xtc(llm_candidates *c, float probability, float threshold,
                    llm_random *rng)
{
    if (probability <= 0 || threshold > 0.5f || c->n < 2 ||
        llm_random_uniform(rng) >= probability)
        return;
    const float max = llm_candidates_max(c);
    const double least = max + log(threshold * llm_candidates_total(c, max));
    const llm_candidate *stays = NULL;
    for (uint32_t i = 0; i < c->n; i++) {
        const llm_candidate *x = &c->items[i];
        if (x->logit >= least &&
            (!stays || x->logit < stays->logit ||
             (x->logit == stays->logit && x->id > stays->id)))
            stays = x;
    }
    if (!stays)
        return;
    const llm_candidate kept = *stays;
    uint32_t n = 0;
    for (uint32_t i = 0; i < c->n; i++)
        if (c->items[i].logit < least || c->items[i].id == kept.id)
            c->items[n++] = c->items[i];
    c->n = n;
}
