/*
 * Where candidates and forecasts have their times from: a profile, or a table
 * made by hand.
 */
#pragma once

#include "../profile/profile.h"

/* Functions as core_profile_cost() and the others of profile.h; none is NULL.
 */
typedef struct core_costs {
    const void *ctx;
    bool (*cost)(const void *ctx, const clv_device *dev, const core_work *work,
                 core_cost *out);
    const core_overheads *(*overheads)(const void *ctx, const clv_device *dev);
    double (*bandwidth)(const void *ctx, clv_device *const *devs, uint32_t n);
    double (*slowdown)(const void *ctx, clv_device *const *devs, uint32_t n,
                       uint32_t index);
} core_costs;

/* The profile outlives it. */
core_costs core_costs_of(const core_profile *profile);
