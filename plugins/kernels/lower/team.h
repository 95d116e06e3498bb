/*
 * Products of few rows that share their x: one kernel makes them all, takes x
 * through the RMS_NORM in front, and gate and up through the GLU behind. Fewer
 * kernels are begun, and x is read once.
 */
#pragma once

#include "lower/fuse.h"

#define GPU_TEAM_MAX 3

typedef struct gpu_team {
    gpu_node products[GPU_TEAM_MAX]; /* with a GLU: gate, up */
    uint32_t n;
    gpu_node norm;  /* if has_norm */
    gpu_tensor x;   /* of the products; with a norm, that one's */
    bool has_norm, has_glu;
    uint32_t activation;
    gpu_tensor outs[GPU_TEAM_MAX]; /* as many as products, 1 with a GLU */
    uint32_t n_outs;
    uint32_t setter;  /* product whose output goes to rows of a state; n: none */
    gpu_chain sets;   /* of that one */
    uint32_t covered[GPU_TEAM_MAX + 3]; /* nodes, the first among them */
    uint32_t n_covered;
} gpu_team;

/* The team that begins at the node, a product or a norm; false: there is none.
 * takes: whether the kernel can make a product as one of a team. */
bool gpu_team_find(const gpu_fusion *f, const gpu_node *node,
                   bool (*takes)(const gpu_node *product), gpu_team *team);
