/*
 * Checks of subgraphs before plugins see them.
 */
#pragma once

#include "device.h"

static inline const clv_tensor_desc *core_subgraph_tensor(const clv_subgraph *g,
                                                          uint32_t i)
{
    return (const void *)((const char *)g->tensors +
                          (size_t)i * g->tensor_stride);
}

static inline const clv_node *core_subgraph_node(const clv_subgraph *g,
                                                 uint32_t i)
{
    return (const void *)((const char *)g->nodes + (size_t)i * g->node_stride);
}

/* Consistency of a subgraph of ours: indices, ranks, strides, ranges. */
clv_status core_subgraph_check(const clv_subgraph *graph);
/* Bytes the tensor spans, by its strides, when symbols have these values
 * (NULL: their upper bounds). CLV_ERR_INVALID on overflow or part blocks. */
clv_status core_desc_size(const clv_tensor_desc *desc, const int64_t *symbols,
                          uint64_t *out);
/* Bytes of a row of so many elements, whole blocks; 0: an unknown dtype. */
uint64_t core_row_bytes(uint32_t dtype, int64_t length);
