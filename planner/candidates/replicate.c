/*
 * Nodes that each of several devices computes for itself, as norms and sums
 * between divided products, so that no device waits for another one's result
 * (as tensor parallelism has it in Megatron-LM, Shoeybi et al. 2019, section
 * 3).
 */
#include "maker.h"

/* Whether the device takes the node, and for less than an exchange. */
static bool is_cheap(const planner_maker *m, uint32_t class, uint32_t device)
{
    const core_piece whole = {.node = m->classes.classes[class].first,
                              .device = device};
    planner_demand demand;
    planner_cost cost;
    uint32_t variant;
    return m->takes[class * m->n_devices + device] &&
           planner_maker_cost(m, &whole, &variant, &cost, &demand) &&
           planner_is_less_than_exchange(m, whole.node, device, cost.ns);
}

static clv_status replicate_class(planner_maker *m, uint32_t class,
                                  const planner_device_set *set)
{
    const uint32_t node = m->classes.classes[class].first;
    planner_candidate candidate = {.n = set->n};
    if (!core_cut_may_replicate(m->graph, node) ||
        m->graph->tensors[m->graph->nodes[node].outputs[0]].usage ==
            CLV_USAGE_OUTPUT)
        return CLV_OK;
    for (uint32_t i = 0; i < set->n; i++) {
        if (!is_cheap(m, class, set->devices[i]))
            return CLV_OK;
        candidate.cuts[i] =
            (core_piece){.node = node, .device = set->devices[i]};
    }
    return planner_candidate_add(m, class, &candidate);
}

static clv_status replicate_all(planner_maker *m, const planner_device_set *set,
                                void *ctx)
{
    (void)ctx;
    for (uint32_t k = 0; k < m->classes.n_classes; k++)
        CLV_TRY(replicate_class(m, k, set));
    return CLV_OK;
}

clv_status planner_add_replicas(planner_maker *m)
{
    return planner_each_device_set(m, false, replicate_all, NULL);
}
