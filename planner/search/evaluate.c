#include "evaluate.h"
#include "../../core/base/error.h"

#include <stdlib.h>
#include <string.h>

/* Shares and times closer than this are equal. */
#define ROUNDING 1e-9

double planner_evaluate(const planner_schedule *s, const uint32_t *options,
                        planner_state *state, double *begin, double *end)
{
    const planner_tables *t = s->tables;
    size_t at = 0;
    planner_state_begin(s, state);
    for (uint32_t i = 0; i < t->problem->n_nodes; i++) {
        planner_state_add(s, state, i, options[i], begin ? begin + at : NULL,
                          end ? end + at : NULL);
        at += planner_tables_parts(t, i, options[i])->n;
    }
    return planner_state_makespan(s, state);
}

clv_status planner_solve_evaluate(const planner_solve_problem *problem,
                                  const uint32_t *options, double *begin,
                                  double *end, double *makespan_ns)
{
    planner_tables tables;
    planner_schedule schedule;
    uint32_t n = problem->n_nodes;
    *makespan_ns = 0;
    clv_status status = planner_tables_make(problem, &tables);
    if (status)
        return status;
    planner_schedule_init(&schedule, &tables);
    planner_state *state = calloc(1, schedule.state_size);
    uint32_t *own = calloc(n, sizeof *own);
    if (!state || !own)
        status = core_no_memory("to search for a plan");
    for (uint32_t i = 0; i < n && !status; i++) {
        own[i] = options[i] - problem->nodes[i].first_option;
        if (own[i] >= problem->nodes[i].n_options)
            status = clv_error(CLV_ERR_INVALID, "option %u is none of node %u",
                               options[i], i);
    }
    if (!status)
        *makespan_ns = planner_evaluate(&schedule, own, state, begin, end);
    free(own);
    free(state);
    planner_tables_finish(&tables);
    return status;
}

void planner_totals_add(const planner_tables *t, planner_totals *totals,
                        uint32_t node, uint32_t option, double sign)
{
    const planner_parts *parts = planner_tables_parts(t, node, option);
    totals->energy_ns += sign * parts->energy_ns;
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

planner_value planner_value_of(const planner_solve_problem *problem,
                               const planner_totals *totals, double makespan_ns)
{
    planner_value value = {.ns = makespan_ns,
                           .priced = makespan_ns + totals->energy_ns};
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

bool planner_value_better(planner_value a, planner_value b)
{
    if (a.memory != b.memory)
        return a.memory < b.memory;
    if (a.share < b.share - ROUNDING || b.share < a.share - ROUNDING)
        return a.share < b.share;
    return a.priced < b.priced * (1 - ROUNDING);
}

bool planner_value_legal(planner_value value)
{
    return value.memory <= 0 && value.share <= 0;
}
