/*
 * GEMV (gpu_is_gemv()) with weights in tiles, also of several matrices by one
 * kernel: fused groups. gemv_tensor.c has the kernel of OpenCL C and what both
 * languages share, gemv_tensor_glsl.c that of GLSL.
 */
#pragma once

#include "lower/fused.h"
#include "lower/lower.h"

/* Variants: warps of a group, tiles that each loads ahead, whether groups are
 * persistent. */
void gpu_gemv_tensor_variants(const gpu_node *node, gpu_variants *out);
/* tiles: the private buffer with the weights. */
clv_status gpu_gemv_tensor_lower(gpu_lowering *lowering, const gpu_node *node,
                                 uint32_t id, uint32_t tiles);

/* Whether a product can be fused with the first, which may be itself. */
bool gpu_fused_takes(const gpu_node *product, const gpu_node *first);
clv_status gpu_fused_lower(gpu_lowering *lowering, const gpu_fused *fused);

/* For the kernels of both languages. Columns of x: a power of two. */
int64_t gpu_gemv_columns(const gpu_node *node);
/* Adds the operands of a product that is not fused. */
void gpu_gemv_operands(gpu_call *call, const gpu_node *node, uint32_t tiles);
/* Defines what the template needs to know of the product, and of its group;
 * NULL: it has none. */
void gpu_gemv_define(gpu_call *call, const gpu_node *node,
                     const gpu_fused *fused);
/* Whether the pairs that the group's rope rotates lie 16 k channels apart, in
 * two rows of tiles of 16; else they are neighbours, in one. */
bool gpu_fused_has_halves(const gpu_fused *fused);
/* Rows of tiles that a group of items reads at a time: gate and up, or both
 * halves of pairs. */
int64_t gpu_fused_streams(const gpu_fused *fused);
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
