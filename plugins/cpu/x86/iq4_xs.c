/* IQ4_XS: blocks of nibbles as in IQ4_NL, with scales of 6 bits. */
#define DTYPE CLV_DTYPE_IQ4_XS
#define GROUP 32
#define OFFSET 128
#define TOP 255
#define STRIPS_FROM 3

#include "block.h"

static ALWAYS_INLINE vi weights(const uint8_t *w, int p, int n)
{
    const uint8_t *q = w + offsetof(clv_block_iq4_xs, q) + p * (VL / 8) * 16;
    (void)n;
    return iq4_bytes(nibbles(load_twice(q, q + 16)));
}

/* See clv_iq4_xs_scale(). */
static ALWAYS_INLINE void read_factors(const piece *p, factors *out)
{
    const uint8_t *w = p->w;
    __m256i place = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    __m256i low =
        _mm256_set1_epi32(load_32(w + offsetof(clv_block_iq4_xs, scales_low)));
    __m256i high = _mm256_set1_epi32(
        load_u16(w + offsetof(clv_block_iq4_xs, scales_high)));
    low = _mm256_srlv_epi32(low, _mm256_slli_epi32(place, 2));
    high = _mm256_srlv_epi32(high, _mm256_slli_epi32(place, 1));
    low = _mm256_and_si256(low, _mm256_set1_epi32(15));
    high = _mm256_and_si256(high, _mm256_set1_epi32(3));
    __m256i scales =
        _mm256_sub_epi32(_mm256_or_si256(low, _mm256_slli_epi32(high, 4)),
                         _mm256_set1_epi32(32));
    *out->scale = eight_lanes(
        _mm256_mul_ps(_mm256_cvtepi32_ps(scales), _mm256_set1_ps(load_f16(w))));
}

#define TURN(rows, n, out)                                                     \
    turn_nibbles(rows, n, out, offsetof(clv_block_iq4_xs, q), 16, 0, iq4_bytes)
#include "matmul_integers.h"

FORMAT(iq4_xs)
