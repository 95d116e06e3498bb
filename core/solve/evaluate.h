/* The schedule of a full choice. */
#pragma once

#include "schedule.h"

/* The makespan. options: within kinds; state: scratch; begin, end: as in
 * core_solve_evaluate(). */
double core_evaluate(const core_schedule *s, const uint32_t *options,
                     core_state *state, double *begin, double *end);
