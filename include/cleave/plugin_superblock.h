/*
 * cleave/plugin_superblock.h - blocks of 256 elements
 *
 * Blocks of 16 or 32 elements, with integers for scales and minimums, under
 * f16 factors of these. Not part of the ABI: the structures of such weight
 * formats, and the reference of what they mean, for plugin_format.h. n is
 * always whole blocks.
 */
#ifndef CLEAVE_PLUGIN_SUPERBLOCK_H_
#define CLEAVE_PLUGIN_SUPERBLOCK_H_

#include <cleave/plugin_block.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct clv_block_q2_k {
    uint8_t scales[16]; /* of 16 elements: scale low, minimum high */
    uint8_t q[64];      /* byte 32 h + l: elements 128 h + l + 32 j, j < 4 */
    uint16_t d, m;      /* f16 */
} clv_block_q2_k;

static inline void clv_decode_q2_k(const void *src, float *dst, int64_t n)
{
    const clv_block_q2_k *b = (const clv_block_q2_k *)src;
    for (int64_t i = 0; i < n / 256; i++, b++, dst += 256) {
        float d = clv_f16_to_f32(b->d), m = clv_f16_to_f32(b->m);
        for (int j = 0; j < 256; j++) {
            int s = b->scales[j / 16];
            int q = b->q[j / 128 * 32 + j % 32] >> j / 32 % 4 * 2 & 3;
            dst[j] = d * (float)(s & 15) * (float)q - m * (float)(s >> 4);
        }
    }
}

typedef struct clv_block_q3_k {
    uint8_t h[32];      /* bit j of byte l: the third one of 32 j + l */
    uint8_t q[64];      /* the others, as in clv_block_q2_k */
    uint8_t scales[12]; /* see clv_q3_k_scale() */
    uint16_t d;         /* f16 */
} clv_block_q3_k;

/* The scale of elements 16 j to 16 j + 15. Its low bits are nibbles, its upper
 * two are packed behind them. */
static inline int clv_q3_k_scale(const uint8_t *scales, int j)
{
    int low = scales[j % 8] >> j / 8 * 4 & 15;
    int high = scales[8 + j % 4] >> j / 4 * 2 & 3;
    return (low | high << 4) - 32;
}

static inline void clv_decode_q3_k(const void *src, float *dst, int64_t n)
{
    const clv_block_q3_k *b = (const clv_block_q3_k *)src;
    for (int64_t i = 0; i < n / 256; i++, b++, dst += 256) {
        float d = clv_f16_to_f32(b->d);
        for (int j = 0; j < 256; j++) {
            int low = b->q[j / 128 * 32 + j % 32] >> j / 32 % 4 * 2 & 3;
            int q = low | (b->h[j % 32] >> j / 32 & 1) << 2;
            dst[j] =
                d * (float)clv_q3_k_scale(b->scales, j / 16) * (float)(q - 4);
        }
    }
}

/* Scale and minimum j of Q4_K and Q5_K, of 6 bits each. Those of the upper four
 * have their low bits in the last bytes and the others at the top of the
 * first eight. */
static inline int clv_k_scale(const uint8_t *s, int j)
{
    return j < 4 ? s[j] & 63 : (s[j + 4] & 15) | (s[j - 4] >> 6) << 4;
}

static inline int clv_k_minimum(const uint8_t *s, int j)
{
    return j < 4 ? s[j + 4] & 63 : s[j + 4] >> 4 | (s[j] >> 6) << 4;
}

typedef struct clv_block_q4_k {
    uint16_t d, m;      /* f16 */
    uint8_t scales[12]; /* of 32 elements */
    uint8_t q[128];     /* byte 32 h + l: elements 64 h + l and + 32 */
} clv_block_q4_k;

