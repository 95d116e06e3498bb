/*
 * Products of experts for many rows: sorted by expert, computed in tiles of one
 * expert's, and, where there are scores, added up after that. Products of the
 * same ids share the order.
 */
#include "ops/experts.h"
#include "ops/gemm_tensor.h"
#include "ops/tiles.h"

enum {
    GX = 8,
    GY = 8,
    TM = 4,
    TN = 4, /* of experts_gemm.clt */
    BM = GX * TM,
    BN = GY * TN,
    ITEMS = GX * GY,
    LOCAL_BYTES = 4 * 32 * (BM + 1 + BN + 1) + 4 * BN,
    ROWS_LEAST = 8,
    PER_EXPERT = 2, /* products for each, below which tiles are mostly empty */
    JOIN_ITEMS = 64
};

static int64_t experts_of(const gpu_node *node)
{
    return node->in[1].d.dims[0];
}

/* Products, at the most. */
static int64_t max_places(const gpu_node *node)
{
    return gpu_max_rows(&node->in[0]) * node->in[2].d.dims[1];
}

static int64_t table_bytes(const gpu_node *node)
{
    return 4 * (experts_of(node) + 2 + max_places(node));
}

static int64_t parts_bytes(const gpu_node *node)
{
    return gpu_experts_scored(node)
               ? max_places(node) * node->in[1].d.dims[1] * 4
               : 0;
}

static bool has_kernels(const gpu_target *target)
{
    static const char *const names[] = {"experts_sort", "experts_gemm",
                                        "experts_gemm_reduce"};
    for (uint32_t i = 0; i < sizeof names / sizeof *names; i++)
        if (gpu_is_disabled(target, names[i]))
            return false;
    return ITEMS <= target->max_group && ITEMS <= target->max_group_size[0] &&
           LOCAL_BYTES <= target->local_bytes;
}

bool gpu_experts_are_gemm(const gpu_node *node)
{
    const gpu_target *target = node->target;
    const int64_t rows = gpu_max_rows(&node->in[0]), places = max_places(node);
    const int64_t reach = gpu_reach(target);
    const int64_t total = clv_experts_total(&node->node.attr, experts_of(node));
    return has_kernels(target) && rows >= ROWS_LEAST &&
           rows <= GPU_MAX_GROUPS && places >= PER_EXPERT * total &&
           places / BN + 1 + experts_of(node) <= GPU_MAX_GROUPS &&
           8 * (experts_of(node) + 2) <= (int64_t)target->local_bytes &&
           table_bytes(node) <= reach &&
           places <= reach / 4 / node->in[1].d.dims[1];
}

/* Memory of the program, rows of 32-bit elements. */
static void add_private(gpu_call *call, const char *name, uint32_t buffer,
                        uint32_t dtype, int64_t rows, int64_t channels,
                        bool written)
{
    gpu_add_private_rows(call, name, buffer, dtype, gpu_constant(rows),
                         channels, 4 * channels, written);
}

static void add_table(gpu_call *call, const gpu_node *node, uint32_t table,
                      bool written)
{
    add_private(call, "table", table, CLV_DTYPE_I32, 1, table_bytes(node) / 4,
                written);
}

static clv_status lower_sort(gpu_lowering *lowering, const gpu_node *node,
                             uint32_t *table)
{
    const gpu_order order = {node->in[2].index + 1,
                             node->node.attr.experts.first, experts_of(node)};
    const uint32_t group = gpu_row_group(lowering->target, 2048);
    gpu_call call;
    CLV_TRY(gpu_share_scratch(lowering, GPU_SCRATCH_EXPERTS,
                              (uint64_t)table_bytes(node), table));
    if (lowering->order.ids == order.ids &&
        lowering->order.first == order.first &&
        lowering->order.experts == order.experts)
        return CLV_OK;
    lowering->order.ids = 0;
    gpu_call_init(&call, "experts_sort", gpu_template_experts_sort, node->index,
                  group);
    gpu_call_rows(&call, "ids", &node->in[2], false);
    add_table(&call, node, *table, true);
    gpu_call_define(&call, "GROUP", group);
    gpu_call_define(&call, "EXPERTS", experts_of(node));
    gpu_call_param(&call, "begin", gpu_constant(order.first));
    gpu_call_param(&call, "used", gpu_constant(node->in[2].d.dims[1]));
    call.groups[0] = gpu_constant(1);
    CLV_TRY(gpu_add_run(lowering, &call));
    if (!lowering->aliased)
        lowering->order = order;
    return CLV_OK;
}

