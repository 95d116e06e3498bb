/* Profiles as applications see them. */
#include "profile.h"
#include "../../core/base/error.h"
#include "../../core/device/loss.h"

#include <stdlib.h>

/* The devices given, or those of the context that are not lost; for free(). */
static clv_status take_devices(clv_context *ctx, clv_device *const *devices,
                               uint32_t n, clv_device ***out, uint32_t *n_out)
{
    uint32_t room = devices ? n : ctx->n_devices, taken = 0;
    clv_device **list = calloc(room + 1u, sizeof *list);
    *out = list;
    *n_out = 0;
    if (!list)
        return core_no_memory("for a profile");
    for (uint32_t i = 0; i < room; i++) {
        clv_device *dev = devices ? devices[i] : ctx->devices[i];
        if (dev->ctx != ctx)
            return clv_error(CLV_ERR_INVALID,
                             "profile: device '%s' is of "
                             "another context",
                             dev->id);
        if (!devices && core_device_lost(dev))
            continue;
        for (uint32_t j = 0; j < taken; j++)
            if (list[j] == dev)
                return clv_error(CLV_ERR_INVALID,
                                 "profile: device '%s' is "
                                 "listed twice",
                                 dev->id);
        list[taken++] = dev;
    }
    *n_out = taken;
    return CLV_OK;
}

clv_status clv_profile_graph(clv_context *ctx, clv_graph *graph,
                             const clv_profile_params *params)
{
    static const clv_profile_params defaults;
    if (!params)
        params = &defaults;
    clv_device **devices;
    planner_profile_params inner = {.full = params->full,
                                    .again = params->again,
                                    .asked = !params->brief,
                                    .progress = params->progress,
                                    .progress_ctx = params->progress_ctx};
    planner_profile *profile;
    CLV_TRY(clv_graph_check(graph));
    clv_status status = take_devices(ctx, params->devices, params->n_devices,
                                     &devices, &inner.n_devices);
    inner.devices = devices;
    if (!status)
        status = planner_profile_of(ctx, &profile);
    if (!status)
        status = planner_profile_cover(profile, graph, &inner);
    free(devices);
    return status;
}

clv_status clv_profile_print(clv_context *ctx, clv_device *const *devices,
                             uint32_t n, const char *format, char **out)
{
    clv_device **list;
    planner_profile *profile;
    *out = NULL;
    clv_status status = take_devices(ctx, devices, n, &list, &n);
    if (!status)
        status = planner_profile_of(ctx, &profile);
    if (!status)
        status = planner_profile_print(profile, list, n, format, out);
    free(list);
    return status;
}
