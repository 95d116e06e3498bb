/* Rotary position embedding. */
#include "ops/rope.h"

#define GROUP_PAIRS 32
#define GROUP_ROWS 4

static bool check_rope(gpu_node *node)
{
    return gpu_fits_grid(node, GROUP_ROWS, GROUP_PAIRS);
}

/* Whether an item can take four pairs, or two that lie side by side. */
static bool has_slices(const gpu_node *node)
{
    const bool halves = node->node.attr.rope.mode == CLV_ROPE_HALVES;
    return node->node.attr.rope.head_dim % 4 == 0 &&
           node->in[2].d.dims[0] % (halves ? 4 : 2) == 0;
}

static float scale_of(const gpu_node *node)
{
    const float scale = node->node.attr.rope.scale;
    return scale == 0 ? 1 : scale;
}

static clv_status lower_rope(gpu_lowering *lowering, const gpu_node *node)
{
    const bool halves = node->node.attr.rope.mode == CLV_ROPE_HALVES;
    const int64_t head = node->node.attr.rope.head_dim;
    const int64_t pairs = node->in[2].d.dims[0];
    const int64_t heads = node->in[0].d.dims[1] / head;
    const int64_t items = heads * (!has_slices(node) ? head - pairs
                                   : halves          ? head / 4 - pairs / 4
                                                     : head / 4);
    const bool sliced = has_slices(node);
    gpu_call call;
    gpu_call_init(&call, "rope",
                  sliced ? gpu_template_rope_slices : gpu_template_rope,
                  GROUP_PAIRS);
    call.local[1] = GROUP_ROWS;
    gpu_call_rows(&call, "src", &node->in[0], false);
    const gpu_operand *dst = gpu_call_rows(&call, "dst", &node->out, true);
    call.groups[0] = gpu_constant((items - 1) / GROUP_PAIRS + 1);
    call.groups[1] = gpu_ceil(dst->width, GROUP_ROWS);
    gpu_call_rows(&call, "pos", &node->in[1], false);
    gpu_call_rows(&call, "freq", &node->in[2], false);
    gpu_call_param(&call, "head", gpu_constant(head));
    gpu_call_param(&call, "pairs", gpu_constant(pairs));
    gpu_call_param(&call, "items", gpu_constant(items));
    if (sliced) {
        gpu_call_define(&call, "HALVES", halves);
    } else {
        gpu_call_param(&call, "step", gpu_constant(halves ? 1 : 2));
        gpu_call_param(&call, "apart", gpu_constant(halves ? pairs : 1));
    }
    gpu_call_param(&call, "scale", gpu_float(scale_of(node)));
    return gpu_add_run(lowering, &call);
}

static clv_status add_angles(gpu_lowering *lowering, const gpu_node *rope,
                             uint32_t buffer)
{
    const int64_t pairs = rope->in[2].d.dims[0];
    const gpu_expr rows = gpu_rows(&rope->in[0]);
    gpu_call call;
    gpu_call_init(&call, "rope_angles", gpu_template_rope_angles, GROUP_PAIRS);
    gpu_call_rows(&call, "pos", &rope->in[1], false);
    gpu_call_rows(&call, "freq", &rope->in[2], false);
    gpu_add_private_rows(&call, "rope", buffer, CLV_DTYPE_F32, rows, 2 * pairs,
                         8 * pairs, true);
    gpu_call_param(&call, "scale", gpu_float(scale_of(rope)));
    call.groups[0] = gpu_constant((pairs - 1) / GROUP_PAIRS + 1);
    call.groups[1] = rows;
    return gpu_add_run(lowering, &call);
}

clv_status gpu_rope_angles(gpu_lowering *lowering, const gpu_node *rope,
                           uint32_t *buffer)
{
    struct gpu_angles *angles = &lowering->angles;
    const uint32_t pos = rope->in[1].index, freq = rope->in[2].index;
    if (angles->buffer && angles->pos == pos && angles->freq == freq &&
        angles->scale == scale_of(rope)) {
        *buffer = angles->buffer - 1;
        return CLV_OK;
    }
    CLV_TRY(gpu_build_private(&lowering->builder,
                              (uint64_t)gpu_max_rows(&rope->in[0]) * 8 *
                                  (uint64_t)rope->in[2].d.dims[0],
                              false, buffer));
    CLV_TRY(add_angles(lowering, rope, *buffer));
    *angles = (struct gpu_angles){pos, freq, *buffer + 1, scale_of(rope)};
    return CLV_OK;
}

static uint32_t slices(const gpu_node *node)
{
    return 1 | (has_slices(node) ? GPU_SLICES_OUT : 0);
}

const gpu_op gpu_op_rope = {.op = CLV_OP_ROPE,
                            .check = check_rope,
                            .lower = lower_rope,
                            .fuses = true,
                            .slices = slices};
