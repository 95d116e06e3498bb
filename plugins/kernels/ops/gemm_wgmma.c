#include "ops/gemm_wgmma.h"
#include "ops/activations.h"
#include "code/formats.h"
#include "ops/tiles.h"

#define BM GPU_WGMMA_BM
#define ITEMS (BM * 2)
#define STEP_BYTES 128  /* of a row of x in a step */
#define FIRST_BYTES 128 /* of the ring: barriers */
#define ROWS 2          /* that a group of activations_wgmma makes */
#define KEPT_MAX 2      /* units that its items keep in registers */
#define UNIT 16         /* channels */
#define GROUP_MAX 1024  /* items, of which each has registers for its units */
#define BYTES_ITEMS 256 /* of a group of activations_wgmma_int8 */
/* A form of bytes, but for bn and the order of channels. */
#define BLOCKS_FORM 65536

static bool has_known_scale(const gpu_node *node)
{
    return node->node.op == CLV_OP_MATMUL && gpu_is_int8(node) &&
           node->node.attr.matmul.input_scale > 0;
}

/* Whether x is made into bytes: its scale is known, and those of the weights
 * are each for all of a row, so that a row's products are summed as
 * integers. */
bool gpu_wgmma_has_bytes(const gpu_node *node)
{
    return has_known_scale(node) && node->in[1].d.quant != CLV_QUANT_PER_GROUP;
}

static int64_t step_tiles(const gpu_node *node)
{
    return gpu_wgmma_has_bytes(node) ? 4 : 2;
}

/* Channels of two steps. */
static int64_t pair_of(const gpu_node *node)
{
    return 2 * 32 * step_tiles(node);
}

static const char *halves_name(const gpu_node *node)
{
    return gpu_wgmma_has_bytes(node) ? "activations_wgmma_int8"
                                     : "activations_wgmma";
}

const char *gpu_wgmma_name(const gpu_node *node)
{
    return gpu_wgmma_has_bytes(node) ? "gemm_wgmma_int8" : "gemm_wgmma";
}

/* ------------------------------------------------------------------------ */
/* Shapes                                                                    */

/* Local memory that the shape needs, but for the stages. */
static int64_t fixed_bytes(const gpu_node *node, int64_t bn)
{
    return FIRST_BYTES + 4 * (bn + BM) +
           (node->target->nvidia_ptx ? 0 : 20 * ITEMS);
}

static int64_t stage_bytes(const gpu_node *node, int64_t bn)
{
    const gpu_tile_form form = gpu_tiles_of(node->target, &node->in[1].d);
    return BM / 16 * gpu_tiles_bytes(&form, step_tiles(node)) + bn * STEP_BYTES;
}

/* The sums come through the ring at last. */
static bool fits(const gpu_node *node, const gpu_tensor_shape *s)
{
    const int64_t stages = s->stages * stage_bytes(node, s->bn);
    const int64_t sums = s->bn * (BM + 4) * 4;
    return s->stages >= 2 &&
           fixed_bytes(node, s->bn) + (stages > sums ? stages : sums) <=
               (int64_t)node->target->wgmma_bytes;
}

/* Products that are made at once: so many of so many rows and output
 * channels. */
typedef struct work {
    int64_t sets, rows, out;
} work;

static work work_of(const gpu_node *node)
{
    return (work){1, gpu_max_rows(&node->in[0]), node->in[1].d.dims[0]};
}

static int64_t units_of(const gpu_node *node)
{
    return node->target->units ? node->target->units : 1;
}

static int64_t groups_of(const work *w, const gpu_tensor_shape *s)
{
    return w->sets * ((w->out + BM - 1) / BM) *
           ((w->rows + s->bn - 1) / s->bn) * s->split;
}

/* Two groups share a compute unit, where their sums leave enough registers and
 * there are so many groups. */
static int64_t stages_for(const gpu_node *node, const work *w,
                          const gpu_tensor_shape *s)
{
    const int64_t all = node->target->wgmma_bytes;
    const bool shares = s->bn < 256 && node->target->nvidia_ptx &&
                        groups_of(w, s) > units_of(node);
    const int64_t room = (shares ? all / 2 : all) - fixed_bytes(node, s->bn);
    const int64_t n = room / stage_bytes(node, s->bn);
    return n < 8 ? n : 8;
}

/* About how long it takes, as parts of a step of 256 rows: groups that take
 * turns on the compute units, each with a beginning and an end, and the sum of
 * parts. */
