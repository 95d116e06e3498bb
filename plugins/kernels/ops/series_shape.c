#include "ops/series_shape.h"

#define WARPS 8 /* of a group */
#define MOST_STAGES 8
#define MOST_STREAMS 2
#define MOST_TILES 16 /* of a slot */
#define LEAST_TILES (2 * MOST_STREAMS)
#define SLOT_BYTES 2304      /* of a slot, at the most, where that divides */
#define HEAD_SLOT_BYTES 4608 /* the same, where tiles share a head */
#define FLIGHT_BYTES 81920   /* under way at a time, or one stage */
#define LEAST_AHEAD 49152    /* bytes of the ring beside a stage */
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

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static gpu_tile_form form_of(const gpu_step *step)
{
    const gpu_node *product = gpu_step_product(step);
    return gpu_tiles_of(product->target, &product->in[1].d);
}

/* Whether each warp has slots of every strip, which all are full, and heads
 * that tiles share lie in one slot with these. */
static bool divides(const gpu_slot *slot, const gpu_step *step, int64_t warps)
{
    const int64_t tiles = slot->tiles / gpu_fused_streams(&step->fused);
    const int64_t blocks = gpu_step_blocks(step);
    return blocks % tiles == 0 && tiles % slot->form.head_tiles == 0 &&
           blocks / tiles >= warps;
}

/* Each slot costs its warp some time, and is asked for as a whole. */
gpu_slot gpu_step_slot(const gpu_step *step, const gpu_series_shape *s)
{
    gpu_slot slot = {.form = form_of(step)}, best = slot;
    const int64_t good =
        slot.form.head_tiles > 1 ? HEAD_SLOT_BYTES : SLOT_BYTES;
    for (int64_t tiles = s->most_tiles; tiles >= LEAST_TILES; tiles /= 2) {
        slot.tiles = tiles;
        slot.bytes = gpu_tiles_bytes(&slot.form, tiles);
        if (!divides(&slot, step, s->warps))
            continue;
        best = slot;
        if (slot.bytes <= good)
            break;
    }
    return best;
}

int64_t gpu_step_flight(const gpu_step *step, const gpu_series_shape *s)
{
    const gpu_slot slot = gpu_step_slot(step, s);
    const int64_t stages = FLIGHT_BYTES / (s->warps * slot.bytes);
    return stages < 1 ? 1 : stages < s->stages ? stages : s->stages;
}

int64_t gpu_step_piece(const gpu_step *step, const gpu_series_shape *s)
{
    const int64_t blocks = gpu_step_blocks(step);
    if (blocks <= s->piece)
        return blocks;
    const int64_t each = s->warps * gpu_step_slot(step, s).tiles;
    return s->piece / each * each;
}

int64_t gpu_step_pieces(const gpu_step *step, const gpu_series_shape *s)
{
    const int64_t piece = gpu_step_piece(step, s);
    return piece ? (gpu_step_blocks(step) + piece - 1) / piece : 0;
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

bool gpu_step_joins(const gpu_step *steps, uint32_t i)
{
    if (!i || steps[i].attends || steps[i - 1].attends)
        return false;
    const gpu_fused *f = &steps[i].fused;
    for (uint32_t k = 0; k < f->n_outs; k++)
        if (!f->members[k].sets.sets)
            return false;
    return f->x.index == steps[i - 1].fused.x.index &&
           !gpu_has(&steps[i].add) && !steps[i].sum.n && !steps[i - 1].sum.n;
}

int64_t gpu_step_first(const gpu_step *steps, uint32_t i,
                       const gpu_series_shape *s)
{
    if (!gpu_step_joins(steps, i))
        return 0;
    const int64_t behind = gpu_step_strips(&steps[i - 1]) % s->groups;
    return (gpu_step_first(steps, i - 1, s) + s->groups - behind) % s->groups;
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

/* Where x lies in the ring, and what comes with it: as much as any step has. */
static void place_x(gpu_series_shape *s, const gpu_step *steps, uint32_t n)
{
    int64_t block = 0, units = 0, sums = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (steps[i].attends)
            continue;
        const gpu_tile_form form = form_of(&steps[i]);
        const bool bytes = form.bits <= 8;
        const int64_t subs = s->piece * form.subs;
        block = most(block, s->columns > 1 ? ROWS_BLOCK
                            : bytes        ? BYTES_BLOCK
                                           : HALVES_BLOCK);
        if (s->columns > 1)
            units = (s->piece + UNIT_BLOCKS - 1) / UNIT_BLOCKS * ROWS_UNIT;
        else if (bytes)
            units = most(units, subs * BYTES_UNIT);
        if (s->columns > 1 && form.minimum)
            sums = most(sums, subs * ROWS_SUM);
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
    const int64_t ahead = (s->stages - 1) * s->stage_bytes;
    return s->stages >= 2 &&
           (s->columns == 1 || !s->product->target->nvidia_ptx ||
            ahead >= LEAST_AHEAD);
}

/* Where things are in the ring, of as many stages as fit; false: too few do. */
static bool lay_out(gpu_series_shape *s, const gpu_step *steps, uint32_t n)
{
    const gpu_target *target = s->product->target;
    place_x(s, steps, n);
    s->sums = most_sums(steps, n, s);
    s->stages =
        ((int64_t)target->wgmma_bytes - 256 - plain_local(s) - s->stages_at) /
        s->stage_bytes;
    if (s->stages > MOST_STAGES)
        s->stages = MOST_STAGES;
    if (!target->nvidia_ptx && s->stages > 2)
        s->stages = 2;
    s->ring_bytes = s->stages_at + s->stages * s->stage_bytes;
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

/* The largest stage that a step has, of slots of at most so many tiles; false:
 * some step has none. */
static bool set_stage(gpu_series_shape *s, const gpu_step *steps, uint32_t n,
                      int64_t tiles)
{
    s->most_tiles = tiles;
    s->stage_bytes = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (steps[i].attends)
            continue;
        const gpu_slot slot = gpu_step_slot(&steps[i], s);
        if (!slot.tiles)
            return false;
        s->stage_bytes = most(s->stage_bytes, s->warps * slot.bytes);
    }
    return true;
}

/* As many tiles as will do; false: none will. */
static bool choose_slots(gpu_series_shape *s, const gpu_step *steps, uint32_t n)
{
    for (int64_t tiles = MOST_TILES; tiles >= LEAST_TILES; tiles /= 2)
        if (set_stage(s, steps, n, tiles) && choose_piece(s, steps, n))
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
    s->columns = gpu_series_columns(s->product);
    s->groups = most_of(steps, n, gpu_step_strips);
    if (s->groups > target->units)
        s->groups = target->units;
    if (!target->nvidia_ptx)
        s->groups = 1;
    for (s->warps = WARPS; s->warps >= least; s->warps /= 2)
        if (gpu_series_items(s) <= target->max_group &&
            gpu_series_items(s) <= target->max_group_size[0] &&
            choose_attention(s, steps, n) && choose_slots(s, steps, n))
            return true;
    return false;
}
