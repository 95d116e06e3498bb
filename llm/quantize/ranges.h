/*
 * What calibration found out about the factors of each weight: a range, outside
 * which values are cut off, and perhaps divisors of the columns. What makes a
 * column divides it, and the weight has its column times as much, so the model
 * computes the same from values that fit one range better.
 */
#pragma once

#include "../base/str.h"

#include <cleave/llm.h>

clv_status llm_ranges_create(clv_ranges **out);
/* Raises the range of a weight to at least this. divisors: [n], or NULL. */
clv_status llm_ranges_add(clv_ranges *ranges, llm_str weight, float largest,
                          const float *divisors, uint64_t n);
/* NULL where there are none, or not n of them. */
const float *llm_ranges_divisors(const clv_ranges *ranges, llm_str weight,
                                 uint64_t n);
/* 0 for a weight that was not seen. */
float llm_ranges_find(const clv_ranges *ranges, llm_str weight);
