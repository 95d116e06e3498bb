/* Parts of a made-up source of measurements: a meter that is none, and devices
 * that do not slow one another down. */
#pragma once

#include "../../planner/profile/store.h"

static inline clv_status made_up_open(clv_context *ctx,
                                      const planner_meter_params *params,
                                      planner_meter **out)
{
    static char meter;
    (void)ctx, (void)params;
    *out = (planner_meter *)(void *)&meter;
    return CLV_OK;
}

static inline void made_up_close(planner_meter *meter)
{
    (void)meter;
}

static inline clv_status made_up_contention(planner_meter *meter,
                                            clv_device *const *devs, uint32_t n,
                                            planner_contention *out)
{
    (void)meter, (void)devs;
    for (uint32_t i = 0; i < n; i++)
        out->slowdown[i] = out->alone[i] = 1;
    out->bandwidth = 1e9;
    return CLV_OK;
}
