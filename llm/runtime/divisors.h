/*
 * Columns of activations that are larger than the others can be divided by what
 * makes them, if the weights that read them are multiplied: the model computes
 * the same from values that fit one range better.
 */
#pragma once

#include "model.h"

/* What makes the columns that a weight reads, if it can divide them: a norm
 * that only such weights read, or a matrix. NULL: nothing. */
const llm_linear *llm_maker_of(const clv_model *model, const llm_weight *w);

/* From the largest magnitudes of n columns to their divisors. effects: the sums
 * of the squares of each column's weights. */
clv_status llm_choose_divisors(float *columns, const float *effects,
                               uint64_t n);
