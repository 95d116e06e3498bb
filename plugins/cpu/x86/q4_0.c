/* Q4_0: nibbles with an offset of 8, element j beside element j + 16. */
#include "convert_block.h"

#define DTYPE CLV_DTYPE_Q4_0
#define GROUP 32
#define OFFSET 8
#define TOP 15
#define STRIPS_FROM 3

#include "block.h"

static ALWAYS_INLINE vi weights(const uint8_t *w, int p, int n)
{
    return block_nibbles(w, p, n, 2);
}

static ALWAYS_INLINE void read_factors(const piece *p, factors *out)
{
    *out->scale = block_factors(p, 0);
}

#define TURN(rows, n, out) turn_nibbles(rows, n, out, 2, 18, 0, as_it_is)
#include "matmul_u8s8.h"

static void to_f32(const void *src, float *dst, int64_t n)
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

static void from_f32(const float *src, void *dst, int64_t n)
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

void ISA(cpu_x86_q4_0)(cpu_kernels *table)
{
    table->formats[DTYPE] = (cpu_format){
        matmul, {PREPARE_SIZE, PREPARE_ROWS, PREPARE_EXACT}, to_f32, from_f32};
}
