/*
 * Quantised weights as kernels read them, compiled for each dtype: blocks of 32
 * with an f16 scale in front (Q8_0, Q4_0), or plain integers whose scales lie
 * beside them (I8, I4).
 */
#pragma once

#include "vec.h"
#include "../kernels.h"

static ALWAYS_INLINE int is_scaled(const int dtype)
{
    return dtype == CLV_DTYPE_I8 || dtype == CLV_DTYPE_I4;
}

/* Bytes of 32 elements, and of what lies in front of them. */
static ALWAYS_INLINE int64_t block_size(const int dtype)
{
    switch (dtype) {
    case CLV_DTYPE_Q8_0:
        return sizeof(cpu_block_q8_0);
    case CLV_DTYPE_Q4_0:
        return sizeof(cpu_block_q4_0);
    case CLV_DTYPE_I8:
        return CPU_QK;
    }
    return CPU_QK / 2;
}

static ALWAYS_INLINE int block_head(const int dtype)
{
    return is_scaled(dtype) ? 0 : 2;
}

/* The scale of the block at element k of row o. */
static ALWAYS_INLINE float block_scale(const cpu_matmul_args *a, int64_t o,
                                       int64_t k, const uint8_t *block,
                                       const int dtype)
{
    return is_scaled(dtype) ? cpu_scale(a, o, k) : load_f16(block);
}

/* Two's complement nibbles as Q4_0 has them: with an offset of 8. */
static ALWAYS_INLINE __m128i nibbles(const uint8_t *block, const int dtype)
{
    __m128i v = _mm_loadu_si128((const __m128i *)(block + block_head(dtype)));
    return dtype == CLV_DTYPE_I4 ? _mm_xor_si128(v, _mm_set1_epi8(-120)) : v;
}
