/* What the kernels of matrix instructions share: weights in tiles (tiles.clt),
 * their text, operands in private memory. */
#pragma once

#include "lower/lower.h"

/* Bytes of a tile of 16 x 32 weights, 0: there are none of the dtype; and of a
 * row of tiles. */
int64_t gpu_tile_bytes(uint32_t dtype);
int64_t gpu_tiles_row(const clv_tensor_desc *w);
/* Whether the product is one of the kernel for few rows (matmul_few.h). */
bool gpu_is_few(const gpu_node *node);
bool gpu_is_glsl(const gpu_target *target);
/* Whether there are matrix instructions, be it by plain code. */
bool gpu_has_matrices(const gpu_target *target);
/* Bytes of local memory that the plain code takes in addition. */
int64_t gpu_plain_bytes(const gpu_target *target, int64_t items);

/* Adds rows in private memory, of so many channels of dtype. */
gpu_operand *gpu_add_private_rows(gpu_call *call, const char *name,
                                  uint32_t buffer, uint32_t dtype,
                                  gpu_expr width, int64_t channels,
                                  int64_t stride, bool written);
/* Adds the product's weights, in tiles that lie in the buffer. */
void gpu_add_tiles(gpu_call *call, const gpu_node *node, const char *name,
                   uint32_t buffer);
/* The words for matrices in the target's language. */
const char *gpu_matrix_words(const gpu_target *target);
/* The template behind the words that it needs. */
clv_status gpu_matrix_text(gpu_text *text, const gpu_target *target,
                           const char *template);
/* The weights in tiles, by the setup. */
clv_status gpu_lower_tiles(gpu_lowering *lowering, const gpu_node *node,
                           uint32_t *buffer);
