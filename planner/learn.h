/*
 * Costs are hypotheses, runs are evidence: what runs of a plan took is compared
 * with the forecast. It corrects the forecast of this plan, and the costs of
 * what the plan's parts do.
 */
#pragma once

#include "../core/plan/plan.h"
#include "profile/profile.h"

/* Hash of the plan's graph and devices; plan: a bare one is enough. */
uint64_t planner_problem_of(const clv_plan *plan);
/* Sets plan->problem and plan->identity, once the pieces are known. */
void planner_identify(clv_plan *plan);
/* What runs of the plan took, as a part of what is forecast for them now: of
 * those with the nearest symbols (NULL: the largest). 0: it has not run. */
double planner_run_ratio(const clv_plan *plan, planner_profile *profile,
                         const int64_t *symbols);
/* Whether so many plans of the problem have run, with symbols like these (NULL:
 * the largest), that the fastest of them is taken from now on. plan: a bare one
 * is enough, with its problem. */
bool planner_has_tried_enough(const clv_plan *plan, planner_profile *profile,
                              const int64_t *symbols);
/* Standard deviation of a run, as a part of it, at most: of simulated devices
 * whose times are random. Else 0. */
double planner_run_noise(const clv_plan *plan, const planner_profile *profile);
