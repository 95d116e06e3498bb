/*
 * cleave/plugin_format.h - the weight formats: one table row for each clv_dtype
 *
 * Not part of the ABI: a table and functions that a host or a plugin compiles
 * into itself. The functions are the reference of what a format means. They
 * need plugin.h and standard C or C++.
 *
 * A new format needs a value and a description in clv_dtype (plugin.h), a row
 * in clv_format_of() and the functions that the row names.
 */
#ifndef CLEAVE_PLUGIN_FORMAT_H_
#define CLEAVE_PLUGIN_FORMAT_H_

#include <cleave/plugin.h>

#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------------ */
/* Scalars, without branches, so that loops over them are vectorised         */

static inline uint32_t clv_float_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float clv_bits_float(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline float clv_f16_to_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16;
    uint32_t u = h & 0x7fff;
    uint32_t normal = (u << 13) + (112u << 23);
    uint32_t special = (u << 13) | 0x7f800000;
    uint32_t small = clv_float_bits((float)(int32_t)u * 0x1p-24f);
    uint32_t bits = u < 0x400 ? small : u < 0x7c00 ? normal : special;
    return clv_bits_float(sign | bits);
}

/* Rounds to nearest even; what is too large becomes infinite. */
static inline uint16_t clv_f32_to_f16(float x)
{
    uint32_t u = clv_float_bits(x) & 0x7fffffff;
    uint32_t sign = clv_float_bits(x) >> 16 & 0x8000;
    uint32_t normal = (u + 0xfff + (u >> 13 & 1) - (112u << 23)) >> 13;
    /* 0.5 has the ulp of an f16 subnormal: the addition rounds. */
    uint32_t small = clv_float_bits(clv_bits_float(u) + 0.5f) - 0x3f000000;
    uint32_t special = u > 0x7f800000 ? 0x7e00 | (u >> 13 & 0x3ff) : 0x7c00;
    uint32_t h = u < 0x38800000 ? small : normal;
    return (uint16_t)(sign | (u >= 0x47800000 ? special : h));
}

static inline float clv_bf16_to_f32(uint16_t h)
{
    return clv_bits_float((uint32_t)h << 16);
}

/* Rounds to nearest even. */
static inline uint16_t clv_f32_to_bf16(float x)
{
    uint32_t u = clv_float_bits(x);
    uint32_t rounded = (u + 0x7fff + (u >> 16 & 1)) >> 16;
    uint32_t nan = u >> 16 | 0x40;
    return (uint16_t)((u & 0x7fffffff) > 0x7f800000 ? nan : rounded);
}

/* ------------------------------------------------------------------------ */
/* Conversion of n elements, whole blocks, from and to f32                   */

static inline void clv_decode_f32(const void *src, float *dst, int64_t n)
{
    if (n)
        memmove(dst, src, (size_t)n * sizeof *dst);
}

static inline void clv_encode_f32(const float *src, void *dst, int64_t n)
{
    if (n)
        memmove(dst, src, (size_t)n * sizeof *src);
}

static inline void clv_decode_f16(const void *src, float *dst, int64_t n)
{
    const uint16_t *h = (const uint16_t *)src;
    for (int64_t i = 0; i < n; i++)
        dst[i] = clv_f16_to_f32(h[i]);
}

static inline void clv_encode_f16(const float *src, void *dst, int64_t n)
{
    uint16_t *h = (uint16_t *)dst;
    for (int64_t i = 0; i < n; i++)
        h[i] = clv_f32_to_f16(src[i]);
}

static inline void clv_decode_bf16(const void *src, float *dst, int64_t n)
{
    const uint16_t *h = (const uint16_t *)src;
    for (int64_t i = 0; i < n; i++)
        dst[i] = clv_bf16_to_f32(h[i]);
}

static inline void clv_encode_bf16(const float *src, void *dst, int64_t n)
{
    uint16_t *h = (uint16_t *)dst;
    for (int64_t i = 0; i < n; i++)
        h[i] = clv_f32_to_bf16(src[i]);
}

static inline void clv_decode_i8(const void *src, float *dst, int64_t n)
{
    const int8_t *q = (const int8_t *)src;
    for (int64_t i = 0; i < n; i++)
        dst[i] = (float)q[i];
}

static inline void clv_decode_i4(const void *src, float *dst, int64_t n)
{
    const uint8_t *q = (const uint8_t *)src;
    for (int64_t i = 0; i < n; i += 2) {
        dst[i] = (float)(((q[i / 2] & 15) ^ 8) - 8);
        dst[i + 1] = (float)(((q[i / 2] >> 4) ^ 8) - 8);
    }
}

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

/* ------------------------------------------------------------------------ */
/* The table                                                                 */

/* What an element is. Bits, so that they can be combined. */
typedef enum clv_format_class {
    CLV_FORMAT_FLOAT = 1,   /* a number of its own */
    CLV_FORMAT_INTEGER = 2, /* has its scale in a tensor beside it, clv_quant */
    CLV_FORMAT_BLOCK = 4,   /* part of a block that holds its own scales */
    CLV_FORMAT_INDEX = 8    /* an integer as it is: a position, an id */
} clv_format_class;

