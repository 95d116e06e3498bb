/*
 * A small pseudo-random generator (xoshiro256++). A seed gives the same numbers
 * on every machine. Not for secrets.
 */
#pragma once

#include <stdint.h>

typedef struct llm_random {
    uint64_t s[4];
} llm_random;

void llm_random_seed(llm_random *rng, uint64_t seed);
uint64_t llm_random_next(llm_random *rng);
double llm_random_uniform(llm_random *rng); /* 0 <= x < 1, 53 bits */
