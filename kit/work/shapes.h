/*
 * Shapes of real models' ops, small enough to run everywhere or, for --perf and
 * --thorough, whole. One list feeds the cases of ops and the benchmark.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

typedef struct kit_matmul_shape {
    const char *name; /* "llama3-8b.ffn_down" */
    int64_t in, out;  /* input and output features */
    bool large;       /* only thorough, and --perf */
} kit_matmul_shape;

extern const kit_matmul_shape kit_matmul_shapes[];
extern const uint32_t kit_n_matmul_shapes;

typedef struct kit_attention_shape {
    const char *name;
    int64_t heads, groups, head_dim;
    int32_t window;
    float softcap;
    bool large;
} kit_attention_shape;

extern const kit_attention_shape kit_attention_shapes[];
extern const uint32_t kit_n_attention_shapes;

/* Lengths of rows (hidden and feed-forward sizes) for norms, activations. */
extern const int64_t kit_widths[];
extern const uint32_t kit_n_widths;
