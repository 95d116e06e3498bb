/*
 * Strips of w: VL rows side by side, a piece at a time, with four consecutive
 * elements of each row in a lane. An instruction of VNNI multiplies them with
 * the same four elements of a row of x. Bytes are turned while they are packed
 * where the format allows it, so that fewer of them go through the shuffles.
 *
 * The file of a format may define, besides what block.h wants,
 *
 *   TURN(rows, n, out)  fills q of the first n blocks of a strip; rows: where
 *                       the piece of each of its VL rows is
 *   STRIPS_FROM         rows of x from which strips pay, see
 *                       matmul_u8s8_strips.h
 */
#pragma once

#include "block.h"
#include "turn.h"

#define BLOCK_GROUPS (CPU_BLOCK / GROUP)

typedef struct strip_block {
    uint8_t q[CPU_BLOCK / 4][VL][4];
    float d[BLOCK_GROUPS][VL];
#if HAS_MINIMUM
    float m[BLOCK_GROUPS][VL];
#endif
} strip_block;

typedef struct strip {
    strip_block blocks[BLOCKS];
} strip;

/* ------------------------------------------------------------------------ */
/* Weights                                                                   */

/* Of any format: blocks in pairs, which are a vector of weights(). */
static ALWAYS_INLINE void turn_any(const uint8_t *const *rows, int n,
                                   strip *out)
{
    for (int p = 0; p < VECTORS(n); p++) {
        vi v[VL];
        UNROLL
        for (int i = 0; i < VL; i++)
            v[i] = weights(rows[i], p, n);
        turn_16(v);
        UNROLL
        for (int i = 0; i < 8; i++) {
            vi_store(out->blocks[2 * p].q[i], v[i]);
            vi_store(out->blocks[2 * p + 1].q[i], v[8 + i]);
        }
    }
}

static ALWAYS_INLINE vi low_nibbles(vi v)
{
    return vi_and(v, vi_set1_8(15));
}

static ALWAYS_INLINE vi high_nibbles(vi v)
{
    return low_nibbles(vi_srl16(v, 4));
}

static ALWAYS_INLINE vi as_it_is(vi v)
{
    return v;
}

/* Blocks of 16 bytes, `step` apart, each with element j beside j + 16; flip:
 * bits to change; bytes: what nibbles stand for. */
static ALWAYS_INLINE void turn_nibbles(const uint8_t *const *rows, int n,
                                       strip *out, int at, int step, int flip,
                                       vi (*bytes)(vi))
{
    for (int b = 0; b < n; b++) {
        vi v[4];
        turn_4(rows, at + b * step, v);
        UNROLL
        for (int i = 0; i < 4; i++) {
            if (flip)
                v[i] = vi_xor(v[i], vi_set1_8((int8_t)flip));
            vi_store(out->blocks[b].q[i], bytes(low_nibbles(v[i])));
            vi_store(out->blocks[b].q[i + 4], bytes(high_nibbles(v[i])));
        }
    }
}

/* Signed bytes, in blocks of 32 a block_size() apart. */
static ALWAYS_INLINE void turn_bytes(const uint8_t *const *rows, int n,
                                     strip *out, int at)
{
    for (int b = 0; b < n; b++) {
        vi v[8];
        turn_8(rows, at + b * block_size(), v);
        UNROLL
        for (int i = 0; i < 8; i++)
            vi_store(out->blocks[b].q[i], vi_xor(v[i], vi_set1_8(-128)));
    }
}

/* ------------------------------------------------------------------------ */
/* Factors                                                                   */

/* Factors of rows, [row][group], by group. */
static ALWAYS_INLINE void turn_factors(const float f[VL][VL], vi v[VL])
{
#if GROUP == CPU_BLOCK
    const uint8_t *rows[VL];
    UNROLL
    for (int i = 0; i < VL; i++)
        rows[i] = (const uint8_t *)f[i];
    turn_8(rows, 0, v);
#else
    UNROLL
    for (int i = 0; i < VL; i++)
        v[i] = vi_load(f[i]);
    turn_16(v);
#endif
}

static ALWAYS_INLINE void put_factors(const cpu_matmul_args *a,
                                      const int64_t *o, int64_t k, int n,
                                      strip *out)
{
    float d[VL][VL] __attribute__((aligned(64)));
    float m[VL][VL] __attribute__((aligned(64)));
    vi v[VL];
    for (int i = 0; i < VL; i++) {
        piece from = piece_at(a, o[i], k, n);
        factors f;
        read_factors(&from, &f);
        vf_store(d[i], *f.scale);
        if (HAS_MINIMUM)
            vf_store(m[i], *f.minimum);
    }
    turn_factors(d, v);
    UNROLL
    for (int g = 0; g < GROUPS; g++)
        vi_store(out->blocks[g / BLOCK_GROUPS].d[g % BLOCK_GROUPS], v[g]);
#if HAS_MINIMUM
    turn_factors(m, v);
    UNROLL
    for (int g = 0; g < GROUPS; g++)
        vi_store(out->blocks[g / BLOCK_GROUPS].m[g % BLOCK_GROUPS], v[g]);
#endif
}
