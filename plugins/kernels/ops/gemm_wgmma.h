/* GEMM by matrix instructions of warp groups, on devices that have them: a way
 * of gemm_tensor.c, with the same tiles. */
#pragma once

#include "ops/gemm_tensor.h"

/* Whether this node's product is made so. */
bool gpu_wgmma_suits(const gpu_node *node);
/* Without tuning; and others. */
gpu_tensor_shape gpu_wgmma_preferred(const gpu_node *node);
void gpu_wgmma_shapes(const gpu_node *node, gpu_variants *out);
/* x as halves in blocks of the shape's rows. */
clv_status gpu_wgmma_halves(gpu_lowering *lowering, const gpu_node *node,
                            const gpu_tensor_shape *s, gpu_tensor_x *out);
/* The product for output channels that lie in tiles. sums: where it goes, if
 * s->split > 1. */
clv_status gpu_wgmma_lower(gpu_lowering *lowering, const gpu_node *node,
                           const gpu_tensor_shape *s, const gpu_tensor_part *p,
                           const gpu_tensor_x *x, uint32_t sums);
