/* Measuring what a plan relies on. */
#pragma once

#include "../core/plan/plan.h"
#include "profile/profile.h"

/* The workloads that the plan spends its time on and that only models know are
 * measured on their devices (HeteroLLM's real-execution mode, where it
 * matters). Nothing without a forecast, or where only runs are to tell. */
clv_status planner_refine_plan(const clv_plan *plan, planner_profile *profile,
                               planner_refined *out);
