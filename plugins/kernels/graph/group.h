/*
 * Products of few rows that share their x: one kernel makes them all, takes x
 * through the RMS_NORM in front, gate and up through the GLU behind, and
 * queries and keys through their ROPE, and writes into the rows of a state
 * where a SET_ROWS follows. Fewer kernels are begun, and x is read once.
 *
 * Names that gpu_target.disabled may have: matmul_team, rms_norm_matmul,
 * matmul_rope, and those of fuse.h.
 */
#pragma once

#include "graph/fuse.h"

#define GPU_FUSED_MAX 3

typedef struct gpu_fused_member {
    gpu_node product;
    bool rotated;   /* by a ROPE */
    gpu_node rope;  /* if turned */
    gpu_tensor out; /* of the last node but a SET_ROWS */
    gpu_chain sets; /* if sets.sets: where the rows of out go instead */
} gpu_fused_member;

typedef struct gpu_fused {
    gpu_fused_member members[GPU_FUSED_MAX]; /* with a GLU: gate, up */
    uint32_t n;
    gpu_node norm; /* if has_norm */
    gpu_tensor x;  /* of the products; with a norm, that one's */
    bool has_norm, has_glu;
    const gpu_node *rope; /* of one that is turned: all have the same positions,
                             frequencies and attributes; NULL: none is */
    uint32_t activation;
    uint32_t n_outs; /* as many as members, which have them; 1 with a GLU */
    uint32_t covered[3 * GPU_FUSED_MAX + 2]; /* nodes, the first among them */
    uint32_t n_covered;
} gpu_fused;

/* Whether the kernel can make a product in one team with the first, which may
 * be itself. */
typedef bool gpu_fused_test(const gpu_node *product, const gpu_node *first);
/* The team that begins at the node, a product or a norm; false: there is none.
 */
bool gpu_fused_find(const gpu_fusion *f, const gpu_node *node,
                    gpu_fused_test *takes, gpu_fused *fused);
/* Whether the pairs that the team's rope turns lie 16 k channels apart, in two
 * rows of tiles of 16; else side by side, in one. */
bool gpu_fused_has_halves(const gpu_fused *fused);

/* ops/matmul_few.c: the kernels of groups. */
gpu_fused_test gpu_fused_takes;
clv_status gpu_fused_lower(gpu_lowering *lowering, const gpu_fused *fused);
