/*
 * A block of nodes that repeats, as layers do: a smaller problem with a few
 * copies of it, and the way back.
 */
#pragma once

#include "search.h"

/* Nodes begin .. begin + copies * period. */
typedef struct planner_block {
    uint32_t begin, period, copies;
} planner_block;

/* The longest one with more than max_copies; false: there is none. */
bool planner_block_find(const planner_solve_problem *problem,
                        uint32_t max_copies, planner_block *out);
/* nodes: new, of a problem with `copies` of the block; everything else is the
 * same. *nodes is for free(). CLV_ERR_NOT_FOUND, without a message, if a node
 * after it needs something in its midst. */
clv_status planner_block_reduce(const planner_solve_problem *problem,
                                const planner_block *block, uint32_t copies,
                                planner_solve_node **nodes);
/* The node of the smaller problem that node i becomes, if copy `repeated` of it
 * stands for all that are left out. */
uint32_t planner_block_map(const planner_block *block, uint32_t copies,
                           uint32_t repeated, uint32_t i);
