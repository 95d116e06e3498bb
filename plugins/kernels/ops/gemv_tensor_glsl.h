/* The kernel of GLSL for few rows, templates/gemv_tensor_glsl.clt; called for
 * what matmul_few.h offers. Without "matmul_vector_dot" (gpu_target.disabled)
 * weights of bytes are made floats instead. */
#pragma once

#include "graph/group.h"

/* Warps of a group, tiles that each has under way. */
void gpu_coop_few_ways(const gpu_node *node, gpu_ways *out);
clv_status gpu_coop_few_lower(gpu_lowering *lowering, const gpu_node *node,
                              uint32_t way, uint32_t tiles);
/* tiles: by member; turns: if there is a rope (gpu_rope_turns()). */
clv_status gpu_coop_few_lower_team(gpu_lowering *lowering, const gpu_team *team,
                                   const uint32_t *tiles, uint32_t turns);
