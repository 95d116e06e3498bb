#include "ops/gemv_series.h"
#include "ops/series_exchange.h"
#include "ops/series_shape.h"

#define LONG_STRIPS 32 /* of a compute unit, for a step alone to be long */
#define MOST_OCTETS 8  /* of x, that an item has in registers */

/* ------------------------------------------------------------------------ */
/* What is taken                                                             */

static bool is_whole(const gpu_tensor *t)
{
    return t->d.dtype == CLV_DTYPE_F32 && !gpu_is_transposed(t);
}

/* Whether the sum is written. Other groups may still read its terms, one of
 * which may lie there; so it is kept elsewhere until groups have met. */
static bool keeps_sum(const gpu_sum *sum)
{
    return sum->n && gpu_has(&sum->out);
}

/* Arguments, at the most. */
static uint32_t args_of(const gpu_step *step)
{
    const gpu_fused *f = &step->fused;
    uint32_t n = 2 + f->has_norm + (f->rope != NULL) + f->n_outs;
    if (step->attends) /* queries, keys, values, positions, result, parts */
        return 7 + gpu_has(&step->attention.in[4]);
    n += step->sum.n + (keeps_sum(&step->sum) ? 2 : 0);
    for (uint32_t i = 0; i < f->n; i++)
        n +=
            1 + gpu_has(&f->members[i].product.in[2]) + f->members[i].sets.sets;
    return n;
}

static bool takes(const gpu_step *step, const gpu_node *first)
{
    const gpu_fused *f = &step->fused;
    const gpu_node *p = gpu_step_product(step);
    for (uint32_t i = 0; i < f->n; i++)
        if (!gpu_gemv_fused_takes(&f->members[i].product, p) ||
            !gpu_keeps_tiles(&f->members[i].product))
            return false;
    return gpu_series_columns(p) == gpu_series_columns(first) &&
           p->in[1].d.dims[1] % 32 == 0 && is_whole(&f->x) &&
           (!f->has_norm || is_whole(&f->norm.in[1]));
}

/* Whether step i adds the sum that the series begins with. */
static bool adds_sum(const gpu_step *steps, uint32_t i)
{
    return i && keeps_sum(&steps[0].sum) &&
           steps[i].add.index == steps[0].sum.out.index;
}

/* Whether the steps can begin with the first one's sum. It is written while the
 * second one works, which may add it, as it was kept, but has another x. */
static bool takes_sum(const gpu_step *steps, uint32_t n, int64_t columns)
{
    const gpu_sum *sum = &steps[0].sum;
    for (uint32_t i = 1; i < n; i++)
        if (!steps[i].attends && steps[i].sum.n)
            return false;
    if (steps[0].attends || !sum->n)
        return true;
    for (uint32_t i = 0; i < sum->n; i++)
        if (!is_whole(&sum->terms[i]))
            return false;
    if (columns > 1 || (keeps_sum(sum) && !is_whole(&sum->out)))
        return false;
    return n < 2 || steps[1].attends || !keeps_sum(sum) ||
           steps[1].fused.x.index != sum->out.index;
}

static const char *name_of(int64_t columns)
{
    return columns == 1 ? "gemv_series" : "gemv_series_rows";
}

static bool is_on(const gpu_target *target, int64_t columns)
{
    return target->series && target->wgmma_bytes && !gpu_is_glsl(target) &&
           target->units && columns &&
           !gpu_is_disabled(target, name_of(columns));
}

bool gpu_series_fits(const gpu_step *steps, uint32_t n)
{
    const gpu_node *first = gpu_series_product(steps, n);
    gpu_series_shape s;
    if (!first) /* what follows may make it a series */
        return n == 1 && is_on(steps[0].attention.target, 1) &&
               gpu_max_rows(&steps[0].attention.in[0]) == 1;
    const int64_t columns = gpu_series_columns(first);
    uint32_t args = columns > 1 ? 2 : 1; /* meeting, passed */
    if (!is_on(first->target, columns) || !takes_sum(steps, n, columns))
        return false;
    for (uint32_t i = 0; i < n; i++) {
        if (steps[i].attends ? columns > 1 : !takes(&steps[i], first))
            return false;
        args += args_of(&steps[i]);
    }
    return args <= GPU_MAX_OPERANDS && gpu_series_choose(steps, n, &s);
}

