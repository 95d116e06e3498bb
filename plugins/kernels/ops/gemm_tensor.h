/* Products by tensor cores, on devices that have them: GEMM, and the choice
 * between it and GEMV. matmul.c asks here first. */
#pragma once

#include "lower/lower.h"

/* Whether this node's product is made so. */
bool gpu_tensor_suits(const gpu_node *node);
/* GEMV is as exact as with floats, GEMM rounds to halves or bytes. */
uint32_t gpu_tensor_error_class(const gpu_node *node);
/* Variants: shapes of tiles, depths, parts; those of GEMV. */
void gpu_tensor_variants(const gpu_node *node, gpu_variants *out);
clv_status gpu_tensor_lower(gpu_lowering *lowering, const gpu_node *node);
