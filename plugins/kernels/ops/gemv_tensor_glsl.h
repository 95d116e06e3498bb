/* The kernel of GLSL for few rows, templates/gemv_tensor_glsl.clt; called for
 * what matmul_few.h offers. Without "gemv_tensor_dot" (gpu_target.disabled)
 * weights of bytes are made floats instead. */
#pragma once

#include "graph/group.h"

/* Warps of a group, tiles that each has under way. */
void gpu_gemv_glsl_variants(const gpu_node *node, gpu_variants *out);
clv_status gpu_gemv_glsl_lower(gpu_lowering *lowering, const gpu_node *node,
                               uint32_t id, uint32_t tiles);
/* tiles: by member; turns: if there is a rope (gpu_rope_angles()). */
clv_status gpu_fused_lower_glsl(gpu_lowering *lowering, const gpu_fused *fused,
                                const uint32_t *tiles, uint32_t angles);
