#include "costs.h"

static bool cost(const void *ctx, const clv_device *dev,
                 const core_workload *workload, planner_cost *out)
{
    return planner_profile_cost(ctx, dev, workload, out);
}

static const planner_overheads *overheads(const void *ctx,
                                          const clv_device *dev)
{
    return planner_profile_overheads(ctx, dev);
}

static double bandwidth(const void *ctx, clv_device *const *devs, uint32_t n)
{
    return planner_profile_bandwidth(ctx, devs, n);
}

static double slowdown(const void *ctx, clv_device *const *devs, uint32_t n,
                       uint32_t index)
{
    return planner_profile_slowdown(ctx, devs, n, index);
}

planner_costs planner_costs_of(const planner_profile *profile)
{
    return (planner_costs){profile, cost, overheads, bandwidth, slowdown};
}