static inline void clv_decode_q4_k(const void *src, float *dst, int64_t n)
{
    const clv_block_q4_k *b = (const clv_block_q4_k *)src;
    for (int64_t i = 0; i < n / 256; i++, b++, dst += 256) {
        float d = clv_f16_to_f32(b->d), m = clv_f16_to_f32(b->m);
        for (int j = 0; j < 256; j++) {
            int q = b->q[j / 64 * 32 + j % 32] >> j / 32 % 2 * 4 & 15;
            dst[j] = d * (float)clv_k_scale(b->scales, j / 32) * (float)q -
                     m * (float)clv_k_minimum(b->scales, j / 32);
        }
    }
}

typedef struct clv_block_q5_k {
    uint16_t d, m;      /* f16 */
    uint8_t scales[12]; /* of 32 elements */
    uint8_t h[32];      /* bit j of byte l: the fifth one of 32 j + l */
    uint8_t q[128];     /* the others, as in clv_block_q4_k */
} clv_block_q5_k;

static inline void clv_decode_q5_k(const void *src, float *dst, int64_t n)
{
    const clv_block_q5_k *b = (const clv_block_q5_k *)src;
    for (int64_t i = 0; i < n / 256; i++, b++, dst += 256) {
        float d = clv_f16_to_f32(b->d), m = clv_f16_to_f32(b->m);
        for (int j = 0; j < 256; j++) {
            int low = b->q[j / 64 * 32 + j % 32] >> j / 32 % 2 * 4 & 15;
            int q = low | (b->h[j % 32] >> j / 32 & 1) << 4;
            dst[j] = d * (float)clv_k_scale(b->scales, j / 32) * (float)q -
                     m * (float)clv_k_minimum(b->scales, j / 32);
        }
    }
}

typedef struct clv_block_q6_k {
    uint8_t q[128];    /* byte 64 h + l: elements 128 h + l and + 64 */
    uint8_t h[64];     /* the upper two bits, as q in clv_block_q2_k */
    int8_t scales[16]; /* of 16 elements */
    uint16_t d;        /* f16 */
} clv_block_q6_k;

static inline void clv_decode_q6_k(const void *src, float *dst, int64_t n)
{
    const clv_block_q6_k *b = (const clv_block_q6_k *)src;
    for (int64_t i = 0; i < n / 256; i++, b++, dst += 256) {
        float d = clv_f16_to_f32(b->d);
        for (int j = 0; j < 256; j++) {
            int low = b->q[j / 128 * 64 + j % 64] >> j / 64 % 2 * 4 & 15;
            int high = b->h[j / 128 * 32 + j % 32] >> j / 32 % 4 * 2 & 3;
            dst[j] =
                d * (float)b->scales[j / 16] * (float)((low | high << 4) - 32);
        }
    }
}

typedef struct clv_block_iq4_xs {
    uint16_t d;            /* f16 */
    uint16_t scales_high;  /* upper two bits of scale j: bits 2 j */
    uint8_t scales_low[4]; /* nibbles, the low one first */
    uint8_t q[128];        /* byte 16 j + l: elements 32 j + l and + 16 */
} clv_block_iq4_xs;

/* The scale of elements 32 j to 32 j + 31. */
static inline int clv_iq4_xs_scale(const clv_block_iq4_xs *b, int j)
{
    int low = b->scales_low[j / 2] >> j % 2 * 4 & 15;
    return (low | (b->scales_high >> 2 * j & 3) << 4) - 32;
}

static inline void clv_decode_iq4_xs(const void *src, float *dst, int64_t n)
{
    const clv_block_iq4_xs *b = (const clv_block_iq4_xs *)src;
    for (int64_t i = 0; i < n / 256; i++, b++, dst += 256) {
        float d = clv_f16_to_f32(b->d);
        for (int j = 0; j < 256; j++) {
            int q = b->q[j / 32 * 16 + j % 16] >> j / 16 % 2 * 4 & 15;
            dst[j] = d * (float)clv_iq4_xs_scale(b, j / 32) *
                     (float)clv_iq4_value(q);
        }
    }
}

#ifdef __cplusplus
}
#endif

#endif /* CLEAVE_PLUGIN_SUPERBLOCK_H_ */
