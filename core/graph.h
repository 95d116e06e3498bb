/*
 * A graph under construction, in the plugin ABI's own terms: tensors and nodes
 * are arrays of clv_tensor_desc and clv_node, so that a clv_subgraph is a view
 * on them. A clv_value is an index into tensors.
 *
 * Nodes are in topological order by construction. A plan points into these
 * arrays, so planning freezes the graph.
 */
#pragma once

#include <cleave/cleave.h>

/* What a tensor's description does not say. */
typedef struct core_value {
    char *name;         /* owned; NULL for unnamed intermediate values */
    clv_tensor *weight; /* WEIGHT: the tensor, not owned */
} core_value;

struct clv_graph {
    clv_status status;  /* the first error, which sticks */
    char message[512];
    bool frozen;

    clv_tensor_desc *tensors; /* [n_tensors] */
    core_value *values;       /* [n_tensors] */
    clv_node *nodes;          /* [n_nodes] */
    uint32_t n_tensors, tensors_capacity;
    uint32_t n_nodes, nodes_capacity;

    clv_symbol_range symbols[CLV_MAX_SYMBOLS];
    char *symbol_names[CLV_MAX_SYMBOLS]; /* owned */
    uint32_t n_symbols;
};

/* Valid until the graph grows. */
clv_subgraph core_graph_view(const clv_graph *graph);
/* The value's name, or "%12" made in text. */
const char *core_value_name(const clv_graph *graph, clv_value value,
                            char text[16]);
