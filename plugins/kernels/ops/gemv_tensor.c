#include "ops/gemv_tensor.h"
#include "ops/gemv_tensor_glsl.h"
#include "ops/gemm_tensor.h"
#include "ops/tiles.h"
#include "ops/rope.h"

int64_t gpu_gemv_columns(const gpu_node *node)
{
    int64_t columns = 1;
    while (columns < gpu_max_rows(&node->in[0]))
        columns *= 2;
    return columns;
}

void gpu_fused_define_activation(gpu_call *call, const gpu_fused *fused)
{
    const bool glu = fused && fused->has_glu;
    gpu_call_define(call, "ACTIVATION",
                    !glu                                     ? 0
                    : fused->activation == CLV_ACT_GELU_TANH ? 2
                                                             : 1);
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

bool gpu_fused_has_halves(const gpu_fused *fused)
{
    return fused->rope && fused->rope->node.attr.rope.mode == CLV_ROPE_HALVES;
}

/* Rows of tiles that a group reads at a time: gate and up, or both halves of
 * pairs. */
int64_t gpu_fused_streams(const gpu_fused *fused)
{
    return fused && (fused->has_glu || gpu_fused_has_halves(fused)) ? 2 : 1;
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
    return node->in[1].d.dims[1] / 32 % f.unroll == 0 &&
           items <= target->max_group && items <= target->max_group_size[0] &&
           columns * (f.warps * (f.unroll * 128 + streams * 256 + 8) + 128) +
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

static int64_t strips_of_one(const gpu_node *node)
{
    return (node->in[1].d.dims[0] + 15) / 16;
}

void gpu_gemv_tensor_variants(const gpu_node *node, gpu_variants *out)
{
    const int64_t strips = strips_of_one(node), units = node->target->units;
    out->preferred = id_of(prefer(node, strips, NULL));
    for (shape f = {.warps = 4}; f.warps <= 8; f.warps *= 2)
        for (f.unroll = 1; f.unroll <= 4; f.unroll *= 2)
            for (f.stay = 0; f.stay <= 4; f.stay += 2)
                if (fits(node, f, 1) && f.stay * units < strips)
                    gpu_variant_add(out, id_of(f));
}

/* ------------------------------------------------------------------------ */
/* One product                                                               */

const gpu_fused_names gpu_fused_plain_names = {
    .x = "x",
    .gain = "gain",
    .eps = "eps",
    .rope = "rope",
    .w = {"w", "w1", "w2"},
    .dst = {"dst", "dst1", "dst2"},
    .bias = {"bias", "bias1", "bias2"},
    .suffix = ""};

static void add_numbers(gpu_call *call, const gpu_node *node, shape f,
                        int64_t strips, const gpu_fused *fused)
{
    const int64_t most = f.stay * node->target->units;
    const int64_t groups = f.stay && most < strips ? most : strips;
    gpu_gemv_define(call, node, fused);
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
    gpu_call_init(call, "gemv_tensor", gpu_template_gemv_tensor_opencl,
                  node->index, 1);
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
    add_numbers(&call, node, f, strips_of_one(node), NULL);
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

bool gpu_fused_takes(const gpu_node *product, const gpu_node *first)
{
    const gpu_target *target = product->target;
    const gpu_tile_form form = gpu_tiles_of(target, &product->in[1].d);
    const gpu_tile_form first_form = gpu_tiles_of(target, &first->in[1].d);
    return gpu_tensor_suits(product) && gpu_is_gemv(product) &&
           gpu_same_tiles(&form, &first_form) &&
           !gpu_is_disabled(target, "gemv_fused");
}

/* Groups of 16 outputs of a member, or of 2 x 16. */
static int64_t strips_of(const gpu_fused *fused, const gpu_fused_member *member)
{
    const int64_t strips = strips_of_one(&member->product);
    return gpu_fused_has_halves(fused) ? strips / 2 : strips;
}

/* Rows of tiles from one half of pairs to the other. */
static long long apart_of(const gpu_fused *fused)
{
    return fused->rope->node.attr.rope.head_dim / 32;
}

/* The member that strip `at` is of, and its row of tiles. */
static void put_find_strip(gpu_text *text, const gpu_fused *fused,
                           const gpu_fused_names *names)
{
    gpu_printf(text, "#define FIND_STRIP%s(at) \\\n    tile = at;",
               names->suffix);
    for (uint32_t i = 0; i + 1 < fused->n_outs; i++) {
        const long long strips = strips_of(fused, &fused->members[i]);
        gpu_printf(text, " \\\n    member = %u;", (unsigned)i);
        gpu_printf(text, " \\\n    if (tile >= %lld) { tile -= %lld;", strips,
                   strips);
    }
    if (fused->n_outs > 1)
        gpu_printf(text, " \\\n    member = %u;", (unsigned)fused->n_outs - 1);
    for (uint32_t i = 1; i < fused->n_outs; i++)
        gpu_puts(text, " }");
    if (gpu_fused_has_halves(fused))
        gpu_printf(text, " \\\n    tile += tile / %lld * %lld;",
                   apart_of(fused), apart_of(fused));
    gpu_puts(text, "\n");
}

/* Of the strip's row of tiles, or of one so many further. */
static void put_row(gpu_text *text, unsigned stream, const char *w,
                    long long further)
{
    gpu_printf(text,
               " \\\n    row[%u] = (__global const uint4 *)(%s + "
               "args.%s.Row(0, tile + %lld, 0, 0));",
               stream, w, w, further);
}

/* Where they lie. */
static void put_find_rows(gpu_text *text, const gpu_fused *fused,
                          const gpu_fused_names *names)
{
    gpu_printf(text, "#define FIND_ROWS%s", names->suffix);
    for (uint32_t i = 0; i < fused->n_outs; i++) {
        if (fused->n_outs > 1)
            gpu_printf(text, " \\\n    if (member == %u) {", (unsigned)i);
        put_row(text, 0, names->w[i], 0);
        if (fused->has_glu)
            put_row(text, 1, names->w[1], 0);
        else if (gpu_fused_has_halves(fused))
            put_row(text, 1, names->w[i], apart_of(fused));
        if (fused->n_outs > 1)
            gpu_puts(text, " }");
    }
    gpu_puts(text, "\n");
}

void gpu_fused_put_stores(gpu_text *text, const gpu_fused *fused,
                          const gpu_fused_names *names)
{
    const bool biased = gpu_has(&fused->members[0].product.in[2]);
    gpu_puts(text, "#define ADD_BIAS(y, m, o) ((y)");
    for (uint32_t i = 0; i < fused->n && biased; i++)
        gpu_printf(text,
                   " + ((m) == %u && (o) < args.%s.Channels() ? "
                   "args.%s.ReadScalar(0, 0, 0, 0, o) : 0.0f)",
                   (unsigned)i, names->bias[i], names->bias[i]);
    gpu_puts(text, ")\n#define STORE(m, y, c, o)");
    for (uint32_t i = 0; i < fused->n_outs; i++)
        gpu_printf(text,
                   " \\\n    if ((m) == %u && (o) < args.%s.Channels()) "
                   "args.%s.WriteScalar(y, 0, c, 0, 0, o);",
                   (unsigned)i, names->dst[i], names->dst[i]);
    gpu_puts(text, "\n");
}

/* Which members are rotated, and how. */
static void put_rope(gpu_text *text, const gpu_fused *fused,
                     const gpu_fused_names *names)
{
    uint32_t rotated = 0;
    for (uint32_t i = 0; i < fused->n_outs; i++)
        rotated |= (uint32_t)fused->members[i].rotated << i;
    if (!rotated)
        return;
    const long long head = fused->rope->node.attr.rope.head_dim;
    gpu_printf(text,
               "#define IS_ROTATED(member) (%uu >> (member) & 1u)\n"
               "#define HEAD %lld\n"
               "#define APART %lld\n"
               "#define PAIRS_ROTATED %lld\n"
               "#define ANGLE(c, i) args.%s.ReadScalar(0, c, 0, 0, i)\n",
               (unsigned)rotated, head, head / 32,
               (long long)fused->rope->in[2].d.dims[0], names->rope);
}

void gpu_fused_put_named(gpu_text *text, const gpu_fused *fused,
                         const gpu_fused_names *names)
{
    put_rope(text, fused, names);
    gpu_fused_put_stores(text, fused, names);
    if (fused->has_norm)
        gpu_printf(text,
                   "#define GAIN(k) args.%s.ReadScalar(0, 0, 0, 0, k)\n"
                   "#define EPS bits_f32(args.%s)\n",
                   names->gain, names->eps);
}

void gpu_fused_put(gpu_text *text, const gpu_fused *fused)
{
    gpu_fused_put_named(text, fused, &gpu_fused_plain_names);
}

void gpu_fused_put_strips(gpu_text *text, const gpu_fused *fused,
                          const gpu_fused_names *names)
{
    put_find_strip(text, fused, names);
    put_find_rows(text, fused, names);
}

int64_t gpu_fused_strips(const gpu_fused *fused)
{
    int64_t strips = 0;
    for (uint32_t i = 0; i < fused->n_outs; i++)
        strips += strips_of(fused, &fused->members[i]);
    return strips;
}

void gpu_fused_add_products(gpu_call *call, const gpu_fused *fused,
                            const uint32_t *tiles, const gpu_fused_names *names)
{
    for (uint32_t i = 0; i < fused->n; i++) {
        const gpu_node *p = &fused->members[i].product;
        gpu_add_tiles(call, p, names->w[i], tiles[i], p->in[1].d.dims[0]);
        if (gpu_has(&p->in[2]))
            gpu_call_rows(call, names->bias[i], &p->in[2], false);
    }
    for (uint32_t i = 0; i < fused->n_outs; i++) {
        const gpu_fused_member *member = &fused->members[i];
        gpu_operand *dst =
            gpu_call_rows(call, names->dst[i], &member->out, true);
        if (member->sets.sets)
            gpu_call_set_rows(call, dst, &member->sets);
    }
}

void gpu_fused_add_named(gpu_call *call, const gpu_fused *fused,
                         const uint32_t *tiles, uint32_t angles,
                         const gpu_fused_names *names)
{
    const gpu_expr width = gpu_rows(&fused->x);
    gpu_call_rows(call, names->x, &fused->x, false);
    if (fused->has_norm) {
        gpu_call_rows(call, names->gain, &fused->norm.in[1], false);
        gpu_call_param(call, names->eps,
                       gpu_float(fused->norm.node.attr.norm.eps));
    }
    if (fused->rope) {
        const int64_t pairs = fused->rope->in[2].d.dims[0];
        gpu_add_private_rows(call, names->rope, angles, CLV_DTYPE_F32, width,
                             2 * pairs, 8 * pairs, false);
    }
    gpu_fused_add_products(call, fused, tiles, names);
}

void gpu_fused_add(gpu_call *call, const gpu_fused *fused,
                   const uint32_t *tiles, uint32_t angles)
{
    gpu_fused_add_named(call, fused, tiles, angles, &gpu_fused_plain_names);
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

clv_status gpu_fused_prepare(gpu_lowering *lowering, const gpu_fused *fused,
                             uint32_t *tiles, uint32_t *angles)
{
    const gpu_node *first = &fused->members[0].product;
    *angles = 0;
    for (uint32_t i = 0; i < fused->n; i++) {
        const gpu_node *p = &fused->members[i].product;
        CLV_TRY(gpu_lower_tiles(lowering, p, 0, p->in[1].d.dims[0], &tiles[i]));
    }
    return fused->rope
               ? gpu_rope_angles(lowering, first->index, fused->rope, angles)
               : CLV_OK;
}

clv_status gpu_fused_lower(gpu_lowering *lowering, const gpu_fused *fused)
{
    const gpu_node *first = &fused->members[0].product;
    uint32_t tiles[GPU_FUSED_MAX], angles;
    CLV_TRY(gpu_fused_prepare(lowering, fused, tiles, &angles));
    return gpu_is_glsl(first->target)
               ? gpu_fused_lower_glsl(lowering, fused, tiles, angles)
               : lower_fused(lowering, fused, tiles, angles);
}
