/*
 * Products by tensor cores. The setup brings the weights into tiles that serve
 * GEMM, whose x another dispatch has converted to halves or bytes, and GEMV.
 */
#include "ops/gemm_tensor.h"
#include "ops/gemm_wgmma.h"
#include "ops/gemv_tensor_glsl.h"
#include "ops/activations.h"
#include "ops/gemv_tensor.h"
#include "ops/tiles.h"
#include "lower/variant.h"

/* ------------------------------------------------------------------------ */
/* What is made so                                                           */

static const char *variant_name(const gpu_node *node)
{
    return gpu_is_gemv(node)       ? "gemv_tensor"
           : gpu_wgmma_suits(node) ? gpu_wgmma_name(node)
           : gpu_is_int8(node)     ? "gemm_tensor_int8"
                                   : "gemm_tensor";
}

/* Whether there can be tiles of the weights. Where runs make them, they have to
 * serve many rows of x. */
static bool can_tile(const gpu_node *node)
{
    const gpu_target *target = node->target;
    const clv_tensor_desc *w = &node->in[1].d;
    if (!gpu_has_tiles(target, w) ||
        (gpu_is_gemv(node) && !gpu_keeps_tiles(node)))
        return false;
    const uint64_t reach = (uint64_t)gpu_reach(target);
    const uint64_t size =
        (uint64_t)((gpu_tiles_part(node) + 15) / 16 * gpu_tiles_row(target, w));
    return size <= UINT32_MAX && size <= target->max_binding &&
           (w->dims[0] + 15) / 16 <= GPU_MAX_GROUPS &&
           (!w->quant || gpu_extent(&node->scales[1]) <= reach);
}

static bool has_bytes(const gpu_target *target)
{
    return target->plain_matrix || target->coop_bytes || !gpu_is_glsl(target);
}

bool gpu_tensor_suits(const gpu_node *node)
{
    const gpu_target *target = node->target;
    return gpu_has_tensor(target) && can_tile(node) &&
           (!gpu_is_int8(node) || has_bytes(target)) &&
           gpu_max_rows(&node->in[0]) <= GPU_MAX_GROUPS &&
           target->max_group >= 256 &&
           target->local_bytes >= (gpu_is_glsl(target) ? 32 : 48) * 1024u &&
           !gpu_is_disabled(target, variant_name(node));
}

/* Whether x becomes bytes, or halves. */
static bool becomes_bytes(const gpu_node *node)
{
    return gpu_wgmma_suits(node) ? gpu_wgmma_has_bytes(node)
                                 : gpu_is_int8(node);
}

uint32_t gpu_tensor_error_class(const gpu_node *node)
{
    return gpu_is_gemv(node) && gpu_gemv_is_fine(node) ? CLV_ERROR_F32
           : !becomes_bytes(node)                      ? CLV_ERROR_F16
           : node->node.attr.matmul.input_scale > 0    ? CLV_ERROR_F32
                                                       : CLV_ERROR_Q8;
}

/* ------------------------------------------------------------------------ */
/* Shapes of GEMM                                                            */

/* Groups that share a compute unit, so that one loads while another computes.
 */
#define GROUPS_A_UNIT 2

/* Bytes of local memory of a step, with one half of what GLSL's kernel has. */
static int64_t step_bytes(const gpu_node *node, const gpu_tensor_shape *s)
{
    const gpu_tile_form form = gpu_tiles_of(node->target, &node->in[1].d);
    const int64_t tiles = s->bm / 16 * gpu_tiles_bytes(&form, 1);
    const bool bytes = gpu_is_int8(node);
    if (gpu_is_glsl(node->target))
        return (s->bm + s->bn) * (bytes ? 84 : 80);
    return bytes ? tiles * (gpu_int8_block(node) / 32) +
                       s->bn / 16 * gpu_int8_tile(node)
                 : tiles + s->bn * 64;
}

bool gpu_tensor_fits(const gpu_node *node, const gpu_tensor_shape *s)
{
    const bool glsl = gpu_is_glsl(node->target);
    const int64_t items = s->wm * s->wn * 32;
    const int64_t plain = glsl ? node->target->plain_matrix ? 4 * items : 0
                               : gpu_plain_bytes(node->target, items);
    return items <= node->target->max_group && s->bn * 4 % items == 0 &&
           s->bm % (s->wm * 32) == 0 && /* warps have pairs of rows of tiles */
           s->bn % (s->wn * (glsl ? 16 : 8)) == 0 &&
           s->bm * s->bn <= 128 * items && /* sums, in registers */
           (glsl ? 2 : s->stages) * step_bytes(node, s) + plain <=
               node->target->local_bytes &&
           (!glsl || s->stages <= 3);
}

