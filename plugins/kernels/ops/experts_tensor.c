/*
 * Products of experts by tensor cores: their weights are one matrix, in tiles,
 * and each group takes rows of one expert, in the order of experts_sort.clt.
 */
#include "ops/experts.h"
#include "ops/gemm_wgmma.h"
#include "ops/tiles.h"

/* Rows of the largest block that a group takes (gemm_wgmma.c). */
#define BLOCK_MOST 256

static bool is_parted(const gpu_node *node)
{
    return node->in[0].d.dims[1] != node->in[1].d.dims[2];
}

gpu_node gpu_experts_flat(const gpu_node *node)
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

bool gpu_experts_are_flat(const gpu_node *node)
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
    return outputs / 16 * gpu_tiles_row(flat->target, &flat->in[1].d);
}

static gpu_tensor_shape shape_of(const gpu_node *node, const gpu_node *flat)
{
    return gpu_tensor_shape_for(flat, gpu_experts_places(node) /
                                          gpu_experts_held(node));
}

bool gpu_experts_are_tensor(const gpu_node *node)
{
    const clv_tensor_desc *w = &node->in[1].d;
    const int64_t outputs = w->dims[1];
    if (!gpu_experts_are_gemm(node) || !gpu_has_tensor(node->target) ||
        w->quant || outputs % 16 || !gpu_experts_are_flat(node))
        return false;
    const gpu_node flat = gpu_experts_flat(node);
    const gpu_tensor_shape s = shape_of(node, &flat);
    return gpu_has_tiles(node->target, &flat.in[1].d) &&
           gpu_tensor_fits(&flat, &s) &&
           tile_bytes(&flat, outputs) <= gpu_reach(node->target) &&
           flat.in[1].d.dims[0] / 16 <= GPU_MAX_GROUPS &&
           gpu_experts_places(node) <= GPU_MAX_GROUPS &&
           !gpu_is_disabled(node->target, "gemm_tensor");
}