#define CLV_NO_ID 0xffffffffu

typedef struct clv_format {
    const char *name;      /* "q4_0" */
    uint32_t format_class; /* clv_format_class */
    uint32_t bits;         /* of an element, without scales */
    /* Of a block; 1 and the size of an element where there is none. A row of a
     * tensor is whole blocks, and is cut between them only. */
    uint32_t elements, bytes;
    uint32_t align;
    uint32_t group; /* elements with the same scale: a block, or a sub-block of
                       it; 0: no scale inside */
    /* Where in a block its f16 scale and its f16 minimum lie; negative: it has
     * none. In blocks of sub-blocks these are the factors of the sub-blocks'
     * own scales and minimums. */
    int32_t scale_at, minimum_at;
    /* The largest magnitude that encode() takes, and that a block with an f16
     * scale holds. */
    float largest;
    float error; /* of encode(), at most, relative to the block's largest
                    magnitude; 0: less than a float's */
    /* GGUF: a tensor's type, general.file_type of a file of them; CLV_NO_ID. */
    uint32_t gguf_type, gguf_file_type;
    const char *gguf_name;        /* "Q4_0", or NULL */
    const char *safetensors_name; /* "BF16", or NULL */
    /* n elements, whole blocks. Integers without their scales. NULL: indices */
    void (*decode)(const void *src, float *dst, int64_t n);
    /* Any values: in blocks NaN becomes 0, and magnitudes above `largest`
     * become infinite or NaN. NULL: the format cannot be written. */
    void (*encode)(const float *src, void *dst, int64_t n);
} clv_format;

/* The row of a clv_dtype; NULL for one that is not known. */
static inline const clv_format *clv_format_of(uint32_t dtype)
{
    /* clang-format off */
    static const clv_format formats[CLV_DTYPE_COUNT] = {
        {NULL, 0, 0, 0, 0, 0, 0, -1, -1, 0, 0,
         CLV_NO_ID, CLV_NO_ID, NULL, NULL, NULL, NULL},
        {"f32", CLV_FORMAT_FLOAT, 32, 1, 4, 4, 0, -1, -1, 0x1.fffffep127f, 0,
         0, 0, "F32", "F32", clv_decode_f32, clv_encode_f32},
        {"f16", CLV_FORMAT_FLOAT, 16, 1, 2, 2, 0, -1, -1, 65504.0f, 0x1p-11f,
         1, 1, "F16", "F16", clv_decode_f16, clv_encode_f16},
        {"bf16", CLV_FORMAT_FLOAT, 16, 1, 2, 2, 0, -1, -1, 3.38e38f, 0x1p-8f,
         30, 32, "BF16", "BF16", clv_decode_bf16, clv_encode_bf16},
        {"i32", CLV_FORMAT_INDEX, 32, 1, 4, 4, 0, -1, -1, 0, 0,
         26, CLV_NO_ID, "I32", "I32", NULL, NULL},
        {"i8", CLV_FORMAT_INTEGER, 8, 1, 1, 1, 0, -1, -1, 0, 0,
         24, CLV_NO_ID, "I8", "I8", clv_decode_i8, NULL},
        {"i4", CLV_FORMAT_INTEGER, 4, 2, 1, 1, 0, -1, -1, 0, 0,
         CLV_NO_ID, CLV_NO_ID, NULL, NULL, clv_decode_i4, NULL},
        /* Half a step of 127. */
        {"q8_0", CLV_FORMAT_BLOCK, 8, 32, 34, 2, 32, 0, -1, 65504.0f * 127,
         0.5f / 127, 8, 7, "Q8_0", NULL, clv_decode_q8_0, clv_encode_q8_0},
        /* A whole step of 8 at the short end of the range. */
        {"q4_0", CLV_FORMAT_BLOCK, 4, 32, 18, 2, 32, 0, -1, 65504.0f * 8,
         1.01f / 8, 2, 2, "Q4_0", NULL, clv_decode_q4_0, clv_encode_q4_0},
    };
    /* clang-format on */
    return dtype < CLV_DTYPE_COUNT && formats[dtype].name ? &formats[dtype]
                                                          : NULL;
}

/* Whether a dtype is of one of these classes (bits). */
static inline int clv_format_is(uint32_t dtype, uint32_t classes)
{
    const clv_format *f = clv_format_of(dtype);
    return f && (f->format_class & classes) != 0;
}

/* The dtypes of these classes, as bits 1 << dtype. */
static inline uint32_t clv_formats_of(uint32_t classes)
{
    uint32_t dtypes = 0;
    for (uint32_t i = 0; i < CLV_DTYPE_COUNT; i++)
        if (clv_format_is(i, classes))
            dtypes |= 1u << i;
    return dtypes;
}

/* Those that can be written, as the same bits. */
static inline uint32_t clv_formats_written(void)
{
    uint32_t dtypes = 0;
    for (uint32_t i = 1; i < CLV_DTYPE_COUNT; i++)
        if (clv_format_of(i)->encode)
            dtypes |= 1u << i;
    return dtypes;
}

#ifdef __cplusplus
}
#endif

#endif /* CLEAVE_PLUGIN_FORMAT_H_ */
