/*
 * A workload is what decides how long a node takes: its op, its formats and its
 * shape. Two nodes of equal workload cost a device the same. Workloads of one
 * kind differ in their sizes only: a model fitted to some of them predicts the
 * others.
 */
#pragma once

#include "cut.h"

/* Details of MATMUL_EXPERTS. */
enum {
    CORE_EXPERTS_EACH = 1u << 0,   /* x has a part for each id */
    CORE_EXPERTS_SCORES = 1u << 1, /* products are added up */
};

/* Everything but the sizes. Compare with core_workload_same_kind(). */
typedef struct core_workload_kind {
    uint32_t op;           /* clv_op */
    uint32_t variant;      /* activation of GLU; head_dim of ATTENTION and
                              ROPE; dtype of the bias of MATMUL and
                              LAYER_NORM; dtype of the output of CONVERT;
                              experts of MATMUL_EXPERTS; else 0 */
    uint32_t detail;       /* ROPE: mode; ATTENTION: 1 with a softcap; ADD
                              and MUL: 1 where b is one row; MATMUL_EXPERTS:
                              CORE_EXPERTS_*; else 0 */
    uint32_t span;         /* ROPE: rotated channels of a head; ATTENTION:
                              rows that a query sees at most, 0: all in use;
                              MATMUL_EXPERTS: ids of a row; else 0 */
    uint32_t dtype;        /* of the activation: input 0, src of SET_ROWS,
                              output of GET_ROWS */
    uint32_t weight_dtype; /* of table, weight, state, cache or row b; else
                              NONE */
    uint32_t quant, group; /* of the weight: clv_quant and its group */
} core_workload_kind;

typedef struct core_workload {
    core_workload_kind kind;
    int64_t n;     /* rows of the activation */
    int64_t in;    /* MATMUL, MATMUL_EXPERTS: input features; ATTENTION: width
                      of k; others: width of the output, of src for SET_ROWS,
                      of x for TOP_K */
    int64_t out;   /* output features; ATTENTION: width of q; TOP_K: of the
                      ids; others: as in */
    int64_t depth; /* ATTENTION: rows of the cache in use, the last n of which
                      are those of the queries; else 0 */
} core_workload;

/* The workload of a node when the symbols have these values (NULL: their upper
 * bounds). piece: NULL for the whole node; its sequence range is within the
 * rows that these symbols give. A piece of some rows of ATTENTION sees the
 * cache rows up to its last row. */
void core_workload_of(const clv_graph *graph, uint32_t node,
                      const core_piece *piece, const int64_t *symbols,
                      core_workload *out);
bool core_workload_same_kind(const core_workload *a, const core_workload *b);
bool core_workload_equal(const core_workload *a, const core_workload *b);
/* A multiply-add counts as two; functions like exp() as several. */
double core_workload_flops(const core_workload *workload);
/* Bytes that are moved at least: weights, cache and activations once. */
double core_workload_bytes(const core_workload *workload);
/* Experts whose weights MATMUL_EXPERTS is expected to read, for random ids. */
double core_workload_experts(const core_workload *workload);
/* Query-row pairs that ATTENTION looks at, of one head. */
double core_workload_pairs(const core_workload *workload);
/* "matmul f32 x i4 per channel [256, 4096] -> 14336" */
#define CORE_WORKLOAD_TEXT 128
const char *core_workload_text(const core_workload *workload,
                               char text[CORE_WORKLOAD_TEXT]);
