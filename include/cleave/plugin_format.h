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
#include <cleave/plugin_superblock.h>

#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

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
     * own scales and minimums, which are subtracted there. */
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
        {"q4_1", CLV_FORMAT_BLOCK, 4, 32, 20, 2, 32, 0, 2, 65504.0f, 0,
         3, 3, "Q4_1", NULL, clv_decode_q4_1, NULL},
        {"q5_0", CLV_FORMAT_BLOCK, 5, 32, 22, 2, 32, 0, -1, 65504.0f * 16, 0,
         6, 8, "Q5_0", NULL, clv_decode_q5_0, NULL},
        {"q5_1", CLV_FORMAT_BLOCK, 5, 32, 24, 2, 32, 0, 2, 65504.0f, 0,
         7, 9, "Q5_1", NULL, clv_decode_q5_1, NULL},
        {"q2_k", CLV_FORMAT_BLOCK, 2, 256, 84, 2, 16, 80, 82, 65504.0f * 15, 0,
         10, 10, "Q2_K", NULL, clv_decode_q2_k, NULL},
        {"q3_k", CLV_FORMAT_BLOCK, 3, 256, 110, 2, 16, 108, -1,
         65504.0f * 128, 0, 11, 12, "Q3_K", NULL, clv_decode_q3_k, NULL},
        {"q4_k", CLV_FORMAT_BLOCK, 4, 256, 144, 2, 32, 0, 2, 65504.0f * 63, 0,
         12, 15, "Q4_K", NULL, clv_decode_q4_k, NULL},
        {"q5_k", CLV_FORMAT_BLOCK, 5, 256, 176, 2, 32, 0, 2, 65504.0f * 63, 0,
         13, 17, "Q5_K", NULL, clv_decode_q5_k, NULL},
        {"q6_k", CLV_FORMAT_BLOCK, 6, 256, 210, 2, 16, 208, -1,
         65504.0f * 4096, 0, 14, 18, "Q6_K", NULL, clv_decode_q6_k, NULL},
        {"iq4_nl", CLV_FORMAT_BLOCK, 4, 32, 18, 2, 32, 0, -1, 65504.0f * 127,
         0, 20, 25, "IQ4_NL", NULL, clv_decode_iq4_nl, NULL},
        {"iq4_xs", CLV_FORMAT_BLOCK, 4, 256, 136, 2, 32, 0, -1,
         65504.0f * 4064, 0, 23, 30, "IQ4_XS", NULL, clv_decode_iq4_xs, NULL},
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
