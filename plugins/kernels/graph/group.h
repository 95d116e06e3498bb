/*
 * Fused groups: GEMVs that share their x become one kernel, with the RMS_NORM
 * of x in front, the GLU of gate and up behind, or the ROPE of queries and keys
 * and the SET_ROWS of the cache. Fewer kernels are launched, and x is read
 * once. Products of many rows by warp groups become one kernel, too, but for
 * the ROPE; the norm is part of the kernel that makes halves of x.
 *
 * Names that gpu_target.disabled may have: gemv_fused, gemm_wgmma_fused,
 * fuse_rms_norm, fuse_rope, and those of fuse.h.
 */
#pragma once

#include "graph/fuse.h"

/* The group that begins at the node, a product or a norm; false: there is none.
 * With n_others there is another one, to be found when this one is covered. */
bool gpu_fused_find(gpu_fusion *f, const gpu_node *node, gpu_fused *fused);
/* The group that begins at a sum, of one term or more that are added to x, then
 * its norm; false: there is none. */
bool gpu_fused_find_sum(const gpu_fusion *f, const gpu_node *node,
                        gpu_fused *fused, gpu_sum *sum);
