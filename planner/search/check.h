/* Whether a problem is one: everything in range, times that are times. */
#pragma once

#include "solve.h"

/* Devices and nodes. */
clv_status planner_solve_check(const planner_solve_problem *problem);
/* Options and pieces of a node, whose kind the node `first` has too. */
clv_status planner_solve_check_kind(const planner_solve_problem *problem,
                                    uint32_t node, uint32_t first);
