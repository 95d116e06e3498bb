/*
 * How the values spread that weights are multiplied with, and the ranges that
 * rounding them to int8 should have. A value's error counts by what it does to
 * the products: by the squares of the weights of its column.
 */
#pragma once

#include <stdint.h>

enum {
    LLM_SPREAD_STEPS = 8,    /* ranges tried for each power of two */
    LLM_SPREAD_LOWEST = -24, /* powers of two that are told apart */
    LLM_SPREAD_BINS = 48 * LLM_SPREAD_STEPS,
};

typedef struct llm_spread {
    double effects[LLM_SPREAD_BINS]; /* of the values in each bin */
    uint64_t values[LLM_SPREAD_BINS];
    float largest;
} llm_spread;

/* effect: the sum of the squares of the weights that the value meets. */
void llm_spread_count(llm_spread *s, float value, double effect);

typedef struct llm_clamp {
    float largest;
    float alone; /* range where what lies outside is cut off */
    float range; /* range where it is added as an outlier */
    /* The part of the squared error without outliers that they take away; then
     * in nats a token, as importance.h measures it. */
    double importance;
} llm_clamp;

llm_clamp llm_spread_choose(const llm_spread *s);
