#include "ops/gemv_series.h"
#include "ops/fused.h"
#include "ops/tiles.h"

#define WARPS 8 /* of a group */
#define MOST_STAGES 8
#define MOST_STREAMS 2
#define MOST_TILES 16 /* of a slot */
#define LEAST_TILES (2 * MOST_STREAMS)
#define MOST_QUADS 16      /* of x, that an item has in registers */
#define SLOT_BYTES 2304    /* of a slot, at the most, where no head is shared */
#define FLIGHT_BYTES 40960 /* under way at a time, or one stage */
#define SUM_BYTES 64       /* of a warp, for its sums of a row of tiles */

/* ------------------------------------------------------------------------ */
/* Shape                                                                     */

typedef struct shape {
    int64_t warps, stages, tiles;     /* tiles of a slot of the ring */
    int64_t x_at, sums_at, stages_at; /* bytes */
    int64_t ring_bytes, groups;
    int64_t sums; /* rows of tiles whose sums a group keeps at a time */
} shape;

/* Of a group, that only ask for copies. */
static int64_t copy_warps(const gpu_target *target)
{
    return target->nvidia_ptx ? 1 : 0;
}

static const gpu_node *product_of(const gpu_step *step)
{
    return &step->fused.members[0].product;
}

static int64_t blocks_of(const gpu_step *step)
{
    return product_of(step)->in[1].d.dims[1] / 32;
}

static gpu_tile_form form_of(const gpu_step *step)
{
    const gpu_node *product = product_of(step);
    return gpu_tiles_of(product->target, &product->in[1].d);
}

static int64_t slot_bytes(const gpu_step *steps, const shape *s)
{
    const gpu_tile_form form = form_of(steps);
    return gpu_tiles_bytes(&form, s->tiles);
}

/* Slots of a strip. */
static int64_t slots_of(const gpu_step *step, const shape *s)
{
    return blocks_of(step) * gpu_fused_streams(&step->fused) / s->tiles;
}

static int64_t most_blocks(const gpu_step *steps, uint32_t n)
{
    int64_t most = 0;
    for (uint32_t i = 0; i < n; i++)
        if (blocks_of(&steps[i]) > most)
            most = blocks_of(&steps[i]);
    return most;
}

static int64_t most_strips(const gpu_step *steps, uint32_t n)
{
    int64_t most = 0;
    for (uint32_t i = 0; i < n; i++)
        if (gpu_fused_strips(&steps[i].fused) > most)
            most = gpu_fused_strips(&steps[i].fused);
    return most;
}

/* A group keeps sums of a strip for each warp, at the most. */
static int64_t most_sums(const gpu_step *steps, uint32_t n, const shape *s)
{
    int64_t most = 0;
    for (uint32_t i = 0; i < n; i++) {
        const gpu_fused *f = &steps[i].fused;
        int64_t strips = (gpu_fused_strips(f) + s->groups - 1) / s->groups;
        if (strips > s->warps)
            strips = s->warps;
        if (strips * gpu_fused_streams(f) > most)
            most = strips * gpu_fused_streams(f);
    }
    return most;
}

/* Where things are in the ring, of as many stages as fit; false: too few do. */
static bool lay_out(shape *s, const gpu_step *steps, uint32_t n)
{
    const gpu_node *first = product_of(steps);
    const gpu_target *target = first->target;
    const int64_t blocks = most_blocks(steps, n);
    const int64_t round = s->warps * slot_bytes(steps, s);
    s->sums = most_sums(steps, n, s);
    const int64_t fixed = s->warps * (s->sums * SUM_BYTES + 4) + 256 +
                          gpu_plain_bytes(target, s->warps * 32);
    s->x_at = MOST_STAGES * 16;
    s->sums_at = s->x_at + blocks * 128;
    s->stages_at = s->sums_at + blocks * form_of(steps).subs * 16;
    s->stages = ((int64_t)target->wgmma_bytes - fixed - s->stages_at) / round;
    if (s->stages > MOST_STAGES)
        s->stages = MOST_STAGES;
    if (!target->nvidia_ptx && s->stages > 2)
        s->stages = 2;
    s->ring_bytes = s->stages_at + s->stages * round;
    return s->stages >= 2;
}

/* Whether each warp has slots of every strip, which all are full, and heads
 * that tiles share lie in one slot with these. */
static bool divides(const shape *s, const gpu_step *steps, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        const int64_t tiles = s->tiles / gpu_fused_streams(&steps[i].fused);
        if (blocks_of(&steps[i]) % tiles ||
            tiles % form_of(&steps[i]).head_tiles ||
            slots_of(&steps[i], s) < s->warps)
            return false;
    }
    return true;
}