bool gpu_series_pays(const gpu_step *step)
{
    const gpu_node *p = gpu_step_product(step);
    return !step->attends &&
           (step->sum.n ||
            gpu_step_strips(step) >= LONG_STRIPS * (int64_t)p->target->units);
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
static const gpu_fused_names names[GPU_SERIES_MAX] = {
    NAMES(0), NAMES(1), NAMES(2), NAMES(3), NAMES(4), NAMES(5)};
static const char *const added[GPU_SERIES_MAX] = {"add0", "add1", "add2",
                                                  "add3", "add4", "add5"};

static const char *const terms[GPU_MAX_TERMS] = {"term0", "term1", "term2",
                                                 "term3"};

static void put_strips(gpu_text *text, const gpu_fused *f,
                       const gpu_fused_names *its)
{
    gpu_fused_put_strips(text, f, its);
    if (f->has_norm)
        gpu_printf(text, "#define GAIN_ROW%s (%s + args.%s.Row(0, 0, 0, 0))\n",
                   its->suffix, its->gain, its->gain);
}

/* Of blocks of a row of tiles, of which slots are whole. */
static int64_t row_bytes(const gpu_step *step, const gpu_series_shape *s,
                         int64_t blocks)
{
    const gpu_slot slot = gpu_step_slot(step, s);
    const int64_t streams = gpu_fused_streams(&step->fused);
    return blocks * streams / slot.tiles * slot.bytes / streams;
}

/* With a step's first tiles, its gains are on their way, too. */
static void put_locate_step(gpu_text *text, const gpu_step *step, uint32_t i,
                            const gpu_series_shape *s)
{
    const long long streams = gpu_fused_streams(&step->fused);
    const long long all = (long long)row_bytes(step, s, gpu_step_blocks(step));
    const long long piece =
        (long long)row_bytes(step, s, gpu_step_piece(step, s));
    gpu_printf(text,
               "    if (f_step == %u) { \\\n"
               "        FIND_STRIP_%u(f_strip) \\\n"
               "        FIND_ROWS_%u \\\n"
               "        f_rows = %lld; \\\n"
               "        f_flight = %lld; \\\n"
               "        f_bytes = %lld; \\\n"
               "        f_left = min(%lld - f_piece * %lld, %lld); \\\n"
               "        f_from = (ulong)row[0] + f_piece * %lldul; \\\n",
               (unsigned)i, (unsigned)i, (unsigned)i, streams,
               (long long)gpu_step_flight(step, s),
               (long long)(s->warps * gpu_step_slot(step, s).bytes / streams),
               all, piece, piece, piece);
    if (streams == 2)
        gpu_printf(text,
                   "        f_other = (ulong)row[1] + f_piece * %lldul; "
                   "\\\n",
                   piece);
    if (step->fused.has_norm && s->columns == 1)
        gpu_printf(text,
                   "        if (f_strip < GROUPS) { \\\n"
                   "            PREFETCH(GAIN_ROW_%u, %lld) \\\n"
                   "        } \\\n",
                   (unsigned)i, (long long)gpu_step_blocks(step) * 128);
    gpu_puts(text, "    } \\\n");
}

/* Bytes of a block of x that is passed on: halves, and a factor and a sum of
 * squares of each strip. */
#define PASSED_BLOCK (512 + 64 + 64)

/* Blocks of the longest x that is passed on; 0: none is. */
static int64_t passed_blocks(const gpu_step *steps, uint32_t n,
                             const gpu_series_shape *s)
{
    int64_t most = 0;
    for (uint32_t i = 0; i < n; i++)
        if (gpu_step_is_passed(steps, i, s) &&
            gpu_step_blocks(&steps[i]) > most)
            most = gpu_step_blocks(&steps[i]);
    return most;
}

/* A group's first strip of a step. */
static void put_first(gpu_text *text, const gpu_step *steps, uint32_t n,
                      const gpu_series_shape *s)
{
    bool moved = false;
    gpu_puts(text, "#define FIRST_OF(step, group) (((group)");
    for (uint32_t i = 1; i < n; i++) {
        const long long first = gpu_step_first(steps, i, s);
        if (first)
            gpu_printf(text, " + ((step) == %u ? %lld : 0)", (unsigned)i,
                       first);
        moved = moved || first;
    }
    gpu_puts(text, moved ? ") % GROUPS)\n" : "))\n");
}

/* Where the tiles of a strip are, of all steps. */
static void put_locate(gpu_text *text, const gpu_step *steps, uint32_t n,
                       const gpu_series_shape *s)
{
    gpu_puts(text, "#define MEETING (meeting + args.meeting.Row(0, 0, 0, 0))\n"
                   "#define STRIPS_OF(step) (");
    for (uint32_t i = 0; i + 1 < n; i++)
        gpu_printf(text, "(step) == %u ? %lld : ", (unsigned)i,
                   (long long)gpu_step_strips(&steps[i]));
    gpu_printf(text, "%lld)\n#define PIECES_OF(step) (",
               (long long)gpu_step_strips(&steps[n - 1]));
    for (uint32_t i = 0; i + 1 < n; i++)
        gpu_printf(text, "(step) == %u ? %lld : ", (unsigned)i,
                   (long long)gpu_step_pieces(&steps[i], s));
    gpu_printf(text, "%lld)\n", (long long)gpu_step_pieces(&steps[n - 1], s));
    put_first(text, steps, n, s);
    if (passed_blocks(steps, n, s))
        gpu_puts(text, "#define PASSED(k) (passed + args.passed.Row(0, (k) % "
                       "2, 0, 0))\n");
    for (uint32_t i = 0; i < n; i++)
        if (!steps[i].attends)
            put_strips(text, &steps[i].fused, &names[i]);
    gpu_puts(text, "#define LOCATE { \\\n"
                   "    REPEAT_PLACES(f_repeat) \\\n"
                   "    __global const uint4 *row[2]; \\\n"
                   "    int tile = 0, member = 0; \\\n");
    for (uint32_t i = 0; i < n; i++)
        if (!steps[i].attends)
            put_locate_step(text, &steps[i], i, s);
    gpu_puts(text, "}\n");
}

/* Octets of x that an item loads before it uses them. */
static int64_t octets_of(const gpu_step *step, const gpu_series_shape *s)
{
    const int64_t most = step->fused.has_norm ? MOST_OCTETS / 2 : MOST_OCTETS;
    const int64_t all =
        (gpu_step_blocks(step) * 4 + s->warps * 32 - 1) / (s->warps * 32);
    return all < most ? all : most;
}

/* An attention's parts of the cache, for each list of its pairs, are divided
 * among the groups. */
static void put_attention(gpu_text *text, const gpu_attention *s)
{
    const long long kvs = s->groups, lists = gpu_attention_lists(s);
    gpu_printf(text,
               "    {\n"
               "    STEP_LOCALS\n"
               "    NOT_UNROLLED\n"
               "    for (int u = group; u < %lld; u += GROUPS) {\n"
               "        int kv = u %% %lld, at = u / %lld %% %lld;\n"
               "        int slot = u / %lld;\n",
               kvs * lists * s->parts, kvs, kvs, lists, kvs * lists);
    gpu_puts(text, gpu_template_attention_decode_step);
    gpu_puts(text, "        BARRIER;\n    }\n    }\n");
}

/* How much a step is, and what of it a group has at a time. */
static void put_sizes(gpu_text *text, const gpu_step *step,
                      const gpu_series_shape *s)
{
    const int64_t streams = gpu_fused_streams(&step->fused);
    const int64_t blocks = gpu_step_blocks(step);
    const int64_t kept = gpu_step_kept(step, s);
    const gpu_slot slot = gpu_step_slot(step, s);
    gpu_printf(text,
               "#define STREAMS %lld\n#define TILES %lld\n#define SLOT "
               "%lld\n#define BLOCKS %lld\n#define STRIPS %lld\n#define "
               "OCTETS %lld\n",
               (long long)streams, (long long)(slot.tiles / streams),
               (long long)slot.bytes, (long long)blocks,
               (long long)gpu_step_strips(step), (long long)octets_of(step, s));
    gpu_printf(text,
               "#define PIECE %lld\n#define KEPT %lld\n#define TURNS %lld\n",
               (long long)gpu_step_piece(step, s), (long long)kept,
               (long long)((kept * s->columns + s->warps - 1) / s->warps));
}

/* What the step passes on to the next, and where its x was passed to. */
static void put_passed(gpu_text *text, const gpu_step *steps, uint32_t i,
                       uint32_t n, const gpu_series_shape *s)
{
    const bool passes = i + 1 < n && gpu_step_is_passed(steps, i + 1, s);
    if (passes)
        gpu_printf(text, "#define NEXT_SUBS %d\n",
                   (int)gpu_step_slot(&steps[i + 1], s).form.subs);
    gpu_printf(text, "#define PASSES %u\n#define X_PASSED %u\n",
               passes ? (unsigned)i + 1 : 0, (unsigned)i);
    if (passes && steps[i + 1].fused.has_norm)
        gpu_printf(text,
                   "#define NEXT_GAIN(o) args.%s.ReadScalar(0, 0, 0, 0, o)\n",
                   names[i + 1].gain);
    else
        gpu_puts(text, "#define NEXT_GAIN(o) 1.0f\n");
}

/* What is added to x, and where the sum is kept until it is written. */
static void put_sum(gpu_text *text, const gpu_sum *sum)
{
    gpu_printf(text, "#define TERMS %u\n#define KEEPS_SUM %d\n",
               (unsigned)sum->n, keeps_sum(sum));
    if (!sum->n)
        return;
    gpu_puts(text, "#define TERM_ROW(k) (");
    for (uint32_t i = 0; i + 1 < sum->n; i++)
        gpu_printf(text,
                   "(k) == %u ? %s + args.%s.Row(0, 0, 0, 0) : ", (unsigned)i,
                   terms[i], terms[i]);
    gpu_printf(text, "%s + args.%s.Row(0, 0, 0, 0))\n", terms[sum->n - 1],
               terms[sum->n - 1]);
    if (keeps_sum(sum))
        gpu_puts(text, "#define KEPT_SUM ((__global f32 *)(kept_sum + "
                       "args.kept_sum.Row(0, 0, 0, 0)))\n");
}

/* How x, or a piece of it, comes into the ring. */
static void put_x(gpu_text *text, const gpu_step *steps, uint32_t i,
                  const gpu_series_shape *s)
{
    gpu_puts(text, gpu_step_is_passed(steps, i, s)
                       ? gpu_template_gemv_series_x_passed
                   : s->columns > 1 ? gpu_template_gemv_series_x_rows
                                    : gpu_template_gemv_series_x);
}

/* Whether step i has weights as the step before, or the one before that, which
 * is an attention. */
static bool is_same_kind(const gpu_step *steps, uint32_t i,
                         const gpu_series_shape *s)
{
    uint32_t before = i;
    while (before && steps[before - 1].attends)
        before--;
    if (!before)
        return false;
    const gpu_slot a = gpu_step_slot(&steps[before - 1], s);
    const gpu_slot b = gpu_step_slot(&steps[i], s);
    return gpu_same_tiles(&a.form, &b.form) &&
           a.form.row_scales == b.form.row_scales;
}

/* What reads tiles of the step's weights, and multiplies by them, where the
 * step before had others. */
static void put_kind(gpu_text *text, const gpu_step *steps, uint32_t i,
                     const gpu_series_shape *s)
{
    const gpu_tile_form form = gpu_step_slot(&steps[i], s).form;
    const char *const words = s->columns > 1 ? gpu_template_series_rows_opencl
                              : form.bits > 8
                                  ? gpu_template_series_halves_opencl
                                  : gpu_template_series_bytes_opencl;
    if (is_same_kind(steps, i, s))
        return;
    gpu_put_undefined(text, gpu_template_tiles_opencl);
    gpu_put_undefined(text, gpu_template_series_halves_opencl);
    gpu_put_undefined(text, gpu_template_series_bytes_opencl);
    gpu_put_undefined(text, gpu_template_series_rows_opencl);
    gpu_put_tile_defines(text, gpu_step_product(&steps[i]));
    gpu_printf(text, "#undef STRIP_SCALE\n#define STRIP_SCALE(s) %s\n",
               form.row_scales ? "ROW_SCALE(row[s], BLOCKS, r)" : "1.0f");
    gpu_puts(text, gpu_template_tiles_opencl);
    gpu_puts(text, words);
}

/* The words of a product or a fused group, and its text. */
static void put_product(gpu_text *text, const gpu_step *steps, uint32_t i,
                        uint32_t n, const gpu_series_shape *s)
{
    static const char *const words[] = {
        "STREAMS",       "TILES",      "SLOT",       "BLOCKS",    "PIECE",
        "KEPT",          "TURNS",      "STRIPS",     "NORM",      "WIDTH",
        "ACTIVATION",    "ROPE",       "ADDED",      "OUTPUTS",   "ADDEND",
        "X_ROW",         "PASSES",     "X_PASSED",   "NEXT_GAIN", "NEXT_SUBS",
        "GAIN_ROW",      "OCTETS",     "FIND_STRIP", "FIND_ROWS", "GAIN",
        "EPS",           "IS_ROTATED", "HEAD",       "APART",     "ANGLE",
        "PAIRS_ROTATED", "ADD_BIAS",   "STORE",      "TERMS",     "KEEPS_SUM",
        "TERM_ROW",      "SENDS"};
    const gpu_step *step = &steps[i];
    const gpu_fused *f = &step->fused;
    const gpu_fused_names *its = &names[i];
    const bool adds = gpu_has(&step->add);
    for (uint32_t k = 0; k < sizeof words / sizeof *words; k++)
        gpu_printf(text, "#undef %s\n", words[k]);
    put_kind(text, steps, i, s);
    put_sizes(text, step, s);
    put_passed(text, steps, i, n, s);
    put_sum(text, &step->sum);
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
               adds, (long long)gpu_step_product(step)->in[1].d.dims[0]);
    gpu_printf(text, "#define SENDS %d\n",
               i + 1 == n && gpu_series_sends(steps, n));
    if (adds_sum(steps, i))
        gpu_puts(text, "#define ADDEND(c, o) KEPT_SUM[o]\n");
    else if (adds)
        gpu_printf(text,
                   "#define ADDEND(c, o) args.%s.ReadScalar(0, c, 0, 0, o)\n",
                   added[i]);
    gpu_printf(text, "#define X_ROW(c) (%s + args.%s.Row(0, c, 0, 0))\n",
               its->x, its->x);
    if (s->columns > 1)
        gpu_printf(text, "#define WIDTH args.%s.Width()\n", its->x);
    else
        gpu_puts(text, "#define WIDTH 1\n");
    if (f->has_norm)
        gpu_printf(text, "#define GAIN_ROW GAIN_ROW%s\n", its->suffix);
    gpu_printf(text,
               "#define FIND_STRIP FIND_STRIP%s\n"
               "#define FIND_ROWS FIND_ROWS%s\n",
               its->suffix, its->suffix);
    gpu_fused_put_named(text, f, its);
    gpu_puts(text, gpu_template_gemv_series_step);
    if (gpu_step_pieces(step, s) == 1)
        put_x(text, steps, i, s);
    gpu_puts(text, gpu_template_gemv_series_strips);
    if (gpu_step_pieces(step, s) > 1)
        put_x(text, steps, i, s);
    gpu_puts(text, gpu_template_gemv_series_products);
}