static int64_t cost(const gpu_node *node, const gpu_tensor_shape *s,
                    const work *w)
{
    const int64_t step = s->bn == 256   ? 100
                         : s->bn == 128 ? 59
                         : s->bn == 64  ? 40
                                        : 30;
    const int64_t steps = node->in[1].d.dims[1] * 2 / pair_of(node) / s->split;
    const int64_t units = units_of(node);
    const int64_t reduce = w->rows * w->out * s->split * 8 / 33000 + 200;
    return (groups_of(w, s) + units - 1) / units * (steps * step + 600) +
           (s->split > 1 ? reduce : 0);
}

/* Those with the most stages that fit. */
static bool next_shape(const gpu_node *node, const work *w, gpu_tensor_shape *s)
{
    do {
        if (s->split < 8) {
            s->split *= 2;
        } else {
            s->split = 1;
            s->bn *= 2;
        }
        s->stages = stages_for(node, w, s);
    } while (s->bn <= 256 && (!fits(node, s) || s->split * pair_of(node) >
                                                    node->in[1].d.dims[1]));
    return s->bn <= 256;
}

#define FIRST_SHAPE                                                            \
    {                                                                          \
        .bm = BM, .bn = 16, .wm = ITEMS / 32, .wn = 1, .split = 8              \
    }

gpu_tensor_shape gpu_wgmma_preferred(const gpu_node *node)
{
    const work w = work_of(node);
    gpu_tensor_shape s = FIRST_SHAPE, best = {0};
    while (next_shape(node, &w, &s))
        if (!best.bn || cost(node, &s, &w) < cost(node, &best, &w))
            best = s;
    return best;
}

gpu_tensor_shape gpu_wgmma_shape_for(const gpu_node *node, int64_t sets,
                                     int64_t rows, int64_t out)
{
    const work w = {sets, rows, out};
    gpu_tensor_shape s = FIRST_SHAPE, best = {0};
    while (next_shape(node, &w, &s))
        if (s.split == 1 &&
            (!best.bn || cost(node, &s, &w) < cost(node, &best, &w)))
            best = s;
    return best;
}

/* All that divide no sums, for trials, and those that might be as quick. */
void gpu_wgmma_shapes(const gpu_node *node, gpu_variants *out)
{
    const work w = work_of(node);
    const gpu_tensor_shape best = gpu_wgmma_preferred(node);
    gpu_tensor_shape s = FIRST_SHAPE;
    out->preferred = gpu_tensor_id(&best);
    gpu_variant_add(out, out->preferred);
    while (next_shape(node, &w, &s))
        if (gpu_tensor_id(&s) != out->preferred &&
            (s.split == 1 || cost(node, &s, &w) < 2 * cost(node, &best, &w)))
            gpu_variant_add(out, gpu_tensor_id(&s));
}

bool gpu_wgmma_takes(const gpu_node *node)
{
    const gpu_target *target = node->target;
    return target->wgmma_bytes && !gpu_is_glsl(target) &&
           node->in[1].d.dims[1] % pair_of(node) == 0 &&
           target->max_group >= ITEMS &&
           !gpu_is_disabled(target, halves_name(node));
}

bool gpu_wgmma_suits(const gpu_node *node)
{
    return gpu_wgmma_takes(node) && !gpu_is_gemv(node) &&
           (!has_known_scale(node) || gpu_wgmma_has_bytes(node)) &&
           gpu_wgmma_preferred(node).bn &&
           !gpu_is_disabled(node->target, gpu_wgmma_name(node));
}

/* ------------------------------------------------------------------------ */
/* Text                                                                      */

/* EACH_SUM of n sums, and the instruction with them. */
static void put_words(gpu_text *out, int n, bool bytes)
{
    gpu_puts(out, "#define EACH_SUM(F)");
    for (int i = 0; i < n; i++)
        gpu_printf(out, " F(%d)", i);
    gpu_printf(out,
               "\n#define WGMMA_PTX(a0, a1, a2, a3, b) asm volatile(\"//@{ "
               ".reg .pred p; setp.ne.b32 p, %%%d, 0; "
               "wgmma.mma_async.sync.aligned.m64n%d%s {",
               n + 5, 2 * n, bytes ? "k32.s32.s8.s8" : "k16.f32.f16.f16");
    for (int i = 0; i < n; i++)
        gpu_printf(out, "%s%%%d", i ? "," : "", i);
    gpu_printf(out, "}, {%%%d,%%%d,%%%d,%%%d}, %%%d, p%s; }\" : ", n, n + 1,
               n + 2, n + 3, n + 4, bytes ? "" : ", 1, 1, 0");
    for (int i = 0; i < n; i++)
        gpu_printf(out, "%s\"+%c\"(d%d)", i ? ", " : "", bytes ? 'r' : 'f', i);
    gpu_puts(out, " : \"r\"(a0), \"r\"(a1), \"r\"(a2), \"r\"(a3), "
                  "\"l\"(b), \"r\"(1))\n");
}

