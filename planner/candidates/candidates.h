/*
 * From a graph, what devices answer, and what they cost, to the search's
 * problem: the ways in which each node may be divided.
 *
 * Whole on each device; rows, sequence, channels and heads over each set of
 * devices, at the points where they finish together; sequences of lengths that
 * static devices have, with the rest elsewhere (300 = 256 + 44, 600 = 512 + 32
 * + 56); rows of one part of the sequence (hybrid). Nodes whose columns must be
 * cut at the same points (a feed-forward's gate, up and down) share their
 * points.
 */
#pragma once

#include "../../core/plan/plan.h"
#include "../profile/profile.h"
#include "../search/search.h"

/* What may be done with nodes. */
typedef enum planner_strategy {
    PLANNER_STRATEGY_FIRST = 0,  /* each on the first device that takes it */
    PLANNER_STRATEGY_LAYER = 1,  /* whole nodes, where they are best */
    PLANNER_STRATEGY_TENSOR = 2, /* parts of nodes too */
} planner_strategy;

typedef struct planner_candidates {
    planner_solve_problem problem; /* points into the arrays below */
    planner_solve_device *devices;
    planner_solve_node *nodes;
    planner_solve_option *options;
    planner_solve_piece *pieces;
    core_piece *cuts; /* [problem.n_pieces] the same pieces as plans
                         have them; of joins: node CORE_NO_PIECE.
                         Nodes of one class share their options, so
                         the node is the first one of its class */
    uint32_t *known;  /* [n_nodes] what problem.known may point to */
} planner_candidates;

/* Options of a plan that is there, near which more candidates are made. They
 * differ in 1 / parts of a node, or in the least that may be cut. */
typedef struct planner_near {
    const planner_candidates *candidates;
    const uint32_t *options; /* [n_nodes] */
    uint32_t parts;
} planner_near;

/* caps[d * n_nodes + i]: what device d answered for node i. Weights that pass
 * through a device's memory are given half as much of it as they may take, a
 * quarter ... near: NULL, or of candidates that were made with the same
 * arguments. CLV_ERR_UNSUPPORTED names a node that nobody takes. */
clv_status planner_candidates_make(const clv_plan *plan,
                                   const clv_op_caps *caps,
                                   const planner_costs *costs,
                                   planner_strategy strategy, uint32_t halvings,
                                   const planner_near *near,
                                   planner_candidates *out);
void planner_candidates_finish(planner_candidates *candidates);
