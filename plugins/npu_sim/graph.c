#include "graph.h"

#include <string.h>

#define MAX_ELEMENTS (1u << 20) /* of a graph's arrays */

static clv_status check_counts(const clv_host_api *host, const clv_subgraph *g)
{
    if (g->n_tensors > MAX_ELEMENTS || g->n_nodes > MAX_ELEMENTS ||
        g->n_symbols > CLV_MAX_SYMBOLS || (g->n_tensors && !g->tensors) ||
        (g->n_nodes && !g->nodes) || (g->n_symbols && !g->symbols))
        return npu_error(host, CLV_ERR_INVALID,
                         "npu_sim: a graph of %u tensors, %u nodes and %u "
                         "symbols, or without the arrays",
                         g->n_tensors, g->n_nodes, g->n_symbols);
    for (uint32_t i = 0; i < g->n_symbols; i++)
        if (g->symbols[i].min < 0 || g->symbols[i].max < g->symbols[i].min)
            return npu_error(host, CLV_ERR_INVALID,
                             "npu_sim: symbol %u has an empty range", i);
    return CLV_OK;
}

/* Copies the elements of one array; their headers lose their chains. */
static clv_status copy_array(const clv_host_api *host, const void *from,
                             uint32_t n, uint32_t stride, void *to,
                             uint32_t size)
{
    clv_status status = CLV_OK;
    for (uint32_t i = 0; i < n && !status; i++) {
        const char *src = (const char *)from + (size_t)i * stride;
        char *dst = (char *)to + (size_t)i * size;
        clv_header header;
        npu_read(dst, size, src);
        memcpy(&header, dst, sizeof header);
        status = npu_check_chain(host, &header);
        header = (clv_header){size, header.struct_type, NULL};
        memcpy(dst, &header, sizeof header);
    }
    return status;
}

clv_status npu_graph_read(const clv_host_api *host, const clv_subgraph *from,
                          npu_graph *out)
{
    clv_subgraph g;
    memset(out, 0, sizeof *out);
    npu_read(&g, sizeof g, from);
    clv_status status = npu_check_chain(host, &g.header);
    if (!status)
        status = check_counts(host, &g);
    if (status)
        return status;
    out->tensors = npu_alloc(host, g.n_tensors, sizeof *out->tensors);
    out->nodes = npu_alloc(host, g.n_nodes, sizeof *out->nodes);
    if (!out->tensors || !out->nodes) {
        npu_graph_finish(host, out);
        return npu_no_memory(host, "a graph");
    }
    out->n_tensors = g.n_tensors;
    out->n_nodes = g.n_nodes;
    out->n_symbols = g.n_symbols;
    if (g.n_symbols)
        memcpy(out->symbols, g.symbols, g.n_symbols * sizeof *g.symbols);
    status = copy_array(host, g.tensors, g.n_tensors, g.tensor_stride,
                        out->tensors, sizeof *out->tensors);
    if (!status)
        status = copy_array(host, g.nodes, g.n_nodes, g.node_stride, out->nodes,
                            sizeof *out->nodes);
    if (status)
        npu_graph_finish(host, out);
    return status;
}

void npu_graph_finish(const clv_host_api *host, npu_graph *graph)
{
    npu_free(host, graph->tensors);
    npu_free(host, graph->nodes);
    graph->tensors = NULL;
    graph->nodes = NULL;
}

uint64_t npu_graph_hash(uint64_t h, const npu_graph *g)
{
    h = npu_hash(h, g->symbols, g->n_symbols * sizeof *g->symbols);
    h = npu_hash(h, g->tensors, g->n_tensors * sizeof *g->tensors);
    return npu_hash(h, g->nodes, g->n_nodes * sizeof *g->nodes);
}
