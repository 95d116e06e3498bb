/*
 * Where candidates and forecasts have their times from: a profile, or a table
 * made by hand.
 */
#pragma once

#include "profile.h"

/* Functions as planner_profile_cost() and the others of profile.h; none is
 * NULL.
 */
typedef struct planner_costs {
    const void *ctx;
    bool (*cost)(const void *ctx, const clv_device *dev,
                 const core_workload *workload, planner_cost *out);
    const planner_overheads *(*overheads)(const void *ctx,
                                          const clv_device *dev);
    double (*bandwidth)(const void *ctx, clv_device *const *devs, uint32_t n);
    double (*slowdown)(const void *ctx, clv_device *const *devs, uint32_t n,
                       uint32_t index);
} planner_costs;

/* The profile outlives it. */
planner_costs planner_costs_of(const planner_profile *profile);
