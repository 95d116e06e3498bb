/*
 * The order in which the host submits steps. Each device has its own order
 * already; between devices, the step goes first that can be submitted first. So
 * a wait of the host for one device holds back no step of another one, and a
 * queue gets its next step while the one before still runs. The forecast plays
 * the run and tells when steps can be submitted.
 */
#include "../profile/profile.h"
#include "../../core/device/subgraph.h"
#include "../../core/base/error.h"
#include "../forecast/forecast.h"
#include "../profile/profile.h"
#include "lower.h"

#include <stdlib.h>
#include <string.h>

/* The waits of the plan are found when it is known which values share memory,
 * for which the order has to be known. Until then what steps need of others
 * is in their clocks. */
static clv_status waits_of_clocks(clv_plan *plan)
{
    uint32_t n = plan->n_devices;
    plan->waits = calloc((size_t)plan->n_steps * n, sizeof *plan->waits);
    if (!plan->waits)
        return core_no_memory("for a plan");
    for (uint32_t s = 0; s < plan->n_steps; s++) {
        core_step *step = &plan->steps[s];
        step->first_wait = plan->n_waits;
        for (uint32_t d = 0; d < n; d++) {
            uint64_t value = plan->clocks[(size_t)s * n + d];
            if (!value || d == step->device)
                continue;
            plan->waits[plan->n_waits++] = (core_wait){
                .device = d,
                .value = value,
                .by_host = planner_host_waits(plan, step->device, d)};
            step->n_waits++;
        }
    }
    return CLV_OK;
}

static void forget_waits(clv_plan *plan)
{
    for (uint32_t s = 0; s < plan->n_steps; s++)
        plan->steps[s].first_wait = plan->steps[s].n_waits = 0;
    free(plan->waits);
    plan->waits = NULL;
    plan->n_waits = 0;
}

/* Moves steps and their clocks to their new places. */
static clv_status renumber(clv_plan *plan, const uint32_t *order)
{
    size_t n = plan->n_steps, width = plan->n_devices;
    core_step *steps = calloc(n, sizeof *steps);
    uint64_t *clocks = calloc(n * width, sizeof *clocks);
    uint32_t *place = calloc(n, sizeof *place);
    clv_status status =
        steps && clocks && place ? CLV_OK : core_no_memory("for a plan");
    for (uint32_t i = 0; i < n && !status; i++) {
        steps[i] = plan->steps[order[i]];
        memcpy(clocks + i * width, plan->clocks + order[i] * width,
               width * sizeof *clocks);
        place[order[i]] = i;
    }
    if (!status) {
        for (uint32_t i = 0; i < plan->n_parts; i++)
            plan->parts[i].step = place[plan->parts[i].step];
        memcpy(plan->steps, steps, n * sizeof *steps);
        memcpy(plan->clocks, clocks, n * width * sizeof *clocks);
    }
    free(place);
    free(clocks);
    free(steps);
    return status;
}

clv_status planner_order(clv_plan *plan)
{
    planner_profile *profile;
    uint32_t *order = calloc(plan->n_steps, sizeof *order);
    clv_status status = order ? planner_profile_of(plan->ctx, &profile)
                              : core_no_memory("for a plan");
    if (!status)
        status = waits_of_clocks(plan);
    if (!status) {
        const planner_costs costs = planner_costs_of(profile);
        status = planner_forecast_order(plan, &costs, order);
    }
    forget_waits(plan);
    if (!status)
        status = renumber(plan, order);
    free(order);
    return status;
}