/* ------------------------------------------------------------------------ */
/* Dispatches                                                                */

/* Rows of x in whole blocks, as rows of the buffer. */
static gpu_operand *add_blocks(gpu_call *call, const gpu_node *node,
                               const gpu_tensor_shape *s,
                               const gpu_wgmma_blocks *blocks, const char *name,
                               uint32_t buffer, bool written)
{
    const bool bytes = gpu_wgmma_has_bytes(node);
    const int64_t block = node->in[1].d.dims[1] * s->bn;
    return gpu_add_private_rows(call, name, buffer,
                                bytes ? CLV_DTYPE_I8 : CLV_DTYPE_F16, blocks->n,
                                block, (bytes ? 1 : 2) * block, written);
}

/* Of rows of x in whole blocks: of bytes for each part of the channels. */
static void add_scales(gpu_call *call, const gpu_node *node,
                       const gpu_tensor_shape *s,
                       const gpu_wgmma_blocks *blocks, uint32_t buffer,
                       bool written)
{
    const int64_t places = blocks->most * s->bn;
    gpu_add_private_rows(call, "scale", buffer, CLV_DTYPE_F32, gpu_constant(1),
                         places * (gpu_wgmma_has_bytes(node) ? s->split : 1), 0,
                         written);
    if (gpu_wgmma_has_bytes(node))
        gpu_call_define(call, "PLACES", places);
}

clv_status gpu_wgmma_share(gpu_lowering *lowering, const gpu_node *node,
                           const gpu_tensor_shape *s,
                           const gpu_wgmma_blocks *blocks, gpu_tensor_x *out)
{
    const uint64_t rows = (uint64_t)(blocks->most * s->bn);
    CLV_TRY(gpu_share_scratch(lowering, GPU_SCRATCH_HALVES,
                              rows * (uint64_t)node->in[1].d.dims[1] * 2,
                              &out->q));
    return gpu_share_scratch(lowering, GPU_SCRATCH_HALVES_SCALE, rows * 4,
                             &out->scale);
}

/* Items that make a row, and the units that each keeps: all of the row, where a
 * group can be so large. */
static void choose_items(const gpu_target *target, int64_t channels,
                         int64_t *items, int64_t *kept)
{
    const int64_t units = channels / UNIT, step = 32 / ROWS;
    int64_t most = GROUP_MAX;
    if (most > target->max_group)
        most = target->max_group;
    if (most > target->max_group_size[0])
        most = target->max_group_size[0];
    most = most / 32 * step;
    *kept = (units + most - 1) / most;
    if (*kept > KEPT_MAX)
        *kept = KEPT_MAX;
    *items = ((units + *kept - 1) / *kept + step - 1) / step * step;
    if (*items > most)
        *items = most;
}

void gpu_wgmma_halves_call(gpu_call *call, const gpu_node *node,
                           const gpu_tensor *from, const gpu_tensor_shape *s,
                           const gpu_wgmma_blocks *blocks,
                           const gpu_tensor_x *x)
{
    const int64_t channels = node->in[1].d.dims[1];
    int64_t items, kept;
    choose_items(node->target, channels, &items, &kept);
    gpu_call_init(call, "activations_wgmma", gpu_template_activations_wgmma,
                  (uint32_t)(items * ROWS));
    gpu_call_use(call, gpu_template_packed);
    gpu_call_use(call, gpu_tensor_words(node->target));
    gpu_call_use(call, blocks->rows);
    gpu_call_rows(call, "x", from, false);
    add_blocks(call, node, s, blocks, "q", x->q, true);
    add_scales(call, node, s, blocks, x->scale, true);
    gpu_call_define(call, "ROWS", ROWS);
    gpu_call_define(call, "ITEMS", items * ROWS);
    gpu_call_define(call, "KEPT", kept);
    gpu_call_define(call, "CHANNELS", channels);
    gpu_call_define(call, "BN", s->bn);
    gpu_call_define(call, "PERMUTED", gpu_is_permuted(node));
    call->groups[0] = gpu_ceil(blocks->items, ROWS);
}

