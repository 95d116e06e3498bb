/* Products of experts: what its GEMV and GEMM share. */
#pragma once

#include "lower/lower.h"
#include "lower/variant.h"

static inline bool gpu_experts_scored(const gpu_node *node)
{
    return gpu_has(&node->in[3]);
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
/* And that by tensor cores. */
bool gpu_experts_are_tensor(const gpu_node *node);
clv_status gpu_experts_lower_gemm(gpu_lowering *lowering, const gpu_node *node);
