/*
 * cleave/plugin_util.h - small helpers for backend plugins
 *
 * Not part of the ABI: functions that a plugin compiles into itself, or does
 * without. They need plugin.h and GNU C.
 */
#ifndef CLEAVE_PLUGIN_UTIL_H_
#define CLEAVE_PLUGIN_UTIL_H_

#include <cleave/plugin_format.h>
#include <cleave/plugin_layout.h>

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------------ */
/* Structs                                                                  */

/* Element i of an array of structs that lie stride bytes apart. */
static inline void *clv_at(const void *array, uint32_t i, uint32_t stride)
{
    return (char *)(uintptr_t)array + (size_t)i * stride;
}

/* Whether no extension in the struct's chain is both unknown and required; for
 * a plugin that knows none. theirs begins with a clv_header. */
static inline int clv_chain_known(const void *theirs)
{
    const clv_header *node = (const clv_header *)theirs;
    while ((node = (const clv_header *)node->next))
        if (node->struct_type & CLV_STRUCT_REQUIRED)
            return 0;
    return 1;
}

/* Copies a struct of the host's into one of our size; what it lacks is zero. */
static inline void clv_read(void *own, size_t size, const void *theirs)
{
    uint32_t has = ((const clv_header *)theirs)->struct_size;
    memset(own, 0, size);
    memcpy(own, theirs, has < size ? has : size);
}

/* Fills a struct of the host's behind its header, as far as both reach. */
static inline void clv_write(void *theirs, const void *own, size_t size)
{
    uint32_t room = ((const clv_header *)theirs)->struct_size;
    if (room < size)
        size = room;
    if (size > sizeof(clv_header))
        memcpy((char *)theirs + sizeof(clv_header),
               (const char *)own + sizeof(clv_header),
               size - sizeof(clv_header));
}

/* Elements and bytes of a block along the last dimension; 1 element but for I4
 * and the block types. False for a type that is not known. */
static inline int clv_block(uint32_t dtype, int64_t *elements, int64_t *bytes)
{
    const clv_format *f = clv_format_of(dtype);
    *elements = f ? f->elements : 1;
    *bytes = f ? f->bytes : 0;
    return f != NULL;
}

/* Alignment of a known type's elements; of a block, its scale's. */
static inline uint32_t clv_align(uint32_t dtype)
{
    return clv_format_of(dtype)->align;
}

/* Dimension d of a tensor, with these values of symbols. */
static inline int64_t clv_dim(const clv_tensor_desc *t, uint32_t d,
                              const int64_t *symbols)
{
    return t->symbols[d] ? symbols[t->symbols[d] - 1] : t->dims[d];
}

/* Bytes from the tensor's first to its last, with these values of symbols; in a
 * layout by axes with all padding, 0 where it is none. */
static inline uint64_t clv_tensor_size(const clv_tensor_desc *t,
                                       const int64_t *symbols)
{
    int64_t elements, bytes, size, dense;
    clv_block(t->dtype, &elements, &bytes);
    if (t->layout != CLV_LAYOUT_LINEAR) {
        uint32_t axes[CLV_MAX_RANK];
        clv_layout_map map;
        return clv_layout_of(t, &map, axes)
                   ? (uint64_t)map.n_elements * (uint64_t)bytes
                   : 0;
    }
    size = dense = bytes;
    int strided = 0;
    for (uint32_t d = 0; d < t->rank; d++)
        strided |= t->strides[d] != 0;
    for (uint32_t d = t->rank; d-- > 0;) {
        int64_t n = clv_dim(t, d, symbols);
        if (!n)
            return 0;
        if (d == t->rank - 1)
            n = (n + elements - 1) / elements;
        size += (n - 1) * (strided ? t->strides[d] : dense);
        dense *= n;
    }
    return (uint64_t)size;
}

/* ------------------------------------------------------------------------ */
/* The host                                                                 */

/* set_error with a format. Returns status. */
__attribute__((format(printf, 3, 4))) static inline clv_status
clv_fail(const clv_host_api *host, clv_status status, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return host->set_error(host->host, status, 0, text);
}

/* Zeroed, at a multiple of 64; NULL, with the error set, when out of memory.
 * host->free() releases it. */
