#include "dtype.h"

#include <math.h>
#include <string.h>
#include <strings.h>

#define BLOCK 32

typedef struct block_q8_0 {
    uint16_t d;
    int8_t q[BLOCK];
} block_q8_0;

typedef struct block_q4_0 {
    uint16_t d;
    uint8_t q[BLOCK / 2];
} block_q4_0;

_Static_assert(sizeof(block_q8_0) == 34, "as GGUF stores it");
_Static_assert(sizeof(block_q4_0) == 18, "as GGUF stores it");

static const struct {
    const char *name;
    uint8_t elements, bytes;
} dtypes[CLV_DTYPE_COUNT] = {
    [CLV_DTYPE_F32] = {"f32", 1, 4},
    [CLV_DTYPE_F16] = {"f16", 1, 2},
    [CLV_DTYPE_BF16] = {"bf16", 1, 2},
    [CLV_DTYPE_I32] = {"i32", 1, 4},
    [CLV_DTYPE_I8] = {"i8", 1, 1},
    [CLV_DTYPE_I4] = {"i4", 2, 1},
    [CLV_DTYPE_Q8_0] = {"q8_0", BLOCK, sizeof(block_q8_0)},
    [CLV_DTYPE_Q4_0] = {"q4_0", BLOCK, sizeof(block_q4_0)},
};

const char *clv_dtype_name(uint32_t dtype)
{
    return dtype < CLV_DTYPE_COUNT ? dtypes[dtype].name : NULL;
}

uint32_t clv_dtype_parse(const char *name)
{
    for (uint32_t i = 1; name && i < CLV_DTYPE_COUNT; i++)
        if (!strcasecmp(name, dtypes[i].name))
            return i;
    return CLV_DTYPE_NONE;
}

bool clv_dtype_block(uint32_t dtype, uint32_t *elements, uint32_t *bytes)
{
    if (!clv_dtype_name(dtype))
        return false;
    *elements = dtypes[dtype].elements;
    *bytes = dtypes[dtype].bytes;
    return true;
}

uint32_t core_dtype_align(uint32_t dtype)
{
    switch (dtype) {
    case CLV_DTYPE_F32:
    case CLV_DTYPE_I32:
        return 4;
    case CLV_DTYPE_I8:
    case CLV_DTYPE_I4:
        return 1;
    }
    return 2; /* halves, and blocks that begin with one */
}

bool core_dtype_is_float(uint32_t dtype)
{
    return dtype == CLV_DTYPE_F32 || dtype == CLV_DTYPE_F16 ||
           dtype == CLV_DTYPE_BF16;
}

bool core_dtype_is_real(uint32_t dtype)
{
    return core_dtype_is_float(dtype) || dtype == CLV_DTYPE_Q8_0 ||
           dtype == CLV_DTYPE_Q4_0;
}

bool core_dtype_is_scaled(uint32_t dtype)
{
    return dtype == CLV_DTYPE_I8 || dtype == CLV_DTYPE_I4;
}

clv_status clv_dtype_size(uint32_t dtype, uint64_t n, uint64_t *bytes)
{
    uint32_t elements, block_bytes;
    uint64_t size;
    if (!clv_dtype_block(dtype, &elements, &block_bytes))
        return clv_error(CLV_ERR_INVALID, "element type %u is unknown", dtype);
    if (n % elements)
        return clv_error(
            CLV_ERR_INVALID, "%llu elements of %s are not whole blocks of %u",
            (unsigned long long)n, clv_dtype_name(dtype), elements);
    if (__builtin_mul_overflow(n / elements, (uint64_t)block_bytes, &size))
        return clv_error(CLV_ERR_INVALID,
                         "%llu elements of %s need more than 2^64 bytes",
                         (unsigned long long)n, clv_dtype_name(dtype));
    *bytes = size;
    return CLV_OK;
}

/* ------------------------------------------------------------------------ */
/* Scalars: without branches, so that loops over them are vectorised.        */

