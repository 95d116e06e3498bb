/* Ops on single elements: a copy with posts. */
#include "lower/lower.h"

#define F32 GPU_BIT(CLV_DTYPE_F32)
#define ALL_SPLITS (CLV_SPLIT_SEQUENCE | CLV_SPLIT_ROWS)

/* Work items of a group, along slices and rows. */
#define GROUP_SLICES 32
#define GROUP_ROWS 4

static bool fits_grid(gpu_node *node, const gpu_tensor *t)
{
    if (gpu_max_rows(t) > (int64_t)GROUP_ROWS * GPU_MAX_GROUPS)
        return gpu_no(node, "%lld rows; it takes %d at most",
                      (long long)gpu_max_rows(t), GROUP_ROWS * GPU_MAX_GROUPS);
    if (t->d.dims[t->d.rank - 1] > 4ll * GROUP_SLICES * GPU_MAX_GROUPS)
        return gpu_no(node, "rows of %lld; it takes %d at most",
                      (long long)t->d.dims[t->d.rank - 1],
                      4 * GROUP_SLICES * GPU_MAX_GROUPS);
    return true;
}

static bool check_like_input(gpu_node *node)
{
    if (!gpu_need(node, &node->in[0], "input 0", F32, 0) ||
        !gpu_need(node, &node->out, "output 0", F32, 0) ||
        !gpu_in_reach(node, &node->in[0], "input 0") ||
        !gpu_in_reach(node, &node->out, "output 0") ||
        !fits_grid(node, &node->out))
        return false;
    if (!gpu_same_dims(&node->in[0], &node->out))
        return gpu_no(node, "output 0 has other dimensions than input 0");
    node->caps.split_axes = ALL_SPLITS;
    node->caps.alias_inputs = 1;
    return true;
}

static bool check_binary(gpu_node *node)
{
    const gpu_tensor *a = &node->in[0], *b = &node->in[1];
    if (!check_like_input(node) || !gpu_need(node, b, "input 1", F32, 0) ||
        !gpu_in_reach(node, b, "input 1"))
        return false;
    bool same = gpu_same_dims(a, b);
    if (!same && (b->d.rank != 1 || !gpu_same_dim(b, 0, a, a->d.rank - 1)))
        return gpu_no(node, "input 1 is neither of input 0's dimensions nor "
                            "one row");
    node->caps.alias_inputs = same ? 3 : 1;
    return true;
}

static bool check_glu(gpu_node *node)
{
    if (!check_binary(node))
        return false;
    if (!gpu_same_dims(&node->in[0], &node->in[1]))
        return gpu_no(node, "inputs differ in dimensions");
    if (node->node.attr.glu.activation > CLV_ACT_GELU_TANH)
        return gpu_no(node, "activation %u is not known",
                      (unsigned)node->node.attr.glu.activation);
    return true;
}

/* src to dst, both rows. */
static void begin_copy(gpu_call *call, const char *name, const gpu_node *node)
{
    gpu_call_init(call, name, gpu_template_elementwise, node->index,
                  GROUP_SLICES);
    call->local[1] = GROUP_ROWS;
    gpu_call_rows(call, "src", &node->in[0], false);
    const gpu_operand *dst = gpu_call_rows(call, "dst", &node->out, true);
    call->groups[0] = gpu_ceil(dst->channels, 4 * GROUP_SLICES);
    call->groups[1] = gpu_ceil(dst->width, GROUP_ROWS);
}

static clv_status lower_element(gpu_lowering *lowering, const gpu_node *node)
{
    gpu_call call;
    begin_copy(&call, node->op->name, node);
    switch (node->op->op) {
    case CLV_OP_ADD:
        gpu_call_post(&call, GPU_POST_ADD, &node->in[1]);
        break;
    case CLV_OP_MUL:
        gpu_call_post(&call, GPU_POST_MUL, &node->in[1]);
        break;
    case CLV_OP_SILU:
        gpu_call_post(&call, GPU_POST_SILU, NULL);
        break;
    case CLV_OP_GELU:
        gpu_call_post(&call, GPU_POST_GELU, NULL);
        break;
    case CLV_OP_GLU:
        gpu_call_post(&call,
                      node->node.attr.glu.activation == CLV_ACT_SILU
                          ? GPU_POST_SILU
                          : GPU_POST_GELU,
                      NULL);
        gpu_call_post(&call, GPU_POST_MUL, &node->in[1]);
        break;
    }
    return gpu_add_run(lowering, &call);
}

/* ------------------------------------------------------------------------ */
/* Conversion                                                                */

