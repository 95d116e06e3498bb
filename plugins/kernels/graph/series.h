/*
 * Products, groups and attentions that follow one another, with nothing between
 * them, become one kernel where the device has one for them
 * (ops/gemv_series.h). They are kept until something else is lowered.
 */
#pragma once

#include "graph/fuse.h"
#include "ops/gemv_series.h"

typedef struct gpu_series {
    gpu_step steps[GPU_SERIES_MAX];
    gpu_node nodes[GPU_SERIES_MAX];   /* that they begin with */
    gpu_chain chains[GPU_SERIES_MAX]; /* of nodes alone */
    bool alone[GPU_SERIES_MAX];
    uint32_t n;
} gpu_series;

/* Keeps the step, if it can be the next; false: it does not fit behind those
 * that are kept, or not at all where there are none. The nodes it covers are
 * covered then. sum: NULL, or what is added to x. */
bool gpu_series_keep(gpu_fusion *f, gpu_series *series, const gpu_node *node,
                     const gpu_fused *fused, const gpu_sum *sum);
bool gpu_series_keep_alone(gpu_fusion *f, gpu_series *series,
                           const gpu_node *node, const gpu_chain *chain);
