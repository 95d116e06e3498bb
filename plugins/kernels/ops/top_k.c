/* The largest of each row. */
#include "lower/lower.h"

static bool check_top_k(gpu_node *node)
{
    const gpu_tensor *x = &node->in[0], *y = &node->out;
    if (!gpu_need(node, x, "input 0", GPU_BIT(CLV_DTYPE_F32), 2) ||
        !gpu_need(node, y, "output 0", GPU_BIT(CLV_DTYPE_I32), 2) ||
        !gpu_in_reach(node, x, "input 0") || !gpu_in_reach(node, y, "output 0"))
        return false;
    if (x->d.symbols[1] || y->d.symbols[1])
        return gpu_no(node, "the numbers of columns must be fixed");
    if (!gpu_same_dim(x, 0, y, 0))
        return gpu_no(node, "output 0 has not the rows of input 0");
    if (y->d.dims[1] > x->d.dims[1])
        return gpu_no(node, "%lld of %lld columns; it takes 1 to all",
                      (long long)y->d.dims[1], (long long)x->d.dims[1]);
    node->caps.split_axes = CLV_SPLIT_SEQUENCE;
    node->caps.error_class = CLV_ERROR_EXACT;
    return true;
}

static clv_status lower_top_k(gpu_lowering *lowering, const gpu_node *node)
{
    const uint32_t group =
        gpu_row_group(lowering->target, node->in[0].d.dims[1]);
    const int64_t each = (gpu_max_rows(&node->out) - 1) / GPU_MAX_GROUPS + 1;
    gpu_call call;
    gpu_call_init(&call, "top_k", gpu_template_top_k, node->index, group);
    gpu_call_define(&call, "GROUP", group);
    gpu_call_rows(&call, "src", &node->in[0], false);
    const gpu_operand *dst = gpu_call_rows(&call, "dst", &node->out, true);
    gpu_call_param(&call, "each", gpu_constant(each));
    call.groups[0] = gpu_ceil(dst->width, each);
    return gpu_add_run(lowering, &call);
}

const gpu_op gpu_op_top_k = {"top_k",     CLV_OP_TOP_K, 1,     1,    1,
                             check_top_k, lower_top_k,  false, NULL, NULL};
