/*
 * Products of signed 8-bit weights (Q8_0, I8) by 16-bit integer products, see
 * prepare.h for x. GEMM folds the scales of four blocks of w into 13-bit
 * integers with one scale a group, so that the sums of a whole group need no
 * scaling. GEMV reads w as it is stored. The weights lie as int8 behind the
 * block's head; block_bytes() is not used.
 */
#pragma once

#include "block.h"

#include <math.h>

#define GEMV_TOKENS 4 /* rows of x at once */
#define GEMM_FROM 13  /* rows of x from which packing pays */
#define DEPTH 512
#define GROUPS (DEPTH / Q16_GROUP)
#define ROWS (2 * VL)

typedef struct panel {
    float d[GROUPS][ROWS];
    int16_t q[DEPTH / 2][ROWS][2];
} panel;

/* A group of row o of w from element k on, up to four blocks, in units of the
 * answer. */
static ALWAYS_INLINE float fold_group(const cpu_matmul_args *a, int64_t o,
                                      int64_t k, int blocks, int16_t *q)
{
    const uint8_t *w =
        (const uint8_t *)a->w + o * a->w_stride + k / CPU_BLOCK * block_size();
    float d[Q16_GROUP / CPU_BLOCK], top = 0;

    for (int b = 0; b < blocks; b++) {
        d[b] = block_scale(a, o, k + b * CPU_BLOCK, w + b * block_size());
        if (!isfinite(d[b]))
            top = NAN;
        else if (fabsf(d[b]) > top)
            top = fabsf(d[b]);
    }
    float unit = top > 0 ? 32760 / top : 0;
    for (int b = 0; b < blocks; b++, w += block_size(), q += CPU_BLOCK) {
        /* (32 q * m) / 2^15 = q * d / unit, at most 4095 as |q| <= 128 */
        int m = _mm_cvtss_si32(_mm_set_ss(d[b] * unit));
        __m256i m16 = _mm256_set1_epi16((int16_t)m);
        for (int i = 0; i < CPU_BLOCK; i += 16) {
            __m256i v = _mm256_cvtepi8_epi16(
                _mm_loadu_si128((const __m128i *)(w + block_head() + i)));
            v = _mm256_mulhrs_epi16(_mm256_slli_epi16(v, 5), m16);
            _mm256_store_si256((__m256i *)(q + i), v);
        }
    }
    memset(q, 0, (size_t)(Q16_GROUP - blocks * CPU_BLOCK) * sizeof(*q));
    return top * (128.0f / Q16_MAX);
}

static void pack(const cpu_matmul_args *a, int64_t o, int n_rows,
                 int64_t k_begin, int depth, void *out)
{
    panel *p = out;
    int16_t q[8][Q16_GROUP] __attribute__((aligned(64)));

    for (int r = 0; r < ROWS; r += 8) {
        for (int k = 0; k < depth; k += Q16_GROUP) {
            int blocks =
                (depth - k < Q16_GROUP ? depth - k : Q16_GROUP) / CPU_BLOCK;
            for (int i = 0; i < 8; i++) {
                int here = r + i < n_rows ? blocks : 0;
                p->d[k / Q16_GROUP][r + i] =
                    fold_group(a, o + r + i, k_begin + k, here, q[i]);
            }
            for (int j = 0; j < Q16_GROUP; j += 16) {
                __m256 v[8];
                for (int i = 0; i < 8; i++)
                    v[i] = _mm256_load_ps((const float *)&q[i][j]);
                transpose8(v);
                for (int i = 0; i < 8; i++)
                    _mm256_storeu_ps((float *)p->q[(k + j) / 2 + i][r], v[i]);
            }
        }
    }
}

static ALWAYS_INLINE void micro_n(const gemm_tile *t, const int n)
{
    const panel *p = t->panel;
    const int16_t *x[TOKENS];
    /* From a value of a row of x to the row's scales. */
    size_t to_scales =
        (size_t)(q16_length(t->k) - t->k_begin) * sizeof(int16_t) +
        (size_t)(t->k_begin / Q16_GROUP) * sizeof(float);

    UNROLL
    for (int i = 0; i < n; i++)
        x[i] = (const int16_t *)(t->x + (size_t)i * t->x_stride) + t->k_begin;
    for (int g = 0; g * Q16_GROUP < t->depth; g++) {
        const int16_t *w = p->q[g * Q16_GROUP / 2][0];
        vi acc[TOKENS][2];
        UNROLL
        for (int i = 0; i < n; i++)
            acc[i][0] = acc[i][1] = vi_zero();
        for (int k = g * Q16_GROUP; k < (g + 1) * Q16_GROUP; k += 4) {
            UNROLL
            for (int j = 0; j < 4; j += 2, w += 2 * ROWS) {
                vi w0 = vi_load(w), w1 = vi_load(w + 2 * VL);
                UNROLL
                for (int i = 0; i < n; i++) {
                    vi b = vi_set1_32(load_32(x[i] + k + j));
                    ADD32(acc[i][0], vi_madd16(w0, b));
                    ADD32(acc[i][1], vi_madd16(w1, b));
                }
            }
        }
        vf d0 = vf_load(p->d[g]), d1 = vf_load(p->d[g] + VL);
        UNROLL
        for (int i = 0; i < n; i++) {
            float *y = t->y + i * t->y_stride;
            vf d = vf_set1(
                ((const float *)((const uint8_t *)x[i] + to_scales))[g]);
            vf_store(y,
                     vf_fma(vf_from_int(acc[i][0]), vf_mul(d, d0), vf_load(y)));
            vf_store(y + VL, vf_fma(vf_from_int(acc[i][1]), vf_mul(d, d1),
                                    vf_load(y + VL)));
        }
    }
}

