#include "ops/gemm_wgmma.h"
#include "ops/activations.h"
#include "ops/tiles.h"

#define BM GPU_WGMMA_BM
#define ITEMS (BM * 2)
#define PAIR 128        /* channels of two steps */
#define FIRST_BYTES 128 /* of the ring: barriers */
#define ROWS 2          /* that a group of activations_wgmma makes */
#define KEPT_MAX 2      /* units that its items keep in registers */
#define UNIT 16         /* channels */
#define GROUP_MAX 1024  /* items, of which each has registers for its units */

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
    return BM / 16 * gpu_tiles_bytes(&form, 2) + bn * 128;
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

/* Stages for bn rows: two groups share a compute unit, where their sums leave
 * enough registers. */
static int64_t stages_for(const gpu_node *node, int64_t bn)
{
    const int64_t all = node->target->wgmma_bytes;
    const int64_t room =
        (bn < 256 && node->target->nvidia_ptx ? all / 2 : all) -
        fixed_bytes(node, bn);
    const int64_t n = room / stage_bytes(node, bn);
    return n < 8 ? n : 8;
}

/* About how long `sets` products of so many rows and output channels take, as
 * parts of a step of 256 rows: groups that take turns on the compute units,
 * each with a beginning and an end, and the sum of parts. */
static int64_t cost(const gpu_node *node, const gpu_tensor_shape *s,
                    int64_t sets, int64_t rows, int64_t out)
{
    const int64_t step = s->bn == 256   ? 100
                         : s->bn == 128 ? 59
                         : s->bn == 64  ? 40
                                        : 30;
    const int64_t in = node->in[1].d.dims[1];
    const int64_t units = node->target->units ? node->target->units : 1;
    const int64_t groups =
        sets * ((out + BM - 1) / BM) * ((rows + s->bn - 1) / s->bn) * s->split;
    const int64_t reduce = rows * out * s->split * 8 / 33000 + 200;
    return (groups + units - 1) / units * (in / 64 / s->split * step + 600) +
           (s->split > 1 ? reduce : 0);
}

static int64_t cost_of(const gpu_node *node, const gpu_tensor_shape *s)
{
    return cost(node, s, 1, gpu_max_rows(&node->in[0]), node->in[1].d.dims[0]);
}

/* Those with the most stages that fit. */
static bool next_shape(const gpu_node *node, gpu_tensor_shape *s)
{
    do {
        if (s->split < 8) {
            s->split *= 2;
        } else {
            s->split = 1;
            s->bn *= 2;
        }
        s->stages = stages_for(node, s->bn);
    } while (s->bn <= 256 &&
             (!fits(node, s) || s->split * PAIR > node->in[1].d.dims[1]));
    return s->bn <= 256;
}

#define FIRST_SHAPE                                                            \
    {                                                                          \
        .bm = BM, .bn = 16, .wm = ITEMS / 32, .wn = 1, .split = 8              \
    }

gpu_tensor_shape gpu_wgmma_preferred(const gpu_node *node)
{
    gpu_tensor_shape s = FIRST_SHAPE, best = {0};
    while (next_shape(node, &s))
        if (!best.bn || cost_of(node, &s) < cost_of(node, &best))
            best = s;
    return best;
}

gpu_tensor_shape gpu_wgmma_shape_for(const gpu_node *node, int64_t sets,
                                     int64_t rows, int64_t out)
{
    gpu_tensor_shape s = FIRST_SHAPE, best = {0};
    while (next_shape(node, &s))
        if (s.split == 1 &&
            (!best.bn || cost(node, &s, sets, rows, out) <
                             cost(node, &best, sets, rows, out)))
            best = s;
    return best;
}

