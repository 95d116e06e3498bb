/*
 * One node of a graph, judged by what the op is defined for: operands, dtypes,
 * shapes. What a device takes of that is caps.c's matter; both together make a
 * yes that binds.
 */
#pragma once

#include "graph.h"

/* Whether the op is defined on these operands; else says why not. */
bool npu_check_node(const npu_graph *graph, uint32_t node, char *reason,
                    size_t size);
/* "matmul"; NULL for none of ours. */
const char *npu_op_name(uint32_t op);
/* Index in node->inputs of the operand whose rows are the sequence. */
uint32_t npu_activation(uint32_t op);
/* NULL where it is absent. */
const clv_tensor_desc *npu_input(const npu_graph *g, const clv_node *node,
                                 uint32_t i);
/* How many tokens the node is for: of the activation's rows. */
clv_symbol_range npu_sequence(const npu_graph *g, const clv_node *node);
