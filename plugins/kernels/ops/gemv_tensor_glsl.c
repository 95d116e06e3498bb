#include "ops/gemv_tensor_glsl.h"
#include "code/formats.h"
#include "ops/fused.h"
#include "ops/gemv_tensor.h"
#include "ops/tiles.h"
#include "lower/variant.h"

/* Rows of tiles that a group takes, warps of a group, tiles of each row that a
 * warp has at once. */
typedef struct shape {
    uint32_t streams, warps, deep;
} shape;

/* Whether bytes meet bytes: a unit of weights has one scale. */
static bool has_dot(const gpu_node *node)
{
    const uint32_t dtype = node->in[1].d.dtype;
    return node->target->int_dot && gpu_is_integers(dtype) &&
           (int64_t)clv_format_of(dtype)->group %
                   (128 / gpu_packed_bits(dtype)) ==
               0 &&
           !gpu_is_disabled(node->target, "gemv_tensor_dot");
}

static bool is_wide(const gpu_node *node)
{
    return node->in[1].d.dtype == CLV_DTYPE_F16;
}

/* Numbers of x in local memory; the sums of all lanes take their place. */
static uint32_t x_floats(const gpu_node *node)
{
    return node->target->local_bytes < 48 * 1024 ? 4096 : 8192;
}

static bool fits(const gpu_node *node, shape s)
{
    const uint32_t sets = s.streams * (is_wide(node) ? 2 : 1);
    return s.warps * 32 <= node->target->max_group &&
           s.warps * sets * gpu_gemv_columns(node) * 32 <= x_floats(node);
}

static uint32_t id_of(shape s)
{
    return s.streams << 12 | s.warps << 4 | s.deep;
}

static shape shape_of_id(uint32_t id)
{
    return (shape){id >> 12, id >> 4 & 255, id & 15};
}

static int64_t rows_of_tiles(const gpu_node *node)
{
    return (node->in[1].d.dims[0] + 15) / 16;
}

/* As many warps as hide what memory takes, but groups that run at once where
 * there are many; two rows of tiles share what is read of x. rows: of tiles, of
 * all products. */
static shape prefer(const gpu_node *node, int64_t rows)
{
    const int64_t units = node->target->units;
    const bool waits =
        gpu_gemv_columns(node) <= 2; /* for memory, not for sums */
    const shape quick = {2, 8, 2}, two = {2, 16, 2}, many = {1, 16, 2};
    const shape one = {1, 8, 2};
    if (rows >= units * 4 && waits && fits(node, quick))
        return quick;
    if (rows * 2 >= units * 3 && fits(node, two))
        return two;
    return rows <= units && fits(node, many) ? many : one;
}

void gpu_gemv_glsl_variants(const gpu_node *node, gpu_variants *out)
{
    out->preferred = id_of(prefer(node, rows_of_tiles(node)));
    gpu_variant_add(out, out->preferred);
    for (uint32_t streams = 1; streams <= 2; streams++)
        for (uint32_t warps = 4; warps <= 16; warps *= 2)
            for (uint32_t deep = 2; deep <= 4; deep *= 2) {
                const shape s = {streams, warps, deep};
                if (id_of(s) != out->preferred && fits(node, s))
                    gpu_variant_add(out, id_of(s));
            }
}

/* ------------------------------------------------------------------------ */
/* Text                                                                      */

static const char *const w_names[] = {"w", "w1", "w2"};

/* Stream s of the group: where its row of tiles lies. */
static void put_row(gpu_text *text, uint32_t s, const char *w, const char *tile)
{
    gpu_printf(text, " \\\n    row[%u] = args.%s.Row(0, %s, 0, 0);",
               (unsigned)s, w, tile);
}

/* Streams of tiles next to one another, of which the last may not be there. */
static void put_rows(gpu_text *text, const gpu_node *product, uint32_t streams,
                     const char *w)
{
    gpu_printf(text, " \\\n    tile *= %u;", (unsigned)streams);
    for (uint32_t s = 0; s < streams; s++) {
        char tile[48];
        snprintf(tile, sizeof tile, "min(tile + %u, %lld)", (unsigned)s,
                 (long long)rows_of_tiles(product) - 1);
        put_row(text, s, w, tile);
    }
}

