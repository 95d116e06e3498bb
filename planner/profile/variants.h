/*
 * Variants of nodes: the ways in which a plan may have a device compute one, by
 * what the device lists (clv_op_caps) and how precise core.precision wants it.
 */
#pragma once

#include "../../core/device/caps.h"
#include "../../core/graph/cut.h"

/* Their ids, 0 for the plain one, which comes first where it may be used. */
typedef struct planner_ways {
    uint32_t ids[1 + CLV_MAX_VARIANTS];
    uint32_t n; /* at least 1 */
} planner_ways;

planner_ways planner_ways_of(const clv_context *ctx, const clv_op_caps *caps);

/* Leaves those that plans may use in the answers for n nodes. */
void planner_limit_variants(const clv_context *ctx, clv_op_caps *caps,
                            uint32_t n);

/* The id of the variant that a saved piece names; caps: what its device answers
 * for its node. CLV_ERR_UNSUPPORTED where it has none of that name,
 * CLV_ERR_REFUSED where core.precision keeps plans from it. */
clv_status planner_variant_named(const clv_context *ctx, const clv_device *dev,
                                 const clv_op_caps *caps, uint32_t piece,
                                 const char *name, uint32_t *out);
