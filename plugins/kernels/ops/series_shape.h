/* How a series is divided among groups, warps and the stages of their ring. */
#pragma once

#include "ops/attention.h"
#include "ops/fused.h"
#include "ops/gemv_series.h"
#include "ops/tiles.h"

typedef struct gpu_series_shape {
    const gpu_node *product; /* the first */
    int64_t groups, warps;
    int64_t most_tiles;          /* of a slot, of any step */
    int64_t stages, stage_bytes; /* of the ring */
    int64_t columns;             /* 1, or at least the rows of x: 4, 8 */
    int64_t piece;               /* blocks of x that lie in the ring */
    int64_t x_at, units_at, sums_at, stages_at; /* bytes, in the ring */
    int64_t ring_bytes;
    int64_t sums; /* rows of tiles whose sums a group keeps at a time, of each
                     column */
    gpu_attention attention; /* if a step is one */
} gpu_series_shape;

/* The first of the steps that is a product or a fused group; NULL: none is. */
const gpu_node *gpu_series_product(const gpu_step *steps, uint32_t n);
/* For steps that products are among. False: they are no series. */
bool gpu_series_choose(const gpu_step *steps, uint32_t n, gpu_series_shape *s);
/* Columns of a product, 0: a series does not have so many. */
int64_t gpu_series_columns(const gpu_node *product);
/* Strips whose sums a group keeps at a time in the step: with several pieces of
 * x, all that it has. */
int64_t gpu_step_kept(const gpu_step *step, const gpu_series_shape *s);
/* Whether step i gets x from the one before as halves. */
bool gpu_step_is_passed(const gpu_step *steps, uint32_t i,
                        const gpu_series_shape *s);
/* Whether no meeting is needed in front of step i: it reads what the step
 * before reads, and writes rows of states, which that one does not read. */
bool gpu_step_joins(const gpu_step *steps, uint32_t i);
/* The first strip of group 0 in step i: of one that joins, the strips behind
 * those of the step before, so that no group has more than another. */
int64_t gpu_step_first(const gpu_step *steps, uint32_t i,
                       const gpu_series_shape *s);
/* Work items of a group, with those that only ask for copies. */
uint32_t gpu_series_items(const gpu_series_shape *s);

/* Of a step that is no attention. */
static inline const gpu_node *gpu_step_product(const gpu_step *step)
{
    return &step->fused.members[0].product;
}

/* Tiles of a row, and strips: none of an attention. */
static inline int64_t gpu_step_blocks(const gpu_step *step)
{
    return step->attends ? 0 : gpu_step_product(step)->in[1].d.dims[1] / 32;
}

static inline int64_t gpu_step_strips(const gpu_step *step)
{
    return step->attends ? 0 : gpu_fused_strips(&step->fused);
}

/* What a warp has of the step's tiles in a stage: all of one row of tiles, or
 * half of each of two. */
typedef struct gpu_slot {
    gpu_tile_form form; /* of the weights */
    int64_t tiles, bytes;
} gpu_slot;

/* As many tiles as do for a step that is no attention; 0: none do. */
gpu_slot gpu_step_slot(const gpu_step *step, const gpu_series_shape *s);
/* Stages that are under way at a time while the step works. */
int64_t gpu_step_flight(const gpu_step *step, const gpu_series_shape *s);
/* Blocks of x that the step has at a time: all, or as many as all warps have
 * whole slots of. */
int64_t gpu_step_piece(const gpu_step *step, const gpu_series_shape *s);
int64_t gpu_step_pieces(const gpu_step *step, const gpu_series_shape *s);
