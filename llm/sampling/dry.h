/*
 * DRY ("don't repeat yourself"): a token is made less likely if the history
 * ends with a sequence that was followed by that token before, and the more so
 * the longer the sequence is.
 */
#pragma once

#include "candidates.h"
#include "history.h"

#define LLM_DRY_BREAKERS 32
#define LLM_DRY_BREAKER_SIZE 40 /* bytes */

typedef struct llm_dry {
    float multiplier, base; /* multiplier 0: off */
    uint32_t allowed, last;
    const clv_tokenizer *tokenizer;
    char *breakers[LLM_DRY_BREAKERS];
    uint32_t n_breakers;
    char tail[LLM_DRY_BREAKER_SIZE]; /* the latest bytes of the text */
    uint32_t n_tail;
    uint64_t since;    /* tokens behind the latest breaker */
    uint32_t *matches; /* [last] */
    uint32_t *lengths; /* [n_vocab], zeros between calls */
} llm_dry;

clv_status llm_dry_init(llm_dry *d, const clv_sampler_params *params,
                        uint32_t n_vocab);
void llm_dry_finish(llm_dry *d);
void llm_dry_add(llm_dry *d, int32_t id);
void llm_dry_clear(llm_dry *d);
void llm_dry_apply(llm_dry *d, const llm_history *h, llm_candidates *c);
