/*
 * A workload is what decides how long a node takes: its op, its formats and its
 * shape. Two nodes of equal workload cost a device the same. Workloads of one
 * kind differ in their sizes only: a model fitted to some of them predicts the
 * others.
 */
#pragma once

#include "../../core/device/device.h"
#include "../../core/graph/cut.h"

/* Details of ATTENTION. */
enum {
    PLANNER_ATTENTION_SOFTCAP = 1u << 0,
    PLANNER_ATTENTION_APART = 1u << 1, /* each query sees `depth` rows of its
                                          own */
};

/* Details of MATMUL_EXPERTS. */
enum {
    PLANNER_EXPERTS_EACH = 1u << 0,   /* x has a part for each id */
    PLANNER_EXPERTS_SCORES = 1u << 1, /* products are added up */
};

/* Everything but the sizes. Compare with planner_workload_same_kind(). */
typedef struct planner_workload_kind {
    uint32_t op;           /* clv_op */
    uint32_t variant;      /* activation of GLU; head_dim of ATTENTION and
                              ROPE; dtype of the bias of MATMUL and
                              LAYER_NORM; dtype of the output of CONVERT;
                              experts that ids choose of; else 0 */
    uint32_t detail;       /* ROPE: mode; ADD and MUL: 1 where b is one row;
                              ATTENTION: PLANNER_ATTENTION_*;
                              MATMUL_EXPERTS: PLANNER_EXPERTS_*; else 0 */
    uint32_t span;         /* ROPE: rotated channels of a head; ATTENTION:
                              rows that a query sees at most, 0: all in use;
                              MATMUL_EXPERTS: ids of a row; else 0 */
    uint32_t dtype;        /* of the activation: input 0, src of SET_ROWS,
                              output of GET_ROWS */
    uint32_t weight_dtype; /* of table, weight, state, cache or row b; else
                              NONE */
    uint32_t quant, group; /* of the weight: clv_quant and its group */
    uint32_t way;          /* clv_variant.id on the device; 0: the plain one */
    uint32_t reserved;     /* 0 */
} planner_workload_kind;

typedef struct planner_workload {
    planner_workload_kind kind;
    int64_t n;     /* rows of the activation */
    int64_t in;    /* MATMUL, MATMUL_EXPERTS: input features; ATTENTION: width
                      of k; others: width of the output, of src for SET_ROWS,
                      of x for TOP_K */
    int64_t out;   /* output features; ATTENTION: width of q; TOP_K: of the
                      ids; others: as in */
    int64_t depth; /* ATTENTION: rows of the cache in use, the last n of which
                      are those of the queries, or those that each sees;
                      MATMUL_EXPERTS: experts whose weights are there; else 0
                    */
    /* MATMUL_EXPERTS whose experts' chances are known: what the rows are
     * expected to use of them; else 0. What is measured has equal chances. */
    double experts, products;
} planner_workload;

/* The workload of a node when the symbols have these values (NULL: their upper
 * bounds). piece: NULL for the whole node; its sequence range is within the
 * rows that these symbols give. A piece of some rows of ATTENTION sees the
 * cache rows up to its last row. */
void planner_workload_of(const clv_graph *graph, uint32_t node,
                         const core_piece *piece, const int64_t *symbols,
                         planner_workload *out);
/* What a device has to do for it: programs of fixed shapes read the whole
 * cache, however many of its rows are in use. */
void planner_workload_on(const clv_device *dev, const clv_graph *graph,
                         uint32_t node, const core_piece *piece,
                         const int64_t *symbols, planner_workload *out);
bool planner_workload_same_kind(const planner_workload *a,
                                const planner_workload *b);
bool planner_workload_equal(const planner_workload *a,
                            const planner_workload *b);
/* A multiply-add counts as two; functions like exp() as several. */
double planner_workload_flops(const planner_workload *workload);
/* Bytes that are moved at least: weights, cache and activations once. */
double planner_workload_bytes(const planner_workload *workload);
/* Both, for a whole node with these symbols. */
void planner_node_work(const clv_graph *graph, uint32_t node,
                       const int64_t *symbols, double *bytes, double *flops);
/* The same work with equal chances of all experts. */
planner_workload planner_workload_plain(const planner_workload *workload);
/* Experts whose weights MATMUL_EXPERTS is expected to read, and products of a
 * row of x that it is expected to compute. */
double planner_workload_experts(const planner_workload *workload);
double planner_workload_products(const planner_workload *workload);
/* Query-row pairs that ATTENTION looks at, of one head. */
double planner_workload_pairs(const planner_workload *workload);
/* "matmul f32 x i4 per channel [256, 4096] -> 14336" */
#define PLANNER_WORKLOAD_TEXT 192
const char *planner_workload_text(const planner_workload *workload,
                                  char text[PLANNER_WORKLOAD_TEXT]);
