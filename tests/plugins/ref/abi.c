#include "ref.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define MAX_CHAIN 64
#define MAX_ELEMENTS (1u << 20) /* of a graph's arrays */

void ref_read(void *dst, uint32_t dst_size, const void *src)
{
    clv_header header;
    memcpy(&header, src, sizeof header);
    memset(dst, 0, dst_size);
    memcpy(dst, src,
           header.struct_size < dst_size ? header.struct_size : dst_size);
}

void ref_write(void *dst, const void *src, uint32_t src_size)
{
    clv_header header;
    memcpy(&header, dst, sizeof header);
    uint32_t size =
        header.struct_size < src_size ? header.struct_size : src_size;
    if (size > sizeof header)
        memcpy((char *)dst + sizeof header, (const char *)src + sizeof header,
               size - sizeof header);
}

clv_status ref_check_chain(const clv_host_api *host, const clv_header *header)
{
    const clv_header *node = header->next;
    for (int i = 0; node && i < MAX_CHAIN; i++, node = node->next)
        if (node->struct_type & CLV_STRUCT_REQUIRED)
            return ref_error(host, CLV_ERR_UNSUPPORTED,
                             REF_NAME ": the extension 0x%x is not known here; "
                                      "leave it out",
                             (unsigned)node->struct_type);
    return node ? ref_error(host, CLV_ERR_INVALID,
                            REF_NAME ": a chain of extensions without an end")
                : CLV_OK;
}

clv_status ref_error(const clv_host_api *host, clv_status status,
                     const char *fmt, ...)
{
    char text[256];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return host->set_error(host->host, status, 0, text);
}

clv_status ref_no_memory(const clv_host_api *host, const char *what)
{
    return ref_error(host, CLV_ERR_NO_MEMORY,
                     REF_NAME ": the host has no memory for %s", what);
}

void *ref_alloc(const clv_host_api *host, uint64_t n, uint64_t size)
{
    uint64_t bytes;
    if (__builtin_mul_overflow(n ? n : 1, size, &bytes))
        return NULL;
    void *ptr = host->alloc(host->host, bytes, 64);
    if (ptr)
        memset(ptr, 0, bytes);
    return ptr;
}

void ref_free(const clv_host_api *host, void *ptr)
{
    if (ptr)
        host->free(host->host, ptr);
}

/* ------------------------------------------------------------------------ */

static clv_status check_counts(const clv_host_api *host, const clv_subgraph *g)
{
    if (g->n_tensors > MAX_ELEMENTS || g->n_nodes > MAX_ELEMENTS ||
        g->n_symbols > CLV_MAX_SYMBOLS || (g->n_tensors && !g->tensors) ||
        (g->n_nodes && !g->nodes) || (g->n_symbols && !g->symbols))
        return ref_error(host, CLV_ERR_INVALID,
                         REF_NAME ": a graph of %u tensors, %u nodes and %u "
                                  "symbols, or without the arrays",
                         g->n_tensors, g->n_nodes, g->n_symbols);
    for (uint32_t i = 0; i < g->n_symbols; i++)
        if (g->symbols[i].min < 0 || g->symbols[i].max < g->symbols[i].min)
            return ref_error(host, CLV_ERR_INVALID,
                             REF_NAME ": symbol %u has an empty range", i);
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
        ref_read(dst, size, src);
        memcpy(&header, dst, sizeof header);
        status = ref_check_chain(host, &header);
        header = (clv_header){size, header.struct_type, NULL};
        memcpy(dst, &header, sizeof header);
    }
    return status;
}

clv_status ref_graph_read(const clv_host_api *host, const clv_subgraph *from,
                          ref_graph *out)
{
    clv_subgraph g;
    memset(out, 0, sizeof *out);
    ref_read(&g, sizeof g, from);
    clv_status status = ref_check_chain(host, &g.header);
    if (!status)
        status = check_counts(host, &g);
    if (status)
        return status;
    out->tensors = ref_alloc(host, g.n_tensors, sizeof *out->tensors);
    out->nodes = ref_alloc(host, g.n_nodes, sizeof *out->nodes);
    if (!out->tensors || !out->nodes) {
        ref_graph_finish(host, out);
        return ref_no_memory(host, "a graph");
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
        ref_graph_finish(host, out);
    return status;
}

void ref_graph_finish(const clv_host_api *host, ref_graph *graph)
{
    ref_free(host, graph->tensors);
    ref_free(host, graph->nodes);
    graph->tensors = NULL;
    graph->nodes = NULL;
}
