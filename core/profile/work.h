/*
 * What decides how long a node takes: its op, its formats and its shape. Two
 * nodes of equal work cost a device the same; works of one kind differ in their
 * sizes only, and a model fitted to some of them predicts the others.
 */
#pragma once

#include "../plan/cut.h"

/* Everything but the sizes. Compare with core_work_same_kind(). */
typedef struct core_work_kind {
    uint32_t op;             /* clv_op */
    uint32_t variant;        /* activation of GLU; head_dim of ATTENTION and
                                ROPE; else 0 */
    uint32_t dtype;          /* of the activation */
    uint32_t weight_dtype;   /* of table, weight or cache; else NONE */
    uint32_t quant, group;   /* of the weight: clv_quant and its group */
} core_work_kind;

typedef struct core_work {
    core_work_kind kind;
    int64_t n;     /* rows of the activation */
    int64_t in;    /* MATMUL: input features; ATTENTION: width of k; others:
                      width of the output */
    int64_t out;   /* output features; ATTENTION: width of q */
    int64_t depth; /* ATTENTION: rows of the cache in use; else 0 */
} core_work;

/* The work of a node when the symbols have these values (NULL: their upper
 * bounds). piece: NULL for the whole node; a sequence range is one of rows that
 * are there. */
void core_work_of(const clv_graph *graph, uint32_t node,
                  const core_piece *piece, const int64_t *symbols,
                  core_work *out);
bool core_work_same_kind(const core_work *a, const core_work *b);
bool core_work_equal(const core_work *a, const core_work *b);
/* A multiply-add counts as two. */
double core_work_flops(const core_work *work);
/* What has to be moved at least: weights, cache and activations once. */
double core_work_bytes(const core_work *work);
/* Of the weight alone; 0 without one. */
double core_work_weight_bytes(const core_work *work);
/* "matmul f32 x i4 per channel [256, 4096] -> 14336" */
#define CORE_WORK_TEXT 128
const char *core_work_text(const core_work *work, char text[CORE_WORK_TEXT]);