/* As many tiles as will do; false: none will. Each slot costs its warp some
 * time. */
static bool choose_slot(shape *s, const gpu_step *steps, uint32_t n)
{
    s->tiles = MOST_TILES;
    while (form_of(steps).head_tiles == 1 && s->tiles > LEAST_TILES &&
           slot_bytes(steps, s) > SLOT_BYTES)
        s->tiles /= 2;
    for (; s->tiles >= LEAST_TILES; s->tiles /= 2)
        if (divides(s, steps, n) && lay_out(s, steps, n))
            return true;
    return false;
}

static bool choose(const gpu_step *steps, uint32_t n, shape *s)
{
    const gpu_node *first = product_of(steps);
    const gpu_target *target = first->target;
    /* Smaller products gain nothing by a series; tests have some. */
    const int64_t least = target->nvidia_ptx ? WARPS : 2;
    s->groups = most_strips(steps, n);
    if (s->groups > target->units)
        s->groups = target->units;
    if (!target->nvidia_ptx)
        s->groups = 1;
    for (s->warps = WARPS; s->warps >= least; s->warps /= 2)
        if ((s->warps + copy_warps(target)) * 32 <= target->max_group &&
            (s->warps + copy_warps(target)) * 32 <= target->max_group_size[0] &&
            choose_slot(s, steps, n))
            return true;
    return false;
}

static bool is_whole(const gpu_tensor *t)
{
    return t->d.dtype == CLV_DTYPE_F32 && !gpu_is_transposed(t);
}

/* Arguments, at the most. */
static uint32_t args_of(const gpu_step *step)
{
    const gpu_fused *f = &step->fused;
    uint32_t n = 2 + f->has_norm + (f->rope != NULL) + f->n_outs;
    for (uint32_t i = 0; i < f->n; i++)
        n +=
            1 + gpu_has(&f->members[i].product.in[2]) + f->members[i].sets.sets;
    return n;
}

static bool takes(const gpu_step *step, const gpu_step *first)
{
    const gpu_fused *f = &step->fused;
    const gpu_node *p = product_of(step);
    for (uint32_t i = 0; i < f->n; i++)
        if (!gpu_gemv_fused_takes(&f->members[i].product, product_of(first)) ||
            !gpu_keeps_tiles(&f->members[i].product))
            return false;
    return gpu_max_rows(&p->in[0]) == 1 && p->in[1].d.dims[1] % 32 == 0 &&
           is_whole(&f->x) && (!f->has_norm || is_whole(&f->norm.in[1]));
}

bool gpu_series_fits(const gpu_step *steps, uint32_t n)
{
    const gpu_target *target = product_of(steps)->target;
    uint32_t args = 1;
    shape s;
    if (!target->series || !target->wgmma_bytes || gpu_is_glsl(target) ||
        !target->units || gpu_is_disabled(target, "gemv_series"))
        return false;
    for (uint32_t i = 0; i < n; i++) {
        if (!takes(&steps[i], &steps[0]))
            return false;
        args += args_of(&steps[i]);
    }
    return args <= GPU_MAX_ARGS && choose(steps, n, &s);
}

/* ------------------------------------------------------------------------ */
/* Text                                                                      */

