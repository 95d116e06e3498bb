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
#include <cleave/plugin_op.h>

/*
 * What a tensor's description does not say. A value has memory of its own, or
 * is a view: a box of another value, its base. A base is no view. Only cutting
 * (cut.h) and planning make views. One of another type or rank than its base
 * takes bytes of it, from origin[0] on, and lies there without gaps.
 */
typedef struct core_value {
    char *name;         /* owned; NULL for unnamed intermediate values */
    clv_tensor *weight; /* WEIGHT: the tensor, not owned; a view's base's */
    clv_value base;     /* its own index unless a view */
    int64_t origin[CLV_MAX_RANK]; /* of a view in its base, elements */
} core_value;

struct clv_graph {
    clv_status status; /* the first error, which sticks */
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

/* Appends a tensor, copying desc and name, which may be NULL; weight as in
 * core_value. CLV_NO_TENSOR, and the graph's status, when memory runs out. */
clv_value core_graph_add_tensor(clv_graph *graph, const clv_tensor_desc *desc,
                                const char *name, clv_tensor *weight);
/* Appends a node without looking at its operands; NULL as above. */
clv_node *core_graph_add_node(clv_graph *graph, const clv_node *node);

/* Bytes from the beginning of its base to a value: 0 but for views. */
uint64_t core_view_offset(const clv_graph *graph, clv_value value);
/* Gives it the strides of a dense tensor, in bytes. */
void core_desc_set_dense(clv_tensor_desc *desc);
/* Whether it has them, or none. */
bool core_desc_is_dense(const clv_tensor_desc *desc);
/* The scales of a quantised value; CLV_NO_TENSOR: it has none. */
static inline clv_value core_value_scales(const clv_graph *graph,
                                          clv_value value)
{
    uint32_t scales = graph->tensors[value].quant_scales;
    return scales ? scales - 1 : CLV_NO_TENSOR;
}
/* Whether two values share elements. */
bool core_values_overlap(const clv_graph *graph, clv_value a, clv_value b);

/* Bytes of all its weights, as they are in the host's memory. */
uint64_t core_graph_weight_bytes(const clv_graph *graph);

/* Whether some of its weights are of experts whose chances are known. */
bool core_graph_has_popularity(const clv_graph *graph);

/* Tells graphs apart by their ops, shapes and types, not by their weights'
 * values; the same in every run. */
uint64_t core_graph_fingerprint(const clv_graph *graph);

/* "matmul"; "copy" for CLV_OP_NONE, which only plans have. */
static inline const char *core_op_name(uint32_t op)
{
    return op == CLV_OP_NONE ? "copy" : clv_op_name(op);
}

/* Valid until the graph grows. */
clv_subgraph core_graph_view(const clv_graph *graph);
/* The value's name, or "%12" made in text. */
const char *core_value_name(const clv_graph *graph, clv_value value,
                            char text[16]);
