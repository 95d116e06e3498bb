/*
 * Which weights stay in the host's memory where it does not hold all that
 * devices use there.
 *
 * Runs read the weights in the same order each time. A system that keeps what
 * was used last would have thrown away each by the time it is needed again, so
 * a fixed part of them is kept and only the rest is read. Those that every
 * token needs whole come first, experts after them.
 */
#pragma once

#include "../../core/plan/plan.h"

/* Fills plan->file but for the speed, once parts have their devices. room:
 * bytes of the host's memory for such weights. */
clv_status planner_file_weights(clv_plan *plan, uint64_t room);
/* A step reads at most so much of the file, or one weight: what it read is
 * given up when it has ended. */
uint64_t planner_file_step(const clv_plan *plan);