#define NAMES(i)                                                               \
    {                                                                          \
        .x = "x" #i, .gain = "gain" #i, .eps = "eps" #i, .rope = "rope" #i,    \
        .w = {"w" #i "_0", "w" #i "_1", "w" #i "_2"},                          \
        .dst = {"dst" #i "_0", "dst" #i "_1", "dst" #i "_2"},                  \
        .bias = {"bias" #i "_0", "bias" #i "_1", "bias" #i "_2"},              \
        .suffix = "_" #i                                                       \
    }
static const gpu_fused_names names[GPU_SERIES_MAX] = {NAMES(0), NAMES(1),
                                                      NAMES(2), NAMES(3)};
static const char *const added[GPU_SERIES_MAX] = {"add0", "add1", "add2",
                                                  "add3"};

/* Where the tiles of a strip are, of all steps. */
static void put_locate(gpu_text *text, const gpu_step *steps, uint32_t n,
                       const shape *s)
{
    gpu_puts(text, "#define MEETING (meeting + args.meeting.Row(0, 0, 0, 0))\n"
                   "#define STRIPS_OF(step) (");
    for (uint32_t i = 0; i + 1 < n; i++)
        gpu_printf(text, "(step) == %u ? %lld : ", (unsigned)i,
                   (long long)gpu_fused_strips(&steps[i].fused));
    gpu_printf(text, "%lld)\n",
               (long long)gpu_fused_strips(&steps[n - 1].fused));
    for (uint32_t i = 0; i < n; i++)
        gpu_fused_put_strips(text, &steps[i].fused, &names[i]);
    gpu_puts(text, "#define LOCATE { \\\n"
                   "    __global const uint4 *row[2]; \\\n"
                   "    int tile = 0, member = 0; \\\n");
    for (uint32_t i = 0; i < n; i++) {
        const long long streams = gpu_fused_streams(&steps[i].fused);
        gpu_printf(text,
                   "    if (f_step == %u) { \\\n"
                   "        FIND_STRIP_%u(f_strip) \\\n"
                   "        FIND_ROWS_%u \\\n"
                   "        f_rows = %lld; \\\n"
                   "        f_bytes = ROUND / %lld; \\\n"
                   "        f_left = %lld; \\\n"
                   "        f_from = (ulong)row[0]; \\\n",
                   (unsigned)i, (unsigned)i, (unsigned)i, streams, streams,
                   (long long)(slots_of(&steps[i], s) * slot_bytes(steps, s)) /
                       streams);
        if (streams == 2)
            gpu_puts(text, "        f_other = (ulong)row[1]; \\\n");
        gpu_puts(text, "    } \\\n");
    }
    gpu_puts(text, "}\n");
}

/* Quads of x that an item loads before it uses them. */
static int64_t quads_of(const gpu_step *step, const shape *s)
{
    const int64_t most = step->fused.has_norm ? MOST_QUADS / 2 : MOST_QUADS;
    const int64_t all =
        (blocks_of(step) * 8 + s->warps * 32 - 1) / (s->warps * 32);
    return all < most ? all : most;
}

/* The words of a step, and its text. */
static void put_step(gpu_text *text, const gpu_step *steps, uint32_t i,
                     uint32_t n, const shape *s)
{
    static const char *const words[] = {
        "STREAMS",   "TILES",      "BLOCKS",   "EACH",       "STRIPS",
        "NORM",      "ACTIVATION", "ROPE",     "ADDED",      "OUTPUTS",
        "ADDEND",    "X_ROW",      "GAIN_ROW", "QUADS",      "FIND_STRIP",
        "FIND_ROWS", "GAIN",       "EPS",      "IS_ROTATED", "HEAD",
        "APART",     "ANGLE",      "ADD_BIAS", "STORE",      "PAIRS_ROTATED"};
    const gpu_fused *f = &steps[i].fused;
    const gpu_fused_names *its = &names[i];
    const bool adds = gpu_has(&steps[i].add);
    const long long streams = gpu_fused_streams(f);
    for (uint32_t k = 0; k < sizeof words / sizeof *words; k++)
        gpu_printf(text, "#undef %s\n", words[k]);
    gpu_printf(text,
               "#define STREAMS %lld\n#define TILES %lld\n#define BLOCKS "
               "%lld\n#define EACH %lld\n#define STRIPS %lld\n",
               streams, (long long)s->tiles / streams,
               (long long)blocks_of(&steps[i]),
               (long long)((slots_of(&steps[i], s) + s->warps - 1) / s->warps),
               (long long)gpu_fused_strips(f));
    gpu_printf(text,
               "#define NORM %d\n#define ACTIVATION %d\n#define ROPE "
               "%d\n#define ADDED %d\n#define OUTPUTS %lld\n",
               f->has_norm,
               !f->has_glu                          ? 0
               : f->activation == CLV_ACT_GELU_TANH ? 2
                                                    : 1,
               !f->rope                  ? 0
               : gpu_fused_has_halves(f) ? 2
                                         : 1,
               adds, (long long)product_of(&steps[i])->in[1].d.dims[0]);
    if (adds)
        gpu_printf(text,
                   "#define ADDEND(o) args.%s.ReadScalar(0, 0, 0, 0, o)\n",
                   added[i]);
    gpu_printf(text, "#define QUADS %lld\n", (long long)quads_of(&steps[i], s));
    gpu_printf(text, "#define X_ROW (%s + args.%s.Row(0, 0, 0, 0))\n", its->x,
               its->x);
    if (f->has_norm)
        gpu_printf(text, "#define GAIN_ROW (%s + args.%s.Row(0, 0, 0, 0))\n",
                   its->gain, its->gain);
    gpu_printf(text,
               "#define FIND_STRIP FIND_STRIP%s\n"
               "#define FIND_ROWS FIND_ROWS%s\n",
               its->suffix, its->suffix);
    gpu_fused_put_named(text, f, its);
    gpu_puts(text, gpu_template_gemv_series_step);
    if (i + 1 < n)
        gpu_puts(text, "    MEET(MEETING)\n");
}

/* ------------------------------------------------------------------------ */
/* Dispatch                                                                  */

/* The word by which groups meet, of all of a program's series: 0 at first, and
 * right for the next run whenever a run has ended. */
static clv_status get_meeting(gpu_lowering *lowering, const gpu_node *node,
                              uint32_t *buffer)
{
    gpu_builder *b = &lowering->builder;
    gpu_call call;
    if (lowering->meeting) {
        *buffer = lowering->meeting - 1;
        return CLV_OK;
    }
    CLV_TRY(gpu_build_private(b, 4, true, buffer));
    b->code->privates[*buffer].own = true;
    gpu_call_init(&call, "zeros", gpu_template_zeros, node->index, 64);
    gpu_add_private_rows(&call, "dst", *buffer, CLV_DTYPE_F32, gpu_constant(1),
                         1, 0, true);
    lowering->meeting = *buffer + 1;
    return gpu_add_setup(lowering, &call);
}

/* Stages that are under way at a time. */
static int64_t flight_of(const shape *s, int64_t slot_bytes)
{
    const int64_t stages = FLIGHT_BYTES / (s->warps * slot_bytes);
    return stages < 1 ? 1 : stages < s->stages ? stages : s->stages;
}

static void define_shape(gpu_call *call, const shape *s, int64_t slot_bytes,
                         uint32_t n)
{
    gpu_call_define(call, "WARPS", s->warps);
    gpu_call_define(call, "ITEMS", s->warps * 32);
    gpu_call_define(call, "STAGES", s->stages);
    gpu_call_define(call, "FLIGHT", flight_of(s, slot_bytes));
    gpu_call_define(call, "SLOT", slot_bytes);
    gpu_call_define(call, "X_AT", s->x_at);
    gpu_call_define(call, "SUMS_AT", s->sums_at);
    gpu_call_define(call, "STAGES_AT", s->stages_at);
    gpu_call_define(call, "RING_BYTES", s->ring_bytes);
    gpu_call_define(call, "GROUPS", s->groups);
    gpu_call_define(call, "SUMS", s->sums);
    gpu_call_define(call, "STEPS", n);
    call->groups[0] = gpu_constant(s->groups);
}

static clv_status add_operands(gpu_lowering *lowering, gpu_call *call,
                               const gpu_step *steps, uint32_t n)
{
    uint32_t meeting;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t tiles[GPU_FUSED_MAX], angles;
        CLV_TRY(gpu_fused_prepare(lowering, &steps[i].fused, tiles, &angles));
        gpu_fused_add_named(call, &steps[i].fused, tiles, angles, &names[i]);
        if (gpu_has(&steps[i].add))
            gpu_call_rows(call, added[i], &steps[i].add, false);
    }
    CLV_TRY(get_meeting(lowering, product_of(steps), &meeting));
    gpu_add_private_rows(call, "meeting", meeting, CLV_DTYPE_I32,
                         gpu_constant(1), 1, 4, true);
    return CLV_OK;
}

clv_status gpu_series_lower(gpu_lowering *lowering, const gpu_step *steps,
                            uint32_t n)
{
    const gpu_node *first = product_of(steps);
    const gpu_target *target = first->target;
    gpu_text locate = {.host = lowering->builder.host};
    gpu_text text = {.host = lowering->builder.host};
    gpu_call call;
    shape s;
    if (!choose(steps, n, &s))
        return CLV_ERR_INTERNAL;
    put_locate(&locate, steps, n, &s);
    gpu_puts(&text, gpu_template_gemv_series_opencl);
    for (uint32_t i = 0; i < n; i++)
        put_step(&text, steps, i, n, &s);
    gpu_puts(&text, "}\n");
    clv_status status =
        text.failed || locate.failed ? CLV_ERR_NO_MEMORY : CLV_OK;
    gpu_call_init(&call, "gemv_series", text.data, first->index,
                  (uint32_t)(s.warps + copy_warps(target)) * 32);
    call.wide = true;
    gpu_use_tensor(&call, target, false);
    gpu_use_tiles(&call, target);
    gpu_call_use(&call, target->nvidia_ptx ? gpu_template_series_opencl
                                           : gpu_template_series_plain_opencl);
    gpu_call_use(&call, locate.data);
    gpu_tile_defines(&call, first);
    define_shape(&call, &s, slot_bytes(steps, &s), n);
    if (!status)
        status = add_operands(lowering, &call, steps, n);
    if (!status)
        status = gpu_add_run(lowering, &call);
    gpu_text_free(&locate);
    gpu_text_free(&text);
    return status;
}
