/*
 * How the memory that a device has for itself is divided: weights that it
 * holds, weights that pass through, and what it works on. Bytes; a device that
 * uses the host's memory has UINT64_MAX.
 */
#pragma once

#include "../../core/plan/plan.h"

/* Whether it has no room for all weights of the graph that it does not hold. */
bool planner_is_scarce(const clv_graph *graph, const core_plan_device *of);
/* What plans work on there that cut nodes: their values have copies, and share
 * less memory. */
uint64_t planner_cut_work(const core_plan_device *of);
/* Of the device's room, what weights that are held leave to the rest, beside
 * what that has already. */
uint64_t planner_workspace(const clv_graph *graph, const core_plan_device *of);
/* The same, and what is left for states that other plans may have there. */
uint64_t planner_beside_weights(const clv_graph *graph,
                                const core_plan_device *of);
/* For weights of the graph that the device does not hold yet. Where not all of
 * them find room, those of the first plan stay, and what they leave is for what
 * other plans work on. */
uint64_t planner_room_to_hold(const clv_graph *graph,
                              const core_plan_device *of);
/* For one weight that passes through, with what the workspace has already. */
uint64_t planner_room_to_stream(const clv_graph *graph,
                                const core_plan_device *of);
/* For values of later plans, with their rings; 0: it is not known, or weights
 * cannot lie there. Not for scratch, which the workspace does not have. */
uint64_t planner_room_for_values(const clv_graph *graph,
                                 const core_plan_device *of);
/* There, for weights among values while no later plan runs: core_stream. */
uint64_t planner_room_to_keep(const clv_graph *graph,
                              const core_plan_device *of);
