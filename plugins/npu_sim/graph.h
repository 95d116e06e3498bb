/* A subgraph of another build, copied: no strides, no unknown fields. */
#pragma once

#include "host.h"

typedef struct npu_graph {
    clv_tensor_desc *tensors; /* [n_tensors], headers without chains */
    clv_node *nodes;          /* [n_nodes] */
    clv_symbol_range symbols[CLV_MAX_SYMBOLS];
    uint32_t n_tensors, n_nodes, n_symbols;
} npu_graph;

clv_status npu_graph_read(const clv_host_api *host, const clv_subgraph *from,
                          npu_graph *out);
void npu_graph_finish(const clv_host_api *host, npu_graph *graph);
/* Of everything in it. With NPU_HASH_START, or to go on from another hash. */
uint64_t npu_graph_hash(uint64_t h, const npu_graph *graph);
