#include "ops/gemv_tensor.h"
#include "ops/fused.h"
#include "ops/gemv_tensor_glsl.h"
#include "ops/gemm_tensor.h"
#include "ops/tiles.h"

int64_t gpu_gemv_columns(const gpu_node *node)
{
    int64_t columns = 1;
    while (columns < gpu_max_rows(&node->in[0]))
        columns *= 2;
    return columns;
}

bool gpu_gemv_is_fine(const gpu_node *node)
{
    return gpu_is_glsl(node->target) ||
           gpu_gemv_columns(node) <= GPU_FINE_ROWS ||
           node->node.attr.matmul.input_scale > 0;
}

void gpu_gemv_define(gpu_call *call, const gpu_node *node,
                     const gpu_fused *fused)
{
    gpu_tile_defines(call, node);
    gpu_call_define(call, "COLUMNS", gpu_gemv_columns(node));
    gpu_fused_define_activation(call, fused);
    gpu_call_define(call, "NORM", fused && fused->has_norm);
    gpu_call_define(call, "ROPE",
                    !fused || !fused->rope        ? 0
                    : gpu_fused_has_halves(fused) ? 2
                                                  : 1);
}

/* How a product is computed, as the numbers of a variant. */
typedef struct shape {
    int64_t warps;  /* of a group */
    int64_t unroll; /* tiles of each stream that a warp has under way */
    int64_t stay;   /* groups that a compute unit is given, which then take one
                       strip of tiles after the other; 0: a group a strip */
} shape;

static uint32_t id_of(shape f)
{
    return (uint32_t)(f.stay << 8 | f.warps << 3 | f.unroll);
}

static shape shape_of_id(uint32_t id)
{
    return (shape){.warps = id >> 3 & 31, .unroll = id & 7, .stay = id >> 8};
}

/* Whether warps have whole numbers of tiles at a time, and the group and its
 * local memory fit. */
static bool fits(const gpu_node *node, shape f, int64_t streams)
{
    const gpu_target *target = node->target;
    const int64_t columns = gpu_gemv_columns(node), items = f.warps * 32;
    const int64_t parts = gpu_gemv_is_fine(node) ? 2 : 1;
    return node->in[1].d.dims[1] / 32 % f.unroll == 0 &&
           items <= target->max_group && items <= target->max_group_size[0] &&
           columns * (f.warps * (parts * (f.unroll * 64 + streams * 128) + 8) +
                      128) +
                   gpu_plain_bytes(target, items) <=
               (int64_t)target->local_bytes;
}

/* Without tuning: as many groups as compute units hold at once, which is
 * guessed. Teams have less under way, as they need more registers for the rest,
 * and their groups are too many to lose a place. */
static shape prefer(const gpu_node *node, int64_t strips,
                    const gpu_fused *fused)
{
    const int64_t units = node->target->units,
                  streams = gpu_fused_streams(fused);
    shape f = {.warps = 8,
               .unroll = fused ? 2 : 4,
               .stay = strips > 4 * units ? 3 : 0};
    while (f.unroll > 1 && !fits(node, f, streams))
        f.unroll /= 2;
    while (f.warps > 1 && !fits(node, f, streams))
        f.warps /= 2;
    return f;
}

void gpu_gemv_tensor_variants(const gpu_node *node, gpu_variants *out)
{
    const int64_t strips = gpu_tile_rows(node), units = node->target->units;
    out->preferred = id_of(prefer(node, strips, NULL));
    for (shape f = {.warps = 4}; f.warps <= 8; f.warps *= 2)
        for (f.unroll = 1; f.unroll <= 4; f.unroll *= 2)
            for (f.stay = 0; f.stay <= 4; f.stay += 2)
                if (fits(node, f, 1) && f.stay * units < strips)
                    gpu_variant_add(out, id_of(f));
}

/* ------------------------------------------------------------------------ */
/* One product                                                               */

static void add_numbers(gpu_call *call, const gpu_node *node, shape f,
                        int64_t strips, const gpu_fused *fused)
{
    const int64_t most = f.stay * node->target->units;
    const int64_t groups = f.stay && most < strips ? most : strips;
    gpu_gemv_define(call, node, fused);
    gpu_call_define(call, "FINE", gpu_gemv_is_fine(node));
    gpu_call_define(call, "UNROLL", f.unroll);
    gpu_call_define(call, "WARPS", f.warps);
    gpu_call_define(call, "ITEMS", f.warps * 32);
    gpu_call_define(call, "STREAMS", gpu_fused_streams(fused));
    gpu_call_define(call, "STRIPS", strips);
    gpu_call_define(call, "GROUPS", groups);
    call->local[0] = (uint32_t)f.warps * 32;
    call->groups[0] = gpu_constant(groups);
}

