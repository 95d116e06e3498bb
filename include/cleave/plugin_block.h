/*
 * cleave/plugin_block.h - blocks of 32 elements
 *
 * Not part of the ABI: the structures of such weight formats, and the reference
 * of what they mean, for plugin_format.h. n is always whole blocks.
 */
#ifndef CLEAVE_PLUGIN_BLOCK_H_
#define CLEAVE_PLUGIN_BLOCK_H_

#include <cleave/plugin_float.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The bits of the largest magnitude; NaN is passed over. */
static inline uint32_t clv_largest_bits(const float *x, int n)
{
    uint32_t largest = 0;
    for (int i = 0; i < n; i++) {
        uint32_t bits = clv_float_bits(x[i]) & 0x7fffffff;
        bits = bits > 0x7f800000 ? 0 : bits;
        largest = bits > largest ? bits : largest;
    }
    return largest;
}

/* What values are multiplied by, for a block's scale. 0 for a scale without a
 * finite inverse: as f16 it is 0 too. */
static inline float clv_inverse_scale(float scale)
{
    float inverse = scale != 0 ? 1.0f / scale : 0;
    return (clv_float_bits(inverse) & 0x7fffffff) < 0x7f800000 ? inverse : 0;
}

/* The nearest integer within +-limit, halves away from zero; 0 for NaN. */
static inline int32_t clv_round_within(float x, float limit)
{
    /* With 0.5 itself the float below a half would round up. */
    const float half = x < 0 ? -0x1.fffffep-2f : 0x1.fffffep-2f;
    x = x < -limit ? -limit : x > limit ? limit : x;
    return (int32_t)(x == x ? x + half : 0);
}

typedef struct clv_block_q8_0 {
    uint16_t d; /* f16 */
    int8_t q[32];
} clv_block_q8_0;

static inline void clv_decode_q8_0(const void *src, float *dst, int64_t n)
{
    const clv_block_q8_0 *b = (const clv_block_q8_0 *)src;
    for (int64_t i = 0; i < n / 32; i++, b++, dst += 32) {
        float d = clv_f16_to_f32(b->d);
        for (int j = 0; j < 32; j++)
            dst[j] = d * (float)b->q[j];
    }
}

static inline void clv_encode_q8_0(const float *src, void *dst, int64_t n)
{
    clv_block_q8_0 *b = (clv_block_q8_0 *)dst;
    for (int64_t i = 0; i < n / 32; i++, b++, src += 32) {
        float d = clv_bits_float(clv_largest_bits(src, 32)) / 127.0f;
        float inverse = clv_inverse_scale(d);
        b->d = clv_f32_to_f16(d);
        for (int j = 0; j < 32; j++)
            b->q[j] = (int8_t)clv_round_within(src[j] * inverse, 127);
    }
}

typedef struct clv_block_q4_0 {
    uint16_t d;    /* f16 */
    uint8_t q[16]; /* elements j and j + 16, each 8 too large */
} clv_block_q4_0;

static inline void clv_decode_q4_0(const void *src, float *dst, int64_t n)
{
    const clv_block_q4_0 *b = (const clv_block_q4_0 *)src;
    for (int64_t i = 0; i < n / 32; i++, b++, dst += 32) {
        float d = clv_f16_to_f32(b->d);
        for (int j = 0; j < 16; j++) {
            dst[j] = d * (float)((b->q[j] & 15) - 8);
            dst[j + 16] = d * (float)((b->q[j] >> 4) - 8);
        }
    }
}

/* The first value of largest magnitude becomes -8, the end of the range that
 * has one step more. */
static inline void clv_encode_q4_0(const float *src, void *dst, int64_t n)
{
    clv_block_q4_0 *b = (clv_block_q4_0 *)dst;
    for (int64_t i = 0; i < n / 32; i++, b++, src += 32) {
        uint32_t largest = clv_largest_bits(src, 32);
        float extreme = 0;
        for (int j = 31; j >= 0; j--)
            if ((clv_float_bits(src[j]) & 0x7fffffff) == largest && largest)
                extreme = src[j];
        float d = extreme / -8.0f, inverse = clv_inverse_scale(d);
        b->d = clv_f32_to_f16(d);
        for (int j = 0; j < 16; j++) {
            float x = src[j] * inverse, y = src[j + 16] * inverse;
            int32_t low = (int32_t)((x == x ? x : 0) + 8.5f);
            int32_t high = (int32_t)((y == y ? y : 0) + 8.5f);
            low = low < 15 ? low : 15;
            high = high < 15 ? high : 15;
            b->q[j] = (uint8_t)(low | high << 4);
        }
    }
}