static inline void *clv_new(const clv_host_api *host, uint64_t size)
{
    void *block = host->alloc(host->host, size, 64);
    if (block)
        return memset(block, 0, (size_t)size);
    clv_fail(host, CLV_ERR_NO_MEMORY,
             "no memory for %llu bytes; close other programs or use a smaller "
             "model",
             (unsigned long long)size);
    return NULL;
}

/* NULL is legal. */
static inline void clv_free(const clv_host_api *host, void *block)
{
    if (block)
        host->free(host->host, block);
}

/* ------------------------------------------------------------------------ */
/* Graphs                                                                   */

/* Past any memory; sums and products of a few such numbers fit in 64 bits. */
#define CLV_MAX_EXTENT ((int64_t)1 << 56)

/* Tensor i of a graph if it exists, with a known usage, dimensions from 1 and
 * strides from 0 whose extent is no more than CLV_MAX_EXTENT elements and
 * bytes, and symbols of the graph's that stay within the dimensions; else NULL.
 * dtype, layout and the rest are the caller's to judge. */
static inline const clv_tensor_desc *clv_graph_tensor(const clv_subgraph *graph,
                                                      uint32_t i)
{
    if (i >= graph->n_tensors)
        return NULL;
    const clv_tensor_desc *t = (const clv_tensor_desc *)clv_at(
        graph->tensors, i, graph->tensor_stride);
    int64_t elements = 1, bytes = 0, span;
    if (t->rank < 1 || t->rank > CLV_MAX_RANK || t->usage > CLV_USAGE_STATE ||
        !clv_chain_known(t))
        return NULL;
    for (uint32_t d = 0; d < t->rank; d++) {
        uint32_t symbol = t->symbols[d];
        if (t->dims[d] < 1 || t->strides[d] < 0 ||
            __builtin_mul_overflow(elements, t->dims[d], &elements) ||
            __builtin_mul_overflow(t->strides[d], t->dims[d], &span) ||
            __builtin_add_overflow(bytes, span, &bytes) ||
            elements > CLV_MAX_EXTENT || bytes > CLV_MAX_EXTENT)
            return NULL;
        if (symbol > graph->n_symbols ||
            (symbol && (graph->symbols[symbol - 1].min < 0 ||
                        graph->symbols[symbol - 1].max > t->dims[d])))
            return NULL;
    }
    return t;
}

/* Node i of a graph if its operands are tensors as above, inputs possibly
 * absent, and its outputs may be written; else NULL. */
static inline const clv_node *clv_graph_node(const clv_subgraph *graph,
                                             uint32_t i)
{
    const clv_node *node =
        (const clv_node *)clv_at(graph->nodes, i, graph->node_stride);
    if (node->n_inputs > CLV_MAX_INPUTS || node->n_outputs > CLV_MAX_OUTPUTS ||
        !clv_chain_known(node))
        return NULL;
    for (uint32_t k = 0; k < node->n_inputs; k++)
        if (node->inputs[k] != CLV_NO_TENSOR &&
            !clv_graph_tensor(graph, node->inputs[k]))
            return NULL;
    for (uint32_t k = 0; k < node->n_outputs; k++) {
        const clv_tensor_desc *t = clv_graph_tensor(graph, node->outputs[k]);
        if (!t || t->usage == CLV_USAGE_WEIGHT || t->usage == CLV_USAGE_INPUT)
            return NULL;
    }
    return node;
}

/* ------------------------------------------------------------------------ */
/* Devices                                                                  */

/* clv_device_info.uuid of the host's processors, all of them or some, whoever
 * drives them: two plugins that offer them offer the same hardware. */
#define CLV_UUID_HOST "cleave:host-cpus" /* 16 bytes */

/* What struct clv_plugin_device begins with in a plugin that uses the slots of
 * plugin_memory.h or plugin_queue.h. */
typedef struct clv_device_base {
    const clv_host_api *host;
    struct clv_queue *queue; /* plugin_queue.h */
} clv_device_base;

static inline const clv_device_base *clv_base(const clv_plugin_device *dev)
{
    return (const clv_device_base *)(const void *)dev;
}

#ifdef __cplusplus
}
#endif

#endif /* CLEAVE_PLUGIN_UTIL_H_ */