/* Without tuning. */
static gpu_tensor_shape preferred_shape(const gpu_node *node, int64_t rows)
{
    const clv_tensor_desc *w = &node->in[1].d;
    const int64_t slots = GROUPS_A_UNIT * (int64_t)node->target->units;
    gpu_tensor_shape s = {128, 128, 2, 2, 3, 1};
    if (gpu_is_glsl(node->target)) {
        if (node->target->local_bytes < 40 * 1024)
            s.bn = 64;
    }
    if (w->dtype == CLV_DTYPE_F16 || gpu_is_glsl(node->target) ||
        gpu_is_int8(node))
        s.stages = 2;
    if (rows <= 64)
        s.bn = 64;
    while (s.stages > 2 && !gpu_tensor_fits(node, &s))
        s.stages--;
    int64_t tiles =
        ((w->dims[0] + s.bm - 1) / s.bm) * ((rows + s.bn - 1) / s.bn);
    while (s.split < 8 && tiles * s.split * 2 <= slots &&
           w->dims[1] / 32 / (s.split * 2) >= 8)
        s.split *= 2;
    return s;
}

gpu_tensor_shape gpu_tensor_shape_for(const gpu_node *node, int64_t rows)
{
    gpu_tensor_shape s = preferred_shape(node, rows);
    s.split = 1;
    if (rows <= 32) {
        s.bn = 32;
        s.wm = 4;
        s.wn = 1;
    }
    return s;
}

uint32_t gpu_tensor_id(const gpu_tensor_shape *s)
{
    return (uint32_t)(s->bm / 64 << 20 | s->bn / 32 << 16 | s->wm << 12 |
                      s->wn << 8 | s->stages << 4 | s->split);
}

static gpu_tensor_shape shape_of(uint32_t id)
{
    return (gpu_tensor_shape){(id >> 20) * 64, (id >> 16 & 15) * 32,
                              id >> 12 & 15,   id >> 8 & 15,
                              id >> 4 & 15,    id & 15};
}

/* The preferred shape, and others with its depth and parts, or its tiles. */
static void list_shapes(const gpu_node *node, gpu_variants *out)
{
    static const gpu_tensor_shape tiles[] = {
        {128, 128, 2, 2, 0, 0}, {128, 128, 4, 2, 0, 0}, {128, 64, 2, 2, 0, 0},
        {64, 128, 2, 2, 0, 0},  {64, 64, 2, 2, 0, 0},   {64, 64, 2, 1, 0, 0},
        {128, 256, 2, 4, 0, 0}, {256, 128, 4, 2, 0, 0}, {128, 32, 4, 1, 0, 0}};
    const gpu_tensor_shape best =
        preferred_shape(node, gpu_max_rows(&node->in[0]));
    const int64_t rows = gpu_max_rows(&node->in[0]);
    out->preferred = gpu_tensor_id(&best);
    gpu_variant_add(out, out->preferred);
    for (uint32_t i = 0; i < sizeof tiles / sizeof *tiles; i++) {
        gpu_tensor_shape s = tiles[i];
        s.stages = best.stages;
        s.split = best.split;
        if (gpu_tensor_id(&s) != out->preferred && s.bn < 2 * rows &&
            gpu_tensor_fits(node, &s))
            gpu_variant_add(out, gpu_tensor_id(&s));
    }
    for (int64_t stages = 2; stages <= 4; stages++) {
        gpu_tensor_shape s = best;
        s.stages = stages;
        if (stages != best.stages && gpu_tensor_fits(node, &s))
            gpu_variant_add(out, gpu_tensor_id(&s));
    }
    for (int64_t split = 1; split <= 8; split *= 2) {
        gpu_tensor_shape s = best;
        s.split = split;
        if (split != best.split && node->in[1].d.dims[1] / 32 >= 4 * split)
            gpu_variant_add(out, gpu_tensor_id(&s));
    }
}

void gpu_tensor_variants(const gpu_node *node, gpu_variants *out)
{
    const clv_tensor_desc *w = &node->in[1].d;
    snprintf(out->key, sizeof out->key, "%s-%s%s-o%u-i%u-n%u",
             variant_name(node), clv_dtype_label(w->dtype),
             w->quant == CLV_QUANT_PER_GROUP ? "g" : "",
             gpu_size_class(w->dims[0]), gpu_size_class(w->dims[1]),
             gpu_size_class(gpu_max_rows(&node->in[0])));
    if (gpu_is_gemv(node) && gpu_is_glsl(node->target))
        gpu_gemv_glsl_variants(node, out);
    else if (gpu_is_gemv(node))
        gpu_gemv_tensor_variants(node, out);
    else if (gpu_wgmma_suits(node))
        gpu_wgmma_shapes(node, out);
    else
        list_shapes(node, out);
}

