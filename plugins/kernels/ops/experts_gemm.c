/*
 * Products of experts for many rows: sorted by expert, computed in tiles of one
 * expert's, and, where there are scores, added up after that. Products of the
 * same ids share the order.
 */
#include "ops/experts.h"

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

static int64_t table_bytes(const gpu_node *node)
{
    return 4 * (gpu_experts_held(node) + 2 + gpu_experts_places(node));
}

static int64_t parts_bytes(const gpu_node *node)
{
    return gpu_experts_scored(node)
               ? gpu_experts_places(node) * node->in[1].d.dims[1] * 4
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
    const int64_t rows = gpu_max_rows(&node->in[0]),
                  places = gpu_experts_places(node);
    const int64_t reach = gpu_reach(target);
    const int64_t total =
        clv_experts_total(&node->node.attr, gpu_experts_held(node));
    return has_kernels(target) && rows >= ROWS_LEAST &&
           rows <= GPU_MAX_GROUPS && places >= PER_EXPERT * total &&
           places / BN + 1 + gpu_experts_held(node) <= GPU_MAX_GROUPS &&
           8 * (gpu_experts_held(node) + 2) <= (int64_t)target->local_bytes &&
           table_bytes(node) <= reach &&
           places <= reach / 4 / node->in[1].d.dims[1];
}

uint64_t gpu_experts_scratch(const gpu_node *node)
{
    if (!gpu_experts_are_gemm(node))
        return 0;
    return (uint64_t)(table_bytes(node) + parts_bytes(node)) +
           (gpu_experts_are_tensor(node) ? gpu_experts_tensor_scratch(node)
                                         : 0);
}

/* Memory of the program, rows of 32-bit elements. */
static void add_private(gpu_call *call, const char *name, uint32_t buffer,
                        uint32_t dtype, int64_t rows, int64_t channels,
                        bool written)
{
    gpu_add_private_rows(call, name, buffer, dtype, gpu_constant(rows),
                         channels, 4 * channels, written);
}

void gpu_experts_table(gpu_call *call, const gpu_node *node, uint32_t table,
                       bool written)
{
    add_private(call, "table", table, CLV_DTYPE_I32, 1, table_bytes(node) / 4,
                written);
}

static clv_status lower_sort(gpu_lowering *lowering, const gpu_node *node,
                             uint32_t *table)
{
    const gpu_order order = {node->in[2].index + 1,
                             node->node.attr.experts.first,
                             gpu_experts_held(node)};
    const uint32_t group = gpu_row_group(lowering->target, 2048);
    gpu_call call;
    CLV_TRY(gpu_share_scratch(lowering, GPU_SCRATCH_EXPERTS,
                              (uint64_t)table_bytes(node), table));
    if (lowering->order.ids == order.ids &&
        lowering->order.first == order.first &&
        lowering->order.experts == order.experts)
        return CLV_OK;
    lowering->order.ids = 0;
    lowering->halves_of = 0; /* they may be in the old order */
    gpu_call_init(&call, "experts_sort", gpu_template_experts_sort, group);
    gpu_call_rows(&call, "ids", &node->in[2], false);
    gpu_experts_table(&call, node, *table, true);
    gpu_call_define(&call, "GROUP", group);
    gpu_call_define(&call, "EXPERTS", gpu_experts_held(node));
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
    gpu_call_init(&call, "experts_gemm", gpu_template_experts_gemm, ITEMS);
    gpu_experts_operands(&call, node, first, count);
    gpu_expr tiles = call.operands[0].width;
    gpu_experts_table(&call, node, table, false);
    gpu_experts_output(&call, node, parts);
    gpu_call_define(&call, "GX", GX);
    gpu_call_define(&call, "GY", GY);
    gpu_call_define(&call, "TM", TM);
    gpu_call_define(&call, "TN", TN);
    /* As many as the products fill, and of each expert one that is not full. */
    tiles.constant = tiles.constant * used + gpu_experts_held(node) * BN + BN;
    tiles.factor *= used;
    call.groups[0] = gpu_ceil(gpu_constant(outputs), BM);
    call.groups[1] = gpu_ceil(tiles, BN);
    return gpu_add_run(lowering, &call);
}

void gpu_experts_output(gpu_call *call, const gpu_node *node, uint32_t parts)
{
    if (gpu_experts_scored(node))
        add_private(call, "dst", parts, CLV_DTYPE_F32, gpu_experts_places(node),
                    node->in[1].d.dims[1], true);
    else
        gpu_call_rows(call, "dst", &node->out, true);
    gpu_call_define(call, "SCORED", gpu_experts_scored(node));
}

static clv_status lower_reduce(gpu_lowering *lowering, const gpu_node *node,
                               uint32_t parts)
{
    const int64_t outputs = node->in[1].d.dims[1];
    const clv_op_attr *attr = &node->node.attr;
    gpu_call call;
    gpu_call_init(&call, "experts_gemm_reduce",
                  gpu_template_experts_gemm_reduce, JOIN_ITEMS);
    gpu_call_rows(&call, "ids", &node->in[2], false);
    gpu_call_rows(&call, "scores", &node->in[3], false);
    add_private(&call, "parts", parts, CLV_DTYPE_F32, gpu_experts_places(node),
                outputs, false);
    const gpu_operand *dst = gpu_call_rows(&call, "dst", &node->out, true);
    gpu_call_param(&call, "used", gpu_constant(node->in[2].d.dims[1]));
    gpu_call_param(&call, "begin", gpu_constant(attr->experts.first));
    gpu_call_param(&call, "held", gpu_constant(gpu_experts_held(node)));
    gpu_call_param(
        &call, "all",
        gpu_constant(clv_experts_total(attr, gpu_experts_held(node))));
    gpu_call_param(&call, "outputs", gpu_constant(outputs));
    gpu_call_param(&call, "normalised", gpu_constant(attr->experts.normalised));
    call.groups[0] = gpu_ceil(gpu_constant(outputs), JOIN_ITEMS);
    call.groups[1] = dst->width;
    return gpu_add_run(lowering, &call);
}

/* ------------------------------------------------------------------------ */

clv_status gpu_experts_lower_gemm(gpu_lowering *lowering, const gpu_node *node)
{
    const int64_t n = gpu_experts_held(node), step = gpu_experts_step(node);
    const bool scored = gpu_experts_scored(node);
    const bool tensor = gpu_experts_are_tensor(node);
    uint32_t table, parts = 0;
    CLV_TRY(lower_sort(lowering, node, &table));
    if (scored)
        CLV_TRY(gpu_share_scratch(lowering, GPU_SCRATCH_PARTS,
                                  (uint64_t)parts_bytes(node), &parts));
    if (tensor)
        CLV_TRY(gpu_experts_lower_tensor(lowering, node, table, parts));
    for (int64_t e = 0; e < n && !tensor; e += step)
        CLV_TRY(lower_tiles(lowering, node, table, parts, e,
                            n - e < step ? n - e : step));
    return scored ? lower_reduce(lowering, node, parts) : CLV_OK;
}
