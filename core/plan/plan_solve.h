/* Plans by costs; docs/planning.md tells how they come about. */
#pragma once

#include "plan.h"

/* What core.plan asks for, of plans for so many devices. */
core_strategy core_plan_strategy(const clv_context *ctx, uint32_t n_devices);

/* The best plan for the devices of `plan`, which is not changed; caps as
 * core_plan_place(). CLV_ERR_NOT_FOUND: what some node costs is not known. */
clv_status core_plan_solve(const clv_plan *plan, clv_graph *graph,
                           const clv_op_caps *caps, core_strategy strategy,
                           clv_plan **out);
