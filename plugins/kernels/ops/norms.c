/* Ops on whole rows: a group reduces one after the other. */
#include "ops/norms.h"

static bool check_rows(gpu_node *node)
{
    const int64_t rows = gpu_max_rows(&node->out);
    return rows <= INT32_MAX || gpu_no_more(node, "rows", rows, INT32_MAX);
}

/* A variant's id is the group's size, as a power of two. */
static void list_variants(const gpu_node *node, gpu_variants *out)
{
    const gpu_target *target = node->target;
    const clv_tensor_desc *y = &node->out.d;
    const uint32_t preferred = gpu_row_group(target, y->dims[y->rank - 1]);
    out->preferred = gpu_size_class(preferred);
    snprintf(out->key, sizeof out->key, "%s-c%u-n%u", clv_op_name(node->op->op),
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
    gpu_call_init(call, clv_op_name(node->op->op), text, node->index, group);
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

const gpu_op gpu_op_rms_norm = {.op = CLV_OP_RMS_NORM,
                                .check = check_rows,
                                .lower = lower_rms_norm,
                                .fuses = true,
                                .variants = list_variants,
                                .slices = norm_slices};
const gpu_op gpu_op_layer_norm = {.op = CLV_OP_LAYER_NORM,
                                  .check = check_rows,
                                  .lower = lower_layer_norm,
                                  .fuses = true,
                                  .variants = list_variants,
                                  .slices = norm_slices};
const gpu_op gpu_op_softmax = {.op = CLV_OP_SOFTMAX,
                               .check = check_rows,
                               .lower = lower_softmax,
                               .fuses = true,
                               .variants = list_variants,
                               .slices = softmax_slices};
