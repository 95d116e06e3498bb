/* Products of few rows by matrix instructions: matrix times vector, also of
 * several matrices by one kernel. */
#pragma once

#include "graph/group.h"

/* How many warps share a product, tiles that each has under way, whether groups
 * stay for more of it. */
void gpu_gemv_tensor_variants(const gpu_node *node, gpu_variants *out);
/* tiles: the private buffer with the weights. */
clv_status gpu_gemv_tensor_lower(gpu_lowering *lowering, const gpu_node *node,
                                 uint32_t id, uint32_t tiles);

/* For the kernels of both languages. Columns of x: a power of two. */
int64_t gpu_gemv_columns(const gpu_node *node);
/* Defines what the text is to know of the product, and of its fused; NULL: it
 * has none. */
void gpu_gemv_define(gpu_call *call, const gpu_node *node,
                     const gpu_fused *fused);
/* What a team's text says of its members but where their weights lie, and its
 * operands: x, gain, turns (gpu_rope_angles()), w, w1, w2, bias, bias1, bias2,
 * dst, dst1, dst2. */
void gpu_fused_put(gpu_text *text, const gpu_fused *fused);
void gpu_fused_add(gpu_call *call, const gpu_fused *fused,
                   const uint32_t *tiles, uint32_t angles);