static bool check_convert(gpu_node *node)
{
    gpu_tensor *x = &node->in[0], *y = &node->out;
    gpu_expr stride;
    if (!(GPU_REALS & GPU_BIT(x->d.dtype)))
        return gpu_no(node, "input 0 cannot be %s", gpu_dtype_name(x->d.dtype));
    if (!(GPU_FLOATS & GPU_BIT(y->d.dtype)))
        return gpu_no(node, "output 0 cannot be %s",
                      gpu_dtype_name(y->d.dtype));
    if (!gpu_same_dims(x, y))
        return gpu_no(node, "output 0 has other dimensions than input 0");
    const uint32_t last = x->d.rank - 1;
    int64_t elements, bytes;
    clv_block(x->d.dtype, &elements, &bytes);
    if (elements > 1 && !x->dense && x->d.strides[last] != bytes &&
        x->d.dims[last] > elements)
        return gpu_no(node, "blocks of input 0 lie apart");
    if (!gpu_in_reach(node, x, "input 0") || !gpu_in_reach(node, y, "output 0"))
        return false;
    uint32_t symbolic = 0;
    for (uint32_t i = 0; i < x->d.rank; i++) {
        symbolic += x->d.symbols[i] && i + 1 < x->d.rank;
        if (!gpu_stride(x, i, &stride) || !gpu_stride(y, i, &stride) ||
            symbolic > 1)
            return gpu_no(node, "strides that depend on two symbols");
    }
    if (!fits_grid(node, y))
        return false;
    if (y->d.dims[last] > (int64_t)GROUP_SLICES * GPU_MAX_GROUPS)
        return gpu_no(node, "rows of %lld; it takes %d at most",
                      (long long)y->d.dims[last],
                      GROUP_SLICES * GPU_MAX_GROUPS);
    node->caps.split_axes = CLV_SPLIT_SEQUENCE;
    return true;
}

/* Any strides: the outer dimensions are B, H, W, D, the last of them D. */
static void set_strides(gpu_operand *operand, const gpu_tensor *t)
{
    static const uint32_t axes[] = {CLV_L_C, CLV_L_D, CLV_L_W, CLV_L_H,
                                    CLV_L_B};
    const uint32_t last = t->d.rank - 1;
    int64_t elements, bytes;
    clv_block(t->d.dtype, &elements, &bytes);
    operand->packed = elements > 1; /* blocks are counted as one row */
    for (uint32_t i = 0; i < 5; i++)
        operand->strides[axes[i]] = gpu_constant(0);
    for (uint32_t i = 0; i <= last; i++)
        gpu_stride(t, last - i, &operand->strides[axes[i]]);
}

static gpu_expr outer_dim(const gpu_tensor *t, uint32_t from_last)
{
    if (from_last >= t->d.rank)
        return gpu_constant(1);
    uint32_t i = t->d.rank - 1 - from_last;
    return t->d.symbols[i] ? (gpu_expr){.factor = 1,
                                        .divisor = 1,
                                        .symbol = t->d.symbols[i]}
                           : gpu_constant(t->d.dims[i]);
}

static clv_status lower_convert(gpu_lowering *lowering, const gpu_node *node)
{
    gpu_call call;
    gpu_node probe = *node;
    if (gpu_need(&probe, &probe.in[0], "", GPU_REALS, 0) &&
        gpu_need(&probe, &probe.out, "", GPU_FLOATS, 0)) {
        begin_copy(&call, "convert", node);
        return gpu_add_run(lowering, &call);
    }
    begin_copy(&call, "convert_strided", node);
    call.text = gpu_template_strided;
    call.groups[0].divisor = GROUP_SLICES; /* by elements */
    set_strides(&call.operands[0], &node->in[0]);
    set_strides(&call.operands[1], &node->out);
    gpu_call_param(&call, "nd", outer_dim(&node->out, 1));
    gpu_call_param(&call, "nw", outer_dim(&node->out, 2));
    gpu_call_param(&call, "nh", outer_dim(&node->out, 3));
    return gpu_add_run(lowering, &call);
}

/* All that single elements pass through. */
static uint32_t slices(const gpu_node *node)
{
    (void)node;
    return 3 | GPU_SLICES_OUT;
}

const gpu_op gpu_op_add = {"add",        CLV_OP_ADD,    2,    2,    1,
                           check_binary, lower_element, true, NULL, slices};
const gpu_op gpu_op_mul = {"mul",        CLV_OP_MUL,    2,    2,    1,
                           check_binary, lower_element, true, NULL, slices};
const gpu_op gpu_op_silu = {
    "silu",           CLV_OP_SILU,   1,    1,    1,
    check_like_input, lower_element, true, NULL, slices};
const gpu_op gpu_op_gelu = {
    "gelu",           CLV_OP_GELU,   1,    1,    1,
    check_like_input, lower_element, true, NULL, slices};
const gpu_op gpu_op_glu = {"glu",     CLV_OP_GLU,    2,    2,    1,
                           check_glu, lower_element, true, NULL, slices};
const gpu_op gpu_op_convert = {"convert",     CLV_OP_CONVERT, 1,    1,    1,
                               check_convert, lower_convert,  true, NULL, NULL};
