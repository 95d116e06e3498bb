/* Temperature, and draws from what is left. */
#pragma once

#include "candidates.h"

#include "../base/random.h"

/* range > 0: between temperature - range and temperature + range, by the
 * entropy's part of the highest possible to the power of exponent. */
void llm_temperature(llm_candidates *c, float temperature, float range,
                     float exponent);
/* The index of a candidate, by their probabilities, which become the keys. */
uint32_t llm_draw(llm_candidates *c, llm_random *rng);

typedef struct llm_mirostat {
    uint32_t version; /* 1 or 2; 0: off */
    float tau, eta, mu;
} llm_mirostat;

/* Draws and learns from the surprise of the choice. n_vocab: of the model. */
int32_t llm_mirostat_draw(llm_mirostat *m, llm_candidates *c, uint32_t n_vocab,
                          llm_random *rng);
