/* Has what a plan goes by measured. */
#pragma once

#include "profile/profile.h"
#include "../core/plan/plan.h"

/* The works that the plan spends its time on and that only models know are
 * measured on their devices (HeteroLLM's real-execution mode, where it
 * matters). Nothing without a forecast. */
clv_status planner_refine(const clv_plan *plan, planner_profile *profile,
                          planner_refined *out);
