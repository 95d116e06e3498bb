/*
 * Who uses a value's memory, and whether another value may have it afterwards
 * without anybody waiting for that: only if all that use the one are done
 * before any that use the other begin, by the waits that results need anyway.
 * Lifetimes in the order of parts are not enough, as devices work side by side.
 */
#pragma once

#include "../../core/plan/plan.h"

typedef struct planner_uses {
    const clv_plan *plan;
    /* [graph->n_tensors * n_queues] first and last part of a device that uses
     * the value or a view of it; CORE_NO_PART: none. Of bases only. */
    uint32_t *first, *last;
} planner_uses;

#define CORE_NO_PART 0xffffffffu

clv_status planner_uses_find(const clv_plan *plan, planner_uses *out);
void planner_uses_finish(planner_uses *uses);
/* What uses `other` uses `value` too. */
void planner_uses_join(planner_uses *uses, clv_value value, clv_value other);
/* All that use `before` are done when what uses `after` begins. */
bool planner_uses_apart(const planner_uses *uses, clv_value before,
                        clv_value after);
/* The same, for what uses `before` but the part itself. */
bool planner_uses_over(const planner_uses *uses, clv_value before,
                       uint32_t part);
