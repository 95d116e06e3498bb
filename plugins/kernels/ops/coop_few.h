/* Shapes of matmul_coop_vector, GLSL's kernel for products of few rows. */
#pragma once

#include "lower/check.h"

/* Tiles of 16 output channels and warps that a group has, and tiles that a warp
 * has under way in each. */
typedef struct gpu_coop_few {
    uint32_t tiles, warps, deep;
} gpu_coop_few;

void gpu_coop_few_ways(const gpu_node *node, gpu_ways *out);
gpu_coop_few gpu_coop_few_of(uint32_t way);
/* What the template asks for, but for COLUMNS and DTYPE. */
void gpu_coop_few_define(gpu_call *call, const gpu_node *node,
                         gpu_coop_few shape);