static inline uint32_t float_bits(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

static inline float bits_float(uint32_t u)
{
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

static inline uint16_t f16_from_f32(float x)
{
    uint32_t u = float_bits(x) & 0x7fffffff;
    uint32_t sign = float_bits(x) >> 16 & 0x8000;
    uint32_t normal = (u + 0xfff + (u >> 13 & 1) - (112u << 23)) >> 13;
    /* 0.5 has the ulp of an f16 subnormal: the addition rounds. */
    uint32_t small = float_bits(bits_float(u) + 0.5f) - 0x3f000000;
    uint32_t special = u > 0x7f800000 ? 0x7e00 | (u >> 13 & 0x3ff) : 0x7c00;
    uint32_t h = u < 0x38800000 ? small : normal;
    return (uint16_t)(sign | (u >= 0x47800000 ? special : h));
}

static inline float f32_from_f16(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16;
    uint32_t u = h & 0x7fff;
    uint32_t normal = (u << 13) + (112u << 23);
    uint32_t special = (u << 13) | 0x7f800000;
    uint32_t small = float_bits((float)(int32_t)u * 0x1p-24f);
    uint32_t bits = u < 0x400 ? small : u < 0x7c00 ? normal : special;
    return bits_float(sign | bits);
}

static inline uint16_t bf16_from_f32(float x)
{
    uint32_t u = float_bits(x);
    uint32_t rounded = (u + 0x7fff + (u >> 16 & 1)) >> 16;
    uint32_t nan = u >> 16 | 0x40;
    return (uint16_t)((u & 0x7fffffff) > 0x7f800000 ? nan : rounded);
}

static inline float f32_from_bf16(uint16_t h)
{
    return bits_float((uint32_t)h << 16);
}

/* Halves away from zero. The constant below 0.5 keeps the largest float under
 * a half from rounding up. */
static inline int32_t round_away(float x)
{
    return (int32_t)(x + copysignf(0x1.fffffep-2f, x));
}

/* ------------------------------------------------------------------------ */
/* Blocks                                                                    */

/* The largest magnitude; NaN or infinite if an element is. */
static inline float block_amax(const float *x)
{
    uint32_t amax = 0;
    for (int i = 0; i < BLOCK; i++) {
        uint32_t u = float_bits(x[i]) & 0x7fffffff;
        amax = u > amax ? u : amax;
    }
    return bits_float(amax);
}

static void encode_q8_0(const float *x, float amax, block_q8_0 *y)
{
    float d = amax / 127.0f;
    float inverse = d != 0 ? 1.0f / d : 0;
    /* A tiny d has no finite inverse; its f16 is zero. */
    inverse = isfinite(inverse) ? inverse : 0;
    y->d = f16_from_f32(d);
    for (int i = 0; i < BLOCK; i++)
        y->q[i] = (int8_t)round_away(x[i] * inverse);
}

static void encode_q4_0(const float *x, float amax, block_q4_0 *y)
{
    float max = 0;
    for (int i = BLOCK - 1; i >= 0; i--)
        max = fabsf(x[i]) == amax && amax > 0 ? x[i] : max;
    float d = max / -8.0f;
    float inverse = d != 0 ? 1.0f / d : 0;
    inverse = isfinite(inverse) ? inverse : 0;
    y->d = f16_from_f32(d);
    for (int i = 0; i < BLOCK / 2; i++) {
        int32_t low = (int32_t)(x[i] * inverse + 8.5f);
        int32_t high = (int32_t)(x[i + BLOCK / 2] * inverse + 8.5f);
        low = low < 15 ? low : 15;
        high = high < 15 ? high : 15;
        y->q[i] = (uint8_t)(low | high << 4);
    }
}

/* A block's scale is an f16: beyond its range the block cannot be stored. */
static clv_status check_block(uint32_t dtype, uint64_t block, float amax)
{
    bool q8 = dtype == CLV_DTYPE_Q8_0;
    float limit = (q8 ? 127 : 8) * 65504.0f;
    if (amax <= limit)
        return CLV_OK;
    return clv_error(CLV_ERR_INVALID,
                     "%s: elements %llu..%llu hold a value that is not finite "
                     "or beyond %g",
                     q8 ? "q8_0" : "q4_0", (unsigned long long)block * BLOCK,
                     (unsigned long long)block * BLOCK + BLOCK - 1,
                     (double)limit);
}

static clv_status encode_blocks(uint32_t dtype, const float *src, void *dst,
                                uint64_t n)
{
    for (uint64_t i = 0; i < n / BLOCK; i++) {
        const float *x = src + i * BLOCK;
        float amax = block_amax(x);
        clv_status status = check_block(dtype, i, amax);
        if (status)
            return status;
        if (dtype == CLV_DTYPE_Q8_0)
            encode_q8_0(x, amax, (block_q8_0 *)dst + i);
        else
            encode_q4_0(x, amax, (block_q4_0 *)dst + i);
    }
    return CLV_OK;
}

static void decode_q8_0(const block_q8_0 *src, float *dst, uint64_t n)
{
    for (uint64_t i = 0; i < n / BLOCK; i++) {
        float d = f32_from_f16(src[i].d);
        for (int j = 0; j < BLOCK; j++)
            dst[i * BLOCK + j] = d * src[i].q[j];
    }
}

static void decode_q4_0(const block_q4_0 *src, float *dst, uint64_t n)
{
    for (uint64_t i = 0; i < n / BLOCK; i++) {
        float d = f32_from_f16(src[i].d);
        float *y = dst + i * BLOCK;
        for (int j = 0; j < BLOCK / 2; j++) {
            y[j] = d * ((src[i].q[j] & 15) - 8);
            y[j + BLOCK / 2] = d * ((src[i].q[j] >> 4) - 8);
        }
    }
}

void core_dtype_decode_integers(uint32_t dtype, const void *src, float *dst,
                                uint64_t n)
{
    const int8_t *q = src;
    if (dtype == CLV_DTYPE_I8) {
        for (uint64_t i = 0; i < n; i++)
            dst[i] = q[i];
        return;
    }
    for (uint64_t i = 0; i < n; i++) {
        uint8_t nibble = (uint8_t)q[i / 2] >> i % 2 * 4 & 15;
        dst[i] = (float)((nibble ^ 8) - 8);
    }
}

/* ------------------------------------------------------------------------ */

static clv_status check_convertible(uint32_t dtype, uint64_t n)
{
    uint64_t bytes;
    if (!core_dtype_is_real(dtype))
        return clv_error(CLV_ERR_UNSUPPORTED,
                         "no conversion between %s and f32; f32, f16, bf16, "
                         "q8_0 and q4_0 have one",
                         clv_dtype_name(dtype) ? clv_dtype_name(dtype)
                                               : "an unknown type");
    return clv_dtype_size(dtype, n, &bytes);
}

clv_status clv_dtype_to_f32(uint32_t dtype, const void *src, float *dst,
                            uint64_t n)
{
    clv_status status = check_convertible(dtype, n);
    if (status)
        return status;
    const uint16_t *half = src;
    switch (dtype) {
    case CLV_DTYPE_F32:
        memmove(dst, src, n * sizeof *dst);
        break;
    case CLV_DTYPE_F16:
        for (uint64_t i = 0; i < n; i++)
            dst[i] = f32_from_f16(half[i]);
        break;
    case CLV_DTYPE_BF16:
        for (uint64_t i = 0; i < n; i++)
            dst[i] = f32_from_bf16(half[i]);
        break;
    case CLV_DTYPE_Q8_0:
        decode_q8_0(src, dst, n);
        break;
    case CLV_DTYPE_Q4_0:
        decode_q4_0(src, dst, n);
        break;
    }
    return CLV_OK;
}

clv_status clv_dtype_from_f32(uint32_t dtype, const float *src, void *dst,
                              uint64_t n)
{
    clv_status status = check_convertible(dtype, n);
    if (status)
        return status;
    uint16_t *half = dst;
    switch (dtype) {
    case CLV_DTYPE_F32:
        memmove(dst, src, n * sizeof *src);
        break;
    case CLV_DTYPE_F16:
        for (uint64_t i = 0; i < n; i++)
            half[i] = f16_from_f32(src[i]);
        break;
    case CLV_DTYPE_BF16:
        for (uint64_t i = 0; i < n; i++)
            half[i] = bf16_from_f32(src[i]);
        break;
    default:
        return encode_blocks(dtype, src, dst, n);
    }
    return CLV_OK;
}
