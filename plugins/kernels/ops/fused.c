#include "ops/fused.h"
#include "ops/rope.h"
#include "ops/tiles.h"

const gpu_fused_names gpu_fused_plain_names = {
    .x = "x",
    .gain = "gain",
    .eps = "eps",
    .rope = "rope",
    .w = {"w", "w1", "w2"},
    .dst = {"dst", "dst1", "dst2"},
    .bias = {"bias", "bias1", "bias2"},
    .suffix = ""};

void gpu_fused_define_activation(gpu_call *call, const gpu_fused *fused)
{
    const bool glu = fused && fused->has_glu;
    gpu_call_define(call, "ACTIVATION",
                    !glu                                     ? 0
                    : fused->activation == CLV_ACT_GELU_TANH ? 2
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

int64_t gpu_tile_rows(const gpu_node *node)
{
    return (node->in[1].d.dims[0] + 15) / 16;
}

/* Groups of 16 outputs of a member, or of 2 x 16. */
static int64_t strips_of(const gpu_fused *fused, const gpu_fused_member *member)
{
    const int64_t strips = gpu_tile_rows(&member->product);
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

clv_status gpu_fused_prepare(gpu_lowering *lowering, const gpu_fused *fused,
                             uint32_t *tiles, uint32_t *angles)
{
    *angles = 0;
    for (uint32_t i = 0; i < fused->n; i++) {
        const gpu_node *p = &fused->members[i].product;
        CLV_TRY(gpu_lower_tiles(lowering, p, 0, p->in[1].d.dims[0], &tiles[i]));
    }
    return fused->rope ? gpu_rope_angles(lowering, fused->rope, angles)
                       : CLV_OK;
}