static uint32_t choose(const gpu_node *node)
{
    gpu_variants variants = {.n = 0};
    gpu_tensor_variants(node, &variants);
    return gpu_choice(node->target, &variants);
}

/* ------------------------------------------------------------------------ */
/* Dispatches                                                                */

uint32_t gpu_halves_form(const gpu_node *node, int64_t bn)
{
    return (node->in[0].index + 1) << 10 | (uint32_t)bn << 1 |
           (uint32_t)gpu_is_permuted(node);
}

clv_status gpu_tensor_halves(gpu_lowering *lowering, const gpu_node *node,
                             gpu_tensor_x *out)
{
    const int64_t channels = node->in[1].d.dims[1];
    const uint64_t rows = (uint64_t)gpu_max_rows(&node->in[0]);
    gpu_call call;
    const uint32_t form = gpu_halves_form(node, 0);
    CLV_TRY(gpu_share_scratch(lowering, GPU_SCRATCH_HALVES,
                              rows * (uint64_t)channels * 2, &out->q));
    CLV_TRY(gpu_share_scratch(lowering, GPU_SCRATCH_HALVES_SCALE, rows * 4,
                              &out->scale));
    if (lowering->halves_of == form)
        return CLV_OK;
    lowering->halves_of = 0;
    gpu_call_init(&call, "activations_tensor_f16",
                  gpu_template_activations_tensor_f16, 256);
    gpu_call_use(&call, gpu_template_packed);
    if (!gpu_is_glsl(node->target))
        gpu_call_use(&call, gpu_tensor_words(node->target));
    gpu_call_rows(&call, "x", &node->in[0], false);
    gpu_add_private_rows(&call, "q", out->q, CLV_DTYPE_F16,
                         gpu_rows(&node->in[0]), channels, channels * 2, true);
    gpu_add_private_rows(&call, "scale", out->scale, CLV_DTYPE_F32,
                         gpu_constant(1), (int64_t)rows, 0, true);
    gpu_call_define(&call, "GROUP", 256);
    gpu_call_define(&call, "ITEMS", 256);
    gpu_call_define(&call, "PERMUTED", gpu_is_permuted(node));
    call.groups[0] = gpu_rows(&node->in[0]);
    CLV_TRY(gpu_add_run(lowering, &call));
    if (!lowering->aliased)
        lowering->halves_of = form;
    return CLV_OK;
}

static void add_output(gpu_call *call, const gpu_node *node,
                       const gpu_tensor_part *p)
{
    if (gpu_has(&node->in[2])) {
        gpu_call_post(call, GPU_POST_ADD, &node->in[2]);
        call->operands[call->n_operands - 1].offset = (uint64_t)p->first * 4;
    }
    gpu_operand *dst = gpu_call_rows(call, "dst", &node->out, true);
    dst->offset = (uint64_t)p->first * 4;
    dst->channels = gpu_constant(p->count);
}

void gpu_tensor_output(gpu_call *call, const gpu_node *node,
                       const gpu_tensor_shape *s, const gpu_tensor_part *p,
                       uint32_t sums)
{
    if (s->split > 1)
        gpu_add_private_rows(call, "dst", sums, CLV_DTYPE_F32,
                             gpu_rows(&node->in[0]), p->count, 4 * p->count,
                             true);
    else
        add_output(call, node, p);
}

static void add_shape(gpu_call *call, const gpu_node *node,
                      const gpu_tensor_shape *s)
{
    gpu_tile_defines(call, node);
    gpu_call_define(call, "BM", s->bm);
    gpu_call_define(call, "BN", s->bn);
    gpu_call_define(call, "WM", s->wm);
    gpu_call_define(call, "WN", s->wn);
    gpu_call_define(call, gpu_is_glsl(node->target) ? "AHEAD" : "STAGES",
                    gpu_is_glsl(node->target) ? s->stages - 1 : s->stages);
    gpu_call_define(call, "SPLIT", s->split);
    gpu_call_define(call, "ITEMS", s->wm * s->wn * 32);
}

static void use_texts(gpu_call *call, const gpu_node *node, const char *rows)
{
    const bool glsl = gpu_is_glsl(node->target), int8 = gpu_is_int8(node);
    gpu_use_tensor(call, node->target, int8);
    gpu_use_tiles(call, node->target);
    gpu_call_use(call, rows);
    gpu_call_use(call, glsl   ? int8 ? gpu_template_gemm_tensor_int8_glsl
                                     : gpu_template_gemm_tensor_f16_glsl
                       : int8 ? gpu_template_gemm_tensor_int8_opencl
                              : gpu_template_gemm_tensor_f16_opencl);
}

