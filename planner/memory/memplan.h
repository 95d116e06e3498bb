/*
 * Memory for tensors that live during a part of a run: greedy by size, after
 * Pisarchyk & Lee, "Efficient Memory Management for Deep Neural Net Inference"
 * (2020). Both of its strategies are tried, offsets in one arena and shared
 * objects; the smaller is used (offsets, where equal). Where greedy-by-size
 * offsets need more than is live at some node, the tensors are also placed by
 * lifetime, the longest first, and by size times lifetime.
 */
#pragma once

#include "../../core/plan/plan.h"

typedef struct planner_lifetime {
    uint64_t size;        /* bytes; 0 takes no memory */
    uint32_t first, last; /* nodes, inclusive */
} planner_lifetime;

/* Whether two tensors whose lifetimes do not overlap may have the same memory,
 * too. */
typedef bool (*planner_may_share_fn)(const void *ctx, uint32_t a, uint32_t b);

/* place[i]: the tensor's offset in an arena of out->size bytes, a multiple of
 * align (a power of two). Sizes are rounded up to align. may_share: NULL for
 * always. */
clv_status planner_memplan_make(const planner_lifetime *tensors, uint32_t n,
                                uint64_t align, planner_may_share_fn may_share,
                                const void *ctx, uint64_t *place,
                                core_memplan *out);