/* Between two steps, or behind the only one. */
static void put_meeting(gpu_text *text, const gpu_step *steps, uint32_t before)
{
    gpu_puts(text, "    MEET(MEETING)\n");
    if (before == 0 && keeps_sum(&steps[0].sum))
        gpu_puts(text, gpu_template_gemv_series_sum);
}

static void put_steps(gpu_text *text, const gpu_step *steps, uint32_t n,
                      const gpu_series_shape *s)
{
    for (uint32_t i = 0; i < n; i++) {
        if (gpu_step_joins(steps, i))
            gpu_puts(text, "    BARRIER;\n");
        else if (i)
            put_meeting(text, steps, i - 1);
        gpu_printf(text, "#undef STEP\n#define STEP %u\n    BEGIN_STEP(STEP)\n",
                   (unsigned)i);
        if (steps[i].attends)
            put_attention(text, &s->attention);
        else
            put_product(text, steps, i, n, s);
    }
    if (n == 1 && keeps_sum(&steps[0].sum))
        put_meeting(text, steps, 0);
    if (gpu_series_sends(steps, n))
        gpu_puts(text, "    SIGNAL\n");
}

/* ------------------------------------------------------------------------ */
/* Dispatch                                                                  */

/* The word by which groups meet, of all of a program's series: 0 at first, and
 * right for the next run whenever a run has ended. */
