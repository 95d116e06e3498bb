/* Products by matrix instructions, on devices that have them; matmul.c asks
 * first here. */
#pragma once

#include "lower/lower.h"

/* Whether this node's product is made so. */
bool gpu_tensor_suits(const gpu_node *node);
/* Few rows are as exact as with floats, many are rounded to halves. */
uint32_t gpu_tensor_error_class(const gpu_node *node);
/* Shapes of tiles, depths, parts; of few rows, how many warps share a product.
 */
void gpu_tensor_variants(const gpu_node *node, gpu_variants *out);
clv_status gpu_tensor_lower(gpu_lowering *lowering, const gpu_node *node);
