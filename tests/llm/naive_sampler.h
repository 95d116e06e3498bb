/* The default chain of samplers by its definition: everything is sorted, and in
 * doubles. Vocabularies of up to NAIVE_VOCAB. */
#pragma once

#include <cleave/llm.h>

#define NAIVE_VOCAB 512

/* The probability of every token; returns how many can be drawn. Without
 * breakers of DRY. */
uint32_t naive_probabilities(const clv_sampler_params *p, const float *logits,
                             uint32_t n_vocab, const int32_t *history,
                             uint32_t n_history, double *probability);
