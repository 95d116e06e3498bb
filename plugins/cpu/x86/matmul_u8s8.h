/*
 * Products of unsigned 8-bit weights, see block.h, and signed 8-bit x, see
 * prepare.h. The sums of x take the weights' offset out again, and multiply
 * their minimums.
 */
#pragma once

#include "block.h"

#define DEPTH 1024
#define ROWS (2 * VL)
#define HAS_MINIMUM (OFFSET == 0)

typedef struct panel {
    float d[DEPTH / GROUP][ROWS];
    float m[HAS_MINIMUM ? DEPTH / GROUP : 1][ROWS];
    uint8_t q[DEPTH / 4][ROWS][4];
} panel;

/* A piece of row r: its factors, and its bytes in a row of their own. */
static ALWAYS_INLINE void pack_row(panel *p, const piece *from, int r, int g,
                                   uint8_t *bytes)
{
    float lanes[2][GROUP_VECTORS * VL];
    factors f;
    read_factors(from, &f);
    for (int i = 0; i < GROUP_VECTORS; i++) {
        vf_store(lanes[0] + i * VL, f.scale[i]);
        if (HAS_MINIMUM)
            vf_store(lanes[1] + i * VL, f.minimum[i]);
    }
    for (int i = 0; i < from->n * CPU_BLOCK / GROUP; i++) {
        p->d[g + i][r] = lanes[0][i];
        if (HAS_MINIMUM)
            p->m[g + i][r] = lanes[1][i];
    }
    for (int i = 0; i < VECTORS(from->n); i++)
        vi_store(bytes + i * 4 * VL, weights(from->w, i, from->n));
}

/* Eight rows of n blocks to columns. */
static void pack_columns(panel *p, uint8_t rows[8][PIECE], int r, int k, int n)
{
    for (int b = 0; b < n; b++) {
        __m256 v[8];
        for (int i = 0; i < 8; i++)
            v[i] = _mm256_load_ps((const float *)&rows[i][b * CPU_BLOCK]);
        transpose8(v);
        for (int i = 0; i < 8; i++)
            _mm256_storeu_ps((float *)p->q[k / 4 + b * 8 + i][r], v[i]);
    }
}

/* Asks for the n blocks at element k of the eight rows from o on, as so many
 * rows side by side are not seen by the processor. */
static ALWAYS_INLINE void prefetch_rows(const cpu_matmul_args *a, int64_t o,
                                        int64_t k, int n)
{
    for (int i = 0; i < 8 && o + i < a->o_end; i++) {
        const char *w = (const char *)piece_at(a, o + i, k, n).w;
        for (int64_t at = 0; at < n * block_size(); at += 64)
            _mm_prefetch(w + at, _MM_HINT_T0);
    }
}

static void pack(const cpu_matmul_args *a, int64_t o, int n_rows,
                 int64_t k_begin, int depth, void *out)
{
    panel *p = out;
    uint8_t rows[8][PIECE] __attribute__((aligned(64)));

    for (int r = 0; r < ROWS; r += 8) {
        for (int k = 0; k < depth; k += PIECE) {
            int n = blocks_from(a, k_begin + k);
            prefetch_rows(a, o + r + 8, k_begin + k, n);
            for (int i = 0; i < 8; i++) {
                /* Rows past the end: the last one's, which nobody reads. */
                int at = r + i < n_rows ? r + i : n_rows - 1;
                piece from = piece_at(a, o + at, k_begin + k, n);
                pack_row(p, &from, r + i, k / GROUP, rows[i]);
            }
            pack_columns(p, rows, r, k, n);
        }
    }
}

#ifdef __AVX512VNNI__
#include "matmul_u8s8_vnni.h"
#else
#include "matmul_u8s8_madd.h"
#endif
#include "matmul_u8s8_gemv.h"

static void matmul(const cpu_matmul_args *a)
{
    static const gemm_kind kind = {
        .rows = ROWS,
        .tokens = GEMM_TOKENS,
        .depth = DEPTH,
        .panel_size = sizeof(panel),
        .pack = pack,
        .micro = micro,
    };
    size_t x_size = ISA(cpu_x86_q8_size)(a->k);
#ifdef __AVX512VNNI__
    if (a->n >= STRIPS_FROM && a->n < PANELS_FROM) {
        strips(a, x_size);
        return;
    }
#endif
    if (a->n < PANELS_FROM)
        gemv(a, x_size);
    else
        cpu_x86_gemm(&kind, a, a->xp, x_size);
}

static const cpu_product product = {
    matmul,
    {ISA(cpu_x86_q8_size),
     X_IN_PAIRS ? ISA(cpu_x86_q8_pair_rows) : ISA(cpu_x86_q8_rows), true,
     false}};
