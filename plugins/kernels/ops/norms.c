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
    gpu_call_init(call, clv_op_name(node->op->op), text, group);
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

/* ------------------------------------------------------------------------ */
/* Norms of heads                                                            */

static bool check_head_norm(gpu_node *node)
{
    const int64_t heads = node->in[0].d.dims[1] / node->node.attr.norm.head_dim;
    return (heads <= GPU_MAX_GROUPS ||
            gpu_no_more(node, "heads", heads, GPU_MAX_GROUPS)) &&
           check_rows(node);
}

static bool head_has_slices(const gpu_node *node)
{
    return node->node.attr.norm.head_dim % 4 == 0;
}

static clv_status lower_head_norm(gpu_lowering *lowering, const gpu_node *node)
{
    const int64_t head = node->node.attr.norm.head_dim;
    const uint32_t group = gpu_row_group(lowering->target, head);
    const int64_t each = (gpu_max_rows(&node->out) - 1) / GPU_MAX_GROUPS + 1;
    gpu_call call;
    gpu_call_init(&call, "head_norm", gpu_template_head_norm, group);
    gpu_call_define(&call, "GROUP", group);
    gpu_call_define(&call, "HEAD", head);
    gpu_call_define(&call, "SLICES", head_has_slices(node));
    gpu_call_subgroups(&call, lowering->target, "head_norm_subgroups");
    gpu_call_rows(&call, "src", &node->in[0], false);
    const gpu_operand *dst = gpu_call_rows(&call, "dst", &node->out, true);
    call.groups[0] = gpu_constant(node->in[0].d.dims[1] / head);
    call.groups[1] = gpu_ceil(dst->width, each);
    gpu_call_rows(&call, "weight", &node->in[1], false);
    gpu_call_param(&call, "each", gpu_constant(each));
    gpu_call_param(&call, "eps", gpu_float(node->node.attr.norm.eps));
    return gpu_add_run(lowering, &call);
}

static uint32_t head_norm_slices(const gpu_node *node)
{
    return 1 | (head_has_slices(node) ? GPU_SLICES_OUT : 0);
}

static clv_status lower_sparse_mixer(gpu_lowering *lowering,
                                     const gpu_node *node)
{
    gpu_call call;
    begin_rows(&call, node, gpu_template_sparse_mixer, "sparse_mixer_subgroups",
               lowering->target);
    gpu_call_use(&call, gpu_template_packed);
    gpu_call_param(&call, "jitter", gpu_float(node->node.attr.mixer.jitter));
    return gpu_add_run(lowering, &call);
}

/* Places are counted as floats. */
static bool check_sparse_mixer(gpu_node *node)
{
    const int64_t most = 1 << 24, n = node->in[0].d.dims[1];
    return (n < most || gpu_no_more(node, "columns", n, most)) &&
           check_rows(node);
}

/* ------------------------------------------------------------------------ */

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
const gpu_op gpu_op_head_norm = {.op = CLV_OP_HEAD_NORM,
                                 .check = check_head_norm,
                                 .lower = lower_head_norm,
                                 .fuses = true,
                                 .slices = head_norm_slices};
const gpu_op gpu_op_sparse_mixer = {.op = CLV_OP_SPARSE_MIXER,
                                    .check = check_sparse_mixer,
                                    .lower = lower_sparse_mixer,
                                    .variants = list_variants,
                                    .slices = softmax_slices};
const gpu_op gpu_op_softmax = {.op = CLV_OP_SOFTMAX,
                               .check = check_rows,
                               .lower = lower_softmax,
                               .fuses = true,
                               .variants = list_variants,
                               .slices = softmax_slices};
