/*
 * A stretch of nodes that repeats, as layers do: a smaller problem with a few
 * copies of it, and the way back.
 */
#pragma once

#include "solve.h"

/* Nodes begin .. begin + copies * period. */
typedef struct core_stretch {
    uint32_t begin, period, copies;
} core_stretch;

/* The longest one with more than max_copies; false: there is none. */
bool core_stretch_find(const core_solve_problem *problem, uint32_t max_copies,
                       core_stretch *out);
/* nodes: new, of a problem with `copies` of the stretch; everything else is the
 * same. *nodes is for free(). CLV_ERR_NOT_FOUND, without a message, if a node
 * after it needs something in its midst. */
clv_status core_stretch_reduce(const core_solve_problem *problem,
                               const core_stretch *stretch, uint32_t copies,
                               core_solve_node **nodes);
/* The node of the smaller problem that node i becomes, if copy `repeated` of it
 * stands for all that are left out. */
uint32_t core_stretch_map(const core_stretch *stretch, uint32_t copies,
                          uint32_t repeated, uint32_t i);
