/* Q8_0: signed bytes. */
#include "convert_block.h"

#define DTYPE CLV_DTYPE_Q8_0
#define GROUP 32
#define OFFSET 128
#define TOP 255

#include "block.h"

static ALWAYS_INLINE vi weights(const uint8_t *w, int p, int n)
{
    return vi_xor(load_both(first_block(w, p) + 2, last_block(w, p, n) + 2),
                  vi_set1_8(-128));
}

static ALWAYS_INLINE void read_factors(const piece *p, factors *out)
{
    *out->scale = block_factors(p, 0);
}

#define TURN(rows, n, out) turn_bytes(rows, n, out, 2)
#include "matmul_bytes.h"

static void to_f32(const void *src, float *dst, int64_t n)
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

static void from_f32(const float *src, void *dst, int64_t n)
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

void ISA(cpu_x86_q8_0)(cpu_kernels *table)
{
    table->formats[DTYPE] = (cpu_format){
        matmul, {PREPARE_SIZE, PREPARE_ROWS, PREPARE_EXACT}, to_f32, from_f32};
}