static void put_words(gpu_text *text, uint32_t i)
{
    gpu_printf(text,
               "#define QUAD%u(at) args.%s.Quad(at)\n"
               "#define HALF%u(at) args.%s.Half(at)\n"
               "#define WORD%u(at) args.%s.Word(at)\n",
               (unsigned)i, w_names[i], (unsigned)i, w_names[i], (unsigned)i,
               w_names[i]);
}

static void put_one(gpu_text *text, const gpu_node *node, uint32_t streams)
{
    put_words(text, 0);
    gpu_puts(text, "#define FETCH(at) FETCH_ALL(at, QUAD0, HALF0, WORD0)\n"
                   "#define WORD_OF(s, at) WORD0(at)\n"
                   "#define ADD_BIAS(y, m, o) (y)\n"
                   "#define STORE(m, y, c, o) \\\n"
                   "    if ((o) < args.dst.Channels()) \\\n"
                   "        args.dst.WriteScalar(y, 0, c, 0, 0, o);\n"
                   "#define FIND_STRIP(at) \\\n    tile = at;");
    put_rows(text, node, streams, w_names[0]);
    gpu_puts(text, "\n");
}

static int64_t strips_of(const gpu_fused_member *member, uint32_t streams)
{
    return (rows_of_tiles(&member->product) + streams - 1) / streams;
}

static void put_glu(gpu_text *text)
{
    gpu_puts(text, "#define FETCH(at) \\\n"
                   "    FETCH_STREAM(at, 0, QUAD0, HALF0, WORD0) \\\n"
                   "    FETCH_STREAM(at, 1, QUAD1, HALF1, WORD1)\n"
                   "#define WORD_OF(s, at) ((s) == 0 ? WORD0(at) : WORD1(at))\n"
                   "#define FIND_STRIP(at) \\\n    tile = at;");
    put_row(text, 0, w_names[0], "tile");
    put_row(text, 1, w_names[1], "tile");
    gpu_puts(text, "\n");
}

/* The member that a strip is of, and where its tiles lie. */
static void put_find_strip(gpu_text *text, const gpu_fused *fused,
                           uint32_t streams)
{
    gpu_puts(text, "#define FIND_STRIP(at) \\\n    tile = at;");
    for (uint32_t i = 0; i < fused->n; i++) {
        const gpu_fused_member *m = &fused->members[i];
        const long long strips = strips_of(m, streams);
        gpu_printf(text, " \\\n    if (tile < %lld) { \\\n    member = %u;",
                   strips, (unsigned)i);
        if (gpu_fused_has_halves(fused)) {
            gpu_puts(text, " \\\n    tile = tile / APART * 2 * APART + "
                           "tile % APART;");
            put_row(text, 0, w_names[i], "tile");
            put_row(text, 1, w_names[i], "tile + APART");
        } else {
            put_rows(text, &m->product, streams, w_names[i]);
        }
        gpu_puts(text, " \\\n    }");
        if (i + 1 < fused->n)
            gpu_printf(text, " else { tile -= %lld; ", strips);
    }
    for (uint32_t i = 1; i < fused->n; i++)
        gpu_puts(text, " }");
    gpu_puts(text, "\n#define FETCH(at)");
    for (uint32_t i = 0; i < fused->n; i++)
        gpu_printf(text,
                   " \\\n    if (member == %u) { FETCH_ALL(at, QUAD%u, "
                   "HALF%u, WORD%u) }",
                   (unsigned)i, (unsigned)i, (unsigned)i, (unsigned)i);
    gpu_puts(text, "\n#define WORD_OF(s, at) (");
    for (uint32_t i = 0; i + 1 < fused->n; i++)
        gpu_printf(text, "member == %u ? WORD%u(at) : ", (unsigned)i,
                   (unsigned)i);
    gpu_printf(text, "WORD%u(at))\n", (unsigned)fused->n - 1);
}

