/*
 * What the kernels of fused groups share (lower/fused.h): the operands of the
 * members, and text that says which member an output is of. The kernels are
 * those of gemv_tensor.c, gemv_tensor_glsl.c, gemv_series.c and
 * gemm_wgmma_fused.c.
 */
#pragma once

#include "lower/fused.h"
#include "lower/lower.h"

/* Whether the pairs that the group's rope rotates lie 16 k channels apart, in
 * two rows of tiles of 16; else they are neighbours, in one. */
bool gpu_fused_has_halves(const gpu_fused *fused);
/* Rows of tiles that a group of items reads at a time: gate and up, or both
 * halves of pairs. */
int64_t gpu_fused_streams(const gpu_fused *fused);
/* Rows of tiles of a product's weights, of 16 outputs each. */
int64_t gpu_tile_rows(const gpu_node *node);
/* Groups of 16 outputs, or of 2 x 16. */
int64_t gpu_fused_strips(const gpu_fused *fused);

/* What a kernel calls the operands of a group. */
typedef struct gpu_fused_names {
    const char *x, *gain, *eps;
    const char *rope; /* gpu_rope_angles() */
    const char *w[GPU_FUSED_MAX], *dst[GPU_FUSED_MAX], *bias[GPU_FUSED_MAX];
    const char *suffix; /* of FIND_STRIP and FIND_ROWS */
} gpu_fused_names;

/* x, gain, rope, w, w1, w2, bias, bias1, bias2, dst, dst1, dst2. */
extern const gpu_fused_names gpu_fused_plain_names;

/* The weights in tiles, and the buffer of angles, if there is a ROPE. */
clv_status gpu_fused_prepare(gpu_lowering *lowering, const gpu_fused *fused,
                             uint32_t *tiles, uint32_t *angles);
/* The member that strip `at` is of, as FIND_STRIP(at), and FIND_ROWS: where its
 * rows of tiles are. */
void gpu_fused_put_strips(gpu_text *text, const gpu_fused *fused,
                          const gpu_fused_names *names);
/* What is stored for a member, as ADD_BIAS(y, m, o) and STORE(m, y, row, o). */
void gpu_fused_put_stores(gpu_text *text, const gpu_fused *fused,
                          const gpu_fused_names *names);
/* Adds what that and FIND_ROWS name: weights, biases and results. */
void gpu_fused_add_products(gpu_call *call, const gpu_fused *fused,
                            const uint32_t *tiles,
                            const gpu_fused_names *names);
/* Defines ACTIVATION: of gate, 1 SiLU, 2 GELU, 0 where there is no GLU. */
void gpu_fused_define_activation(gpu_call *call, const gpu_fused *fused);
/* What a group's text says of its members but that, and its operands. */
void gpu_fused_put_named(gpu_text *text, const gpu_fused *fused,
                         const gpu_fused_names *names);
void gpu_fused_add_named(gpu_call *call, const gpu_fused *fused,
                         const uint32_t *tiles, uint32_t angles,
                         const gpu_fused_names *names);
/* The same, of the plain names. */
void gpu_fused_put(gpu_text *text, const gpu_fused *fused);
void gpu_fused_add(gpu_call *call, const gpu_fused *fused,
                   const uint32_t *tiles, uint32_t angles);
