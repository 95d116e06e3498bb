/*
 * What plans are held to: the memory that devices have for themselves, and
 * their max_share. Every plan that is compared is judged here, whoever made
 * it, and so is the one that is given out.
 */
#pragma once

#include "../core/plan/plan.h"

/* Bytes of the device's own memory that plans of the graph may use:
 * clv_device_room() and the weights there that no exec uses, less a reserve. */
uint64_t planner_room(const clv_graph *graph, clv_device *dev);
/* Bytes that the plan takes of memory that the device has for itself and that
 * are not there yet, or in no use: weights, states, values between nodes, and
 * scratch. */
uint64_t planner_limits_bytes(const clv_plan *plan, uint32_t device);
/* Bytes of graphs' states there, once the plan has run. */
uint64_t planner_limits_states(const clv_plan *plan, uint32_t device);
/* Of those bytes, weights, with those that lie among values (core_stream). */
uint64_t planner_limits_weights(const clv_plan *plan, uint32_t device);
/* By how much it is more than there is, or leaves less than the intermediate
 * values of another plan may take. */
uint64_t planner_limits_over(const clv_plan *plan, uint32_t device);
/* The part of the run's time that the device works: as the forecast has it;
 * without one all of it for the only device at work, else 0. */
double planner_limits_share(const clv_plan *plan, uint32_t device);

/* By how much a plan exceeds its limits. */
typedef struct planner_excess {
    uint64_t bytes; /* of all devices together */
    double share;   /* of that device which exceeds its own the most */
} planner_excess;
planner_excess planner_limits_excess(const clv_plan *plan);

/* CLV_ERR_LIMIT names the device, what it lacks and what would do. */
clv_status planner_limits_check(const clv_plan *plan);
