#include "refine.h"

#include "../core/base/error.h"

#include <stdlib.h>

/* Workloads that take less of the run, over all nodes alike, may be a little
 * off. */
#define MATTERS 0.003

typedef struct tally {
    planner_profile_ask ask;
    double ns;
} tally;

/* One for each device and workload. */
static uint32_t count_workloads(const clv_plan *plan, tally *workloads)
{
    uint32_t n = 0;
    for (uint32_t p = 0; p < plan->n_parts; p++) {
        const core_part *part = &plan->parts[p];
        clv_device *dev = plan->devices[part->device].dev;
        planner_workload workload;
        uint32_t i = 0;
        if (core_part_copies(plan, p))
            continue;
        planner_workload_on(dev, plan->graph, part->node, NULL, NULL,
                            &workload);
        workload = planner_workload_plain(&workload);
        while (i < n &&
               (workloads[i].ask.dev != dev ||
                !planner_workload_equal(&workloads[i].ask.workload, &workload)))
            i++;
        if (i == n)
            workloads[n++] = (tally){.ask = {dev, workload}};
        workloads[i].ns += plan->forecast->costs_ns[p];
    }
    return n;
}

clv_status planner_refine_plan(const clv_plan *plan, planner_profile *profile,
                               planner_refined *out)
{
    clv_status status = CLV_OK;
    *out = PLANNER_REFINED_NOTHING;
    if (!plan->forecast)
        return CLV_OK;
    tally *workloads = calloc(plan->n_parts + 1u, sizeof *workloads);
    planner_profile_ask *asks = calloc(plan->n_parts + 1u, sizeof *asks);
    clv_device **devices = calloc(plan->n_devices, sizeof *devices);
    if (!workloads || !asks || !devices)
        status = core_no_memory("for a plan");
    uint32_t n = status ? 0 : count_workloads(plan, workloads), n_asks = 0;
    for (uint32_t i = 0; i < n; i++)
        if (workloads[i].ns >= MATTERS * plan->forecast->makespan_ns)
            asks[n_asks++] = workloads[i].ask;
    for (uint32_t d = 0; d < plan->n_devices && !status; d++)
        devices[d] = plan->devices[d].dev;
    const planner_profile_params params = {.devices = devices,
                                           .n_devices = plan->n_devices};
    if (!status)
        status = planner_profile_refine(profile, asks, n_asks, &params, out);
    free(devices);
    free(asks);
    free(workloads);
    return status;
}
