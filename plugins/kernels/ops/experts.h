/* Products of experts: what its GEMV and GEMM share. */
#pragma once

#include "lower/lower.h"
#include "lower/variant.h"

static inline bool gpu_experts_scored(const gpu_node *node)
{
    return gpu_has(&node->in[3]);
}

/* Experts whose weights the node has. */
static inline int64_t gpu_experts_held(const gpu_node *node)
{
    return node->in[1].d.dims[0];
}

/* Products, at the most. */
static inline int64_t gpu_experts_places(const gpu_node *node)
{
    return gpu_max_rows(&node->in[0]) * node->in[2].d.dims[1];
}

/* Bytes of an expert's weights. */
static inline int64_t gpu_expert_bytes(const gpu_tensor *w)
{
    gpu_expr step;
    gpu_stride(w, 0, &step);
    return step.constant;
}

/* Experts of one dispatch, by what a binding reaches. */
static inline int64_t gpu_experts_step(const gpu_node *node)
{
    return gpu_reach(node->target) / gpu_expert_bytes(&node->in[1]);
}

/* Adds x, the weights of the node's experts from `first` on, and the params
 * that templates have in common. */
void gpu_experts_operands(gpu_call *call, const gpu_node *node, int64_t first,
                          int64_t count);

/* Many rows: sorted by expert, in tiles (experts_gemm.c). Whether they
 * are used. */
bool gpu_experts_are_gemm(const gpu_node *node);
/* Bytes of what they work with, at most. */
uint64_t gpu_experts_scratch(const gpu_node *node);
/* And that by tensor cores (experts_tensor.c). */
bool gpu_experts_are_tensor(const gpu_node *node);
/* The weights of all experts as one matrix, and the parts of x as rows; whether
 * they lie so. */
gpu_node gpu_experts_flat(const gpu_node *node);
bool gpu_experts_are_flat(const gpu_node *node);
/* Bytes of the tiles that the setup makes; 0: it makes none. */
uint64_t gpu_experts_kept_bytes(const gpu_node *node);
/* Bytes, at most: of x in halves, in the order of experts, and what one
 * expert's tiles take beyond GPU_PART_BYTES. */
uint64_t gpu_experts_tensor_scratch(const gpu_node *node);
/* table: the order, written; parts: where products lie that have scores. */
clv_status gpu_experts_lower_tensor(gpu_lowering *lowering,
                                    const gpu_node *node, uint32_t table,
                                    uint32_t parts);
/* Adds the order. */
void gpu_experts_table(gpu_call *call, const gpu_node *node, uint32_t table,
                       bool written);
/* Adds what products are written to, and whether they have scores. */
void gpu_experts_output(gpu_call *call, const gpu_node *node, uint32_t parts);
clv_status gpu_experts_lower_gemm(gpu_lowering *lowering, const gpu_node *node);
