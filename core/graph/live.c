/* How much of a graph's values is in use at once. */
#include "../base/error.h"
#include "../device/subgraph.h"
#include "graph.h"

#include <stdlib.h>

/* Bytes of the value, if it lies between nodes and is no view; else 0. */
static uint64_t bytes_of(const clv_graph *g, clv_value value)
{
    uint64_t bytes;
    return g->tensors[value].usage != CLV_USAGE_TRANSIENT ||
                   g->values[value].base != value ||
                   core_desc_size(&g->tensors[value], NULL, &bytes)
               ? 0
               : bytes;
}

/* The last node that touches each base, from the end. */
static void find_ends(const clv_graph *g, uint32_t *ends)
{
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        const clv_node *node = &g->nodes[i];
        for (uint32_t j = 0; j < node->n_inputs + node->n_outputs; j++) {
            const clv_value v = j < node->n_inputs
                                    ? node->inputs[j]
                                    : node->outputs[j - node->n_inputs];
            if (v != CLV_NO_TENSOR)
                ends[g->values[v].base] = i;
        }
    }
}

clv_status clv_graph_live(const clv_graph *graph, uint64_t *bytes)
{
    const uint32_t n = graph->n_nodes;
    uint32_t *ends = calloc(graph->n_tensors + 1u, sizeof *ends);
    uint64_t *freed = calloc(n + 1u, sizeof *freed); /* behind each node */
    uint64_t live = 0;
    *bytes = 0;
    if (!ends || !freed) {
        free(ends);
        free(freed);
        return core_no_memory("for a graph");
    }
    find_ends(graph, ends);
    for (clv_value v = 0; v < graph->n_tensors; v++)
        freed[ends[v]] += bytes_of(graph, v);
    for (uint32_t i = 0; i < n; i++) {
        const clv_node *node = &graph->nodes[i];
        for (uint32_t j = 0; j < node->n_outputs; j++)
            live += node->outputs[j] == CLV_NO_TENSOR
                        ? 0
                        : bytes_of(graph, node->outputs[j]);
        *bytes = live > *bytes ? live : *bytes;
        live -= freed[i];
    }
    free(ends);
    free(freed);
    return CLV_OK;
}
