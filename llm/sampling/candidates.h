/* Tokens that may be drawn, in no order. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

typedef struct llm_candidate {
    float logit; /* finite */
    float key;   /* by which a heap is ordered */
    int32_t id;
} llm_candidate;

typedef struct llm_candidates {
    llm_candidate *items;
    uint32_t n;
} llm_candidates;

float llm_candidates_max(const llm_candidates *c);
/* The most likely one, the lower id of equals; n > 0. */
llm_candidate llm_candidates_best(const llm_candidates *c);
/* Keeps the k most likely ones, lower ids of equals. */
void llm_candidates_keep(llm_candidates *c, uint32_t k);
/* Keeps the fewest with the highest keys whose probabilities reach p, the
 * highest key last. */
void llm_candidates_reach(llm_candidates *c, double p);
/* Moves the n with the highest keys to the end, the highest last. */
void llm_candidates_order(llm_candidates *c, uint32_t n);
/* The sum of exp(logit - max), by which a probability is divided. */
double llm_candidates_total(const llm_candidates *c, float max);
/* -sum p log p, in nats. */
double llm_candidates_entropy(const llm_candidates *c);
