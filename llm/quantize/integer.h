/* Integers with a scale for a row of numbers or a group of them. */
#pragma once

#include <stdint.h>

/* The scale of least squared error for n numbers as integers of dtype I8 or I4.
 */
float llm_integer_scale(uint32_t dtype, const float *x, uint64_t n);
/* The scale by which the largest magnitude is the largest integer. */
float llm_integer_reach(uint32_t dtype, float largest);
/* Rounds n numbers, from number `at` of dst on. */
void llm_integer_round(uint32_t dtype, const float *x, uint64_t n, float scale,
                       uint8_t *dst, uint64_t at);