static clv_status get_meeting(gpu_lowering *lowering, uint32_t *buffer)
{
    gpu_builder *b = &lowering->builder;
    gpu_call call;
    if (lowering->meeting) {
        *buffer = lowering->meeting - 1;
        return CLV_OK;
    }
    CLV_TRY(gpu_build_private(b, 4, true, buffer));
    b->code->privates[*buffer].own = true;
    gpu_call_init(&call, "zeros", gpu_template_zeros, 64);
    gpu_add_private_rows(&call, "dst", *buffer, CLV_DTYPE_F32, gpu_constant(1),
                         1, 0, true);
    lowering->meeting = *buffer + 1;
    return gpu_add_setup(lowering, &call);
}

static void define_shape(gpu_call *call, const gpu_series_shape *s, uint32_t n)
{
    gpu_call_define(call, "WARPS", s->warps);
    gpu_call_define(call, "ITEMS", s->warps * 32);
    gpu_call_define(call, "STAGES", s->stages);
    gpu_call_define(call, "STAGE", s->stage_bytes);
    gpu_call_define(call, "X_AT", s->x_at);
    gpu_call_define(call, "UNITS_AT", s->units_at);
    gpu_call_define(call, "STAGES_AT", s->stages_at);
    gpu_call_define(call, "RING_BYTES", s->ring_bytes);
    gpu_call_define(call, "GROUPS", s->groups);
    gpu_call_define(call, "X_SUMS_AT", s->sums_at);
    gpu_call_define(call, "SUMS", s->sums);
    gpu_call_define(call, "COLUMNS", s->columns);
    gpu_call_define(call, "STEPS", n);
    call->groups[0] = gpu_constant(s->groups);
}

