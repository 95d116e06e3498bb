#include "ops/series_shape.h"

#define WARPS 8 /* of a group */
#define MOST_STAGES 8
#define MOST_STREAMS 2
#define MOST_TILES 16 /* of a slot */
#define LEAST_TILES (2 * MOST_STREAMS)
#define SLOT_BYTES 2304    /* of a slot, at the most, where no head is shared */
#define FLIGHT_BYTES 81920 /* under way at a time, or one stage */
#define LEAST_AHEAD 49152  /* bytes of the ring beside a stage */
#define PLACES_BYTES (8 * GPU_MAX_ARGS) /* addresses, by code/repeat.c */
/* Of x: a block and, at the most, a unit of series_bytes_opencl.clt, and a
 * block of series_halves_opencl.clt. */
#define BYTES_BLOCK 96
#define BYTES_UNIT 16
#define HALVES_BLOCK 128
/* The same of several rows of x, series_rows_opencl.clt. */
#define ROWS_BLOCK 512
#define ROWS_UNIT 32 /* of each UNIT_BLOCKS blocks */
#define ROWS_SUM 32  /* of a block or sub-block, where weights have minimums */
#define UNIT_BLOCKS 4
#define LEAST_PIECE (WARPS * MOST_TILES) /* blocks, where x has several */
#define GOOD_STAGES 5 /* fewer are worse than several pieces */
#define MOST_SUMS 64  /* strips times streams times columns that are kept */
#define SUM_BYTES 64  /* of a warp, for its sums of a row of tiles */

static int64_t copy_warps(const gpu_target *target)
{
    return target->nvidia_ptx ? 1 : 0;
}

uint32_t gpu_series_items(const gpu_series_shape *s)
{
    return (uint32_t)(s->warps + copy_warps(s->product->target)) * 32;
}

/* The largest number that a step has. */
static int64_t most_of(const gpu_step *steps, uint32_t n,
                       int64_t (*of)(const gpu_step *))
{
    int64_t most = 0;
    for (uint32_t i = 0; i < n; i++)
        if (of(&steps[i]) > most)
            most = of(&steps[i]);
    return most;
}

int64_t gpu_series_columns(const gpu_node *product)
{
    const int64_t columns = gpu_gemv_columns(product);
    if (columns == 1)
        return 1;
    return gpu_gemv_is_fine(product) || columns > 8 ? 0 : columns;
}

/* Strips of a group, at the most. */
static int64_t group_strips(const gpu_step *step, const gpu_series_shape *s)
{
    return (gpu_step_strips(step) + s->groups - 1) / s->groups;
}

int64_t gpu_step_kept(const gpu_step *step, const gpu_series_shape *s)
{
    if (gpu_step_pieces(step, s) > 1)
        return group_strips(step, s);
    return s->warps > s->columns ? s->warps / s->columns : 1;
}

bool gpu_step_is_passed(const gpu_step *steps, uint32_t i,
                        const gpu_series_shape *s)
{
    if (s->columns == 1 || !i || steps[i].attends || steps[i - 1].attends)
        return false;
    const gpu_fused *from = &steps[i - 1].fused;
    const gpu_fused_member *out = &from->members[0];
    return from->n_outs == 1 && !from->rope && !out->sets.sets &&
           out->out.index == steps[i].fused.x.index &&
           gpu_step_product(&steps[i - 1])->in[1].d.dims[0] ==
               gpu_step_blocks(&steps[i]) * 32;
}

/* Sums of strips that a group keeps at a time, of the strips `kept`. */
static int64_t sums_of(const gpu_step *step, const gpu_series_shape *s,
                       int64_t kept)
{
    const int64_t strips = group_strips(step, s);
    return (strips < kept ? strips : kept) * s->columns *
           gpu_fused_streams(&step->fused);
}

static int64_t most_sums(const gpu_step *steps, uint32_t n,
                         const gpu_series_shape *s)
{
    int64_t most = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (steps[i].attends)
            continue;
        const int64_t sums = sums_of(&steps[i], s, gpu_step_kept(&steps[i], s));
        most = sums > most ? sums : most;
    }
    return most;
}

/* Local memory that OpenCL gives the group, beside the ring. */
static int64_t plain_local(const gpu_series_shape *s)
{
    const int64_t attends =
        s->attention.items ? gpu_attention_decode_bytes(&s->attention) : 0;
    return s->warps * (s->sums * SUM_BYTES + s->columns * 4) + attends +
           PLACES_BYTES + gpu_plain_bytes(s->product->target, s->warps * 32);
}

/* Stages that are under way at a time. */
static int64_t flight_of(const gpu_series_shape *s)
{
    const int64_t stages = FLIGHT_BYTES / (s->warps * s->slot_bytes);
    return stages < 1 ? 1 : stages < s->stages ? stages : s->stages;
}

/* Where x lies in the ring, and what comes with it. */
static void place_x(gpu_series_shape *s)
{
    int64_t block = s->form.bits <= 8 ? BYTES_BLOCK : HALVES_BLOCK;
    int64_t units =
        s->form.bits <= 8 ? s->piece * s->form.subs * BYTES_UNIT : 0;
    int64_t sums = 0;
    if (s->columns > 1) {
        block = ROWS_BLOCK;
        units = (s->piece + UNIT_BLOCKS - 1) / UNIT_BLOCKS * ROWS_UNIT;
        sums = s->form.minimum ? s->piece * s->form.subs * ROWS_SUM : 0;
    }
    s->x_at = MOST_STAGES * 16;
    s->units_at = s->x_at + s->piece * block;
    s->sums_at = s->units_at + units;
    s->stages_at = (s->sums_at + sums + 127) / 128 * 128;
}

