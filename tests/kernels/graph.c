#include "graph.h"

#include <assert.h>
#include <stdlib.h>

void graph_init(graph *g)
{
    memset(g, 0, sizeof *g);
    g->sub = (clv_subgraph)CLV_INIT(clv_subgraph, CLV_STRUCT_SUBGRAPH);
    g->sub.tensors = g->tensors;
    g->sub.nodes = g->nodes;
    g->sub.symbols = g->symbols;
    g->sub.tensor_stride = sizeof *g->tensors;
    g->sub.node_stride = sizeof *g->nodes;
}

uint32_t graph_tensor(graph *g, uint32_t dtype, uint32_t usage, int64_t rows,
                      int64_t channels)
{
    assert(g->sub.n_tensors < GRAPH_TENSORS);
    clv_tensor_desc *t = &g->tensors[g->sub.n_tensors];
    *t = (clv_tensor_desc)CLV_INIT(clv_tensor_desc, CLV_STRUCT_TENSOR_DESC);
    t->dtype = dtype;
    t->usage = usage;
    t->rank = rows ? 2 : 1;
    t->dims[0] = rows ? rows : channels;
    t->dims[1] = rows ? channels : 0;
    return g->sub.n_tensors++;
}

clv_node *graph_node(graph *g, uint32_t op, uint32_t out,
                     const uint32_t *inputs)
{
    assert(g->sub.n_nodes < GRAPH_NODES);
    clv_node *n = &g->nodes[g->sub.n_nodes++];
    *n = (clv_node)CLV_INIT(clv_node, CLV_STRUCT_NODE);
    n->op = op;
    n->revision = 1;
    while (inputs[n->n_inputs] != CLV_NO_TENSOR) {
        n->inputs[n->n_inputs] = inputs[n->n_inputs];
        n->n_inputs++;
    }
    n->n_outputs = out != CLV_NO_TENSOR;
    n->outputs[0] = out;
    return n;
}

void graph_symbol(graph *g, int64_t rows)
{
    g->symbols[g->sub.n_symbols++] = (clv_symbol_range){1, rows};
    for (uint32_t i = 0; i < g->sub.n_tensors; i++)
        if (g->tensors[i].dims[0] == rows &&
            g->tensors[i].usage != CLV_USAGE_WEIGHT)
            g->tensors[i].symbols[0] = g->sub.n_symbols;
}

static char last_error[512];

const char *test_error(void)
{
    return last_error;
}

static clv_status set_error(clv_host *host, clv_status status, int64_t vendor,
                            const char *text)
{
    (void)host;
    (void)vendor;
    snprintf(last_error, sizeof last_error, "%s", text);
    return status;
}

static void *allocate(clv_host *host, uint64_t size, uint64_t alignment)
{
    (void)host;
    return aligned_alloc(alignment,
                         (size + alignment - 1) / alignment * alignment);
}

static void release(clv_host *host, void *block)
{
    (void)host;
    free(block);
}

const clv_host_api test_host = {
    .set_error = set_error,
    .alloc = allocate,
    .free = release,
};