/* Of a lone product, whose bias and what follows are posts. */
static const char lone[] =
    "#define FIND_STRIP(at) tile = at;\n"
    "#define FIND_ROWS \\\n"
    "    row[0] = (__global const uint4 *)(w + args.w.Row(0, tile, 0, 0));\n"
    "#define ADD_BIAS(y, m, o) (y)\n"
    "#define STORE(m, y, c, o) \\\n"
    "    if ((o) < args.dst.Channels()) \\\n"
    "        args.dst.WriteScalar(y, 0, c, 0, 0, o);\n";

/* A call of the kernel of OpenCL C. */
static void begin(gpu_call *call, const gpu_node *node, const char *text)
{
    gpu_call_init(call, "gemv_tensor", gpu_template_gemv_tensor_opencl, 1);
    gpu_call_use(call, text);
    gpu_use_tensor(call, node->target, false);
    gpu_use_tiles(call, node->target);
}

void gpu_gemv_operands(gpu_call *call, const gpu_node *node, uint32_t tiles)
{
    gpu_call_rows(call, "x", &node->in[0], false);
    gpu_add_tiles(call, node, "w", tiles, node->in[1].d.dims[0]);
    if (gpu_has(&node->in[2]))
        gpu_call_post(call, GPU_POST_ADD, &node->in[2]);
    gpu_call_rows(call, "dst", &node->out, true);
}

static clv_status lower_one(gpu_lowering *lowering, const gpu_node *node,
                            shape f, uint32_t tiles)
{
    gpu_call call;
    begin(&call, node, lone);
    gpu_gemv_operands(&call, node, tiles);
    add_numbers(&call, node, f, gpu_tile_rows(node), NULL);
    return gpu_add_run(lowering, &call);
}

clv_status gpu_gemv_tensor_lower(gpu_lowering *lowering, const gpu_node *node,
                                 uint32_t id, uint32_t tiles)
{
    return gpu_is_glsl(node->target)
               ? gpu_gemv_glsl_lower(lowering, node, id, tiles)
               : lower_one(lowering, node, shape_of_id(id), tiles);
}

/* ------------------------------------------------------------------------ */
/* Several products                                                          */

bool gpu_gemv_fused_takes(const gpu_node *product, const gpu_node *first)
{
    const gpu_target *target = product->target;
    const gpu_tile_form form = gpu_tiles_of(target, &product->in[1].d);
    const gpu_tile_form first_form = gpu_tiles_of(target, &first->in[1].d);
    return gpu_tensor_suits(product) && gpu_is_gemv(product) &&
           gpu_same_tiles(&form, &first_form) &&
           !gpu_is_disabled(target, "gemv_fused");
}

static clv_status lower_fused(gpu_lowering *lowering, const gpu_fused *fused,
                              const uint32_t *tiles, uint32_t angles)
{
    const gpu_node *first = &fused->members[0].product;
    gpu_text text = {.host = lowering->builder.host};
    const int64_t strips = gpu_fused_strips(fused);
    gpu_call call;
    gpu_fused_put_strips(&text, fused, &gpu_fused_plain_names);
    gpu_fused_put(&text, fused);
    begin(&call, first, text.data);
    call.name = "gemv_fused";
    gpu_fused_add(&call, fused, tiles, angles);
    add_numbers(&call, first, prefer(first, strips, fused), strips, fused);
    clv_status status =
        text.failed ? CLV_ERR_NO_MEMORY : gpu_add_run(lowering, &call);
    gpu_text_free(&text);
    return status;
}

clv_status gpu_gemv_fused_lower(gpu_lowering *lowering, const gpu_fused *fused)
{
    const gpu_node *first = &fused->members[0].product;
    uint32_t tiles[GPU_FUSED_MAX], angles;
    CLV_TRY(gpu_fused_prepare(lowering, fused, tiles, &angles));
    return gpu_is_glsl(first->target)
               ? gpu_gemv_glsl_fused_lower(lowering, fused, tiles, angles)
               : lower_fused(lowering, fused, tiles, angles);
}
