/* Measuring what a plan goes by. */
#include "coverage.h"
#include "../../core/base/error.h"
#include "../../core/device/loss.h"

#include <math.h>
#include <stdlib.h>

/* Models that are so near are as good as measurements. */
#define NEAR 0.04

/* Works on one device that no sample answers. */
static clv_status gather(const planner_coverage *s,
                         const planner_profile_ask *asks, uint32_t n,
                         planner_workloads *out)
{
    const clv_device *dev = s->params->devices[s->index];
    planner_cost cost;
    *out = (planner_workloads){.items = calloc(n + 1u, sizeof *out->items)};
    if (!out->items)
        return core_no_memory("for a profile");
    for (uint32_t i = 0; i < n; i++) {
        uint32_t j = 0;
        if (asks[i].dev != dev ||
            !planner_profile_cost(s->profile, dev, &asks[i].workload, &cost) ||
            cost.measured)
            continue;
        while (j < out->n && !planner_workload_equal(&out->items[j].workload,
                                                     &asks[i].workload))
            j++;
        if (j == out->n)
            out->items[out->n++] = (planner_wanted){asks[i].workload, 1};
    }
    return CLV_OK;
}

static bool is_near(double before, double after)
{
    return fabs(after - before) <= NEAR * after;
}

static void note(bool near, planner_refined *out)
{
    if (!near)
        *out = PLANNER_REFINED_MUCH;
    else if (*out == PLANNER_REFINED_NOTHING)
        *out = PLANNER_REFINED_LITTLE;
}

static clv_status refine_device(planner_coverage *s,
                                const planner_profile_ask *asks, uint32_t n,
                                planner_refined *out)
{
    clv_device *dev = s->params->devices[s->index];
    planner_profile_device *device;
    planner_workloads list;
    clv_status status = gather(s, asks, n, &list);
    double *before = calloc(list.n + 1u, sizeof *before);
    planner_cost cost;
    if (!status && !before)
        status = core_no_memory("for a profile");
    for (uint32_t i = 0; i < list.n && !status; i++)
        if (planner_profile_cost(s->profile, dev, &list.items[i].workload,
                                 &cost))
            before[i] = cost.ns;
    if (!status && list.n)
        status = planner_coverage_device(s, dev, &device);
    if (!status && list.n)
        status = planner_coverage_measure(s, device, &list);
    for (uint32_t i = 0; i < list.n && !status; i++)
        if (planner_profile_cost(s->profile, dev, &list.items[i].workload,
                                 &cost) &&
            cost.measured)
            note(is_near(before[i], cost.ns), out);
    free(before);
    planner_workloads_finish(&list);
    return status;
}

clv_status planner_profile_refine(planner_profile *profile,
                                  const planner_profile_ask *asks, uint32_t n,
                                  const planner_profile_params *params,
                                  planner_refined *out)
{
    planner_coverage s = {.profile = profile, .params = params};
    clv_status status = CLV_OK;
    *out = PLANNER_REFINED_NOTHING;
    if (!planner_coverage_may_measure(&s))
        return CLV_OK;
    pthread_mutex_lock(&profile->measuring);
    for (; s.index < params->n_devices && !status; s.index++)
        if (!core_device_lost(params->devices[s.index]))
            status = refine_device(&s, asks, n, out);
    planner_coverage_close(&s);
    pthread_mutex_unlock(&profile->measuring);
    return status;
}
