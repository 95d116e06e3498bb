#include "check.h"
#include "op.h"

#include <stdarg.h>
#include <stdio.h>
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
    };
    return op < CLV_OP_COUNT ? ops[op] : NULL;
}

bool cpu_no(cpu_check *check, const char *fmt, ...)
{
    char *reason = check->caps.reason;
    int n =
        snprintf(reason, sizeof check->caps.reason, "%s: ", check->op->name);
    va_list args;
    va_start(args, fmt);
    vsnprintf(reason + n, sizeof check->caps.reason - (size_t)n, fmt, args);
    va_end(args);
    return false;
}

bool cpu_need(cpu_check *check, const cpu_tensor *t, const char *what,
              uint32_t dtypes, uint32_t rank)
{
    if (!(dtypes & CPU_BIT(t->dtype)))
        return cpu_no(check, "%s cannot be %s", what, cpu_dtype_name(t->dtype));
    if ((CPU_SCALED & CPU_BIT(t->dtype)) && !t->quant)
        return cpu_no(check, "%s is %s without scales", what,
                      cpu_dtype_name(t->dtype));
    if (rank && t->rank != rank)
        return cpu_no(check, "%s has rank %u, not %u", what, t->rank, rank);
    if (!cpu_tensor_is_rows(t))
        return cpu_no(check, "%s must have contiguous rows at one stride",
                      what);
    return true;
}

static bool read_tensor(const clv_subgraph *graph, cpu_check *check,
                        uint32_t index, cpu_tensor *out)
{
    char reason[96];
    return cpu_tensor_read(graph, index, out, reason, sizeof reason) ||
           cpu_no(check, "%s", reason);
}

static bool read_scales(const clv_subgraph *graph, cpu_check *check,
                        uint32_t input)
{
    char reason[112];
    return !check->in[input].quant ||
           cpu_scales_read(graph, check->node.inputs[input], &check->in[input],
                           &check->scales[input], reason, sizeof reason) ||
           cpu_no(check, "%s", reason);
}

static bool read_operands(const clv_subgraph *graph, cpu_check *check)
{
    const clv_node *node = &check->node;
    const cpu_op *op = check->op;
    if (!clv_chain_known(node))
        return cpu_no(check, "it needs an extension that is not known here");
    if (node->revision != 1)
        return cpu_no(check, "revision %u is not known, 1 is", node->revision);
    if (node->n_inputs > op->max_inputs || node->n_outputs != op->outputs)
        return cpu_no(check, "%u inputs and %u outputs, not %u to %u and %u",
                      node->n_inputs, node->n_outputs, op->min_inputs,
                      op->max_inputs, op->outputs);
    for (uint32_t i = 0; i < op->max_inputs; i++) {
        uint32_t index = i < node->n_inputs ? node->inputs[i] : CLV_NO_TENSOR;
        check->has[i] = index != CLV_NO_TENSOR;
        if (!check->has[i] && i < op->min_inputs)
            return cpu_no(check, "input %u is missing", i);
        if (check->has[i] &&
            (!read_tensor(graph, check, index, &check->in[i]) ||
             !read_scales(graph, check, i)))
            return false;
    }
    for (uint32_t i = 0; i < op->outputs; i++) {
        if (!read_tensor(graph, check, node->outputs[i], &check->out[i]))
            return false;
        if (check->out[i].usage == CLV_USAGE_WEIGHT ||
            check->out[i].usage == CLV_USAGE_INPUT)
            return cpu_no(check, "output %u is not to be written", i);
    }
    return true;
}

void cpu_check_node(const cpu_kernels *kernels, const clv_subgraph *graph,
                    uint32_t node, cpu_check *check)
{
    memset(check, 0, sizeof *check);
    check->kernels = kernels;
    check->n_symbols = graph->n_symbols;
    clv_op_caps *caps = &check->caps;
    clv_read(&check->node, sizeof check->node,
             clv_at(graph->nodes, node, graph->node_stride));
    check->op = cpu_op_find(check->node.op);
    if (!check->op) {
        snprintf(caps->reason, sizeof caps->reason, "op %u is not known here",
                 check->node.op);
        return;
    }
    if (!read_operands(graph, check))
        return;
    caps->error_class = CLV_ERROR_F32;
    caps->accumulate = CLV_DTYPE_F32;
    if (check->op->check(check))
        caps->answer = CLV_ANSWER_YES;
}
