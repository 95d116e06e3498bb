/* Conversion of blocks of 4 and 8 bits, as cleave/plugin_format.h defines it.
 */
#include "convert_block.h"
#include "x86.h"

/* ------------------------------------------------------------------------ */
/* Q4_0                                                                      */

static void q4_0_to_f32(const void *src, float *dst, int64_t n)
{
    const uint8_t *b = src;
    __m128i mask = _mm_set1_epi8(15), eight = _mm_set1_epi8(8);
    for (int64_t i = 0; i < n; i += CPU_BLOCK, b += sizeof(clv_block_q4_0)) {
        __m256 d = _mm256_set1_ps(load_f16(b));
        __m128i q = _mm_loadu_si128((const __m128i *)(b + 2));
        __m128i low = _mm_sub_epi8(_mm_and_si128(q, mask), eight);
        __m128i high =
            _mm_sub_epi8(_mm_and_si128(_mm_srli_epi16(q, 4), mask), eight);
        _mm256_storeu_ps(dst + i, scaled(low, d));
        _mm256_storeu_ps(dst + i + 8, scaled(_mm_srli_si128(low, 8), d));
        _mm256_storeu_ps(dst + i + 16, scaled(high, d));
        _mm256_storeu_ps(dst + i + 24, scaled(_mm_srli_si128(high, 8), d));
    }
}

/* The first value of largest magnitude, with its sign. */
static float block_extreme(const float *x)
{
    float top = block_top(x);
    if (!(top > 0))
        return 0;
    for (int j = 0;; j += 8) {
        int at = _mm256_movemask_ps(
            _mm256_cmp_ps(magnitude(x + j), _mm256_set1_ps(top), _CMP_EQ_OQ));
        if (at)
            return x[j + __builtin_ctz((unsigned)at)];
    }
}

/* 16 nibbles as bytes; 8 for NaN. */
static __m128i round_nibbles(const float *x, float inverse)
{
    __m256i i[2];
    for (int j = 0; j < 2; j++) {
        __m256 v =
            _mm256_mul_ps(_mm256_loadu_ps(x + 8 * j), _mm256_set1_ps(inverse));
        v = _mm256_and_ps(v, _mm256_cmp_ps(v, v, _CMP_ORD_Q));
        v = _mm256_add_ps(v, _mm256_set1_ps(8.5f));
        i[j] = _mm256_min_epi32(_mm256_cvttps_epi32(v), _mm256_set1_epi32(15));
    }
    return _mm_packs_epi16(pack16(i[0]), pack16(i[1]));
}

static void q4_0_from_f32(const float *src, void *dst, int64_t n)
{
    uint8_t *b = dst;
    for (int64_t i = 0; i < n; i += CPU_BLOCK, b += sizeof(clv_block_q4_0)) {
        float d = block_extreme(src + i) / -8, inverse = clv_inverse_scale(d);
        __m128i low = round_nibbles(src + i, inverse);
        __m128i high = round_nibbles(src + i + 16, inverse);
        store_f16(b, d);
        _mm_storeu_si128((__m128i *)(b + 2),
                         _mm_or_si128(low, _mm_slli_epi16(high, 4)));
    }
}

/* ------------------------------------------------------------------------ */
/* Q8_0                                                                      */

static void q8_0_to_f32(const void *src, float *dst, int64_t n)
{
    const uint8_t *b = src;
    for (int64_t i = 0; i < n; i += CPU_BLOCK, b += sizeof(clv_block_q8_0)) {
        __m256 d = _mm256_set1_ps(load_f16(b));
        for (int j = 0; j < CPU_BLOCK; j += 8)
            _mm256_storeu_ps(
                dst + i + j,
                scaled(_mm_loadl_epi64((const __m128i *)(b + 2 + j)), d));
    }
}

/* The nearest integers inside limit, halves away from zero; zero for NaN. */
static __m256i round_within(const float *x, __m256 inverse, float limit)
{
    __m256 v = _mm256_mul_ps(_mm256_loadu_ps(x), inverse);
    __m256 ordered = _mm256_cmp_ps(v, v, _CMP_ORD_Q);
    __m256 sign = _mm256_and_ps(v, _mm256_set1_ps(-0.0f));
    /* The largest value below 0.5: 0.5 itself would round 0.49999997 up. */
    __m256 half = _mm256_or_ps(_mm256_set1_ps(0.49999997f), sign);
    v = _mm256_max_ps(v, _mm256_set1_ps(-limit));
    v = _mm256_min_ps(v, _mm256_set1_ps(limit));
    __m256i i = _mm256_cvttps_epi32(_mm256_add_ps(v, half));
    return _mm256_and_si256(i, _mm256_castps_si256(ordered));
}

/* 16 values as bytes */
static __m128i round_bytes(const float *x, float inverse, float limit)
{
    __m256 scale = _mm256_set1_ps(inverse);
    return _mm_packs_epi16(pack16(round_within(x, scale, limit)),
                           pack16(round_within(x + 8, scale, limit)));
}

static void q8_0_from_f32(const float *src, void *dst, int64_t n)
{
    uint8_t *b = dst;
    for (int64_t i = 0; i < n; i += CPU_BLOCK, b += sizeof(clv_block_q8_0)) {
        float d = block_top(src + i) / 127, inverse = clv_inverse_scale(d);
        store_f16(b, d);
        for (int j = 0; j < CPU_BLOCK; j += 16)
            _mm_storeu_si128((__m128i *)(b + 2 + j),
                             round_bytes(src + i + j, inverse, 127));
    }
}

void ISA(cpu_x86_convert)(cpu_kernels *table)
{
    cpu_format *q4_0 = &table->formats[CLV_DTYPE_Q4_0];
    cpu_format *q8_0 = &table->formats[CLV_DTYPE_Q8_0];
    q4_0->to_f32 = q4_0_to_f32;
    q4_0->from_f32 = q4_0_from_f32;
    q8_0->to_f32 = q8_0_to_f32;
    q8_0->from_f32 = q8_0_from_f32;
}
