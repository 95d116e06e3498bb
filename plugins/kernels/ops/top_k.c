/* The largest of each row: TOP_K by value, NONZERO by magnitude. */
#include "lower/lower.h"

static bool check_top_k(gpu_node *node)
{
    node->caps.error_class = CLV_ERROR_EXACT;
    return true;
}

static clv_status lower_top_k(gpu_lowering *lowering, const gpu_node *node)
{
    const uint32_t group =
        gpu_row_group(lowering->target, node->in[0].d.dims[1]);
    const int64_t each = (gpu_max_rows(&node->out) - 1) / GPU_MAX_GROUPS + 1;
    gpu_call call;
    gpu_call_init(&call, clv_op_name(node->op->op), gpu_template_top_k, group);
    gpu_call_define(&call, "NONZERO", node->op->op == CLV_OP_NONZERO);
    gpu_call_define(&call, "GROUP", group);
    gpu_call_rows(&call, "src", &node->in[0], false);
    const gpu_operand *dst = gpu_call_rows(&call, "dst", &node->out, true);
    gpu_call_param(&call, "each", gpu_constant(each));
    call.groups[0] = gpu_ceil(dst->width, each);
    return gpu_add_run(lowering, &call);
}

const gpu_op gpu_op_top_k = {
    .op = CLV_OP_TOP_K, .check = check_top_k, .lower = lower_top_k};
const gpu_op gpu_op_nonzero = {
    .op = CLV_OP_NONZERO, .check = check_top_k, .lower = lower_top_k};
