#include "value.h"

/* Shares and times closer than this are equal. */
#define ROUNDING 1e-9

void planner_totals_add(const planner_tables *t, planner_totals *totals,
                        uint32_t node, uint32_t option, double sign)
{
    const planner_parts *parts = planner_tables_parts(t, node, option);
    for (uint32_t i = 0; i < parts->n; i++) {
        const planner_part_need *part = &t->parts[parts->first + i];
        totals->ns[part->device] += sign * part->ns;
        totals->bytes[part->device] += sign * part->weight_bytes;
    }
}

planner_totals planner_totals_of(const planner_tables *t,
                                 const uint32_t *options)
{
    planner_totals totals = {0};
    for (uint32_t i = 0; i < t->problem->n_nodes; i++)
        planner_totals_add(t, &totals, i, options[i], 1);
    return totals;
}

core_value planner_value_of(const planner_solve_problem *problem,
                            const planner_totals *totals, double makespan_ns)
{
    core_value value = {.ns = makespan_ns, .priced = makespan_ns};
    for (uint32_t d = 0; d < problem->n_devices; d++) {
        const planner_solve_device *dev = &problem->devices[d];
        double bytes = totals->bytes[d] - (double)dev->memory;
        if (dev->memory != UINT64_MAX && bytes > 0)
            value.memory += bytes;
        if (dev->max_share >= 1 || makespan_ns <= 0)
            continue;
        double share = totals->ns[d] / makespan_ns - dev->max_share;
        if (share > value.share)
            value.share = share;
    }
    if (value.share < ROUNDING)
        value.share = 0;
    return value;
}

bool planner_value_better(core_value a, core_value b)
{
    if (a.memory != b.memory)
        return a.memory < b.memory;
    if (a.share < b.share - ROUNDING || b.share < a.share - ROUNDING)
        return a.share < b.share;
    return a.priced < b.priced * (1 - ROUNDING);
}

bool planner_value_legal(core_value value)
{
    return value.memory <= 0 && value.share <= 0;
}
