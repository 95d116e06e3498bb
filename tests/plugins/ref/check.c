#include "ref.h"

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
    return (op != CLV_OP_SET_ROWS ||
            clv_node_takes(n, 0, clv_formats_of(CLV_FORMAT_FLOAT))) &&
           (op != CLV_OP_CONVERT || n->out.layout == CLV_LAYOUT_PRIVATE ||
            clv_node_takes(n, CLV_OP_OPERANDS,
                           clv_formats_of(CLV_FORMAT_FLOAT)));
}

bool ref_check_node(const clv_subgraph *graph, uint32_t node,
                    clv_checked_node *n)
{
    return clv_check_node(graph, node,
                          CLV_NODE_WEIGHT_STATES | CLV_NODE_PRIVATE_WEIGHTS,
                          n) &&
           check_limits(n);
}
