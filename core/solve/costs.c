#include "costs.h"

static bool cost(const void *ctx, const clv_device *dev, const core_work *work,
                 core_cost *out)
{
    return core_profile_cost(ctx, dev, work, out);
}

static const core_overheads *overheads(const void *ctx, const clv_device *dev)
{
    return core_profile_overheads(ctx, dev);
}

static double bandwidth(const void *ctx, clv_device *const *devs, uint32_t n)
{
    return core_profile_bandwidth(ctx, devs, n);
}

static double slowdown(const void *ctx, clv_device *const *devs, uint32_t n,
                       uint32_t index)
{
    return core_profile_slowdown(ctx, devs, n, index);
}

core_costs core_costs_of(const core_profile *profile)
{
    return (core_costs){profile, cost, overheads, bandwidth, slowdown};
}
