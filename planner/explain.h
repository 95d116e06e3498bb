/* Why a plan has what it has, for views of it. */
#pragma once

#include "candidates/candidates.h"

/* The plan's choices: what their longest piece takes, and the best other option
 * with what the run takes then. options: [n_nodes] that the plan was made of;
 * solution: of the search that found it, or another plan that is as good. */
clv_status planner_explain(clv_plan *plan, const planner_candidates *candidates,
                           const planner_solution *solution,
                           const uint32_t *options);
