/* How a series is divided among groups, warps and the stages of their ring. */
#pragma once

#include "ops/attention.h"
#include "ops/fused.h"
#include "ops/gemv_series.h"
#include "ops/tiles.h"

typedef struct gpu_series_shape {
    const gpu_node *product; /* the first */
    gpu_tile_form form;      /* of all weights */
    int64_t groups, warps;
    int64_t stages, tiles; /* of the ring; of a slot */
    int64_t slot_bytes;    /* of a warp, in a stage */
    int64_t flight;        /* stages that are asked for at a time */
    int64_t columns;       /* 1, or at least the rows of x: 4, 8 */
    int64_t piece;         /* blocks of x that lie in the ring */
    int64_t x_at, units_at, sums_at, stages_at; /* bytes, in the ring */
    int64_t ring_bytes;
    int64_t sums; /* rows of tiles whose sums a group keeps at a time, of each
                     column */
    gpu_attention attention; /* if a step is one */
} gpu_series_shape;

/* The first of the steps that is a product or a fused group; NULL: none is. */
const gpu_node *gpu_series_product(const gpu_step *steps, uint32_t n);
/* For steps that products of one kind of weights are among. False: they are no
 * series. */
bool gpu_series_choose(const gpu_step *steps, uint32_t n, gpu_series_shape *s);
/* Columns of a product, 0: a series does not have so many. */
int64_t gpu_series_columns(const gpu_node *product);
/* Strips whose sums a group keeps at a time in the step: with several pieces of
 * x, all that it has. */
int64_t gpu_step_kept(const gpu_step *step, const gpu_series_shape *s);
/* Whether step i gets x from the one before as halves. */
bool gpu_step_is_passed(const gpu_step *steps, uint32_t i,
                        const gpu_series_shape *s);
/* Work items of a group, with those that only ask for copies. */
uint32_t gpu_series_items(const gpu_series_shape *s);

/* Of a step that is no attention. */
static inline const gpu_node *gpu_step_product(const gpu_step *step)
{
    return &step->fused.members[0].product;
}

/* Tiles of a row, strips and slots of a strip: none of an attention. */
static inline int64_t gpu_step_blocks(const gpu_step *step)
{
    return step->attends ? 0 : gpu_step_product(step)->in[1].d.dims[1] / 32;
}

static inline int64_t gpu_step_strips(const gpu_step *step)
{
    return step->attends ? 0 : gpu_fused_strips(&step->fused);
}

/* Blocks of x that the step has at a time: all, or as many as all warps have
 * whole slots of. */
static inline int64_t gpu_step_piece(const gpu_step *step,
                                     const gpu_series_shape *s)
{
    const int64_t blocks = gpu_step_blocks(step), each = s->warps * s->tiles;
    return blocks <= s->piece ? blocks : s->piece / each * each;
}

static inline int64_t gpu_step_pieces(const gpu_step *step,
                                      const gpu_series_shape *s)
{
    const int64_t piece = gpu_step_piece(step, s);
    return piece ? (gpu_step_blocks(step) + piece - 1) / piece : 0;
}

static inline int64_t gpu_step_slots(const gpu_step *step,
                                     const gpu_series_shape *s)
{
    return gpu_step_blocks(step) * gpu_fused_streams(&step->fused) / s->tiles;
}
