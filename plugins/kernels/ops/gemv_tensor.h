/*
 * GEMV (gpu_is_gemv()) with weights in tiles, also of several matrices by one
 * kernel: fused groups (fused.h). gemv_tensor.c has the kernel of OpenCL C and
 * what both languages share, gemv_tensor_glsl.c that of GLSL.
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
bool gpu_gemv_fused_takes(const gpu_node *product, const gpu_node *first);
clv_status gpu_gemv_fused_lower(gpu_lowering *lowering, const gpu_fused *fused);

/* For the kernels of both languages. Columns of x: a power of two. */
int64_t gpu_gemv_columns(const gpu_node *node);
/* Rows of x, at most, whose products are as exact as those of floats. */
#define GPU_FINE_ROWS 2

/* Whether the products are: of so few rows of x, which leave time and columns
 * of the matrix instruction for more than halves, and of integers. */
bool gpu_gemv_is_fine(const gpu_node *node);
/* Adds the operands of a product that is not fused. */
void gpu_gemv_operands(gpu_call *call, const gpu_node *node, uint32_t tiles);
/* Defines what the template needs to know of the product, and of its group;
 * NULL: it has none. */
void gpu_gemv_define(gpu_call *call, const gpu_node *node,
                     const gpu_fused *fused);
