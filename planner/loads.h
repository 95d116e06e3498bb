/*
 * Prices on devices' work, for plans of which several runs are in flight.
 *
 * n runs, each of which can begin while the one before goes on, take what one
 * takes alone and n - 1 times what the busiest device works for one:
 *
 *     makespan + (n - 1) max_d work_d
 *         = makespan + max { sum_d w_d work_d : w_d >= 0, sum_d w_d = n - 1 }
 *
 * The search adds what pieces cost beside the makespan, so w_d is a price on a
 * ns of device d. Prices follow the work that the search answers with:
 * multiplicative weights (Arora, Hazan, Kale, Theory of Computing 8, 2012).
 */
#pragma once

#include "candidates/candidates.h"

typedef struct planner_loads {
    double prices[PLANNER_SOLVE_DEVICES];  /* sum: n_flight - 1 */
    double step_ns[PLANNER_SOLVE_DEVICES]; /* of dispatch, for a piece */
    double total;                          /* that sum */
    double step; /* how far the latest move of prices went */
    uint32_t n_devices;
} planner_loads;

/* options: those of the plan. */
void planner_loads_begin(planner_loads *loads, uint32_t n_flight,
                         const clv_plan *plan, const uint32_t *options,
                         const planner_candidates *candidates);
/* extra_ns of all pieces. */
void planner_loads_price(const planner_loads *loads,
                         planner_candidates *candidates);
/* None. */
void planner_loads_clear(planner_candidates *candidates);
/* By what the search chose. */
void planner_loads_move(planner_loads *loads,
                        const planner_candidates *candidates,
                        const planner_solution *solution);
