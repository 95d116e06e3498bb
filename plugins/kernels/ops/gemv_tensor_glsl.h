/* The kernel of GLSL for what gemv_tensor.h offers. Without "gemv_tensor_dot"
 * (gpu_target.disabled) weights of 8 and 4 bits are converted to floats. */
#pragma once

#include "lower/fused.h"
#include "lower/lower.h"

/* Variants: rows of tiles of a group, its warps, tiles that each loads ahead.
 */
void gpu_gemv_glsl_variants(const gpu_node *node, gpu_variants *out);
clv_status gpu_gemv_glsl_lower(gpu_lowering *lowering, const gpu_node *node,
                               uint32_t id, uint32_t tiles);
/* tiles: by member; angles: of a rope, if there is one. */
clv_status gpu_gemv_glsl_fused_lower(gpu_lowering *lowering,
                                     const gpu_fused *fused,
                                     const uint32_t *tiles, uint32_t angles);
