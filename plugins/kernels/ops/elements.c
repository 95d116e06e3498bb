/* Ops on single elements: a copy with posts. */
#include "lower/fused.h"
#include "lower/lower.h"

/* Work items of a group, along slices and rows. */
#define GROUP_SLICES 32
#define GROUP_ROWS 4

static bool check_element(gpu_node *node)
{
    return gpu_fits_grid(node, GROUP_ROWS, 4 * GROUP_SLICES);
}

/* src to dst, both rows. */
static void begin_copy(gpu_call *call, const char *name, const gpu_node *node)
{
    gpu_call_init(call, name, gpu_template_elementwise, GROUP_SLICES);
    call->local[1] = GROUP_ROWS;
    gpu_call_rows(call, "src", &node->in[0], false);
    const gpu_operand *dst = gpu_call_rows(call, "dst", &node->out, true);
    call->groups[0] = gpu_ceil(dst->channels, 4 * GROUP_SLICES);
    call->groups[1] = gpu_ceil(dst->width, GROUP_ROWS);
}

static clv_status lower_element(gpu_lowering *lowering, const gpu_node *node)
{
    gpu_chain chain = {.n_links = 0};
    gpu_call call;
    /* OpenCL C has a function round of its own. */
    begin_copy(&call,
               node->op->op == CLV_OP_ROUND ? "round_elements"
                                            : clv_op_name(node->op->op),
               node);
    gpu_add_links(&chain, node, 0);
    for (uint32_t i = 0; i < chain.n_links; i++)
        gpu_call_link(&call, &chain.links[i]);
    return gpu_add_run(lowering, &call);
}

/* ------------------------------------------------------------------------ */
/* Conversion                                                                */

static bool check_convert(gpu_node *node)
{
    const gpu_tensor *x = &node->in[0], *y = &node->out;
    const uint32_t last = x->d.rank - 1;
    gpu_expr stride;
    int64_t elements, bytes;
    clv_block(x->d.dtype, &elements, &bytes);
    if (elements > 1 && !x->dense && x->d.strides[last] != bytes &&
        x->d.dims[last] > elements)
        return gpu_no(node, "blocks of input 0 lie apart");
    uint32_t symbolic = 0;
    for (uint32_t i = 0; i < x->d.rank; i++) {
        symbolic += x->d.symbols[i] && i + 1 < x->d.rank;
        if (!gpu_stride(x, i, &stride) || !gpu_stride(y, i, &stride) ||
            symbolic > 1)
            return gpu_no(node, "strides that depend on two symbols");
    }
    node->caps.split_axes = CLV_SPLIT_SEQUENCE;
    return gpu_fits_grid(node, GROUP_ROWS, GROUP_SLICES);
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
    if (gpu_is_rows(&node->in[0]) && gpu_is_rows(&node->out)) {
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

const gpu_op gpu_op_add = {.op = CLV_OP_ADD,
                           .check = check_element,
                           .lower = lower_element,
                           .fuses = true,
                           .slices = slices};
const gpu_op gpu_op_mul = {.op = CLV_OP_MUL,
                           .check = check_element,
                           .lower = lower_element,
                           .fuses = true,
                           .slices = slices};
const gpu_op gpu_op_silu = {.op = CLV_OP_SILU,
                            .check = check_element,
                            .lower = lower_element,
                            .fuses = true,
                            .slices = slices};
const gpu_op gpu_op_gelu = {.op = CLV_OP_GELU,
                            .check = check_element,
                            .lower = lower_element,
                            .fuses = true,
                            .slices = slices};
const gpu_op gpu_op_sigmoid = {.op = CLV_OP_SIGMOID,
                               .check = check_element,
                               .lower = lower_element,
                               .fuses = true,
                               .slices = slices};
const gpu_op gpu_op_scale = {.op = CLV_OP_SCALE,
                             .check = check_element,
                             .lower = lower_element,
                             .fuses = true,
                             .slices = slices};
const gpu_op gpu_op_softcap = {.op = CLV_OP_SOFTCAP,
                               .check = check_element,
                               .lower = lower_element,
                               .fuses = true,
                               .slices = slices};
const gpu_op gpu_op_round = {.op = CLV_OP_ROUND,
                             .check = check_element,
                             .lower = lower_element,
                             .fuses = true,
                             .slices = slices};
const gpu_op gpu_op_excess = {.op = CLV_OP_EXCESS,
                              .check = check_element,
                              .lower = lower_element,
                              .fuses = true,
                              .slices = slices};
const gpu_op gpu_op_glu = {.op = CLV_OP_GLU,
                           .check = check_element,
                           .lower = lower_element,
                           .fuses = true,
                           .slices = slices};
const gpu_op gpu_op_convert = {.op = CLV_OP_CONVERT,
                               .any_strides = true,
                               .check = check_convert,
                               .lower = lower_convert,
                               .fuses = true};
