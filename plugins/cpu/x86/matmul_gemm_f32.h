/*
 * The f32 micro-kernel, used by the matrix products of float weights and by
 * attention: n rows of x, broadcast value by value, times two vectors of
 * columns of a [depth, stride] matrix.
 */
#pragma once

#include "tokens.h"

#include <cleave/plugin.h>

#define F32_ROWS (2 * VL)

typedef struct f32_tile {
    const float *x;     /* [tokens, depth] */
    int64_t x_stride;   /* elements, as the others */
    const float *panel; /* [depth, F32_ROWS] */
    int64_t panel_stride;
    int64_t depth;
    float *y; /* [tokens, F32_ROWS], added to */
    int64_t y_stride;
} f32_tile;

/* Eight values. */
static ALWAYS_INLINE __m256 f32_load8(const uint8_t *p, const int dtype)
{
    if (dtype == CLV_DTYPE_F32)
        return _mm256_loadu_ps((const float *)p);
    __m128i half = _mm_loadu_si128((const __m128i *)p);
    if (dtype == CLV_DTYPE_F16)
        return _mm256_cvtph_ps(half);
    return _mm256_castsi256_ps(
        _mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16));
}

/* The n <= 8 values at p; zeros follow. */
static inline __m256 f32_load_tail(const uint8_t *p, int n, const int dtype)
{
    uint8_t tail[32] = {0};
    memcpy(tail, p, (size_t)n * (dtype == CLV_DTYPE_F32 ? 4 : 2));
    return f32_load8(tail, dtype);
}

/* Of a row of Q8_0, the eight values from k, a multiple of 8, on. */
static ALWAYS_INLINE __m256 f32_load8_q8_0(const uint8_t *row, int64_t k)
{
    const uint8_t *block = row + k / 32 * 34;
    uint16_t scale;
    memcpy(&scale, block, sizeof(scale));
    const __m256i q = _mm256_cvtepi8_epi32(
        _mm_loadl_epi64((const __m128i *)(block + 2 + k % 32)));
    return _mm256_mul_ps(_mm256_cvtepi32_ps(q),
                         _mm256_set1_ps(_cvtsh_ss(scale)));
}

/* Of a row, the n <= 8 values from k on; zeros follow. */
static ALWAYS_INLINE __m256 f32_load8_at(const uint8_t *row, int64_t k, int n,
                                         const int dtype)
{
    if (dtype == CLV_DTYPE_Q8_0) /* of which 8 are there */
        return f32_load8_q8_0(row, k);
    row += k * (dtype == CLV_DTYPE_F32 ? 4 : 2);
    return n < 8 ? f32_load_tail(row, n, dtype) : f32_load8(row, dtype);
}

/* Eight rows of w, k .. k + 8 to a panel's columns; of the block, n_rows by n
 * values are there. */
static inline void f32_pack_edge(const uint8_t *w, int64_t w_stride, int n_rows,
                                 int64_t k, int n, float *panel,
                                 const int dtype)
{
    __m256 v[8];
    for (int i = 0; i < 8; i++)
        v[i] = i < n_rows ? f32_load8_at(w + i * w_stride, k, n, dtype)
                          : _mm256_setzero_ps();
    transpose8(v);
    for (int i = 0; i < n; i++)
        _mm256_storeu_ps(panel + i * F32_ROWS, v[i]);
}

/* Packs rows of w [n_rows, depth], w_stride in bytes, as a panel; rows past
 * n_rows become zero. */
static ALWAYS_INLINE void f32_pack(const uint8_t *w, int64_t w_stride,
                                   int n_rows, int depth, float *panel,
                                   const int dtype)
{
    for (int r = 0; r < F32_ROWS; r += 8, w += 8 * w_stride, panel += 8) {
        int k = 0;
        for (; k + 8 <= depth && r + 8 <= n_rows; k += 8) {
            __m256 v[8];
            for (int i = 0; i < 8; i++)
                v[i] = f32_load8_at(w + i * w_stride, k, 8, dtype);
            transpose8(v);
            for (int i = 0; i < 8; i++)
                _mm256_storeu_ps(panel + (k + i) * F32_ROWS, v[i]);
        }
        for (; k < depth; k += 8)
            f32_pack_edge(w, w_stride, n_rows - r, k,
                          depth - k < 8 ? depth - k : 8, panel + k * F32_ROWS,
                          dtype);
    }
}

static ALWAYS_INLINE void f32_micro_n(const f32_tile *t, const int n)
{
    const float *x[TOKENS], *w = t->panel;
    vf acc[TOKENS][2];

    UNROLL
    for (int i = 0; i < n; i++) {
        x[i] = t->x + i * t->x_stride;
        acc[i][0] = vf_load(t->y + i * t->y_stride);
        acc[i][1] = vf_load(t->y + i * t->y_stride + VL);
    }
    for (int64_t k = 0; k < t->depth; k++) {
        vf w0 = vf_load(w), w1 = vf_load(w + VL);
        w += t->panel_stride;
        UNROLL
        for (int i = 0; i < n; i++) {
            vf b = vf_set1(x[i][k]);
            acc[i][0] = vf_fma(b, w0, acc[i][0]);
            acc[i][1] = vf_fma(b, w1, acc[i][1]);
            KEEP(acc[i][0]);
            KEEP(acc[i][1]);
        }
    }
    UNROLL
    for (int i = 0; i < n; i++) {
        vf_store(t->y + i * t->y_stride, acc[i][0]);
        vf_store(t->y + i * t->y_stride + VL, acc[i][1]);
    }
}

/* tokens: 1 .. TOKENS */
static inline void f32_micro(const f32_tile *t, int tokens)
{
    WITH_TOKENS(tokens, f32_micro_n, t)
}
