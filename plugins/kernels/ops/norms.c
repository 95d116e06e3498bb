/* Ops on whole rows: a group reduces one after the other. */
#include "ops/norms.h"

#define F32 GPU_BIT(CLV_DTYPE_F32)

static bool check_softmax(gpu_node *node)
{
    const gpu_tensor *x = &node->in[0], *y = &node->out;
    if (!gpu_need(node, x, "input 0", F32, 0) ||
        !gpu_need(node, y, "output 0", F32, 0) ||
        !gpu_in_reach(node, x, "input 0") || !gpu_in_reach(node, y, "output 0"))
        return false;
    if (!gpu_same_dims(x, y))
        return gpu_no(node, "output 0 has other dimensions than input 0");
    if (gpu_max_rows(y) > INT32_MAX)
        return gpu_no(node, "%lld rows are past 2^31",
                      (long long)gpu_max_rows(y));
    node->caps.alias_inputs = 1;
    node->caps.split_axes = CLV_SPLIT_SEQUENCE;
    return true;
}

static bool check_vector(gpu_node *node, uint32_t input)
{
    const gpu_tensor *v = &node->in[input], *x = &node->in[0];
    if (!gpu_need(node, v, input == 1 ? "input 1" : "input 2", F32, 1))
        return false;
    if (!gpu_same_dim(v, 0, x, x->d.rank - 1))
        return gpu_no(node, "input %u is not as long as a row of input 0",
                      (unsigned)input);
    return true;
}

static bool check_norm(gpu_node *node)
{
    return check_softmax(node) && check_vector(node, 1) &&
           (!gpu_has(&node->in[2]) || check_vector(node, 2));
}

/* Ways are the group's size, as a power of two. */
static void list_variants(const gpu_node *node, gpu_variants *out)
{
    const gpu_target *target = node->target;
    const clv_tensor_desc *y = &node->out.d;
    const uint32_t preferred = gpu_row_group(target, y->dims[y->rank - 1]);
    out->preferred = gpu_size_class(preferred);
    snprintf(out->key, sizeof out->key, "%s-c%u-n%u", node->op->name,
             gpu_size_class(y->dims[y->rank - 1]),
             gpu_size_class(gpu_max_rows(&node->out)));
    for (uint32_t id = 4; id <= 10; id++) {
        const uint32_t group = 1u << id;
        if (group == preferred ||
            (group <= target->max_group && group <= target->max_group_size[0] &&
             group * 8 <= target->local_bytes && group <= 4 * preferred))
            gpu_variant_add(out, id);
    }
    if (!out->n)
        gpu_variant_add(out, out->preferred);
}

static void begin_rows(gpu_call *call, const gpu_node *node, const char *text,
                       const char *subgroups, const gpu_target *target)
{
    gpu_variants variants = {.n = 0};
    list_variants(node, &variants);
    const uint32_t group = 1u << gpu_choice(target, &variants);
    const int64_t each = (gpu_max_rows(&node->out) - 1) / GPU_MAX_GROUPS + 1;
    gpu_call_init(call, node->op->name, text, node->index, group);
    gpu_call_define(call, "GROUP", group);
    gpu_call_subgroups(call, target, subgroups);
    gpu_call_rows(call, "src", &node->in[0], false);
    const gpu_operand *dst = gpu_call_rows(call, "dst", &node->out, true);
    gpu_call_param(call, "each", gpu_constant(each));
    call->groups[0] = gpu_ceil(dst->width, each);
}

static clv_status lower_rms_norm(gpu_lowering *lowering, const gpu_node *node)
{
    gpu_call call;
    begin_rows(&call, node, gpu_template_rms_norm, "rms_norm_subgroups",
               lowering->target);
    gpu_call_rows(&call, "weight", &node->in[1], false);
    gpu_call_param(&call, "eps", gpu_float(node->node.attr.norm.eps));
    return gpu_add_run(lowering, &call);
}

clv_status gpu_lower_add_norm(gpu_lowering *lowering, const gpu_node *add,
                              const gpu_node *norm)
{
    gpu_call call;
    begin_rows(&call, norm, gpu_template_add_rms_norm, "add_rms_norm_subgroups",
               lowering->target);
    call.name = "add_rms_norm";
    call.variant = call.subgroups ? call.variant : call.name;
    call.node = add->index;
    call.operands[0].index = add->in[0].index;
    gpu_rows_extent(&add->in[0], &call.operands[0].width,
                    &call.operands[0].channels,
                    &call.operands[0].strides[CLV_L_W]);
    gpu_call_rows(&call, "other", &add->in[1], false);
    gpu_call_rows(&call, "sum", &add->out, true);
    gpu_call_rows(&call, "weight", &norm->in[1], false);
    gpu_call_param(&call, "eps", gpu_float(norm->node.attr.norm.eps));
    return gpu_add_run(lowering, &call);
}

static clv_status lower_layer_norm(gpu_lowering *lowering, const gpu_node *node)
{
    gpu_call call;
    begin_rows(&call, node, gpu_template_layer_norm, "layer_norm_subgroups",
               lowering->target);
    gpu_call_rows(&call, "weight", &node->in[1], false);
    gpu_call_param(&call, "eps", gpu_float(node->node.attr.norm.eps));
    if (gpu_has(&node->in[2]))
        gpu_call_post(&call, GPU_POST_ADD, &node->in[2]);
    return gpu_add_run(lowering, &call);
}

static clv_status lower_softmax(gpu_lowering *lowering, const gpu_node *node)
{
    gpu_call call;
    begin_rows(&call, node, gpu_template_softmax, "softmax_subgroups",
               lowering->target);
    return gpu_add_run(lowering, &call);
}

static uint32_t norm_slices(const gpu_node *node)
{
    (void)node;
    return 1 | GPU_SLICES_OUT;
}

static uint32_t softmax_slices(const gpu_node *node)
{
    (void)node;
    return 1;
}

const gpu_op gpu_op_rms_norm = {
    "rms_norm", CLV_OP_RMS_NORM, 2,          2, 1, check_norm, lower_rms_norm,
    true,       list_variants,   norm_slices};
const gpu_op gpu_op_layer_norm = {"layer_norm",
                                  CLV_OP_LAYER_NORM,
                                  2,
                                  3,
                                  1,
                                  check_norm,
                                  lower_layer_norm,
                                  true,
                                  list_variants,
                                  norm_slices};
const gpu_op gpu_op_softmax = {
    "softmax",     CLV_OP_SOFTMAX, 1, 1, 1, check_softmax, lower_softmax, true,
    list_variants, softmax_slices};