/* The node's experts from `first` on. */
static clv_status lower_tiles(gpu_lowering *lowering, const gpu_node *node,
                              uint32_t table, uint32_t parts, int64_t first,
                              int64_t count)
{
    const int64_t used = node->in[2].d.dims[1];
    const int64_t outputs = node->in[1].d.dims[1];
    gpu_call call;
    gpu_call_init(&call, "experts_gemm", gpu_template_experts_gemm, node->index,
                  ITEMS);
    gpu_experts_operands(&call, node, first, count);
    gpu_expr tiles = call.operands[0].width;
    add_table(&call, node, table, false);
    if (gpu_experts_scored(node))
        add_private(&call, "dst", parts, CLV_DTYPE_F32, max_places(node),
                    outputs, true);
    else
        gpu_call_rows(&call, "dst", &node->out, true);
    gpu_call_define(&call, "SCORED", gpu_experts_scored(node));
    gpu_call_define(&call, "GX", GX);
    gpu_call_define(&call, "GY", GY);
    gpu_call_define(&call, "TM", TM);
    gpu_call_define(&call, "TN", TN);
    /* As many as the products fill, and of each expert one that is not full. */
    tiles.constant = tiles.constant * used + experts_of(node) * BN + BN;
    tiles.factor *= used;
    call.groups[0] = gpu_ceil(gpu_constant(outputs), BM);
    call.groups[1] = gpu_ceil(tiles, BN);
    return gpu_add_run(lowering, &call);
}

static clv_status lower_reduce(gpu_lowering *lowering, const gpu_node *node,
                               uint32_t parts)
{
    const int64_t outputs = node->in[1].d.dims[1];
    const clv_op_attr *attr = &node->node.attr;
    gpu_call call;
    gpu_call_init(&call, "experts_gemm_reduce",
                  gpu_template_experts_gemm_reduce, node->index, JOIN_ITEMS);
    gpu_call_rows(&call, "ids", &node->in[2], false);
    gpu_call_rows(&call, "scores", &node->in[3], false);
    add_private(&call, "parts", parts, CLV_DTYPE_F32, max_places(node), outputs,
                false);
    const gpu_operand *dst = gpu_call_rows(&call, "dst", &node->out, true);
    gpu_call_param(&call, "used", gpu_constant(node->in[2].d.dims[1]));
    gpu_call_param(&call, "begin", gpu_constant(attr->experts.first));
    gpu_call_param(&call, "held", gpu_constant(experts_of(node)));
    gpu_call_param(&call, "all",
                   gpu_constant(clv_experts_total(attr, experts_of(node))));
    gpu_call_param(&call, "outputs", gpu_constant(outputs));
    gpu_call_param(&call, "normalised", gpu_constant(attr->experts.normalised));
    call.groups[0] = gpu_ceil(gpu_constant(outputs), JOIN_ITEMS);
    call.groups[1] = dst->width;
    return gpu_add_run(lowering, &call);
}

/* ------------------------------------------------------------------------ */
/* By tensor cores                                                           */

static bool is_parted(const gpu_node *node)
{
    return node->in[0].d.dims[1] != node->in[1].d.dims[2];
}

/* The weights of all experts as one matrix, and the parts of x as rows. */
static gpu_node flat_of(const gpu_node *node)
{
    gpu_node flat = *node;
    clv_tensor_desc *x = &flat.in[0].d, *w = &flat.in[1].d;
    w->rank = 2;
    w->dims[0] *= w->dims[1];
    w->dims[1] = w->dims[2];
    w->strides[0] = w->strides[1];
    w->strides[1] = w->strides[2];
    if (is_parted(node)) {
        x->rank = 3;
        x->dims[2] = w->dims[1];
        x->dims[1] /= w->dims[1];
        x->strides[2] = x->strides[1];
        x->strides[1] = x->strides[2] * x->dims[2];
        x->symbols[2] = 0;
    }
    flat.in[2].index = flat.in[3].index = CLV_NO_TENSOR;
    return flat;
}

static bool is_flat(const gpu_node *node)
{
    const clv_tensor_desc *x = &node->in[0].d, *w = &node->in[1].d;
    gpu_expr rows, row;
    return gpu_stride(&node->in[1], 1, &row) &&
           gpu_stride(&node->in[0], 0, &rows) &&
           gpu_expert_bytes(&node->in[1]) == row.constant * w->dims[1] &&
           (!is_parted(node) || rows.constant == 4 * x->dims[1]);
}

/* Of one expert. */
static int64_t tile_bytes(const gpu_node *flat, int64_t outputs)
{
    return outputs / 16 * gpu_tiles_row(&flat->in[1].d);
}

static gpu_tensor_shape shape_of(const gpu_node *node, const gpu_node *flat)
{
    return gpu_tensor_shape_for(flat, max_places(node) / experts_of(node));
}

