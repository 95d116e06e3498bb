/*
 * Activations as bytes, for GEMM by tensor cores with weights of I8 and I4:
 * each block of channels of a row has a scale. gemm_tensor.c makes the product.
 */
#pragma once

#include "lower/lower.h"

/* Whether the product's x becomes bytes. */
bool gpu_is_int8(const gpu_node *node);
/* Tells a kernel that makes bytes of x the scale that x has, 0 for none. */
void gpu_int8_know(gpu_call *call, const gpu_node *node);
/* Channels of a block: all have one scale in x and in w. */
int64_t gpu_int8_block(const gpu_node *node);
/* Bytes of 16 rows of a block, with their scales. */
int64_t gpu_int8_tile(const gpu_node *node);
/* Makes x into bytes in a private buffer; products of the same x share it. */
clv_status gpu_int8_lower(gpu_lowering *lowering, const gpu_node *node,
                          uint32_t *buffer);
/* Adds the operand x, the param rows, and defines BLOCK. */
void gpu_int8_add(gpu_call *call, const gpu_node *node, uint32_t buffer);
