/*
 * The ring that streamed weights pass through: a part of a device's memory
 * (planner/lower/stream.h). The search counts on its size before there is a
 * plan.
 */
#pragma once

#include "../../core/plan/plan.h"

/* Twice what a node reads of it at most, a weight and its scales, so that those
 * of one node are copied while another's are read; or more, where the device's
 * memory is that much larger. */
#define PLANNER_RING_BYTES ((uint64_t)256 << 20)
#define PLANNER_RING_PART 32

static inline uint64_t planner_ring_bytes(const core_plan_device *d,
                                          uint64_t largest)
{
    const uint64_t part = d->room / PLANNER_RING_PART;
    const uint64_t size = part < PLANNER_RING_BYTES ? part : PLANNER_RING_BYTES;
    return size > 2 * largest ? size : 2 * largest;
}
