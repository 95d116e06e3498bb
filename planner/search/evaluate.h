/*
 * What a full choice comes to: its makespan by the rules of steps, what its
 * pieces take of each device, and how good it is. A choice is better that keeps
 * to the devices' memory, then one that keeps to their shares of the makespan,
 * then one that is done sooner, with prices on it.
 *
 * Options are counted from 0 within a node here.
 */
#pragma once

#include "schedule.h"

/* state: scratch of s->state_size. begin, end: as planner_solve_evaluate(). */
double planner_evaluate(const planner_schedule *s, const uint32_t *options,
                        planner_state *state, double *begin, double *end);

/* What the chosen pieces come to on each device. */
typedef struct planner_totals {
    double ns[PLANNER_SOLVE_DEVICES], bytes[PLANNER_SOLVE_DEVICES];
    double energy_ns; /* what their energy counts */
} planner_totals;

/* Adds the pieces of a node's option, or takes them off (sign -1). */
void planner_totals_add(const planner_tables *tables, planner_totals *totals,
                        uint32_t node, uint32_t option, double sign);
planner_totals planner_totals_of(const planner_tables *tables,
                                 const uint32_t *options);

typedef struct planner_value {
    double memory; /* bytes over what devices may hold, of all together */
    double share;  /* of the makespan that a device works more than it may */
    double ns;     /* makespan */
    double priced; /* with energy, and the options' prices if they have any */
} planner_value;

planner_value planner_value_of(const planner_solve_problem *problem,
                               const planner_totals *totals,
                               double makespan_ns);
/* What an option costs beside time: energy and its price. prices:
 * [tables->n_options], or NULL. */
static inline double planner_price(const planner_tables *tables,
                                   const double *prices, uint32_t node,
                                   uint32_t option)
{
    uint32_t at =
        tables->classes[tables->nodes[node].class].first_parts + option;
    return tables->options[at].energy_ns + (prices ? prices[at] : 0);
}
/* Whether a is better than b, by more than rounding. */
bool planner_value_better(planner_value a, planner_value b);
/* Whether it keeps to all constraints. */
bool planner_value_legal(planner_value value);
