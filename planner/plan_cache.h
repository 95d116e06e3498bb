/*
 * Plans in the cache (core.cache_dir): those that did best in runs, and those
 * that were searched for, so that a later start need not search again.
 *
 * A plan that was searched for is kept by its question. What the question
 * leaves out, because it is measured and never the same twice, is judged when
 * the plan is used again: costs by the plan's forecast and by what runs of it
 * took, memory by its limits.
 */
#pragma once

#include "candidates/candidates.h"

/* What a search depends on: graph, devices, what of memory is there and held,
 * the settings, and the sources of core and planner. A device's memory is
 * rounded to 1/32 to 1/64 of it, and left out where all weights find room.
 * plan: a bare one. */
uint64_t planner_question(const clv_plan *plan, planner_strategy strategy);

/* The plan of the question; *out is NULL where there is none, where it cannot
 * be made, or where costs have changed so much that another one may be better.
 * plan: a bare one, of the devices in question, whose numbers the new plan's
 * devices have. */
clv_status planner_plan_cache_find(const clv_plan *plan, clv_graph *graph,
                                   uint64_t question, clv_plan **out);
/* By plan->question. A failure is logged. */
void planner_plan_cache_keep(const clv_plan *plan);
/* The costs that it was found by were wrong. */
void planner_plan_cache_forget(const clv_plan *plan);

/* The plan that took the least time in runs of this problem; *out is NULL where
 * there is none, or where it cannot be made. */
clv_status planner_plan_cache_find_best(const clv_plan *plan, clv_graph *graph,
                                        uint64_t problem, clv_plan **out);
/* plan->identity of that plan; false: there is none. */
bool planner_plan_cache_best(const clv_context *ctx, uint64_t problem,
                             uint64_t *identity);
/* Replaces it. A failure is logged. */
void planner_plan_cache_keep_best(const clv_plan *plan);
