/*
 * How the kernels of a format of integers read its weights: CPU_BLOCK at a
 * time, with an f16 scale in front of them, or (I8, I4) with scales beside
 * them. The file of a format defines, before it includes a product,
 *
 *   DTYPE   its clv_dtype
 *   OFFSET  what is added to its integers to make them unsigned
 *   static __m256i block_bytes(const uint8_t *q);
 *           the integers at q plus OFFSET, as unsigned bytes in the order of x
 *
 * and gets matmul(), and PREPARE_SIZE and PREPARE_ROWS for its cpu_prepare.
 */
#pragma once

#include "matmul_gemm.h"
#include "prepare.h"
#include "tokens.h"
#include "x86.h"

static ALWAYS_INLINE int is_scaled(void)
{
    return DTYPE == CLV_DTYPE_I8 || DTYPE == CLV_DTYPE_I4;
}

/* Bytes of CPU_BLOCK elements, and of what lies in front of them. */
static ALWAYS_INLINE int64_t block_size(void)
{
    const clv_format *f = clv_format_of(DTYPE);
    return CPU_BLOCK / f->elements * f->bytes;
}

static ALWAYS_INLINE int block_head(void)
{
    return is_scaled() ? 0 : 2;
}

/* The scale of the block at element k of row o. */
static ALWAYS_INLINE float block_scale(const cpu_matmul_args *a, int64_t o,
                                       int64_t k, const uint8_t *block)
{
    return is_scaled() ? cpu_scale(a, o, k) : load_f16(block);
}

/* 32 nibbles: those of the low halves of 16 bytes in front of the others. */
static ALWAYS_INLINE __m256i nibbles(__m256i twice)
{
    __m256i v = _mm256_srlv_epi64(twice, _mm256_setr_epi64x(0, 0, 4, 4));
    return _mm256_and_si256(v, _mm256_set1_epi8(15));
}

/* 16 bytes in both halves: the load does the broadcast. */
static ALWAYS_INLINE __m256i load_twice(const uint8_t *q)
{
    return _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)q));
}
