/* Repetition, frequency and presence penalties. */
#pragma once

#include "candidates.h"
#include "history.h"

typedef struct llm_penalties {
    float repeat, frequency, presence;
    uint32_t last;
    uint32_t *counts; /* [n_vocab], in the last tokens; NULL: no penalty */
} llm_penalties;

clv_status llm_penalties_init(llm_penalties *p,
                              const clv_sampler_params *params,
                              uint32_t n_vocab);
void llm_penalties_finish(llm_penalties *p);
/* The history is what it was before id. */
void llm_penalties_add(llm_penalties *p, const llm_history *h, int32_t id);
void llm_penalties_clear(llm_penalties *p, uint32_t n_vocab);
void llm_penalties_apply(const llm_penalties *p, llm_candidates *c);