typedef struct clv_block_q4_1 {
    uint16_t d, m; /* f16 */
    uint8_t q[16]; /* elements j and j + 16 */
} clv_block_q4_1;

static inline void clv_decode_q4_1(const void *src, float *dst, int64_t n)
{
    const clv_block_q4_1 *b = (const clv_block_q4_1 *)src;
    for (int64_t i = 0; i < n / 32; i++, b++, dst += 32) {
        float d = clv_f16_to_f32(b->d), m = clv_f16_to_f32(b->m);
        for (int j = 0; j < 16; j++) {
            dst[j] = d * (float)(b->q[j] & 15) + m;
            dst[j + 16] = d * (float)(b->q[j] >> 4) + m;
        }
    }
}

/* Element j of 5 bits: the fifth ones are bits of h[4]. */
static inline int clv_five_bits(const uint8_t *q, const uint8_t *h, int j)
{
    int low = j < 16 ? q[j] & 15 : q[j - 16] >> 4;
    return low | (h[j / 8] >> j % 8 & 1) << 4;
}

typedef struct clv_block_q5_0 {
    uint16_t d;    /* f16 */
    uint8_t h[4];  /* the fifth bits */
    uint8_t q[16]; /* elements j and j + 16, each 16 too large */
} clv_block_q5_0;

static inline void clv_decode_q5_0(const void *src, float *dst, int64_t n)
{
    const clv_block_q5_0 *b = (const clv_block_q5_0 *)src;
    for (int64_t i = 0; i < n / 32; i++, b++, dst += 32) {
        float d = clv_f16_to_f32(b->d);
        for (int j = 0; j < 32; j++)
            dst[j] = d * (float)(clv_five_bits(b->q, b->h, j) - 16);
    }
}

typedef struct clv_block_q5_1 {
    uint16_t d, m; /* f16 */
    uint8_t h[4];  /* the fifth bits */
    uint8_t q[16]; /* elements j and j + 16 */
} clv_block_q5_1;

static inline void clv_decode_q5_1(const void *src, float *dst, int64_t n)
{
    const clv_block_q5_1 *b = (const clv_block_q5_1 *)src;
    for (int64_t i = 0; i < n / 32; i++, b++, dst += 32) {
        float d = clv_f16_to_f32(b->d), m = clv_f16_to_f32(b->m);
        for (int j = 0; j < 32; j++)
            dst[j] = d * (float)clv_five_bits(b->q, b->h, j) + m;
    }
}

/* What the nibbles of IQ4_NL and IQ4_XS stand for. */
static inline int clv_iq4_value(int nibble)
{
    static const int8_t values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                      1,    13,   25,  38,  53,  69,  89,  113};
    return values[nibble];
}

typedef struct clv_block_iq4_nl {
    uint16_t d;    /* f16 */
    uint8_t q[16]; /* elements j and j + 16, as clv_iq4_value() takes them */
} clv_block_iq4_nl;

static inline void clv_decode_iq4_nl(const void *src, float *dst, int64_t n)
{
    const clv_block_iq4_nl *b = (const clv_block_iq4_nl *)src;
    for (int64_t i = 0; i < n / 32; i++, b++, dst += 32) {
        float d = clv_f16_to_f32(b->d);
        for (int j = 0; j < 16; j++) {
            dst[j] = d * (float)clv_iq4_value(b->q[j] & 15);
            dst[j + 16] = d * (float)clv_iq4_value(b->q[j] >> 4);
        }
    }
}

#ifdef __cplusplus
}
#endif

#endif /* CLEAVE_PLUGIN_BLOCK_H_ */
