/*
 * What plans work on in a device's own memory, beside weights and the ring that
 * weights pass through: values between nodes and scratch. It decides how many
 * weights the device can hold.
 */
#pragma once

#include "../core/plan/plan.h"

/* Fills in work and scratch of the plan's devices whose own memory cannot hold
 * all weights: those of a plan that has each node there that the device takes,
 * whole, with its weights streamed. caps as planner_place(). */
clv_status planner_find_work(clv_plan *plan, clv_graph *graph,
                             const clv_op_caps *caps);