/* Whether the ring is large enough. With too little under way while a stage is
 * read, a series of several rows is no faster than a kernel a product. */
static bool has_stages(const gpu_series_shape *s)
{
    const int64_t ahead = (s->stages - 1) * s->warps * s->slot_bytes;
    return s->stages >= 2 &&
           (s->columns == 1 || !s->product->target->nvidia_ptx ||
            ahead >= LEAST_AHEAD);
}

/* Where things are in the ring, of as many stages as fit; false: too few do. */
static bool lay_out(gpu_series_shape *s, const gpu_step *steps, uint32_t n)
{
    const gpu_target *target = s->product->target;
    const int64_t round = s->warps * s->slot_bytes;
    place_x(s);
    s->sums = most_sums(steps, n, s);
    s->stages =
        ((int64_t)target->wgmma_bytes - 256 - plain_local(s) - s->stages_at) /
        round;
    if (s->stages > MOST_STAGES)
        s->stages = MOST_STAGES;
    if (!target->nvidia_ptx && s->stages > 2)
        s->stages = 2;
    s->ring_bytes = s->stages_at + s->stages * round;
    s->flight = flight_of(s);
    return has_stages(s) && plain_local(s) <= (int64_t)target->local_bytes;
}

/* The blocks of the longest x that is in one piece, since a group has too many
 * strips to keep sums of all. */
static int64_t longest_whole(const gpu_step *steps, uint32_t n,
                             const gpu_series_shape *s)
{
    int64_t most = LEAST_PIECE;
    for (uint32_t i = 0; i < n; i++)
        if (sums_of(&steps[i], s, group_strips(&steps[i], s)) > MOST_SUMS &&
            gpu_step_blocks(&steps[i]) > most)
            most = gpu_step_blocks(&steps[i]);
    return most;
}

/* All of x in one piece, or, of several rows that leave too little for stages,
 * some of it. */
static bool choose_piece(gpu_series_shape *s, const gpu_step *steps, uint32_t n)
{
    const int64_t all = most_of(steps, n, gpu_step_blocks);
    s->piece = all;
    const bool fits = lay_out(s, steps, n);
    if (s->columns == 1 || (fits && s->stages >= GOOD_STAGES))
        return fits;
    const int64_t whole = longest_whole(steps, n, s);
    s->piece = whole < all ? whole : all;
    return lay_out(s, steps, n);
}

/* Whether each warp has slots of every strip, which all are full, and heads
 * that tiles share lie in one slot with these. */
static bool divides(const gpu_series_shape *s, const gpu_step *steps,
                    uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        if (steps[i].attends)
            continue;
        const int64_t tiles = s->tiles / gpu_fused_streams(&steps[i].fused);
        if (gpu_step_blocks(&steps[i]) % tiles || tiles % s->form.head_tiles ||
            gpu_step_slots(&steps[i], s) < s->warps)
            return false;
    }
    return true;
}

static void set_tiles(gpu_series_shape *s, int64_t tiles)
{
    s->tiles = tiles;
    s->slot_bytes = gpu_tiles_bytes(&s->form, tiles);
}

/* As many tiles as will do; false: none will. Each slot costs its warp some
 * time. */
static bool choose_slot(gpu_series_shape *s, const gpu_step *steps, uint32_t n)
{
    set_tiles(s, MOST_TILES);
    while (s->form.head_tiles == 1 && s->tiles > LEAST_TILES &&
           s->slot_bytes > SLOT_BYTES)
        set_tiles(s, s->tiles / 2);
    for (; s->tiles >= LEAST_TILES; set_tiles(s, s->tiles / 2))
        if (divides(s, steps, n) && choose_piece(s, steps, n))
            return true;
    return false;
}

/* The attention among the steps for groups of so many warps; false: there is
 * more than one, or it cannot be a step. */
static bool choose_attention(gpu_series_shape *s, const gpu_step *steps,
                             uint32_t n)
{
    s->attention.items = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (!steps[i].attends)
            continue;
        if (s->attention.items)
            return false;
        s->attention = gpu_attention_chosen(&steps[i].attention);
        if (!gpu_attention_decode_joins(&steps[i].attention,
                                        (uint32_t)s->warps * 32, &s->attention))
            return false;
    }
    return true;
}

const gpu_node *gpu_series_product(const gpu_step *steps, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (!steps[i].attends)
            return gpu_step_product(&steps[i]);
    return NULL;
}

bool gpu_series_choose(const gpu_step *steps, uint32_t n, gpu_series_shape *s)
{
    s->product = gpu_series_product(steps, n);
    const gpu_target *target = s->product->target;
    /* Smaller products gain nothing by a series; tests have some. */
    const int64_t least = target->nvidia_ptx ? WARPS : 2;
    s->form = gpu_tiles_of(target, &s->product->in[1].d);
    s->columns = gpu_series_columns(s->product);
    s->groups = most_of(steps, n, gpu_step_strips);
    if (s->groups > target->units)
        s->groups = target->units;
    if (!target->nvidia_ptx)
        s->groups = 1;
    for (s->warps = WARPS; s->warps >= least; s->warps /= 2)
        if (gpu_series_items(s) <= target->max_group &&
            gpu_series_items(s) <= target->max_group_size[0] &&
            choose_attention(s, steps, n) && choose_slot(s, steps, n))
            return true;
    return false;
}