static void add_x(gpu_call *call, const gpu_node *node, const gpu_tensor_x *x)
{
    const int64_t in = node->in[1].d.dims[1];
    if (gpu_is_int8(node)) {
        gpu_int8_add(call, node, x->q);
        return;
    }
    gpu_add_private_rows(call, "x", x->q, CLV_DTYPE_F16, gpu_rows(&node->in[0]),
                         in, 2 * in, false);
    gpu_add_private_rows(call, "scale", x->scale, CLV_DTYPE_F32,
                         gpu_constant(1), gpu_max_rows(&node->in[0]), 0, false);
}

void gpu_tensor_call(gpu_call *call, const gpu_node *node,
                     const gpu_tensor_shape *s, const char *rows,
                     const gpu_tensor_x *x, uint32_t tiles, int64_t channels)
{
    gpu_call_init(call, "gemm_tensor",
                  gpu_is_glsl(node->target) ? gpu_template_gemm_tensor_glsl
                                            : gpu_template_gemm_tensor_opencl,
                  (uint32_t)(s->wm * s->wn * 32));
    call->variant = variant_name(node);
    use_texts(call, node, rows);
    add_x(call, node, x);
    gpu_add_tiles(call, node, "w", tiles, channels);
    add_shape(call, node, s);
}

/* sums: where they go, if s->split > 1. */
static clv_status lower_gemm(gpu_lowering *lowering, const gpu_node *node,
                             const gpu_tensor_shape *s,
                             const gpu_tensor_part *p, const gpu_tensor_x *x,
                             uint32_t sums)
{
    const int64_t out = p->count;
    gpu_call call;
    gpu_tensor_call(&call, node, s, gpu_template_gemm_tensor_rows, x, p->tiles,
                    out);
    gpu_tensor_output(&call, node, s, p, sums);
    call.groups[0] = gpu_constant((out + s->bm - 1) / s->bm);
    call.groups[1] = gpu_ceil(gpu_rows(&node->in[0]), s->bn);
    call.groups[2] = gpu_constant(s->split);
    return gpu_add_run(lowering, &call);
}

static clv_status lower_reduce(gpu_lowering *lowering, const gpu_node *node,
                               const gpu_tensor_shape *s,
                               const gpu_tensor_part *p, uint32_t sums)
{
    const int64_t out = p->count;
    gpu_call call;
    gpu_call_init(&call, "gemm_tensor_reduce", gpu_template_gemm_tensor_reduce,
                  64);
    gpu_add_private_rows(&call, "part", sums, CLV_DTYPE_F32,
                         gpu_constant(s->split * gpu_max_rows(&node->in[0])),
                         out, 4 * out, false);
    add_output(&call, node, p);
    gpu_call_define(&call, "SPLIT", s->split);
    call.groups[0] = gpu_constant((out + 255) / 256);
    call.groups[1] = gpu_rows(&node->in[0]);
    return gpu_add_run(lowering, &call);
}

static clv_status lower_part(gpu_lowering *lowering, const gpu_node *node,
                             const gpu_tensor_shape *s, const gpu_tensor_x *x,
                             gpu_tensor_part *p)
{
    const uint64_t size = (uint64_t)(s->split * gpu_max_rows(&node->in[0])) *
                          (uint64_t)p->count * 4;
    uint32_t sums = 0;
    CLV_TRY(gpu_lower_tiles(lowering, node, p->first, p->count, &p->tiles));
    if (s->split > 1)
        CLV_TRY(gpu_share_scratch(lowering, GPU_SCRATCH_PARTS, size, &sums));
    CLV_TRY(gpu_wgmma_suits(node)
                ? gpu_wgmma_lower(lowering, node, s, p, x, sums)
                : lower_gemm(lowering, node, s, p, x, sums));
    return s->split > 1 ? lower_reduce(lowering, node, s, p, sums) : CLV_OK;
}

clv_status gpu_tensor_lower(gpu_lowering *lowering, const gpu_node *node)
{
    const int64_t out = node->in[1].d.dims[0], step = gpu_tiles_part(node);
    gpu_tensor_x x = {0, 0};
    uint32_t tiles;
    if (gpu_is_gemv(node)) {
        CLV_TRY(gpu_lower_tiles(lowering, node, 0, out, &tiles));
        return gpu_gemv_tensor_lower(lowering, node, choose(node), tiles);
    }
    const gpu_tensor_shape s = shape_of(choose(node));
    CLV_TRY(gpu_wgmma_suits(node)
                ? gpu_wgmma_halves(lowering, node, &s, NULL, &x)
            : gpu_is_int8(node) ? gpu_int8_lower(lowering, node, &x.q)
                                : gpu_tensor_halves(lowering, node, &x));
    for (int64_t o = 0; o < out; o += step) {
        gpu_tensor_part p = {.first = o,
                             .count = out - o < step ? out - o : step};
        CLV_TRY(lower_part(lowering, node, &s, &x, &p));
    }
    return CLV_OK;
}