uint64_t gpu_experts_kept_bytes(const gpu_node *node)
{
    const gpu_node flat = gpu_experts_flat(node);
    return gpu_kept_bytes(&flat);
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

/* What experts_tensor.clt reads, for the node's experts from `first` on. */
static void add_rows(gpu_call *call, const gpu_node *node, uint32_t table,
                     int64_t first, int64_t count)
{
    const int64_t used = node->in[2].d.dims[1];
    gpu_experts_table(call, node, table, false);
    gpu_call_define(call, "OUTPUTS", node->in[1].d.dims[1]);
    gpu_call_define(call, "SHARED", is_parted(node) ? 1 : used);
    gpu_call_param(call, "held", gpu_constant(gpu_experts_held(node)));
    gpu_call_param(call, "expert", gpu_constant(first));
    gpu_call_param(call, "there", gpu_constant(count));
    gpu_call_param(call, "used", gpu_constant(used));
}

/* Places for products in blocks of bn: as many as there are, and of each expert
 * one block that is not full. */
static gpu_expr places_in_blocks(const gpu_node *node, int64_t bn)
{
    const int64_t used = node->in[2].d.dims[1];
    gpu_expr places = gpu_rows(&node->in[0]);
    places.constant =
        places.constant * used + (gpu_experts_held(node) + 1) * bn;
    places.factor *= used;
    return places;
}

uint64_t gpu_experts_tensor_scratch(const gpu_node *node)
{
    const gpu_node flat = gpu_experts_flat(node);
    const int64_t blocks = (gpu_experts_held(node) + 1) * BLOCK_MOST;
    const int64_t halves =
        (gpu_experts_places(node) + blocks) * flat.in[1].d.dims[1] * 2;
    const int64_t tiles = tile_bytes(&flat, node->in[1].d.dims[1]);
    return (uint64_t)(halves +
                      (tiles > GPU_PART_BYTES ? tiles - GPU_PART_BYTES : 0));
}

/* ------------------------------------------------------------------------ */
/* By warp groups                                                            */

static gpu_tensor_shape wgmma_shape(const gpu_node *node, const gpu_node *flat)
{
    const int64_t held = gpu_experts_held(node);
    return gpu_wgmma_shape_for(flat, held,
                               (gpu_experts_places(node) + held - 1) / held,
                               node->in[1].d.dims[1]);
}

static gpu_wgmma_blocks blocks_of(const gpu_node *node,
                                  const gpu_tensor_shape *s)
{
    const gpu_expr places = places_in_blocks(node, s->bn);
    return (gpu_wgmma_blocks){.rows = gpu_template_experts_tensor,
                              .n = gpu_ceil(places, s->bn),
                              .items = places,
                              .most = (gpu_experts_places(node) + s->bn - 1) /
                                          s->bn +
                                      gpu_experts_held(node) + 1};
}

static bool are_by_warp_groups(const gpu_node *node, const gpu_node *flat)
{
    if (!gpu_wgmma_takes(flat) ||
        gpu_is_disabled(node->target, "experts_wgmma"))
        return false;
    const gpu_tensor_shape s = wgmma_shape(node, flat);
    if (!s.bn)
        return false;
    const gpu_wgmma_blocks blocks = blocks_of(node, &s);
    return blocks.most <= GPU_MAX_GROUPS / s.bn &&
           blocks.most * s.bn * flat->in[1].d.dims[1] * 2 <=
               gpu_reach(node->target);
}

/* Products of the same x and order share it. */
static clv_status lower_blocks(gpu_lowering *lowering, const gpu_node *node,
                               const gpu_node *flat, const gpu_tensor_shape *s,
                               uint32_t table, gpu_tensor_x *x)
{
    const gpu_wgmma_blocks blocks = blocks_of(node, s);
    const uint32_t form =
        is_parted(node) ? 0 : gpu_halves_form(flat, s->bn | 1);
    gpu_call call;
    CLV_TRY(gpu_wgmma_share(lowering, flat, s, &blocks, x));
    if (form && lowering->halves_of == form)
        return CLV_OK;
    lowering->halves_of = 0;
    gpu_wgmma_halves_call(&call, flat, &flat->in[0], s, &blocks, x);
    gpu_call_define(&call, "NORM", 0);
    add_rows(&call, node, table, 0, gpu_experts_held(node));
    CLV_TRY(gpu_add_run(lowering, &call));
    if (!lowering->aliased)
        lowering->halves_of = form;
    return CLV_OK;
}

/* The node's experts from `first` on. */
static clv_status lower_wgmma_part(gpu_lowering *lowering, const gpu_node *node,
                                   const gpu_node *flat, const gpu_tensor_x *x,
                                   uint32_t table, uint32_t parts,
                                   int64_t first, int64_t count)
{
    const int64_t outputs = node->in[1].d.dims[1];
    const gpu_tensor_shape s = wgmma_shape(node, flat);
    const gpu_wgmma_blocks blocks = blocks_of(node, &s);
    gpu_wgmma_call c;
    uint32_t tiles;
    CLV_TRY(gpu_lower_tiles(lowering, flat, first * outputs, count * outputs,
                            &tiles));
    CLV_TRY(gpu_wgmma_begin(&c, lowering, flat, &s, &blocks, x, NULL));
    c.call.variant = "experts_wgmma";
    gpu_call_define(&c.call, "ACTIVATION", 0);
    gpu_add_tiles(&c.call, flat, "w", tiles, count * outputs);
    add_rows(&c.call, node, table, first, count);
    gpu_experts_output(&c.call, node, parts);
    return gpu_wgmma_end(&c, lowering,
                         (outputs + GPU_WGMMA_BM - 1) / GPU_WGMMA_BM);
}

/* ------------------------------------------------------------------------ */
/* By warps                                                                  */

/* The node's experts from `first` on. */
static clv_status lower_warps_part(gpu_lowering *lowering, const gpu_node *node,
                                   const gpu_node *flat, const gpu_tensor_x *x,
                                   uint32_t table, uint32_t parts,
                                   int64_t first, int64_t count)
{
    const int64_t outputs = node->in[1].d.dims[1];
    const gpu_tensor_shape s = shape_of(node, flat);
    gpu_call call;
    uint32_t tiles;
    CLV_TRY(gpu_lower_tiles(lowering, flat, first * outputs, count * outputs,
                            &tiles));
    gpu_tensor_call(&call, flat, &s, gpu_template_experts_tensor, x, tiles,
                    count * outputs);
    add_rows(&call, node, table, first, count);
    gpu_experts_output(&call, node, parts);
    call.groups[0] = gpu_constant((outputs + s.bm - 1) / s.bm);
    call.groups[1] = gpu_ceil(places_in_blocks(node, s.bn), s.bn);
    return gpu_add_run(lowering, &call);
}

/* Scales are of rows, which are others where x is in parts. */
static clv_status lower_halves(gpu_lowering *lowering, const gpu_node *node,
                               const gpu_node *flat, gpu_tensor_x *x)
{
    if (is_parted(node))
        lowering->halves_of = 0;
    CLV_TRY(gpu_tensor_halves(lowering, flat, x));
    if (is_parted(node))
        lowering->halves_of = 0;
    return CLV_OK;
}

/* ------------------------------------------------------------------------ */

clv_status gpu_experts_lower_tensor(gpu_lowering *lowering,
                                    const gpu_node *node, uint32_t table,
                                    uint32_t parts)
{
    const gpu_node flat = gpu_experts_flat(node);
    const bool wgmma = are_by_warp_groups(node, &flat);
    const int64_t n = gpu_experts_held(node);
    const int64_t step = tiles_step(&flat, n, node->in[1].d.dims[1]);
    gpu_tensor_x x;
    if (wgmma) {
        const gpu_tensor_shape s = wgmma_shape(node, &flat);
        CLV_TRY(lower_blocks(lowering, node, &flat, &s, table, &x));
    } else {
        CLV_TRY(lower_halves(lowering, node, &flat, &x));
    }
    for (int64_t e = 0; e < n; e += step)
        CLV_TRY((wgmma ? lower_wgmma_part : lower_warps_part)(
            lowering, node, &flat, &x, table, parts, e,
            n - e < step ? n - e : step));
    return CLV_OK;
}
