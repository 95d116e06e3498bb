#include "subgraph.h"
#include "answer.h"

#include <cleave/plugin_layout.h>

#include <string.h>

/* More than any graph has; sums of counts cannot overflow below it. */
#define MAX_ELEMENTS (1u << 24)

static int64_t dim_of(const clv_tensor_desc *desc, uint32_t i,
                      const int64_t *symbols)
{
    uint32_t symbol = desc->symbols[i];
    return symbols && symbol ? symbols[symbol - 1] : desc->dims[i];
}

static clv_status too_large(void)
{
    return clv_error(CLV_ERR_INVALID,
                     "tensor: its size does not fit in 64 bits");
}

/* In a layout by axes. */
static clv_status layout_size(const clv_tensor_desc *desc, uint64_t *out)
{
    uint32_t block, bytes, dim_axes[CLV_MAX_RANK];
    clv_layout_map map;
    if (!clv_dtype_block(desc->dtype, &block, &bytes) || block != 1 ||
        !clv_layout_of(desc, &map, dim_axes))
        return clv_error(CLV_ERR_INVALID,
                         "tensor: its dtype %u and axes do "
                         "not go with layout %u in storage %u",
                         desc->dtype, desc->layout, desc->storage);
    return __builtin_mul_overflow((uint64_t)map.n_elements, bytes, out)
               ? too_large()
               : CLV_OK;
}

clv_status core_desc_size(const clv_tensor_desc *desc, const int64_t *symbols,
                          uint64_t *out)
{
    if (desc->layout != CLV_LAYOUT_LINEAR && desc->layout != CLV_LAYOUT_PRIVATE)
        return layout_size(desc, out);
    uint32_t block, block_bytes, last = desc->rank - 1;
    if (desc->rank < 1 || desc->rank > CLV_MAX_RANK ||
        !clv_dtype_block(desc->dtype, &block, &block_bytes))
        return clv_error(CLV_ERR_INVALID,
                         "tensor: rank %u or dtype %u is not known", desc->rank,
                         desc->dtype);
    uint64_t span = 0, dense = block_bytes;
    bool strided = false;
    for (uint32_t i = 0; i < desc->rank; i++)
        strided |= desc->strides[i] != 0;
    for (uint32_t d = desc->rank; d-- > 0;) {
        int64_t dim = dim_of(desc, d, symbols);
        if (dim < 0 || (d == last && dim % block))
            return clv_error(CLV_ERR_INVALID,
                             "tensor: dimension %u is %lld, not whole blocks "
                             "of %u",
                             d, (long long)dim, d == last ? block : 1);
        if (dim == 0) {
            *out = 0;
            return CLV_OK;
        }
        uint64_t n = (uint64_t)dim / (d == last ? block : 1);
        uint64_t step = strided ? (uint64_t)desc->strides[d] : dense, reach;
        if ((strided && desc->strides[d] < 0) ||
            __builtin_mul_overflow(n - 1, step, &reach) ||
            __builtin_add_overflow(span, reach, &span) ||
            __builtin_mul_overflow(dense, n, &dense))
            return too_large();
    }
    if (__builtin_add_overflow(span, block_bytes, &span))
        return too_large();
    *out = span;
    return CLV_OK;
}

uint64_t core_row_bytes(uint32_t dtype, int64_t length)
{
    uint32_t block, bytes;
    return clv_dtype_block(dtype, &block, &bytes)
               ? (uint64_t)length / block * bytes
               : 0;
}

static clv_status check_tensor(const clv_subgraph *g, uint32_t index)
{
    const clv_tensor_desc *t = core_subgraph_tensor(g, index);
    if (t->header.struct_size < sizeof *t)
        return clv_error(CLV_ERR_INVALID, "graph: tensor %u has no header",
                         index);
    if (t->usage > CLV_USAGE_STATE || t->quant > CLV_QUANT_PER_GROUP ||
        t->storage > CLV_STORAGE_TEXTURE_3D || t->layout > CLV_LAYOUT_PRIVATE)
        return clv_error(CLV_ERR_INVALID,
                         "graph: tensor %u has an unknown usage, quantisation, "
                         "storage or layout",
                         index);
    if (t->quant_scales > g->n_tensors)
        return clv_error(CLV_ERR_INVALID,
                         "graph: tensor %u has its scales in tensor %u of %u",
                         index, t->quant_scales - 1, g->n_tensors);
    for (uint32_t d = 0; d < t->rank && d < CLV_MAX_RANK; d++) {
        uint32_t symbol = t->symbols[d];
        if (symbol > g->n_symbols ||
            (symbol && t->dims[d] < g->symbols[symbol - 1].max))
            return clv_error(CLV_ERR_INVALID,
                             "graph: dimension %u of tensor %u does not cover "
                             "its symbol",
                             d, index);
    }
    uint64_t size;
    clv_status st = core_desc_size(t, NULL, &size);
    return st == CLV_OK ? st : clv_error_prefix(st, "graph: tensor %u", index);
}

static clv_status check_indices(const clv_subgraph *g, uint32_t node,
                                const uint32_t *indices, uint32_t n,
                                uint32_t max, bool optional)
{
    if (n > max)
        return clv_error(CLV_ERR_LIMIT,
                         "graph: node %u has %u operands, the limit is %u",
                         node, n, max);
    for (uint32_t i = 0; i < n; i++)
        if (indices[i] >= g->n_tensors &&
            !(optional && indices[i] == CLV_NO_TENSOR))
            return clv_error(CLV_ERR_INVALID,
                             "graph: node %u uses tensor %u of %u", node,
                             indices[i], g->n_tensors);
    return CLV_OK;
}

static clv_status check_node(const clv_subgraph *g, uint32_t index)
{
    const clv_node *node = core_subgraph_node(g, index);
    if (node->header.struct_size < sizeof *node || node->op == CLV_OP_NONE ||
        node->op >= CLV_OP_COUNT || node->revision == 0)
        return clv_error(CLV_ERR_INVALID,
                         "graph: node %u has no header, or no known op", index);
    CLV_TRY(check_indices(g, index, node->inputs, node->n_inputs,
                          CLV_MAX_INPUTS, true));
    return check_indices(g, index, node->outputs, node->n_outputs,
                         CLV_MAX_OUTPUTS, false);
}

clv_status core_subgraph_check(const clv_subgraph *g)
{
    if (g->header.struct_size < sizeof *g || g->n_tensors > MAX_ELEMENTS ||
        g->n_nodes > MAX_ELEMENTS || g->n_symbols > CLV_MAX_SYMBOLS ||
        (g->n_tensors &&
         (!g->tensors || g->tensor_stride < sizeof *g->tensors)) ||
        (g->n_nodes && (!g->nodes || g->node_stride < sizeof *g->nodes)) ||
        (g->n_symbols && !g->symbols))
        return clv_error(CLV_ERR_INVALID, "graph: malformed counts or strides");
    for (uint32_t i = 0; i < g->n_symbols; i++)
        if (g->symbols[i].min < 0 || g->symbols[i].max < g->symbols[i].min)
            return clv_error(
                CLV_ERR_INVALID, "graph: symbol %u ranges over %lld..%lld", i,
                (long long)g->symbols[i].min, (long long)g->symbols[i].max);
    for (uint32_t i = 0; i < g->n_tensors; i++)
        CLV_TRY(check_tensor(g, i));
    for (uint32_t i = 0; i < g->n_nodes; i++)
        CLV_TRY(check_node(g, i));
    return CLV_OK;
}