static clv_status add_sum(gpu_lowering *lowering, gpu_call *call,
                          const gpu_step *step)
{
    const int64_t channels = gpu_step_blocks(step) * 32;
    uint32_t buffer;
    for (uint32_t i = 0; i < step->sum.n; i++)
        gpu_call_rows(call, terms[i], &step->sum.terms[i], false);
    if (!keeps_sum(&step->sum))
        return CLV_OK;
    CLV_TRY(gpu_share_scratch(lowering, GPU_SCRATCH_SUM, (uint64_t)channels * 4,
                              &buffer));
    gpu_add_private_rows(call, "kept_sum", buffer, CLV_DTYPE_F32,
                         gpu_constant(1), channels, channels * 4, true);
    gpu_call_rows(call, "sum", &step->sum.out, true);
    return CLV_OK;
}

static clv_status add_product(gpu_lowering *lowering, gpu_call *call,
                              const gpu_step *steps, uint32_t i)
{
    const gpu_step *step = &steps[i];
    uint32_t tiles[GPU_FUSED_MAX], angles;
    CLV_TRY(gpu_fused_prepare(lowering, &step->fused, tiles, &angles));
    gpu_fused_add_named(call, &step->fused, tiles, angles, &names[i]);
    CLV_TRY(add_sum(lowering, call, step));
    if (gpu_has(&step->add) && !adds_sum(steps, i))
        gpu_call_rows(call, added[i], &step->add, false);
    return CLV_OK;
}

