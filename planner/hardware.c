#include "hardware.h"

#include "../core/base/error.h"

#include <stdlib.h>
#include <string.h>

static bool is_same_hardware(const clv_device *a, const clv_device *b)
{
    static const uint8_t unknown[sizeof a->info.uuid];
    return a->plugin != b->plugin &&
           memcmp(a->info.uuid, unknown, sizeof unknown) &&
           !memcmp(a->info.uuid, b->info.uuid, sizeof unknown);
}

static bool takes(const clv_op_caps *caps)
{
    return caps->answer == CLV_ANSWER_YES || caps->answer == CLV_ANSWER_STATIC;
}

/* Whether device a, alone, does what both take in less time than b. */
static bool is_faster(const clv_graph *graph, const planner_profile *profile,
                      const clv_device *a, const clv_op_caps *caps_a,
                      const clv_device *b, const clv_op_caps *caps_b)
{
    double sum_a = 0, sum_b = 0;
    uint32_t n_a = 0, n_b = 0;
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        planner_workload w;
        planner_cost cost_a, cost_b;
        n_a += takes(&caps_a[i]);
        n_b += takes(&caps_b[i]);
        if (!takes(&caps_a[i]) || !takes(&caps_b[i]))
            continue;
        planner_workload_of(graph, i, NULL, NULL, &w);
        if (!planner_profile_cost(profile, a, &w, &cost_a) ||
            !planner_profile_cost(profile, b, &w, &cost_b))
            continue;
        sum_a += cost_a.ns;
        sum_b += cost_b.ns;
    }
    return n_a != n_b ? n_a > n_b : sum_a < sum_b;
}

clv_status planner_leave_out_same_hardware(const clv_plan *plan,
                                           const clv_graph *graph,
                                           const clv_op_caps *caps,
                                           planner_profile *profile,
                                           clv_op_caps **out)
{
    const size_t n = graph->n_nodes;
    clv_op_caps *own = calloc(plan->n_devices * n + 1, sizeof *own);
    *out = own;
    if (!own)
        return core_no_memory("for a plan");
    memcpy(own, caps, plan->n_devices * n * sizeof *own);
    for (uint32_t a = 0; a < plan->n_devices; a++)
        for (uint32_t b = 0; b < plan->n_devices; b++) {
            clv_device *x = plan->devices[a].dev, *y = plan->devices[b].dev;
            if (a == b || !is_same_hardware(x, y))
                continue;
            /* Of equal ones the first stays. */
            const bool better =
                is_faster(graph, profile, x, caps + a * n, y, caps + b * n) ||
                (a < b &&
                 !is_faster(graph, profile, y, caps + b * n, x, caps + a * n));
            for (size_t i = 0; better && i < n; i++)
                own[b * n + i].answer = CLV_ANSWER_NO;
        }
    return CLV_OK;
}
