#include "check.h"

const clv_tensor_desc *npu_input(const clv_subgraph *g, const clv_node *node,
                                 uint32_t i)
{
    return i < node->n_inputs && node->inputs[i] != CLV_NO_TENSOR
               ? &g->tensors[node->inputs[i]]
               : NULL;
}

/* A vector is one row, unless its elements are the rows' own. */
clv_symbol_range npu_sequence(const clv_subgraph *g, const clv_node *node)
{
    const bool rows =
        node->op == CLV_OP_GET_ROWS || node->op == CLV_OP_SET_ROWS;
    const clv_tensor_desc *t = npu_input(g, node, rows);
    if (t->rank == 1 && node->op != CLV_OP_GET_ROWS)
        return (clv_symbol_range){1, 1};
    if (t->symbols[0])
        return g->symbols[t->symbols[0] - 1];
    return (clv_symbol_range){t->dims[0], t->dims[0]};
}

/* Beyond what the op is defined for. */
static bool check_limits(clv_checked_node *n)
{
    const uint32_t op = n->node.op;
    for (uint32_t i = 0; i <= CLV_OP_OPERANDS; i++) {
        const clv_tensor_desc *t = clv_node_operand(n, i);
        if (t && t->rank > 1 && t->symbols[t->rank - 1])
            return clv_node_no(n, "the number of columns of %s varies",
                               clv_operand_name(n, i));
    }
    return op != CLV_OP_CONVERT ||
           clv_node_takes(n, CLV_OP_OPERANDS, clv_formats_of(CLV_FORMAT_FLOAT));
}

bool npu_check_node(const clv_subgraph *g, uint32_t node, clv_checked_node *n)
{
    return clv_check_node(g, node, 0, n) && check_limits(n);
}
