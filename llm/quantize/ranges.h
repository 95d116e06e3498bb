/*
 * What calibration found out about the factors of each weight: ranges, outside
 * which values are cut off or are outliers, the outliers, and perhaps divisors
 * of the columns. What makes a column divides it, and the weight has its column
 * times as much, so the model computes the same from values that fit one range
 * better.
 */
#pragma once

#include "../base/str.h"
#include "spread.h"

#include <cleave/llm.h>

typedef struct llm_input_range {
    llm_clamp clamp;
    uint32_t layer; /* number of what is multiplied: q, k and v have the same */
    uint64_t columns;
    const float *divisors; /* [columns], or NULL */
    llm_str maker;         /* of the columns: "blk.0.ffn_up"; "": none */
    const uint32_t *over;  /* [columns] how often a value was an outlier */
    uint32_t bound;        /* outliers of a row; 0: there are none */
} llm_input_range;

clv_status llm_ranges_create(clv_ranges **out);
/* Copies a range; of several of one weight the widest stays. */
clv_status llm_ranges_add(clv_ranges *ranges, llm_str weight,
                          const llm_input_range *range);
/* NULL for a weight that was not seen. */
const llm_input_range *llm_ranges_find(const clv_ranges *ranges,
                                       llm_str weight);
/* The divisors of what tensor `maker`, a weight or bias, makes; NULL: none, or
 * not n of them. */
const float *llm_ranges_made_by(const clv_ranges *ranges, llm_str maker,
                                uint64_t n);
/* Whether a range has outliers and its layer is not among that part of all
 * layers to which they matter least. */
bool llm_ranges_keep(const clv_ranges *ranges, const llm_input_range *range,
                     float prune);
/* The channels that most often are outliers, the first most often: at most one
 * in 32, where most outliers of models are. channels: [columns]. Returns how
 * many. */
uint64_t llm_input_hot(const llm_input_range *range, int32_t *channels);
