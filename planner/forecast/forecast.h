/*
 * What a plan will take: its steps, waits and submits played through as the
 * executor would, with the times of a profile. More exact than the search,
 * which does not know the steps yet: devices share the memory's bandwidth while
 * their work overlaps, and waits for memory that is used again count.
 */
#pragma once

#include "../../core/plan/plan.h"
#include "../profile/profile.h"

/* symbols: NULL for their upper bounds. CLV_ERR_NOT_FOUND: the cost of some
 * part is not known. */
clv_status planner_forecast_make(const clv_plan *plan,
                                 const planner_costs *costs,
                                 const int64_t *symbols, core_forecast **out);

/* order[n_steps]: the plan's steps in the order in which the host submits them
 * soonest: each one when nothing it needs has to be waited for, unless all have
 * to. Where a cost is not known, bytes stand for times. */
clv_status planner_forecast_order(const clv_plan *plan,
                                  const planner_costs *costs, uint32_t *order);
