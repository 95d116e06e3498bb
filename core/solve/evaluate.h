/* The schedule of a full choice. */
#pragma once

#include "schedule.h"

/* The makespan. options: within kinds; ends: of core_tables_ends(); state:
 * scratch; begin, end: as in core_solve_evaluate(). */
double core_evaluate(const core_schedule *s, const uint32_t *options,
                     const uint32_t *ends, core_state *state, double *begin,
                     double *end);
