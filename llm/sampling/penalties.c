#include "penalties.h"

#include "../base/str.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

clv_status llm_penalties_init(llm_penalties *p,
                              const clv_sampler_params *params,
                              uint32_t n_vocab)
{
    *p = (llm_penalties){.repeat = params->repeat_penalty,
                         .frequency = params->frequency_penalty,
                         .presence = params->presence_penalty,
                         .last = params->repeat_last};
    if (!p->last || (p->repeat == 1 && p->frequency == 0 && p->presence == 0))
        return CLV_OK;
    p->counts = calloc(n_vocab, sizeof *p->counts);
    return p->counts ? CLV_OK : llm_no_memory("a sampler");
}

void llm_penalties_finish(llm_penalties *p)
{
    free(p->counts);
    *p = (llm_penalties){0};
}

void llm_penalties_add(llm_penalties *p, const llm_history *h, int32_t id)
{
    if (!p->counts)
        return;
    if (h->n >= p->last)
        p->counts[llm_history_back(h, p->last - 1)]--;
    p->counts[id]++;
}

void llm_penalties_clear(llm_penalties *p, uint32_t n_vocab)
{
    if (p->counts)
        memset(p->counts, 0, n_vocab * sizeof *p->counts);
}

void llm_penalties_apply(const llm_penalties *p, llm_candidates *c)
{
    for (uint32_t i = 0; p->counts && i < c->n; i++) {
        const uint32_t count = p->counts[c->items[i].id];
        if (!count)
            continue;
        float x = c->items[i].logit;
        x = x > 0 ? x / p->repeat : x * p->repeat;
        x -= (float)count * p->frequency + p->presence;
        /* A finite logit stays one, so that it stays a candidate. */
        c->items[i].logit = fmaxf(-FLT_MAX, fminf(FLT_MAX, x));
    }
}
