#include "draw.h"

#include <float.h>
#include <math.h>

#define MIROSTAT_M 100 /* most likely tokens that tell the Zipf exponent */

static void divide(llm_candidates *c, double temperature)
{
    const float max = llm_candidates_max(c);
    /* Logits keep their places where they can: penalties may come later. */
    const double shift = fabs(max / temperature) > FLT_MAX ? max : 0;
    for (uint32_t i = 0; i < c->n; i++) {
        const double x = (c->items[i].logit - shift) / temperature;
        c->items[i].logit = (float)fmax(-FLT_MAX, fmin(FLT_MAX, x));
    }
}

void llm_temperature(llm_candidates *c, float temperature, float range,
                     float exponent)
{
    double t = temperature;
    if (range > 0 && c->n > 1) {
        const double low = fmax(0, t - range), high = t + range;
        const double part = llm_candidates_entropy(c) / log(c->n);
        t = low + (high - low) * pow(fmin(fmax(part, 0), 1), exponent);
    }
    if (t > 0) {
        divide(c, t);
    } else {
        c->items[0] = llm_candidates_best(c);
        c->n = 1;
    }
}

uint32_t llm_draw(llm_candidates *c, llm_random *rng)
{
    const float max = llm_candidates_max(c);
    double total = 0;
    for (uint32_t i = 0; i < c->n; i++) {
        c->items[i].key = (float)exp((double)c->items[i].logit - max);
        total += c->items[i].key;
    }
    double at = llm_random_uniform(rng) * total;
    uint32_t chosen = 0;
    for (uint32_t i = 0; i < c->n; i++) {
        if (c->items[i].key <= 0)
            continue;
        chosen = i; /* rounding may leave `at` past the last one */
        at -= c->items[i].key;
        if (at < 0)
            break;
    }
    for (uint32_t i = 0; i < c->n; i++)
        c->items[i].key = (float)(c->items[i].key / total);
    return chosen;
}

/* How many to keep for a surprise of mu, by Zipf's law with the exponent that
 * the most likely tokens suggest. */
static uint32_t zipf_k(const llm_mirostat *m, llm_candidates *c,
                       uint32_t n_vocab)
{
    for (uint32_t i = 0; i < c->n; i++)
        c->items[i].key = c->items[i].logit;
    llm_candidates_order(c, MIROSTAT_M);
    double ti_bi = 0, ti_ti = 0;
    for (uint32_t i = 0; i + 1 < MIROSTAT_M && i + 1 < c->n; i++) {
        const double t = log((double)(i + 2) / (i + 1));
        const llm_candidate *best = &c->items[c->n - 1 - i];
        ti_bi += t * ((double)best[0].logit - best[-1].logit);
        ti_ti += t * t;
    }
    const double s = ti_bi / ti_ti, epsilon = s - 1;
    const double k =
        pow(epsilon * pow(2, m->mu) / (1 - pow(n_vocab, -epsilon)), 1 / s);
    return k >= 1 ? k < c->n ? (uint32_t)k : c->n : 1;
}

int32_t llm_mirostat_draw(llm_mirostat *m, llm_candidates *c, uint32_t n_vocab,
                          llm_random *rng)
{
    if (c->n > 1 && m->version == 1) {
        llm_candidates_keep(c, zipf_k(m, c, n_vocab));
    } else if (c->n > 1) {
        /* Drops what would surprise by more than mu bits. */
        const float max = llm_candidates_max(c);
        const double least = max + log(llm_candidates_total(c, max)) -
                             m->mu * 0.69314718055994531;
        uint32_t kept = 0;
        const llm_candidate best = llm_candidates_best(c);
        for (uint32_t i = 0; i < c->n; i++)
            if (c->items[i].logit >= least)
                c->items[kept++] = c->items[i];
        if (!kept)
            c->items[kept++] = best;
        c->n = kept;
    }
    const uint32_t chosen = llm_draw(c, rng);
    const float surprise = -log2f(c->items[chosen].key);
    m->mu -= m->eta * (surprise - m->tau);
    return c->items[chosen].id;
}
