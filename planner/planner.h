/*
 * Plans made: by costs (solve.c), from pieces that are given, or each node on
 * the first device that takes it. docs/planning.md tells how they come about.
 */
#pragma once

#include "../core/plan/plan.h"
#include "candidates/candidates.h"

/* What core.plan asks for, of plans for so many devices. */
planner_strategy planner_strategy_of(const clv_context *ctx,
                                     uint32_t n_devices);

/* A plan from pieces that are given: the solver's, or saved ones. Checked like
 * any input: they cover the graph, and each device takes its own. pieces are
 * copied; device: into params->devices. */
clv_status planner_from_pieces(clv_context *ctx, clv_graph *graph,
                               const clv_plan_params *params,
                               const core_piece *pieces, uint32_t n_pieces,
                               clv_plan **out);

/* The best plan for the devices of `plan`, which is not changed; caps as
 * planner_place(). CLV_ERR_NOT_FOUND: what some node costs is not known. */
clv_status planner_plan_by_costs(const clv_plan *plan, clv_graph *graph,
                                 const clv_op_caps *caps,
                                 planner_strategy strategy, clv_plan **out);

/* A forecast by the profiles of the plan's devices, in memory or in the cache;
 * nothing is measured. symbols as planner_forecast_make(); CLV_ERR_NOT_FOUND
 * where a cost is not known. */
clv_status planner_predict(const clv_plan *plan, const int64_t *symbols,
                           core_forecast **out);
