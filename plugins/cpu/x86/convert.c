/*
 * Conversions from and to f32, bit for bit those of the reference (except the
 * payload of NaN). Blocks are 32 values, four vectors of 256 bits in every set.
 */
#include "x86.h"

#include <math.h>

static void f32_copy(const void *src, float *dst, int64_t n)
{
    memcpy(dst, src, (size_t)n * sizeof(*dst));
}

static void f32_store(const float *src, void *dst, int64_t n)
{
    memcpy(dst, src, (size_t)n * sizeof(*src));
}

static void f16_to_f32(const void *src, float *dst, int64_t n)
{
    const uint16_t *h = src;
    int64_t i = 0;
    for (; i + VL <= n; i += VL)
        vf_store(dst + i, vf_from_f16(h + i));
    for (; i < n; i++)
        dst[i] = load_f16(h + i);
}

static void f16_from_f32(const float *src, void *dst, int64_t n)
{
    uint16_t *h = dst;
    int64_t i = 0;
    for (; i + VL <= n; i += VL)
        vf_to_f16(h + i, vf_load(src + i));
    for (; i < n; i++)
        h[i] = _cvtss_sh(src[i], _MM_FROUND_TO_NEAREST_INT);
}

static void bf16_to_f32(const void *src, float *dst, int64_t n)
{
    const uint16_t *h = src;
    int64_t i = 0;
    uint16_t tail[VL] = {0};
    for (; i + VL <= n; i += VL)
        vf_store(dst + i, vf_from_bf16(h + i));
    if (i < n) {
        memcpy(tail, h + i, (size_t)(n - i) * sizeof(*tail));
        vf_store_n(dst + i, vf_from_bf16(tail), n - i);
    }
}

/* To nearest even; NaN stays NaN though its payload is cut. */
static __m128i bf16_round(__m256 v)
{
    __m256i bits = _mm256_castps_si256(v);
    __m256i high = _mm256_srli_epi32(bits, 16);
    __m256i odd = _mm256_and_si256(high, _mm256_set1_epi32(1));
    __m256i up = _mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff));
    __m256i rounded = _mm256_srli_epi32(_mm256_add_epi32(up, odd), 16);
    __m256i quiet = _mm256_or_si256(high, _mm256_set1_epi32(0x40));
    __m256 nan = _mm256_cmp_ps(v, v, _CMP_UNORD_Q);
    rounded = _mm256_blendv_epi8(rounded, quiet, _mm256_castps_si256(nan));
    return _mm_packus_epi32(_mm256_castsi256_si128(rounded),
                            _mm256_extracti128_si256(rounded, 1));
}

static void bf16_from_f32(const float *src, void *dst, int64_t n)
{
    uint16_t *h = dst;
    int64_t i = 0;
    float tail[8] = {0};
    uint16_t out[8];
    for (; i + 8 <= n; i += 8)
        _mm_storeu_si128((__m128i *)(h + i),
                         bf16_round(_mm256_loadu_ps(src + i)));
    if (i < n) {
        memcpy(tail, src + i, (size_t)(n - i) * sizeof(*tail));
        _mm_storeu_si128((__m128i *)out, bf16_round(_mm256_loadu_ps(tail)));
        memcpy(h + i, out, (size_t)(n - i) * sizeof(*out));
    }
}

/* Eight signed bytes as floats, times d. */
static __m256 scaled(__m128i q, __m256 d)
{
    return _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(q)), d);
}

static void q8_0_to_f32(const void *src, float *dst, int64_t n)
{
    const uint8_t *b = src;
    for (int64_t i = 0; i < n; i += CPU_QK, b += sizeof(cpu_block_q8_0)) {
        __m256 d = _mm256_set1_ps(load_f16(b));
        for (int j = 0; j < CPU_QK; j += 8)
            _mm256_storeu_ps(
                dst + i + j,
                scaled(_mm_loadl_epi64((const __m128i *)(b + 2 + j)), d));
    }
}