/* Room for x that is passed on, of two steps. */
static clv_status add_passed(gpu_lowering *lowering, gpu_call *call,
                             int64_t blocks)
{
    const int64_t row = blocks * PASSED_BLOCK;
    uint32_t buffer;
    CLV_TRY(gpu_share_scratch(lowering, GPU_SCRATCH_PASSED, (uint64_t)row * 2,
                              &buffer));
    gpu_add_private_rows(call, "passed", buffer, CLV_DTYPE_F32, gpu_constant(2),
                         row / 4, row, true);
    gpu_call_define(call, "PASSED_BLOCKS", blocks);
    return CLV_OK;
}

static clv_status add_operands(gpu_lowering *lowering, gpu_call *call,
                               const gpu_step *steps, uint32_t n,
                               const gpu_series_shape *s)
{
    uint32_t meeting;
    for (uint32_t i = 0; i < n; i++)
        CLV_TRY(steps[i].attends ? gpu_attention_decode_add(lowering, call,
                                                            &steps[i].attention,
                                                            &s->attention)
                                 : add_product(lowering, call, steps, i));
    const int64_t blocks = passed_blocks(steps, n, s);
    if (blocks)
        CLV_TRY(add_passed(lowering, call, blocks));
    CLV_TRY(get_meeting(lowering, &meeting));
    gpu_add_private_rows(call, "meeting", meeting, CLV_DTYPE_I32,
                         gpu_constant(1), 1, 4, true);
    if (lowering->target->nvidia_ptx)
        gpu_series_add_exchange(
            call, gpu_series_sends(steps, n) ? names[n - 1].dst[0] : NULL);
    return CLV_OK;
}