gpu_wgmma_blocks gpu_wgmma_all_rows(const gpu_node *node,
                                    const gpu_tensor_shape *s)
{
    const gpu_expr rows = gpu_rows(&node->in[0]);
    return (gpu_wgmma_blocks){.rows = gpu_template_gemm_tensor_rows,
                              .n = gpu_ceil(rows, s->bn),
                              .items = rows,
                              .most = (gpu_max_rows(&node->in[0]) + s->bn - 1) /
                                      s->bn};
}

/* What is normalised on the way to halves. */
static void add_norm(gpu_call *call, const gpu_fused *fused)
{
    static const char text[] =
        "#define GAIN (gain + args.gain.Row(0, 0, 0, 0))\n"
        "#define EPS bits_f32(args.eps)\n";
    gpu_call_use(call, text);
    gpu_call_rows(call, "gain", &fused->norm.in[1], false);
    gpu_call_param(call, "eps", gpu_float(fused->norm.node.attr.norm.eps));
}

/* x as bytes, with the scale of each row. */
static clv_status lower_bytes(gpu_lowering *lowering, const gpu_node *node,
                              const gpu_tensor_shape *s, gpu_tensor_x *out)
{
    const gpu_wgmma_blocks blocks = gpu_wgmma_all_rows(node, s);
    const bool nibbles = clv_format_of(node->in[1].d.dtype)->bits == 4;
    const int64_t channels = node->in[1].d.dims[1];
    const gpu_bytes bytes = {.of = node->in[0].index + 1,
                             .form = (BLOCKS_FORM + 2 * s->bn + nibbles) * 16 +
                                     s->split};
    const int64_t pairs = channels / pair_of(node);
    const uint64_t rows = (uint64_t)(blocks.most * s->bn);
    gpu_call call;
    CLV_TRY(gpu_share_scratch(lowering, GPU_SCRATCH_BYTES,
                              rows * (uint64_t)channels, &out->q));
    CLV_TRY(gpu_share_scratch(lowering, GPU_SCRATCH_BYTES_SCALE,
                              rows * 4 * (uint64_t)s->split, &out->scale));
    if (lowering->bytes.of == bytes.of && lowering->bytes.form == bytes.form)
        return CLV_OK;
    lowering->bytes.of = 0;
    gpu_call_init(&call, halves_name(node), gpu_template_activations_wgmma_int8,
                  BYTES_ITEMS);
    gpu_call_use(&call, gpu_template_packed);
    gpu_call_use(&call, gpu_template_activation_bytes);
    gpu_call_use(&call, gpu_tensor_words(node->target));
    gpu_call_use(&call, blocks.rows);
    gpu_call_rows(&call, "x", &node->in[0], false);
    add_blocks(&call, node, s, &blocks, "q", out->q, true);
    add_scales(&call, node, s, &blocks, out->scale, true);
    gpu_int8_know(&call, node);
    gpu_call_define(&call, "SPLIT", s->split);
    gpu_call_define(&call, "PART_TILES",
                    (pairs + s->split - 1) / s->split * 2 * step_tiles(node));
    gpu_call_define(&call, "ROWS", ROWS);
    gpu_call_define(&call, "ITEMS", BYTES_ITEMS);
    gpu_call_define(&call, "CHANNELS", channels);
    gpu_call_define(&call, "BN", s->bn);
    gpu_call_define(&call, "NIBBLES", nibbles);
    call.groups[0] = gpu_ceil(blocks.items, ROWS);
    CLV_TRY(gpu_add_run(lowering, &call));
    if (!lowering->aliased)
        lowering->bytes = bytes;
    return CLV_OK;
}

