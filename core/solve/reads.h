/*
 * What the nodes of a graph read of each other's results, as the search wants
 * it: rows and columns.
 *
 * The result of SET_ROWS is what it puts into its state, by the rows of its
 * source; nobody knows where they go, so readers of the state need all of them.
 */
#pragma once

#include "../graph/graph.h"
#include "../plan/cut.h"
#include "solve.h"

#define CORE_NO_DEP 0xffu

typedef struct core_node_reads {
    uint32_t deps[CORE_SOLVE_DEPS];   /* earlier nodes */
    uint8_t operand[CORE_SOLVE_DEPS]; /* by which it is read; CORE_NO_DEP: it
                                         has to be over before */
    uint32_t n_deps;
} core_node_reads;

/* [graph->n_nodes], the caller's to free(). A node that reads more than
 * there is room for lacks the rest. */
clv_status core_reads_find(const clv_graph *graph, core_node_reads **out);

/* A node's result, whole. */
core_box core_node_result(const clv_graph *graph, uint32_t node);
/* What a piece of a node makes of the node's result. */
core_box core_piece_out(const clv_graph *graph, const core_piece *piece);
/* What it needs of the dep-th result that its node reads. */
core_box core_piece_needs(const clv_graph *graph, const core_piece *piece,
                          const core_node_reads *reads, uint32_t dep);
