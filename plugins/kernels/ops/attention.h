/* What the kernels of attention share. */
#pragma once

#include "lower/lower.h"
#include "lower/variant.h"

typedef enum gpu_attention_kind {
    GPU_ATTENTION_PORTABLE = 0,
    GPU_ATTENTION_PREFILL = 1, /* by tensor cores, for many queries */
    GPU_ATTENTION_DECODE = 2,  /* for few */
} gpu_attention_kind;

/* How a node is computed. */
typedef struct gpu_attention {
    int64_t n, heads, groups, dim, per_group, rows; /* n, rows: at most */
    uint32_t items, queries, parts; /* queries: pairs of one and a head */
    uint32_t d_max;                 /* not of FEW */
    gpu_attention_kind kind;
    bool transposed; /* the values are stored in layout WEIGHTS */
    bool apart;      /* each query sees rows of its own */
} gpu_attention;

/* Adds q, k, v, pos, and what all the kernels want to know. */
void gpu_attention_operands(gpu_call *call, const gpu_node *node,
                            const gpu_attention *s);
/* Pairs of a query and a head that lists are made of: all, or those of one
 * query; and how many lists of s->queries pairs there are at most. */
int64_t gpu_attention_pairs(const gpu_attention *s);
int64_t gpu_attention_lists(const gpu_attention *s);
/* Groups of items: lists of pairs, groups of the cache, parts. */
void gpu_attention_groups(gpu_call *call, const gpu_attention *s);

/* attention_prefill.c: cache rows that its kernel takes at once. */
uint32_t gpu_attention_keys(const gpu_target *target);
/* And units of 16 bytes that the values take in
 * attention_prefill_tensor_glsl.clt. */
uint32_t gpu_attention_values(const gpu_attention *s);
clv_status gpu_attention_prefill_lower(gpu_lowering *lowering,
                                       const gpu_node *node,
                                       const gpu_attention *s);

/* attention.c: as preferred, or by tuning. */
gpu_attention gpu_attention_chosen(const gpu_node *node);

/* attention_decode.c: the numbers of its kernel, for s that has the node's;
 * whether it can be used. */
gpu_attention gpu_attention_decode(const gpu_node *node, gpu_attention s);
bool gpu_attention_decode_fits(const gpu_node *node, const gpu_attention *s);
clv_status gpu_attention_decode_lower(gpu_lowering *lowering,
                                      const gpu_node *node,
                                      const gpu_attention *s);
/* Changes s, as chosen, for a step of a kernel whose groups have so many items.
 * False: it cannot be one. */
bool gpu_attention_decode_joins(const gpu_node *node, uint32_t items,
                                gpu_attention *s);
/* Bytes of local memory that the step takes. */
int64_t gpu_attention_decode_bytes(const gpu_attention *s);
/* Adds its operands and words. */
clv_status gpu_attention_decode_add(gpu_lowering *lowering, gpu_call *call,
                                    const gpu_node *node,
                                    const gpu_attention *s);
