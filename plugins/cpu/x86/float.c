/* F32, F16 and BF16: products in f32 arithmetic, and conversions. */
#include "matmul_gemm.h"
#include "matmul_gemm_f32.h"
#include "x86.h"

#include <string.h>

#define GEMV_TOKENS 4 /* rows of x at once */
#define GEMM_FROM 17  /* rows of x from which packing pays */
#define DEPTH 512

static ALWAYS_INLINE vf load_w(const void *w, int64_t i, const int dtype)
{
    if (dtype == CLV_DTYPE_F32)
        return vf_load((const float *)w + i);
    if (dtype == CLV_DTYPE_F16)
        return vf_from_f16((const uint16_t *)w + i);
    return vf_from_bf16((const uint16_t *)w + i);
}

/* The last n < VL values; zeros follow. */
static ALWAYS_INLINE vf load_w_n(const void *w, int64_t i, int64_t n,
                                 const int dtype)
{
    uint16_t tail[VL] = {0};
    if (dtype == CLV_DTYPE_F32)
        return vf_load_n((const float *)w + i, n);
    memcpy(tail, (const uint16_t *)w + i, (size_t)n * sizeof(*tail));
    return load_w(tail, 0, dtype);
}

/* Products of one weight row with n rows of x. */
static ALWAYS_INLINE void dot_row(const cpu_matmul_args *a, int64_t o,
                                  int64_t i, const int dtype, const int n)
{
    const uint8_t *w = (const uint8_t *)a->w + o * a->w_stride;
    const float *x = a->x + i * a->x_stride;
    vf acc[GEMV_TOKENS][2];
    int64_t k = 0;

    UNROLL
    for (int t = 0; t < n; t++)
        acc[t][0] = acc[t][1] = vf_zero();
    for (; k + 2 * VL <= a->k; k += 2 * VL) {
        vf w0 = load_w(w, k, dtype), w1 = load_w(w, k + VL, dtype);
        UNROLL
        for (int t = 0; t < n; t++) {
            const float *xt = x + t * a->x_stride + k;
            acc[t][0] = vf_fma(w0, vf_load(xt), acc[t][0]);
            acc[t][1] = vf_fma(w1, vf_load(xt + VL), acc[t][1]);
        }
    }
    for (; k < a->k; k += VL) {
        int64_t left = a->k - k < VL ? a->k - k : VL;
        vf w0 = left < VL ? load_w_n(w, k, left, dtype) : load_w(w, k, dtype);
        UNROLL
        for (int t = 0; t < n; t++)
            acc[t][0] =
                vf_fma(w0, vf_load_n(x + t * a->x_stride + k, left), acc[t][0]);
    }
    UNROLL
    for (int t = 0; t < n; t++)
        a->y[(i + t) * a->y_stride + o] =
            vf_hsum(vf_add(acc[t][0], acc[t][1])) + (a->bias ? a->bias[o] : 0);
}

static ALWAYS_INLINE void gemv(const cpu_matmul_args *a, const int dtype)
{
    for (int64_t o = a->o_begin; o < a->o_end; o++) {
        for (int64_t i = 0; i < a->n; i += GEMV_TOKENS) {
            int n = (int)(a->n - i < GEMV_TOKENS ? a->n - i : GEMV_TOKENS);
            WITH_4(n, dot_row, a, o, i, dtype)
        }
    }
}

static void micro(const gemm_tile *tile)
{
    f32_tile t = {
        .x = (const float *)tile->x + tile->k_begin,
        .x_stride = (int64_t)(tile->x_stride / sizeof(float)),
        .panel = tile->panel,
        .panel_stride = F32_ROWS,
        .depth = tile->depth,
        .y = tile->y,
        .y_stride = tile->y_stride,
    };
    f32_micro(&t, tile->tokens);
}

#define MATMUL(name, dtype)                                                    \
    static void pack_##name(const cpu_matmul_args *a, int64_t o, int n_rows,   \
                            int64_t k_begin, int depth, void *panel)           \
    {                                                                          \
        const uint8_t *w = (const uint8_t *)a->w + o * a->w_stride;            \
        w += k_begin * (dtype == CLV_DTYPE_F32 ? 4 : 2);                       \
        f32_pack(w, a->w_stride, n_rows, depth, panel, dtype);                 \
    }                                                                          \
                                                                               \
    static void matmul_##name(const cpu_matmul_args *a)                        \
    {                                                                          \
        static const gemm_kind kind = {                                        \
            .rows = F32_ROWS,                                                  \
            .tokens = TOKENS,                                                  \
            .depth = DEPTH,                                                    \
            .panel_size = DEPTH * F32_ROWS * sizeof(float),                    \
            .pack = pack_##name,                                               \
            .micro = micro,                                                    \
        };                                                                     \
        if (a->n < GEMM_FROM)                                                  \
            gemv(a, dtype);                                                    \
        else                                                                   \
            cpu_x86_gemm(&kind, a, a->x, (size_t)a->x_stride * sizeof(float)); \
    }

MATMUL(f32, CLV_DTYPE_F32)
MATMUL(f16, CLV_DTYPE_F16)
MATMUL(bf16, CLV_DTYPE_BF16)

/* ------------------------------------------------------------------------ */
/* Conversions                                                               */

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

void ISA(cpu_x86_float)(cpu_kernels *table)
{
    table->formats[CLV_DTYPE_F32].product.matmul = matmul_f32;
    table->formats[CLV_DTYPE_F16] = (cpu_format){.product.matmul = matmul_f16,
                                                 .to_f32 = f16_to_f32,
                                                 .from_f32 = f16_from_f32};
    table->formats[CLV_DTYPE_BF16] = (cpu_format){.product.matmul = matmul_bf16,
                                                  .to_f32 = bf16_to_f32,
                                                  .from_f32 = bf16_from_f32};
}
