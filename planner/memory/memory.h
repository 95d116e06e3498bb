/*
 * Memory planning: where the values of a plan lie and what is loaded, once its
 * steps are known.
 */
#pragma once

#include "../../core/plan/plan.h"

/* Of addresses, as the devices of the parts ask for. caps as below. */
void planner_alignment(clv_plan *plan, const clv_op_caps *caps);
/* Places, arenas, loads and copies. caps[i]: what the device of node i of
 * plan->graph answered for it. */
clv_status planner_memory(clv_plan *plan, const clv_op_caps *caps);
/* The largest of what devices share in the host's memory: arena, inputs,
 * outputs and, where they are asked for, states. */
uint64_t planner_largest_shared(const clv_plan *plan, bool states);
/* Once places are known: where bytes pass that a device cannot fetch from the
 * host's memory itself. */
clv_status planner_staging(clv_plan *plan);
