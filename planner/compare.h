/* Which of two plans is better. */
#pragma once

#include "../core/plan/plan.h"

/* core.objective: how much energy weighs against time. */
double planner_energy_weight(const clv_plan *plan);
/* What plans are to be low in: time and energy, a percent of one for as many of
 * the other as the weight says. Of a plan that has run, its runs count. */
double planner_effort(const clv_plan *plan, double weight);
/* Whether it keeps to memory and max_share. */
bool planner_is_legal_plan(const clv_plan *plan);
/* For every plan that is compared: first memory and max_share, then the
 * objective. A plan that has not run has to be better by what is not certain of
 * its costs. than: NULL: none yet. */
bool planner_is_better_plan(const clv_plan *plan, const clv_plan *than);
/* The same, for a plan that was searched for by which experts are popular. */
bool planner_is_more_popular_plan(const clv_plan *plan, const clv_plan *than);
/* The same, for a plan that was searched for near the other one. */
bool planner_is_better_near_plan(const clv_plan *plan, const clv_plan *than);
