/*
 * Rows of x as the matrix products of quantised weights read them. A row that
 * holds an infinity or a NaN gets a NaN scale there, and so gives NaN.
 *
 * q16 (for Q8_0): int16 q[k16], float d[k16 / 128], where k16 is k rounded up
 * to 128 and the values added are zero. |q| <= 4095. Four times the range of
 * the group's scale costs nothing: the products are of 16-bit values anyway,
 * and 128 of them, with weights of 12 bits and sign, just fit 32 bits.
 *
 * q8 (for the others, and for all with VNNI): int8 q[k], float d[k / 32], and
 * the sums of q over 32 and over 16 elements, float s[k / 32], h[k / 16].
 * |q| <= 127.
 *
 * q8 pairs (for I4): the same, each block's even elements in front of its odd
 * ones, as the low and high nibbles of the weight's bytes have them.
 *
 * bf16 (for tiles): 16 rows together, for each two elements of k those of one
 * row after the other: uint16_t v[k / 2][16][2]. Rows of a pair form have their
 * elements in the order of q8 pairs.
 */
#pragma once

#include "vec.h"
#include "../kernels.h"

#define Q16_GROUP 128
#define Q16_MAX 4095

static inline int64_t q16_length(int64_t k)
{
    return (k + Q16_GROUP - 1) / Q16_GROUP * Q16_GROUP;
}

static inline const float *q16_scales(const void *row, int64_t k)
{
    return (const float *)((const int16_t *)row + q16_length(k));
}

static inline const float *q8_scales(const void *row, int64_t k)
{
    return (const float *)((const int8_t *)row + k);
}

/* Sums of q over groups of CPU_BLOCK or of half of it. */
static inline const float *q8_sums(const void *row, int64_t k, int group)
{
    return q8_scales(row, k) + (group == CPU_BLOCK ? 1 : 2) * (k / CPU_BLOCK);
}

size_t ISA(cpu_x86_q16_size)(int64_t k);
void ISA(cpu_x86_q16_rows)(const cpu_prepare_args *args);
size_t ISA(cpu_x86_q8_size)(int64_t k);
void ISA(cpu_x86_q8_rows)(const cpu_prepare_args *args);
void ISA(cpu_x86_q8_pair_rows)(const cpu_prepare_args *args);
size_t ISA(cpu_x86_bf16_size)(int64_t k);
void ISA(cpu_x86_bf16_rows)(const cpu_prepare_args *args);
void ISA(cpu_x86_bf16_pair_rows)(const cpu_prepare_args *args);
