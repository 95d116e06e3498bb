/* Small graphs for tests of GPU code. */
#pragma once

#include <cleave/plugin_util.h>

#include <stdbool.h>

#define GRAPH_TENSORS 192
#define GRAPH_NODES 64

typedef struct graph {
    clv_tensor_desc tensors[GRAPH_TENSORS];
    clv_node nodes[GRAPH_NODES];
    clv_symbol_range symbols[CLV_MAX_SYMBOLS];
    clv_subgraph sub;
} graph;

void graph_init(graph *g);
/* rows 0: of rank 1. The index of the new tensor. */
uint32_t graph_tensor(graph *g, uint32_t dtype, uint32_t usage, int64_t rows,
                      int64_t channels);
/* inputs end with CLV_NO_TENSOR; out may be CLV_NO_TENSOR. */
clv_node *graph_node(graph *g, uint32_t op, uint32_t out,
                     const uint32_t *inputs);
/* Makes dimension 0 of tensors with that many rows symbolic. */
void graph_symbol(graph *g, int64_t rows);

/* A host that allocates, and keeps the last error. */
extern const clv_host_api test_host;
const char *test_error(void);
