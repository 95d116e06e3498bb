/*
 * A node of a copied graph, and whether the simulator has its op. What a
 * device takes of these is stated by caps.c; both together make a yes that
 * binds.
 */
#pragma once

#include <cleave/plugin_node.h>

#include <stdbool.h>

/* Says why not in n->reason. */
bool npu_check_node(const clv_subgraph *g, uint32_t node, clv_checked_node *n);
/* NULL where it is absent. */
const clv_tensor_desc *npu_input(const clv_subgraph *g, const clv_node *node,
                                 uint32_t i);
/* How many tokens the node is for: the rows of the activation. */
clv_symbol_range npu_sequence(const clv_subgraph *g, const clv_node *node);
