#include "check.h"
#include "op.h"

#include <string.h>

const cpu_op *cpu_op_find(uint32_t op)
{
    static const cpu_op *const ops[CLV_OP_COUNT] = {
        [CLV_OP_GET_ROWS] = &cpu_op_get_rows,
        [CLV_OP_SET_ROWS] = &cpu_op_set_rows,
        [CLV_OP_MATMUL] = &cpu_op_matmul,
        [CLV_OP_ADD] = &cpu_op_add,
        [CLV_OP_MUL] = &cpu_op_mul,
        [CLV_OP_SILU] = &cpu_op_silu,
        [CLV_OP_GELU] = &cpu_op_gelu,
        [CLV_OP_GLU] = &cpu_op_glu,
        [CLV_OP_RMS_NORM] = &cpu_op_rms_norm,
        [CLV_OP_LAYER_NORM] = &cpu_op_layer_norm,
        [CLV_OP_ROPE] = &cpu_op_rope,
        [CLV_OP_SOFTMAX] = &cpu_op_softmax,
        [CLV_OP_ATTENTION] = &cpu_op_attention,
        [CLV_OP_CONVERT] = &cpu_op_convert,
        [CLV_OP_TOP_K] = &cpu_op_top_k,
        [CLV_OP_MATMUL_EXPERTS] = &cpu_op_matmul_experts,
        [CLV_OP_SIGMOID] = &cpu_op_sigmoid,
        [CLV_OP_SCALE] = &cpu_op_scale,
        [CLV_OP_SOFTCAP] = &cpu_op_softcap,
        [CLV_OP_ROUND] = &cpu_op_round,
        [CLV_OP_EXCESS] = &cpu_op_excess,
        [CLV_OP_NONZERO] = &cpu_op_nonzero,
        [CLV_OP_HEAD_NORM] = &cpu_op_head_norm,
        [CLV_OP_SPARSE_MIXER] = &cpu_op_sparse_mixer,
    };
    return op < CLV_OP_COUNT ? ops[op] : NULL;
}

/* Beyond what the op is defined for: whole rows, and vectors of f32. CONVERT
 * takes anything. */
static bool check_operands(clv_checked_node *n)
{
    return n->node.op == CLV_OP_CONVERT ||
           (clv_node_vectors(n) && clv_node_rows(n));
}

void cpu_check_node(const cpu_kernels *kernels, const clv_subgraph *graph,
                    uint32_t node, cpu_check *check)
{
    memset(check, 0, sizeof *check);
    check->kernels = kernels;
    clv_op_caps *caps = &check->caps;
    if (clv_check_node(graph, node, 0, &check->n)) {
        check->op = cpu_op_find(check->n.node.op);
        clv_node_caps(&check->n, caps);
        if (!check->op)
            clv_node_no(&check->n, "there is no kernel for it");
        if (!check->op || !check_operands(&check->n) ||
            (check->op->check && !check->op->check(check)))
            caps->answer = CLV_ANSWER_NO;
    }
    memcpy(caps->reason, check->n.reason, sizeof caps->reason);
}