/* All that divide no sums, for trials, and those that might be as quick. */
void gpu_wgmma_shapes(const gpu_node *node, gpu_variants *out)
{
    const gpu_tensor_shape best = gpu_wgmma_preferred(node);
    gpu_tensor_shape s = FIRST_SHAPE;
    out->preferred = gpu_tensor_id(&best);
    gpu_variant_add(out, out->preferred);
    while (next_shape(node, &s))
        if (gpu_tensor_id(&s) != out->preferred &&
            (s.split == 1 || cost_of(node, &s) < 2 * cost_of(node, &best)))
            gpu_variant_add(out, gpu_tensor_id(&s));
}

bool gpu_wgmma_takes(const gpu_node *node)
{
    const gpu_target *target = node->target;
    return target->wgmma_bytes && !gpu_is_glsl(target) &&
           node->in[1].d.dims[1] % PAIR == 0 && target->max_group >= ITEMS &&
           !gpu_is_disabled(target, "activations_wgmma");
}

bool gpu_wgmma_suits(const gpu_node *node)
{
    return gpu_wgmma_takes(node) && !gpu_is_gemv(node) && !gpu_is_int8(node) &&
           gpu_wgmma_preferred(node).bn &&
           !gpu_is_disabled(node->target, "gemm_wgmma");
}

/* ------------------------------------------------------------------------ */
/* Text                                                                      */

/* EACH_SUM of n sums, and the instruction with them. */
static void put_words(gpu_text *out, int n)
{
    gpu_puts(out, "#define EACH_SUM(F)");
    for (int i = 0; i < n; i++)
        gpu_printf(out, " F(%d)", i);
    gpu_printf(out,
               "\n#define WGMMA_PTX(a0, a1, a2, a3, b) asm volatile(\"//@{ "
               ".reg .pred p; setp.ne.b32 p, %%%d, 0; "
               "wgmma.mma_async.sync.aligned.m64n%dk16.f32.f16.f16 {",
               n + 5, 2 * n);
    for (int i = 0; i < n; i++)
        gpu_printf(out, "%s%%%d", i ? "," : "", i);
    gpu_printf(out, "}, {%%%d,%%%d,%%%d,%%%d}, %%%d, p, 1, 1, 0; }\" : ", n,
               n + 1, n + 2, n + 3, n + 4);
    for (int i = 0; i < n; i++)
        gpu_printf(out, "%s\"+f\"(d%d)", i ? ", " : "", i);
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
    const int64_t block = node->in[1].d.dims[1] * s->bn;
    return gpu_add_private_rows(call, name, buffer, CLV_DTYPE_F16, blocks->n,
                                block, 2 * block, written);
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
                  node->index, (uint32_t)(items * ROWS));
    gpu_call_use(call, gpu_template_packed);
    gpu_call_use(call, gpu_tensor_words(node->target));
    gpu_call_use(call, blocks->rows);
    gpu_call_rows(call, "x", from, false);
    add_blocks(call, node, s, blocks, "q", x->q, true);
    gpu_add_private_rows(call, "scale", x->scale, CLV_DTYPE_F32,
                         gpu_constant(1), blocks->most * s->bn, 0, true);
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

clv_status gpu_wgmma_halves(gpu_lowering *lowering, const gpu_node *node,
                            const gpu_tensor_shape *s, const gpu_fused *fused,
                            gpu_tensor_x *out)
{
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
    put_words(&out->words, (int)s->bn / 2);
    if (out->words.failed)
        return CLV_ERR_NO_MEMORY;
    gpu_call_init(call, "gemm_wgmma", gpu_template_gemm_wgmma_opencl,
                  node->index, ITEMS);
    use_texts(call, node, blocks->rows, out->words.data);
    if (text)
        gpu_call_use(call, text);
    add_blocks(call, node, s, blocks, "x", x->q, false);
    gpu_add_private_rows(call, "scale", x->scale, CLV_DTYPE_F32,
                         gpu_constant(1), blocks->most * s->bn, 0, false);
    gpu_call_param(call, "n_x", gpu_rows(&node->in[0]));
    gpu_call_param(call, "pairs", gpu_constant(node->in[1].d.dims[1] / PAIR));
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
