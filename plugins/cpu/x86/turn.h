/* Transpositions of 32-bit elements. */
#pragma once

#include "vec.h"

/* Within each lane of 128 bits: row i of column j becomes row j of column i. */
static ALWAYS_INLINE void turn_lanes(vi v[4])
{
    vi a = _mm512_unpacklo_epi32(v[0], v[1]);
    vi b = _mm512_unpackhi_epi32(v[0], v[1]);
    vi c = _mm512_unpacklo_epi32(v[2], v[3]);
    vi d = _mm512_unpackhi_epi32(v[2], v[3]);
    v[0] = _mm512_unpacklo_epi64(a, c);
    v[1] = _mm512_unpackhi_epi64(a, c);
    v[2] = _mm512_unpacklo_epi64(b, d);
    v[3] = _mm512_unpackhi_epi64(b, d);
}

static ALWAYS_INLINE __m128i load_16_bytes(const uint8_t *p)
{
    return _mm_loadu_si128((const __m128i *)p);
}

/* Four elements of each of 16 rows, by element. */
static ALWAYS_INLINE void turn_4(const uint8_t *const *rows, int64_t at,
                                 vi v[4])
{
    UNROLL
    for (int i = 0; i < 4; i++) {
        vi r = _mm512_castsi128_si512(load_16_bytes(rows[i] + at));
        r = _mm512_inserti32x4(r, load_16_bytes(rows[i + 4] + at), 1);
        r = _mm512_inserti32x4(r, load_16_bytes(rows[i + 8] + at), 2);
        v[i] = _mm512_inserti32x4(r, load_16_bytes(rows[i + 12] + at), 3);
    }
    turn_lanes(v);
}

/* Eight elements of each of 16 rows, by element. */
static ALWAYS_INLINE void turn_8(const uint8_t *const *rows, int64_t at,
                                 vi v[8])
{
    vi r[8];
    UNROLL
    for (int i = 0; i < 8; i++) {
        const uint8_t *const *here = rows + i / 4 * 8 + i % 4;
        r[i] = load_both(here[0] + at, here[4] + at);
    }
    turn_lanes(r);
    turn_lanes(r + 4);
    UNROLL
    for (int i = 0; i < 4; i++) {
        v[i] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0x88);
        v[i + 4] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0xdd);
    }
}

/* A row in each of 16 vectors, by element. */
static ALWAYS_INLINE void turn_16(vi v[16])
{
    vi r[16];
    UNROLL
    for (int i = 0; i < 16; i += 4)
        turn_lanes(v + i);
    UNROLL
    for (int i = 0; i < 4; i++) {
        vi a = _mm512_shuffle_i32x4(v[i], v[i + 4], 0x44);
        vi b = _mm512_shuffle_i32x4(v[i], v[i + 4], 0xee);
        vi c = _mm512_shuffle_i32x4(v[i + 8], v[i + 12], 0x44);
        vi d = _mm512_shuffle_i32x4(v[i + 8], v[i + 12], 0xee);
        r[i] = _mm512_shuffle_i32x4(a, c, 0x88);
        r[i + 4] = _mm512_shuffle_i32x4(a, c, 0xdd);
        r[i + 8] = _mm512_shuffle_i32x4(b, d, 0x88);
        r[i + 12] = _mm512_shuffle_i32x4(b, d, 0xdd);
    }
    memcpy(v, r, sizeof(r));
}
