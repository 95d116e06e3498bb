/* The schedule of a full choice. */
#pragma once

#include "schedule.h"

/* The makespan. options: within kinds; state: scratch; begin, end: as in
 * planner_solve_evaluate(). */
double planner_evaluate(const planner_schedule *s, const uint32_t *options,
                        planner_state *state, double *begin, double *end);
