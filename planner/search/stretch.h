/*
 * A stretch of nodes that repeats, as layers do: a smaller problem with a few
 * copies of it, and the way back.
 */
#pragma once

#include "solve.h"

/* Nodes begin .. begin + copies * period. */
typedef struct planner_stretch {
    uint32_t begin, period, copies;
} planner_stretch;

/* The longest one with more than max_copies; false: there is none. */
bool planner_stretch_find(const planner_solve_problem *problem,
                          uint32_t max_copies, planner_stretch *out);
/* nodes: new, of a problem with `copies` of the stretch; everything else is the
 * same. *nodes is for free(). CLV_ERR_NOT_FOUND, without a message, if a node
 * after it needs something in its midst. */
clv_status planner_stretch_reduce(const planner_solve_problem *problem,
                                  const planner_stretch *stretch,
                                  uint32_t copies, planner_solve_node **nodes);
/* The node of the smaller problem that node i becomes, if copy `repeated` of it
 * stands for all that are left out. */
uint32_t planner_stretch_map(const planner_stretch *stretch, uint32_t copies,
                             uint32_t repeated, uint32_t i);
