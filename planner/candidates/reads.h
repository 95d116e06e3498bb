/*
 * What the nodes of a graph read of each other's results, as the search wants
 * it: rows and columns.
 *
 * The result of SET_ROWS is what it puts into its state, by the rows of its
 * source; nobody knows where they go, so readers of the state need all of them.
 */
#pragma once

#include "../../core/graph/graph.h"
#include "../../core/graph/cut.h"
#include "../search/search.h"

#define PLANNER_NO_DEP 0xffu

typedef struct planner_node_reads {
    uint32_t deps[PLANNER_SOLVE_DEPS];   /* earlier nodes */
    uint8_t operand[PLANNER_SOLVE_DEPS]; /* by which it is read; PLANNER_NO_DEP:
                                         it has to be over before */
    uint32_t n_deps;
} planner_node_reads;

/* [graph->n_nodes], the caller's to free(). A node that reads more than
 * there is room for lacks the rest. */
clv_status planner_reads_find(const clv_graph *graph, planner_node_reads **out);

/* A node's result, whole. */
planner_box planner_node_result(const clv_graph *graph, uint32_t node);
/* What a piece of a node makes of the node's result. */
planner_box planner_piece_out(const clv_graph *graph, const core_piece *piece);
/* What it needs of the dep-th result that its node reads. */
planner_box planner_piece_needs(const clv_graph *graph, const core_piece *piece,
                                const planner_node_reads *reads, uint32_t dep);
/* What it takes of a weight, of its first and its last dimension. */
planner_box planner_piece_weight(const clv_graph *graph,
                                 const core_piece *piece, uint32_t operand);
