/*
 * Products of weights of all 8 bits by 16-bit integer products, see prepare.h
 * for x. GEMM folds the scales of four blocks of w into 13-bit integers with
 * one scale a group, so that the sums of a whole group need no scaling. GEMV
 * reads w as it is stored. OFFSET is 128 and GROUP 32.
 */
#pragma once

#include "block.h"

#include <math.h>

#define GEMV_TOKENS 4 /* rows of x at once */
#define GEMM_FROM 13  /* rows of x from which packing pays */
#define DEPTH 512
#define ROWS (2 * VL)
#define FOLDED (Q16_GROUP / CPU_BLOCK) /* blocks in a group of x */

_Static_assert(OFFSET == 128 && GROUP == CPU_BLOCK, "blocks of signed bytes");

typedef struct panel {
    float d[DEPTH / Q16_GROUP][ROWS];
    int16_t q[DEPTH / 2][ROWS][2];
} panel;

/* The blocks of a group, in units of the answer; bytes as weights() has them.
 * The rest of the group becomes zero. */
static ALWAYS_INLINE float fold_group(const uint8_t *w, const float *d,
                                      int blocks, int16_t *q)
{
    float top = 0;

    for (int b = 0; b < blocks; b++) {
        if (!isfinite(d[b]))
            top = NAN;
        else if (fabsf(d[b]) > top)
            top = fabsf(d[b]);
    }
    float unit = top > 0 ? 32760 / top : 0;
    for (int b = 0; b < blocks; b++, w += CPU_BLOCK, q += CPU_BLOCK) {
        /* (32 q * m) / 2^15 = q * d / unit, at most 4095 as |q| <= 128 */
        int m = _mm_cvtss_si32(_mm_set_ss(d[b] * unit));
        __m256i m16 = _mm256_set1_epi16((int16_t)m);
        for (int i = 0; i < CPU_BLOCK; i += 16) {
            __m256i v =
                _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)(w + i)));
            v = _mm256_sub_epi16(v, _mm256_set1_epi16(OFFSET));
            v = _mm256_mulhrs_epi16(_mm256_slli_epi16(v, 5), m16);
            _mm256_store_si256((__m256i *)(q + i), v);
        }
    }
    memset(q, 0, (size_t)(Q16_GROUP - blocks * CPU_BLOCK) * sizeof(*q));
    return top * (128.0f / Q16_MAX);
}

/* A piece of eight rows, as rows of 16 bits; d: scales of the groups. */
static void fold_rows(const cpu_matmul_args *a, int64_t o, int n_rows,
                      int64_t k, float d[2][8], int16_t q[8][PIECE])
{
    uint8_t bytes[PIECE] __attribute__((aligned(64)));
    for (int i = 0; i < 8; i++) {
        piece w = piece_at(a, o + (i < n_rows ? i : n_rows - 1), k,
                           blocks_from(a, k));
        factors f;
        float scales[BLOCKS];
        read_factors(&w, &f);
        store_eight(scales, f.scale[0]);
        for (int p = 0; p < VECTORS(w.n); p++)
            vi_store(bytes + p * 4 * VL, weights(w.w, p, w.n));
        for (int g = 0; g < 2; g++) {
            int left = w.n - g * FOLDED;
            left = left < 0 ? 0 : left < FOLDED ? left : FOLDED;
            d[g][i] = fold_group(bytes + g * Q16_GROUP, scales + g * FOLDED,
                                 left, q[i] + g * Q16_GROUP);
        }
    }
}