static void micro(const gemm_tile *t)
{
    WITH_TOKENS(t->tokens, micro_n, t)
}

/* Adds a block's products to lanes of 32 bits. */
#if VL == 16
typedef struct wide {
    vi v;
} wide;
static ALWAYS_INLINE wide widen(const uint8_t *q)
{
    return (wide){_mm512_cvtepi8_epi16(_mm256_loadu_si256((const __m256i *)q))};
}
static ALWAYS_INLINE vi dot_block(wide w, const int16_t *x)
{
    return vi_madd16(w.v, vi_load(x));
}
#else
typedef struct wide {
    vi low, high;
} wide;
static ALWAYS_INLINE wide widen(const uint8_t *q)
{
    return (wide){
        _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)q)),
        _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(q + 16))),
    };
}
static ALWAYS_INLINE vi dot_block(wide w, const int16_t *x)
{
    return vi_add32(vi_madd16(w.low, vi_load(x)),
                    vi_madd16(w.high, vi_load(x + 16)));
}
#endif

/* acc += blocks of row o of the weight, all in one group of x, times n rows of
 * x, which xp and at (the first value's index) give. */
static ALWAYS_INLINE void dot_blocks(const cpu_matmul_args *a, int64_t o,
                                     const uint8_t *w, const int blocks,
                                     const uint8_t *xp, size_t x_size,
                                     int64_t at, vf *acc, const int n)
{
    vf sum[GEMV_TOKENS];

    UNROLL
    for (int t = 0; t < n; t++)
        sum[t] = vf_zero();
    UNROLL
    for (int b = 0; b < blocks; b++) {
        const uint8_t *block = w + b * block_size();
        vf d = vf_set1(block_scale(a, o, at + b * CPU_BLOCK, block));
        wide q = widen(block + block_head());
        UNROLL
        for (int t = 0; t < n; t++) {
            const int16_t *x =
                (const int16_t *)(xp + t * x_size) + at + b * CPU_BLOCK;
            sum[t] = vf_fma(vf_from_int(dot_block(q, x)), d, sum[t]);
        }
    }
    UNROLL
    for (int t = 0; t < n; t++)
        acc[t] = vf_fma(
            sum[t], vf_set1(q16_scales(xp + t * x_size, a->k)[at / Q16_GROUP]),
            acc[t]);
}

static ALWAYS_INLINE void dot_row(const cpu_matmul_args *a, int64_t o,
                                  int64_t i, size_t x_size, const int n)
{
    const uint8_t *w = (const uint8_t *)a->w + o * a->w_stride;
    const uint8_t *xp = (const uint8_t *)a->xp + (size_t)i * x_size;
    const int whole = Q16_GROUP / CPU_BLOCK;
    int64_t k = a->k, at = 0;
    vf acc[GEMV_TOKENS];

    UNROLL
    for (int t = 0; t < n; t++)
        acc[t] = vf_zero();
    for (; at + Q16_GROUP <= k; at += Q16_GROUP) {
        if (i == 0)
            prefetch_stream(w, 3);
        dot_blocks(a, o, w, whole, xp, x_size, at, acc, n);
        w += whole * block_size();
    }
    for (; at < k; at += CPU_BLOCK, w += block_size())
        dot_blocks(a, o, w, 1, xp, x_size, at, acc, n);
    UNROLL
    for (int t = 0; t < n; t++)
        a->y[(i + t) * a->y_stride + o] =
            vf_hsum(acc[t]) + (a->bias ? a->bias[o] : 0);
}

static ALWAYS_INLINE void gemv(const cpu_matmul_args *a, size_t x_size)
{
    for (int64_t o = a->o_begin; o < a->o_end; o++) {
        for (int64_t i = 0; i < a->n; i += GEMV_TOKENS) {
            int n = (int)(a->n - i < GEMV_TOKENS ? a->n - i : GEMV_TOKENS);
            WITH_4(n, dot_row, a, o, i, x_size)
        }
    }
}

static void matmul(const cpu_matmul_args *a)
{
    static const gemm_kind kind = {
        .rows = ROWS,
        .tokens = TOKENS,
        .depth = DEPTH,
        .panel_size = sizeof(panel),
        .pack = pack,
        .micro = micro,
    };
    size_t x_size = ISA(cpu_x86_q16_size)(a->k);
    if (a->n < GEMM_FROM)
        gemv(a, x_size);
    else
        cpu_x86_gemm(&kind, a, a->xp, x_size);
}

#define PREPARE_SIZE ISA(cpu_x86_q16_size)
#define PREPARE_ROWS ISA(cpu_x86_q16_rows)