clv_status gpu_wgmma_halves(gpu_lowering *lowering, const gpu_node *node,
                            const gpu_tensor_shape *s, const gpu_fused *fused,
                            gpu_tensor_x *out)
{
    if (gpu_wgmma_has_bytes(node))
        return lower_bytes(lowering, node, s, out);
    const gpu_wgmma_blocks blocks = gpu_wgmma_all_rows(node, s);
    const bool normed = fused && fused->has_norm;
    const uint32_t form = gpu_halves_form(node, s->bn);
    gpu_call call;
    CLV_TRY(gpu_wgmma_share(lowering, node, s, &blocks, out));
    if (lowering->halves_of == form)
        return CLV_OK;
    lowering->halves_of = 0;
    gpu_wgmma_halves_call(&call, node, normed ? &fused->x : &node->in[0], s,
                          &blocks, out);
    gpu_call_define(&call, "NORM", normed);
    if (normed)
        add_norm(&call, fused);
    CLV_TRY(gpu_add_run(lowering, &call));
    if (!lowering->aliased)
        lowering->halves_of = form;
    return CLV_OK;
}

/* rows: which are a group's; words: of the instruction. */
static void use_texts(gpu_call *call, const gpu_node *node, const char *rows,
                      const char *words)
{
    gpu_use_tensor(call, node->target, false);
    gpu_use_tiles(call, node->target);
    gpu_call_use(call, rows);
    if (node->target->nvidia_ptx) {
        gpu_call_use(call, words);
        gpu_call_use(call, gpu_template_wgmma_opencl);
    } else {
        gpu_call_use(call, gpu_template_wgmma_plain_opencl);
    }
}

static void define_shape(gpu_call *call, const gpu_node *node,
                         const gpu_tensor_shape *s)
{
    const int64_t stages = s->stages * stage_bytes(node, s->bn);
    const int64_t sums = s->bn * (BM + 4) * 4;
    gpu_tile_defines(call, node);
    gpu_call_define(call, "BYTES", gpu_wgmma_has_bytes(node));
    gpu_call_define(call, "BM", BM);
    gpu_call_define(call, "BN", s->bn);
    gpu_call_define(call, "STAGES", s->stages);
    gpu_call_define(call, "SPLIT", s->split);
    gpu_call_define(call, "ITEMS", ITEMS);
    gpu_call_define(call, "RING_BYTES",
                    FIRST_BYTES + (stages > sums ? stages : sums));
}

clv_status gpu_wgmma_begin(gpu_wgmma_call *out, gpu_lowering *lowering,
                           const gpu_node *node, const gpu_tensor_shape *s,
                           const gpu_wgmma_blocks *blocks,
                           const gpu_tensor_x *x, const char *text)
{
    gpu_call *call = &out->call;
    out->words = (gpu_text){.host = lowering->builder.host};
    put_words(&out->words, (int)s->bn / 2, gpu_wgmma_has_bytes(node));
    if (out->words.failed)
        return CLV_ERR_NO_MEMORY;
    gpu_call_init(call, gpu_wgmma_name(node), gpu_template_gemm_wgmma_opencl,
                  ITEMS);
    use_texts(call, node, blocks->rows, out->words.data);
    if (text)
        gpu_call_use(call, text);
    add_blocks(call, node, s, blocks, "x", x->q, false);
    add_scales(call, node, s, blocks, x->scale, false);
    gpu_call_param(call, "n_x", gpu_rows(&node->in[0]));
    gpu_call_param(call, "pairs",
                   gpu_constant(node->in[1].d.dims[1] / pair_of(node)));
    define_shape(call, node, s);
    call->apart = true;
    call->groups[0] = blocks->n;
    call->groups[2] = gpu_constant(s->split);
    return CLV_OK;
}

clv_status gpu_wgmma_end(gpu_wgmma_call *c, gpu_lowering *lowering,
                         int64_t groups)
{
    c->call.groups[1] = gpu_constant(groups);
    clv_status status = gpu_add_run(lowering, &c->call);
    gpu_text_free(&c->words);
    return status;
}

clv_status gpu_wgmma_lower(gpu_lowering *lowering, const gpu_node *node,
                           const gpu_tensor_shape *s, const gpu_tensor_part *p,
                           const gpu_tensor_x *x, uint32_t sums)
{
    const gpu_wgmma_blocks blocks = gpu_wgmma_all_rows(node, s);
    gpu_wgmma_call c;
    CLV_TRY(gpu_wgmma_begin(&c, lowering, node, s, &blocks, x, NULL));
    gpu_call_define(&c.call, "ACTIVATION", 0);
    gpu_add_tiles(&c.call, node, "w", p->tiles, p->count);
    gpu_tensor_output(&c.call, node, s, p, sums);
    return gpu_wgmma_end(&c, lowering, (p->count + BM - 1) / BM);
}
