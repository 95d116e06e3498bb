/* Samplers that leave out tokens. Each leaves at least one. */
#pragma once

#include "candidates.h"

#include "../base/random.h"

void llm_filter_top_n_sigma(llm_candidates *c, float n_sigma); /* <= 0: off */
void llm_filter_top_k(llm_candidates *c, uint32_t k);          /* 0: off */
void llm_filter_typical(llm_candidates *c, float p);           /* 0, 1: off */
void llm_filter_top_p(llm_candidates *c, float p);             /* 1: off */
void llm_filter_min_p(llm_candidates *c, float p);             /* 0: off */
/* probability 0: off */
void llm_filter_xtc(llm_candidates *c, float probability, float threshold,
                    llm_random *rng);
