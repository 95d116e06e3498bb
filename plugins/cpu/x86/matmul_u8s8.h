/*
 * Products of unsigned 8-bit weights, see block.h, and signed 8-bit x, see
 * prepare.h. Weights have an OFFSET that makes them unsigned; the block sums of
 * x take it out again.
 */
#pragma once

#include "block.h"

#define DEPTH 1024
#define ROWS (2 * VL)

typedef struct panel {
    float d[DEPTH / CPU_BLOCK][ROWS];
    uint8_t q[DEPTH / 4][ROWS][4];
} panel;

static void pack(const cpu_matmul_args *a, int64_t o, int n_rows,
                 int64_t k_begin, int depth, void *out)
{
    panel *p = out;
    for (int r = 0; r < ROWS; r += 8) {
        const uint8_t *w = (const uint8_t *)a->w + (o + r) * a->w_stride +
                           k_begin / CPU_BLOCK * block_size();
        for (int b = 0; b < depth / CPU_BLOCK; b++, w += block_size()) {
            __m256 v[8];
            for (int i = 0; i < 8; i++) {
                const uint8_t *block = w + i * a->w_stride;
                int used = r + i < n_rows;
                p->d[b][r + i] =
                    used ? block_scale(a, o + r + i, k_begin + b * CPU_BLOCK,
                                       block)
                         : 0;
                v[i] =
                    used
                        ? _mm256_castsi256_ps(block_bytes(block + block_head()))
                        : _mm256_setzero_ps();
            }
            transpose8(v);
            for (int i = 0; i < 8; i++)
                _mm256_storeu_ps((float *)p->q[b * 8 + i][r], v[i]);
        }
    }
}

/* OFFSET in units of the nibble's, which the sums of x are made for. */
#define OFFSET_UNITS (OFFSET / 8.0f)

#ifdef __AVX512VNNI__
#include "matmul_u8s8_vnni.h"
#else
#include "matmul_u8s8_madd.h"
#endif

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
    if (a->n < GEMM_FROM)
        gemv(a, x_size);
    else
        cpu_x86_gemm(&kind, a, a->xp, x_size);
}

#define PREPARE_SIZE ISA(cpu_x86_q8_size)
#ifndef PREPARE_ROWS
#define PREPARE_ROWS ISA(cpu_x86_q8_rows)
#endif