static void put_fused(gpu_text *text, const gpu_fused *fused, uint32_t streams)
{
    for (uint32_t i = 0; i < fused->n; i++)
        put_words(text, i);
    gpu_fused_put(text, fused);
    if (fused->has_glu)
        put_glu(text);
    else
        put_find_strip(text, fused, streams);
}

/* ------------------------------------------------------------------------ */
/* Dispatches                                                                */

static void add_numbers(gpu_call *call, const gpu_node *node, shape s,
                        const gpu_fused *fused)
{
    gpu_gemv_define(call, node, fused);
    gpu_call_define(call, "CHUNK", x_floats(node) / gpu_gemv_columns(node));
    gpu_call_define(call, "STREAMS", s.streams);
    gpu_call_define(call, "WARPS", s.warps);
    gpu_call_define(call, "ITEMS", s.warps * 32);
    gpu_call_define(call, "DEEP", is_wide(node) ? s.deep / 2 : s.deep);
    gpu_call_define(call, "DOT", has_dot(node));
}

/* A call of the kernel of GLSL. */
static void begin(gpu_call *call, const gpu_node *node, const gpu_text *text,
                  shape s)
{
    gpu_call_init(call, "gemv_tensor", gpu_template_gemv_tensor_glsl,
                  s.warps * 32);
    gpu_call_use(call, text->data);
    if (has_dot(node))
        gpu_call_use(call, gpu_template_dot_int8);
    gpu_call_use(call, gpu_template_packed);
    gpu_use_tiles(call, node->target);
}

/* Of a text that was made for it, which is freed. */
static clv_status finish(gpu_lowering *lowering, gpu_call *call, gpu_text *text)
{
    clv_status status =
        text->failed ? CLV_ERR_NO_MEMORY : gpu_add_run(lowering, call);
    gpu_text_free(text);
    return status;
}

clv_status gpu_gemv_glsl_lower(gpu_lowering *lowering, const gpu_node *node,
                               uint32_t id, uint32_t tiles)
{
    const shape s = shape_of_id(id);
    gpu_text text = {.host = lowering->builder.host};
    gpu_call call;
    put_one(&text, node, s.streams);
    begin(&call, node, &text, s);
    gpu_gemv_operands(&call, node, tiles);
    add_numbers(&call, node, s, NULL);
    call.groups[0] = gpu_ceil(gpu_constant(rows_of_tiles(node)), s.streams);
    return finish(lowering, &call, &text);
}

/* Both streams of a strip are those of the group's kind, or as many as are
 * best. */
static shape prefer_for(const gpu_fused *fused)
{
    const gpu_node *first = &fused->members[0].product;
    int64_t rows = 0;
    for (uint32_t i = 0; i < fused->n; i++)
        rows += rows_of_tiles(&fused->members[i].product);
    shape s = prefer(first, rows);
    if (fused->has_glu || gpu_fused_has_halves(fused))
        s.streams = 2;
    while (!fits(first, s) && s.warps > 1)
        s.warps /= 2;
    return s;
}

clv_status gpu_gemv_glsl_fused_lower(gpu_lowering *lowering,
                                     const gpu_fused *fused,
                                     const uint32_t *tiles, uint32_t angles)
{
    const gpu_node *first = &fused->members[0].product;
    const shape s = prefer_for(fused);
    gpu_text text = {.host = lowering->builder.host};
    gpu_call call;
    int64_t strips = 0;
    for (uint32_t i = 0; i < fused->n; i++)
        if (!fused->has_glu || !i)
            strips +=
                strips_of(&fused->members[i], fused->has_glu ? 1 : s.streams);
    put_fused(&text, fused, s.streams);
    begin(&call, first, &text, s);
    call.name = "gemv_fused";
    gpu_fused_add(&call, fused, tiles, angles);
    add_numbers(&call, first, s, fused);
    call.groups[0] = gpu_constant(strips);
    return finish(lowering, &call, &text);
}
