/*
 * Parts of conversions from and to blocks with an f16 scale. The files of the
 * formats give the bits of plugin_format.h, except for the payload of NaN.
 * Blocks are 32 values, four vectors of 256 bits in every instruction set.
 */
#pragma once

#include "vec.h"
#include "../kernels.h"

static inline __m256 magnitude(const float *p)
{
    return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), _mm256_loadu_ps(p));
}

/* Largest magnitude of a block; NaN is passed over. */
static inline float block_top(const float *x)
{
    __m256 top = _mm256_setzero_ps();
    for (int j = 0; j < CPU_BLOCK; j += 8)
        top = _mm256_max_ps(magnitude(x + j), top);
    __m128 s =
        _mm_max_ps(_mm256_castps256_ps128(top), _mm256_extractf128_ps(top, 1));
    s = _mm_max_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_max_ss(s, _mm_movehdup_ps(s)));
}

static inline __m128i pack16(__m256i a)
{
    return _mm_packs_epi32(_mm256_castsi256_si128(a),
                           _mm256_extracti128_si256(a, 1));
}

static inline void store_f16(uint8_t *p, float f)
{
    uint16_t h = _cvtss_sh(f, _MM_FROUND_TO_NEAREST_INT);
    memcpy(p, &h, sizeof(h));
}