static void q4_0_to_f32(const void *src, float *dst, int64_t n)
{
    const uint8_t *b = src;
    __m128i mask = _mm_set1_epi8(15), eight = _mm_set1_epi8(8);
    for (int64_t i = 0; i < n; i += CPU_QK, b += sizeof(cpu_block_q4_0)) {
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

static __m256 magnitude(const float *p)
{
    return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), _mm256_loadu_ps(p));
}

/* Largest magnitude of a block; NaN is passed over. */
static float block_top(const float *x)
{
    __m256 top = _mm256_setzero_ps();
    for (int j = 0; j < CPU_QK; j += 8)
        top = _mm256_max_ps(magnitude(x + j), top);
    __m128 s =
        _mm_max_ps(_mm256_castps256_ps128(top), _mm256_extractf128_ps(top, 1));
    s = _mm_max_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_max_ss(s, _mm_movehdup_ps(s)));
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

static __m128i pack16(__m256i a)
{
    return _mm_packs_epi32(_mm256_castsi256_si128(a),
                           _mm256_extracti128_si256(a, 1));
}

/* 16 values as bytes */
static __m128i round_bytes(const float *x, float inverse, float limit)
{
    __m256 scale = _mm256_set1_ps(inverse);
    return _mm_packs_epi16(pack16(round_within(x, scale, limit)),
                           pack16(round_within(x + 8, scale, limit)));
}

static void store_f16(uint8_t *p, float f)
{
    uint16_t h = _cvtss_sh(f, _MM_FROUND_TO_NEAREST_INT);
    memcpy(p, &h, sizeof(h));
}

static void q8_0_from_f32(const float *src, void *dst, int64_t n)
{
    uint8_t *b = dst;
    for (int64_t i = 0; i < n; i += CPU_QK, b += sizeof(cpu_block_q8_0)) {
        float d = block_top(src + i) / 127, inverse = d ? 1 / d : 0;
        store_f16(b, d);
        for (int j = 0; j < CPU_QK; j += 16)
            _mm_storeu_si128((__m128i *)(b + 2 + j),
                             round_bytes(src + i + j, inverse, 127));
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

static void q4_0_from_f32(const float *src, void *dst, int64_t n)
{
    uint8_t *b = dst;
    __m128i seven = _mm_set1_epi8(7), eight = _mm_set1_epi8(8);
    for (int64_t i = 0; i < n; i += CPU_QK, b += sizeof(cpu_block_q4_0)) {
        float d = block_extreme(src + i) / -8, inverse = d ? 1 / d : 0;
        __m128i low = round_bytes(src + i, inverse, 8);
        __m128i high = round_bytes(src + i + 16, inverse, 8);
        low = _mm_add_epi8(_mm_min_epi8(low, seven), eight);
        high = _mm_add_epi8(_mm_min_epi8(high, seven), eight);
        store_f16(b, d);
        _mm_storeu_si128((__m128i *)(b + 2),
                         _mm_or_si128(low, _mm_slli_epi16(high, 4)));
    }
}

void ISA(cpu_x86_convert)(cpu_kernels *table)
{
    table->to_f32[CLV_DTYPE_F32] = f32_copy;
    table->to_f32[CLV_DTYPE_F16] = f16_to_f32;
    table->to_f32[CLV_DTYPE_BF16] = bf16_to_f32;
    table->to_f32[CLV_DTYPE_Q8_0] = q8_0_to_f32;
    table->to_f32[CLV_DTYPE_Q4_0] = q4_0_to_f32;
    table->from_f32[CLV_DTYPE_F32] = f32_store;
    table->from_f32[CLV_DTYPE_F16] = f16_from_f32;
    table->from_f32[CLV_DTYPE_BF16] = bf16_from_f32;
    table->from_f32[CLV_DTYPE_Q8_0] = q8_0_from_f32;
    table->from_f32[CLV_DTYPE_Q4_0] = q4_0_from_f32;
}