bool gpu_experts_are_tensor(const gpu_node *node)
{
    const clv_tensor_desc *w = &node->in[1].d;
    const int64_t outputs = w->dims[1];
    if (!gpu_experts_are_gemm(node) || !gpu_has_tensor(node->target) ||
        w->quant || outputs % 16 || !is_flat(node))
        return false;
    const gpu_node flat = flat_of(node);
    const gpu_tensor_shape s = shape_of(node, &flat);
    return gpu_has_tiles(node->target, &flat.in[1].d) &&
           gpu_tensor_fits(&flat, &s) &&
           tile_bytes(&flat, outputs) <= gpu_reach(node->target) &&
           flat.in[1].d.dims[0] / 16 <= GPU_MAX_GROUPS &&
           max_places(node) <= GPU_MAX_GROUPS &&
           !gpu_is_disabled(node->target, "gemm_tensor");
}

/* Experts whose tiles are made at once. */
static int64_t tiles_step(const gpu_node *flat, int64_t experts,
                          int64_t outputs)
{
    int64_t most = gpu_reach(flat->target);
    if (!gpu_keeps_tiles(flat) && most > GPU_PART_BYTES)
        most = GPU_PART_BYTES;
    most /= tile_bytes(flat, outputs);
    return most < 1 ? 1 : most < experts ? most : experts;
}

/* The node's experts from `first` on. */
static clv_status lower_tensor_part(gpu_lowering *lowering,
                                    const gpu_node *node, const gpu_node *flat,
                                    const gpu_tensor_x *x, uint32_t table,
                                    uint32_t parts, int64_t first,
                                    int64_t count)
{
    const int64_t used = node->in[2].d.dims[1], held = experts_of(node);
    const int64_t outputs = node->in[1].d.dims[1];
    const gpu_tensor_shape s = shape_of(node, flat);
    const bool scored = gpu_experts_scored(node);
    gpu_expr tiles = gpu_rows(&node->in[0]);
    gpu_call call;
    uint32_t weights;
    CLV_TRY(gpu_lower_tiles(lowering, flat, first * outputs, count * outputs,
                            &weights));
    gpu_tensor_call(&call, flat, &s, gpu_template_experts_tensor, x, weights,
                    count * outputs);
    add_table(&call, node, table, false);
    if (scored)
        add_private(&call, "dst", parts, CLV_DTYPE_F32, max_places(node),
                    outputs, true);
    else
        gpu_call_rows(&call, "dst", &node->out, true);
    gpu_call_define(&call, "SCORED", scored);
    gpu_call_define(&call, "OUTPUTS", outputs);
    gpu_call_define(&call, "SHARED", is_parted(node) ? 1 : used);
    gpu_call_param(&call, "held", gpu_constant(held));
    gpu_call_param(&call, "expert", gpu_constant(first));
    gpu_call_param(&call, "there", gpu_constant(count));
    gpu_call_param(&call, "used", gpu_constant(used));
    tiles.constant = tiles.constant * used + (held + 1) * s.bn;
    tiles.factor *= used;
    call.groups[0] = gpu_constant((outputs + s.bm - 1) / s.bm);
    call.groups[1] = gpu_ceil(tiles, s.bn);
    return gpu_add_run(lowering, &call);
}

static clv_status lower_tensor(gpu_lowering *lowering, const gpu_node *node,
                               uint32_t table, uint32_t parts)
{
    const gpu_node flat = flat_of(node);
    const int64_t n = experts_of(node);
    const int64_t step = tiles_step(&flat, n, node->in[1].d.dims[1]);
    gpu_tensor_x x;
    /* Scales are of rows, which are others where x is in parts. */
    if (is_parted(node))
        lowering->halves_of = 0;
    CLV_TRY(gpu_tensor_halves(lowering, &flat, &x));
    if (is_parted(node))
        lowering->halves_of = 0;
    for (int64_t e = 0; e < n; e += step)
        CLV_TRY(lower_tensor_part(lowering, node, &flat, &x, table, parts, e,
                                  n - e < step ? n - e : step));
    return CLV_OK;
}

/* ------------------------------------------------------------------------ */

clv_status gpu_experts_lower_gemm(gpu_lowering *lowering, const gpu_node *node)
{
    const int64_t n = experts_of(node), step = gpu_experts_step(node);
    const bool scored = gpu_experts_scored(node);
    const bool tensor = gpu_experts_are_tensor(node);
    uint32_t table, parts = 0;
    CLV_TRY(lower_sort(lowering, node, &table));
    if (scored)
        CLV_TRY(gpu_share_scratch(lowering, GPU_SCRATCH_PARTS,
                                  (uint64_t)parts_bytes(node), &parts));
    if (tensor)
        CLV_TRY(lower_tensor(lowering, node, table, parts));
    for (int64_t e = 0; e < n && !tensor; e += step)
        CLV_TRY(lower_tiles(lowering, node, table, parts, e,
                            n - e < step ? n - e : step));
    return scored ? lower_reduce(lowering, node, parts) : CLV_OK;
}
