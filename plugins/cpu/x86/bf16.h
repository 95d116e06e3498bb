/* Rounding to BF16, to the nearest, halves to even. */
#pragma once

#include "vec.h"

#ifdef CPU_TILES_EMULATED

/* The bits of each in 32; NaN stays NaN. */
static ALWAYS_INLINE vi vf_bf16_bits(vf v)
{
    const vi bits = _mm512_castps_si512(v);
    const vi odd = vi_and(_mm512_srli_epi32(bits, 16), vi_set1_32(1));
    const vi up = vi_add32(bits, vi_add32(odd, vi_set1_32(0x7fff)));
    const __mmask16 nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
    return _mm512_srli_epi32(
        _mm512_mask_or_epi32(up, nan, bits, vi_set1_32(0x400000)), 16);
}

static ALWAYS_INLINE vi vf_to_bf16(vf low, vf high)
{
    return _mm512_inserti64x4(
        _mm512_castsi256_si512(_mm512_cvtepi32_epi16(vf_bf16_bits(low))),
        _mm512_cvtepi32_epi16(vf_bf16_bits(high)), 1);
}

#else

static ALWAYS_INLINE vi vf_to_bf16(vf low, vf high)
{
    return (vi)_mm512_cvtne2ps_pbh(high, low);
}

#endif