clv_status gpu_series_lower(gpu_lowering *lowering, const gpu_step *steps,
                            uint32_t n)
{
    gpu_text locate = {.host = lowering->builder.host};
    gpu_text text = {.host = lowering->builder.host};
    gpu_call call;
    gpu_series_shape s;
    if (!gpu_series_choose(steps, n, &s))
        return CLV_ERR_INTERNAL;
    const gpu_target *target = s.product->target;
    put_locate(&locate, steps, n, &s);
    gpu_puts(&text, gpu_template_gemv_series_opencl);
    put_steps(&text, steps, n, &s);
    gpu_puts(&text, "    }\n}\n");
    clv_status status =
        text.failed || locate.failed ? CLV_ERR_NO_MEMORY : CLV_OK;
    gpu_call_init(&call, name_of(s.columns), text.data, gpu_series_items(&s));
    call.wide = true;
    gpu_use_tensor(&call, target, false);
    gpu_call_use(&call, gpu_template_tile_functions_opencl);
    gpu_call_use(&call, target->nvidia_ptx ? gpu_template_series_opencl
                                           : gpu_template_series_plain_opencl);
    if (target->nvidia_ptx)
        gpu_call_use(&call, gpu_template_series_exchange_opencl);
    gpu_call_use(&call, locate.data);
    define_shape(&call, &s, n);
    if (!status)
        status = add_operands(lowering, &call, steps, n, &s);
    if (!status)
        status = gpu_build_repeated(&lowering->builder, &call);
    gpu_text_free(&locate);
    gpu_text_free(&text);
    return status;
}