static void pack(const cpu_matmul_args *a, int64_t o, int n_rows,
                 int64_t k_begin, int depth, void *out)
{
    panel *p = out;
    int16_t q[8][PIECE] __attribute__((aligned(64)));
    float d[2][8];

    for (int r = 0; r < ROWS; r += 8) {
        for (int k = 0; k < depth; k += PIECE) {
            int left = n_rows - r;
            fold_rows(a, left > 0 ? o + r : o, left > 0 ? left : 1, k_begin + k,
                      d, q);
            for (int g = 0; g < 2; g++)
                memcpy(&p->d[k / Q16_GROUP + g][r], d[g], sizeof d[g]);
            for (int j = 0; j < PIECE; j += 16) {
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

/* The two halves of a vector of bytes as signed 16 bits. */
typedef struct wide {
    vi low, high;
} wide;
static ALWAYS_INLINE wide widen(vi bytes)
{
    vi q = vi_xor(bytes, vi_set1_8(-128));
#if VL == 16
    return (wide){_mm512_cvtepi8_epi16(_mm512_castsi512_si256(q)),
                  _mm512_cvtepi8_epi16(_mm512_extracti64x4_epi64(q, 1))};
#else
    return (wide){_mm256_cvtepi8_epi16(_mm256_castsi256_si128(q)),
                  _mm256_cvtepi8_epi16(_mm256_extracti128_si256(q, 1))};
#endif
}

/* Vector p of w times x, with the scales of its blocks, added to acc. */
static ALWAYS_INLINE vf dot_vector(wide w, const int16_t *x,
                                   const float *scales, int p, vf acc)
{
    vi low = vi_madd16(w.low, vi_load(x));
    vi high = vi_madd16(w.high, vi_load(x + 2 * VL));
#if VL == 16
    acc = vf_fma(vf_from_int(low), vf_set1(scales[2 * p]), acc);
    return vf_fma(vf_from_int(high), vf_set1(scales[2 * p + 1]), acc);
#else
    return vf_fma(vf_from_int(vi_add32(low, high)), vf_set1(scales[p]), acc);
#endif
}

/* A piece of w times n rows of x. */
static ALWAYS_INLINE void dot_piece(const piece *w, const uint8_t *xp,
                                    size_t x_size, vf *acc, const int n)
{
    float scales[GEMV_TOKENS][BLOCKS] __attribute__((aligned(64)));
    const int64_t length = w->a->k, k = w->k;
    factors f;

    read_factors(w, &f);
    UNROLL
    for (int t = 0; t < n; t++) {
        const float *d = q16_scales(xp + t * x_size, length) + k / Q16_GROUP;
        __m256 dx = _mm256_set_m128(_mm_set1_ps(w->n > FOLDED ? d[1] : 0),
                                    _mm_set1_ps(d[0]));
        store_eight(scales[t], vf_mul(f.scale[0], eight_lanes(dx)));
    }
    UNROLL
    for (int p = 0; p < VECTORS(w->n); p++) {
        wide q = widen(weights(w->w, p, w->n));
        UNROLL
        for (int t = 0; t < n; t++) {
            const int16_t *x =
                (const int16_t *)(xp + t * x_size) + k + p * 4 * VL;
            acc[t] = dot_vector(q, x, scales[t], p, acc[t]);
        }
    }
}

static ALWAYS_INLINE void dot_row(const cpu_matmul_args *a, int64_t o,
                                  int64_t first, size_t x_size, ahead *next,
                                  const int n)
{
    const uint8_t *xp = (const uint8_t *)a->xp + (size_t)first * x_size;
    int64_t k = 0;
    vf acc[GEMV_TOKENS];

    UNROLL
    for (int t = 0; t < n; t++)
        acc[t] = vf_zero();
    for (; k + PIECE <= a->k; k += PIECE) {
        piece w = piece_at(a, o, k, BLOCKS);
        if (first == 0)
            prefetch_ahead(next, a->w_stride, piece_size());
        dot_piece(&w, xp, x_size, acc, n);
    }
    if (k < a->k) {
        piece w = piece_at(a, o, k, blocks_from(a, k));
        if (first == 0)
            prefetch_ahead(next, a->w_stride, w.n * block_size());
        dot_piece(&w, xp, x_size, acc, n);
    }
    UNROLL
    for (int t = 0; t < n; t++)
        a->y[(first + t) * a->y_stride + o] =
            vf_hsum(acc[t]) + (a->bias ? a->bias[o] : 0);
}

static ALWAYS_INLINE void gemv(const cpu_matmul_args *a, size_t x_size)
{
    ahead next = look_ahead(a);
    for (int64_t o = a->o_begin; o < a->o_end; o++) {
        for (int64_t i = 0; i < a->n; i += GEMV_TOKENS) {
            int n = (int)(a->n - i < GEMV_TOKENS ? a->n - i : GEMV_TOKENS);
            WITH_4(n, dot_row, a, o, i, x_size, &next)
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

static const cpu_product product = {
    matmul, {ISA(cpu_x86_q16_size), ISA(cpu_x86_q16_rows), false, false}};
