/*
 * Blocked matrix product for many rows of x, shared by all weight dtypes.
 *
 * Rows of w are repacked, a block that fits the second-level cache at a time,
 * into panels of `rows` rows side by side: one vector load gives the same k of
 * neighbouring rows. A micro-kernel multiplies a panel with a few rows of x
 * ("tokens"), whose values it broadcasts. Each packed panel serves all tokens.
 */
#pragma once

#include "../kernels.h"

/* Of the widest instruction set. */
#define GEMM_MAX_ROWS 32
#define GEMM_MAX_TOKENS 12

/* Work of one micro-kernel call: y += x * transpose(panel). */
typedef struct gemm_tile {
    const void *panel;
    const uint8_t *x; /* first token's row, from k = 0; x_stride in bytes */
    size_t x_stride;
    int64_t k, k_begin; /* length of x's rows; where the panel begins */
    int depth;          /* k values in the panel */
    int tokens;
    float *y; /* [tokens, rows]; y_stride in elements */
    int64_t y_stride;
} gemm_tile;

typedef struct gemm_kind {
    int rows;          /* of w in a panel */
    int tokens;        /* most tokens a call of micro takes */
    int depth;         /* most k values a panel holds */
    size_t panel_size; /* bytes, a multiple of 64 */
    /* Packs n_rows (fewer than `rows` at the end; the rest becomes zero) from
     * row o, k_begin .. k_begin + depth. */
    void (*pack)(const cpu_matmul_args *a, int64_t o, int n_rows,
                 int64_t k_begin, int depth, void *panel);
    void (*micro)(const gemm_tile *tile);
} gemm_kind;

/* x: first row of x as the micro-kernel reads it. */
void cpu_x86_gemm(const gemm_kind *kind, const cpu_matmul_args *args,
                  const void *x, size_t x_stride);
