/* Devices of several plugins that are the same piece of hardware. */
#pragma once

#include "../core/plan/plan.h"
#include "profile/profile.h"

/* Two drivers of one piece of hardware do not work faster than the better of
 * them: of devices of several plugins with one UUID, the answers of all but the
 * one that takes the least time for what it can do become a no. caps: as
 * planner_plan_by_costs(); *out: a copy, for free(). */
clv_status planner_leave_out_same_hardware(const clv_plan *plan,
                                           const clv_graph *graph,
                                           const clv_op_caps *caps,
                                           planner_profile *profile,
                                           clv_op_caps **out);
