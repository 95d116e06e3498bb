/*
 * cleave/plugin_node.h - graphs read and checked, for backend plugins
 *
 * A host may be wrong, older or newer. Here a graph's tensors and nodes are
 * read as plugin.h asks, and checked against all that it and the table of ops
 * (plugin_op.h) state: what is left to a plugin are the limits of its own. Not
 * part of the ABI: functions that a plugin compiles into itself, or does
 * without.
 *
 * Functions that check answer 1, or 0 with a reason for people.
 */
#ifndef CLEAVE_PLUGIN_NODE_H_
#define CLEAVE_PLUGIN_NODE_H_

#include <cleave/plugin_op.h>
#include <cleave/plugin_util.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CLV_REASON_SIZE 120 /* as clv_op_caps.reason */

/* Past any memory; sums and products of a few such numbers fit in 64 bits. */
#define CLV_MAX_EXTENT ((int64_t)1 << 56)

/* Writes the reason; 0. */
__attribute__((format(printf, 2, 3))) static inline int
clv_refuse(char reason[CLV_REASON_SIZE], const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(reason, CLV_REASON_SIZE, format, args);
    va_end(args);
    return 0;
}

/* ------------------------------------------------------------------------ */
/* Graphs                                                                    */

/* Whether its arrays can be read; tensors and nodes are not looked at. */
static inline clv_status clv_check_graph(const clv_host_api *host,
                                         const clv_subgraph *g)
{
    const uint32_t most = 1u << 20;
    CLV_TRY(clv_check_chain(host, g));
    if ((g->n_tensors && !g->tensors) || (g->n_nodes && !g->nodes) ||
        (g->n_symbols && !g->symbols) || g->n_symbols > CLV_MAX_SYMBOLS ||
        g->n_tensors > most || g->n_nodes > most)
        return clv_fail(host, CLV_ERR_INVALID,
                        "a graph of %u tensors, %u nodes and %u symbols, with "
                        "an array that is NULL, or more than 2^20 of these and "
                        "%d symbols",
                        (unsigned)g->n_tensors, (unsigned)g->n_nodes,
                        (unsigned)g->n_symbols, CLV_MAX_SYMBOLS);
    for (uint32_t i = 0; i < g->n_symbols; i++)
        if (g->symbols[i].min < 0 || g->symbols[i].min > g->symbols[i].max)
            return clv_fail(host, CLV_ERR_INVALID,
                            "symbol %u of the graph has an empty range",
                            (unsigned)i);
    return CLV_OK;
}

/* Copies n structs of a host's array; their headers lose their chains. */
static inline clv_status clv_copy_structs(const clv_host_api *host,
                                          const void *from, uint32_t n,
                                          uint32_t stride, void *to,
                                          uint32_t size)
{
    for (uint32_t i = 0; i < n; i++) {
        clv_header *own = (clv_header *)clv_at(to, i, size);
        clv_read(own, size, clv_at(from, i, stride));
        CLV_TRY(clv_check_chain(host, own));
        own->struct_size = size;
        own->next = NULL;
    }
    return CLV_OK;
}

/* A copy in one block, which clv_free() releases: arrays of this build's
 * structs without gaps or chains, so that they can be indexed and hashed. */
static inline clv_status clv_graph_copy(const clv_host_api *host,
                                        const clv_subgraph *from,
                                        clv_subgraph **out)
{
    clv_subgraph g;
    if (!from)
        return clv_fail(host, CLV_ERR_INVALID, "there is no graph");
    clv_read(&g, sizeof g, from);
    CLV_TRY(clv_check_graph(host, &g));
    clv_subgraph *copy = (clv_subgraph *)clv_new(
        host, sizeof g + (uint64_t)g.n_tensors * sizeof *g.tensors +
                  (uint64_t)g.n_nodes * sizeof *g.nodes +
                  g.n_symbols * sizeof *g.symbols);
    if (!copy)
        return CLV_ERR_NO_MEMORY;
    clv_tensor_desc *tensors = (clv_tensor_desc *)(copy + 1);
    clv_node *nodes = (clv_node *)(tensors + g.n_tensors);
    clv_symbol_range *symbols = (clv_symbol_range *)(nodes + g.n_nodes);
    *copy = g;
    copy->tensors = tensors;
    copy->tensor_stride = (uint32_t)sizeof *tensors;
    copy->nodes = nodes;
    copy->node_stride = (uint32_t)sizeof *nodes;
    copy->symbols = symbols;
    for (uint32_t i = 0; i < g.n_symbols; i++)
        symbols[i] = g.symbols[i];
    clv_status status =
        clv_copy_structs(host, g.tensors, g.n_tensors, g.tensor_stride, tensors,
                         (uint32_t)sizeof *tensors);
    if (status == CLV_OK)
        status = clv_copy_structs(host, g.nodes, g.n_nodes, g.node_stride,
                                  nodes, (uint32_t)sizeof *nodes);
    if (status != CLV_OK)
        clv_free(host, copy);
    else
        *out = copy;
    return status;
}

/* ------------------------------------------------------------------------ */
/* Tensors                                                                   */

static inline int clv_check_dims(const clv_subgraph *g, uint32_t index,
                                 const clv_tensor_desc *t,
                                 char reason[CLV_REASON_SIZE])
{
    const clv_format *format = clv_format_of(t->dtype);
    const uint32_t last = t->rank - 1;
    for (uint32_t d = 0; d < t->rank; d++) {
        const uint32_t symbol = t->symbols[d];
        if (t->dims[d] < 1)
            return clv_refuse(reason, "tensor %u: dimension %u is %lld",
                              (unsigned)index, (unsigned)d,
                              (long long)t->dims[d]);
        if (symbol > g->n_symbols)
            return clv_refuse(reason,
                              "tensor %u: symbol %u of %u does not "
                              "exist",
                              (unsigned)index, (unsigned)symbol - 1,
                              (unsigned)g->n_symbols);
        if (symbol && (g->symbols[symbol - 1].min < 0 ||
                       g->symbols[symbol - 1].max > t->dims[d]))
            return clv_refuse(reason,
                              "tensor %u: dimension %u is at most "
                              "%lld, its symbol passes that",
                              (unsigned)index, (unsigned)d,
                              (long long)t->dims[d]);
    }
    if (t->dims[last] % format->elements ||
        (format->elements > 1 && t->symbols[last]))
        return clv_refuse(reason,
                          "tensor %u: %s rows must be whole blocks of "
                          "%u elements, not %lld",
                          (unsigned)index, format->name,
                          (unsigned)format->elements, (long long)t->dims[last]);
    return 1;
}

/* Whether the largest form has positive strides and fits in memory that can be
 * named. Padding in layouts by axes does not count. */
static inline int clv_check_strides(uint32_t index, const clv_tensor_desc *t,
                                    char reason[CLV_REASON_SIZE])
{
    const clv_format *format = clv_format_of(t->dtype);
    const int dense = clv_is_dense(t);
    int64_t total = 0, size = format->bytes, span;
    for (uint32_t d = t->rank; d-- > 0;) {
        const int64_t n =
            d + 1 == t->rank ? t->dims[d] / format->elements : t->dims[d];
        const int64_t step = dense ? size : t->strides[d];
        if ((n > 1 && step <= 0) || step < 0 || step % format->align)
            return clv_refuse(reason,
                              "tensor %u: stride %lld of dimension %u "
                              "is not positive or splits elements",
                              (unsigned)index, (long long)step, (unsigned)d);
        if (__builtin_mul_overflow(n, step, &span) ||
            __builtin_mul_overflow(size, n, &size) || span > CLV_MAX_EXTENT ||
            size > CLV_MAX_EXTENT || (total += span) > CLV_MAX_EXTENT)
            return clv_refuse(reason, "tensor %u: larger than 2^56 bytes",
                              (unsigned)index);
    }
    return 1;
}

/* Copies tensor i of a graph if it is one. Layout and storage are the caller's
 * to judge. */
static inline int clv_read_tensor(const clv_subgraph *g, uint32_t i,
                                  clv_tensor_desc *out,
                                  char reason[CLV_REASON_SIZE])
{
    if (i >= g->n_tensors)
        return clv_refuse(reason, "tensor %u of %u does not exist", (unsigned)i,
                          (unsigned)g->n_tensors);
    clv_read(out, sizeof *out, clv_at(g->tensors, i, g->tensor_stride));
    if (!clv_chain_known(out))
        return clv_refuse(reason,
                          "tensor %u: needs an extension that is not "
                          "known here",
                          (unsigned)i);
    out->header.struct_size = (uint32_t)sizeof *out;
    out->header.next = NULL;
    if (!clv_format_of(out->dtype))
        return clv_refuse(reason, "tensor %u: dtype %u is not known here",
                          (unsigned)i, (unsigned)out->dtype);
    if (out->usage > CLV_USAGE_STATE)
        return clv_refuse(reason, "tensor %u: usage %u is not known here",
                          (unsigned)i, (unsigned)out->usage);
    if (out->rank < 1 || out->rank > CLV_MAX_RANK)
        return clv_refuse(reason, "tensor %u: rank %u is not in 1..%d",
                          (unsigned)i, (unsigned)out->rank, CLV_MAX_RANK);
    if (out->quant > CLV_QUANT_PER_GROUP ||
        (out->quant && !clv_format_is(out->dtype, CLV_FORMAT_INTEGER)))
        return clv_refuse(reason, "tensor %u: no scales of scheme %u for %s",
                          (unsigned)i, (unsigned)out->quant,
                          clv_format_of(out->dtype)->name);
    return clv_check_dims(g, i, out, reason) &&
           clv_check_strides(i, out, reason);
}

/* The same in place; NULL if it is none. */
static inline const clv_tensor_desc *clv_graph_tensor(const clv_subgraph *g,
                                                      uint32_t i)
{
    clv_tensor_desc copy;
    char reason[CLV_REASON_SIZE];
    return clv_read_tensor(g, i, &copy, reason)
               ? (const clv_tensor_desc *)clv_at(g->tensors, i,
                                                 g->tensor_stride)
               : NULL;
}

/* Node i of a graph in place, if its operands are tensors, inputs possibly
 * absent; else NULL. For who looks at the graph around a checked node. */
static inline const clv_node *clv_graph_node(const clv_subgraph *g, uint32_t i)
{
    const clv_node *node =
        (const clv_node *)clv_at(g->nodes, i, g->node_stride);
    if (node->n_inputs > CLV_MAX_INPUTS || node->n_outputs > CLV_MAX_OUTPUTS ||
        !clv_chain_known(node))
        return NULL;
    for (uint32_t k = 0; k < node->n_inputs; k++)
        if (node->inputs[k] != CLV_NO_TENSOR &&
            !clv_graph_tensor(g, node->inputs[k]))
            return NULL;
    for (uint32_t k = 0; k < node->n_outputs; k++)
        if (!clv_graph_tensor(g, node->outputs[k]))
            return NULL;
    return node;
}

static inline int clv_is_linear(const clv_tensor_desc *t)
{
    return t->storage == CLV_STORAGE_BUFFER && t->layout == CLV_LAYOUT_LINEAR;
}

static inline int clv_is_private(const clv_tensor_desc *t)
{
    return t->storage == CLV_STORAGE_BUFFER &&
           t->layout == CLV_LAYOUT_PRIVATE && clv_is_dense(t);
}

/* Whether y is what CONVERT makes of weights x, in the device's own layout. */
static inline int clv_is_private_of(const clv_tensor_desc *y,
                                    const clv_tensor_desc *x)
{
    return clv_is_private(y) && clv_is_linear(x) && clv_is_dense(x) &&
           x->dtype == y->dtype && !x->quant && !y->quant;
}

/* Copies the scales of t, the quantised tensor i. */
static inline int clv_read_scales(const clv_subgraph *g, uint32_t i,
                                  const clv_tensor_desc *t,
                                  clv_tensor_desc *out,
                                  char reason[CLV_REASON_SIZE])
{
    const int grouped = t->quant == CLV_QUANT_PER_GROUP;
    const int64_t rows = t->quant == CLV_QUANT_PER_TENSOR ? 1 : t->dims[0];
    const uint32_t group = grouped ? t->quant_group : 1;
    if (t->rank != 2 || t->symbols[0] || t->symbols[1])
        return clv_refuse(reason,
                          "tensor %u: only matrices of fixed size have "
                          "scales",
                          (unsigned)i);
    if (grouped && (!group || t->dims[1] % group ||
                    group % clv_format_of(t->dtype)->elements))
        return clv_refuse(reason,
                          "tensor %u: rows of %lld are no whole groups "
                          "of %u in whole bytes",
                          (unsigned)i, (long long)t->dims[1], (unsigned)group);
    if (!t->quant_scales)
        return clv_refuse(reason, "tensor %u: its scales are missing",
                          (unsigned)i);
    if (!clv_read_tensor(g, t->quant_scales - 1, out, reason))
        return 0;
    if (out->dtype != CLV_DTYPE_F32 || !clv_is_linear(out) ||
        out->rank != (grouped ? 2u : 1u) || out->symbols[0] ||
        out->symbols[1] || out->dims[0] != rows ||
        (grouped && out->dims[1] != t->dims[1] / group))
        return clv_refuse(reason,
                          "tensor %u: its scales are not linear f32 "
                          "of the scheme's shape",
                          (unsigned)i);
    return 1;
}

/* Whether it is rows of contiguous elements at one stride. */
static inline int clv_is_rows(const clv_tensor_desc *t)
{
    int64_t elements, bytes, whole;
    const uint32_t last = t->rank - 1;
    clv_block(t->dtype, &elements, &bytes);
    if (clv_is_dense(t))
        return 1;
    if (t->strides[last] != bytes && t->dims[last] > elements)
        return 0;
    for (uint32_t d = 0; d + 1 < last; d++)
        if (t->symbols[d + 1] ||
            __builtin_mul_overflow(t->strides[d + 1], t->dims[d + 1], &whole) ||
            whole != t->strides[d])
            return 0;
    return 1;
}

/* ------------------------------------------------------------------------ */
/* Nodes                                                                     */

/* A node that is right by the definition of its op. Operands that are absent
 * have rank 0; so have the scales of those that are not quantised. */
typedef struct clv_checked_node {
    clv_node node;
    const clv_op_info *op;
    uint32_t index, n_symbols;
    clv_tensor_desc in[CLV_OP_OPERANDS], scales[CLV_OP_OPERANDS], out;
    char reason[CLV_REASON_SIZE]; /* why it is none */
} clv_checked_node;

enum {
    CLV_NODE_WEIGHT_STATES = 1u << 0,   /* states may be in CLV_LAYOUT_WEIGHTS;
                                           their strides are filled in */
    CLV_NODE_PRIVATE_WEIGHTS = 1u << 1, /* weights may be in CLV_LAYOUT_PRIVATE,
                                           and CONVERT may bring them into it */
};

/* A reason that begins with the op's name; 0. */
__attribute__((format(printf, 2, 3))) static inline int
clv_node_no(clv_checked_node *n, const char *format, ...)
{
    va_list args;
    const int used = snprintf(n->reason, sizeof n->reason, "%s: ", n->op->name);
    va_start(args, format);
    vsnprintf(n->reason + used, sizeof n->reason - (size_t)used, format, args);
    va_end(args);
    return 0;
}

/* Input i, or the output for CLV_OP_OPERANDS; NULL where it is absent. */
static inline const clv_tensor_desc *clv_node_operand(const clv_checked_node *n,
                                                      uint32_t i)
{
    const clv_tensor_desc *t = i < CLV_OP_OPERANDS ? &n->in[i] : &n->out;
    return t->rank ? t : NULL;
}

static inline const char *clv_operand_name(const clv_checked_node *n,
                                           uint32_t i)
{
    return i < CLV_OP_OPERANDS ? n->op->inputs[i].name : n->op->output.name;
}

/* A limit of the plugin's: operand i (as above), if it is there, has one of
 * these dtypes (CLV_DTYPE_BIT). */
static inline int clv_node_takes(clv_checked_node *n, uint32_t i,
                                 uint32_t dtypes)
{
    const clv_tensor_desc *t = clv_node_operand(n, i);
    return !t || clv_dtype_in(t->dtype, dtypes) ||
           clv_node_no(n, "%s cannot be %s here", clv_operand_name(n, i),
                       clv_dtype_label(t->dtype));
}

/* A limit of the plugin's: vectors are of f32, or of i32 where they are ids. */
static inline int clv_node_vectors(clv_checked_node *n)
{
    const uint32_t dtypes =
        CLV_DTYPE_BIT(CLV_DTYPE_F32) | CLV_DTYPE_BIT(CLV_DTYPE_I32);
    for (uint32_t i = 0; i < CLV_OP_OPERANDS; i++)
        if (n->in[i].rank == 1 && !clv_node_takes(n, i, dtypes))
            return 0;
    return 1;
}

/* A limit of the plugin's: all operands are rows of contiguous elements. */
static inline int clv_node_rows(clv_checked_node *n)
{
    for (uint32_t i = 0; i <= CLV_OP_OPERANDS; i++) {
        const clv_tensor_desc *t = clv_node_operand(n, i);
        if (t && t->layout == CLV_LAYOUT_LINEAR &&
            (!clv_is_rows(t) || (t->quant && !clv_is_rows(&n->scales[i]))))
            return clv_node_no(n, "%s must have contiguous rows at one stride",
                               clv_operand_name(n, i));
    }
    return 1;
}

/* Elements of a row that share a scale or a byte: rows are cut between them. */
static inline int64_t clv_row_unit(const clv_tensor_desc *t)
{
    return t->quant == CLV_QUANT_PER_GROUP ? t->quant_group
                                           : clv_format_of(t->dtype)->elements;
}

/* What is usual for a node that is taken: sums in f32, cuts along all axes of
 * the op, the output in place of inputs of its shape. A plugin changes what is
 * otherwise. */
static inline void clv_node_caps(const clv_checked_node *n, clv_op_caps *caps)
{
    const clv_tensor_desc *a = &n->in[0], *b = &n->in[1];
    const uint32_t op_class = n->op->op_class;
    caps->answer = CLV_ANSWER_YES;
    caps->error_class = CLV_ERROR_F32;
    caps->accumulate = CLV_DTYPE_F32;
    caps->split_axes = clv_op_splits(n->node.op);
    if (op_class == CLV_CLASS_GET_ROWS || op_class == CLV_CLASS_SET_ROWS ||
        op_class == CLV_CLASS_CONVERT)
        caps->split_granularity[CLV_CUT_ROWS] = clv_row_unit(a);
    if (op_class == CLV_CLASS_CONVERT && clv_row_unit(&n->out) > 1)
        caps->split_granularity[CLV_CUT_ROWS] = clv_row_unit(&n->out);
    if (op_class == CLV_CLASS_MATMUL)
        caps->split_granularity[CLV_CUT_CHANNELS] = clv_row_unit(b);
    if (op_class == CLV_CLASS_ATTENTION) /* whole groups */
        caps->split_granularity[CLV_CUT_HEADS] = a->dims[1] / b->dims[1];
    if (clv_op_is_elementwise(n->node.op) || op_class == CLV_CLASS_NORM ||
        op_class == CLV_CLASS_HEAD_NORM || op_class == CLV_CLASS_SOFTMAX ||
        op_class == CLV_CLASS_ROPE)
        caps->alias_inputs = 1;
    if (op_class == CLV_CLASS_GATED ||
        (op_class == CLV_CLASS_BINARY && clv_same_shape(a, b)))
        caps->alias_inputs = 3;
}

/* Reads operand i. */
static inline int clv_read_operand(const clv_subgraph *g, clv_checked_node *n,
                                   uint32_t i, uint32_t tensor, uint32_t flags)
{
    char reason[CLV_REASON_SIZE];
    const int input = i < CLV_OP_OPERANDS;
    clv_tensor_desc *t = input ? &n->in[i] : &n->out;
    const char *name = clv_operand_name(n, i);
    int64_t elements, bytes;
    if (!clv_read_tensor(g, tensor, t, reason) ||
        (input && t->quant &&
         !clv_read_scales(g, tensor, t, &n->scales[i], reason)))
        return clv_node_no(n, "%s: %s", name, reason);
    clv_block(t->dtype, &elements, &bytes);
    const int weights = flags & CLV_NODE_WEIGHT_STATES &&
                        t->usage == CLV_USAGE_STATE && t->rank == 2 &&
                        elements == 1 &&
                        clv_layout_strides(t, (uint32_t)bytes, t->strides);
    const int is_private =
        flags & CLV_NODE_PRIVATE_WEIGHTS && clv_is_private(t) &&
        (input
             ? t->usage == CLV_USAGE_WEIGHT
             : n->node.op == CLV_OP_CONVERT && clv_is_private_of(t, &n->in[0]));
    if (!weights && !is_private && !clv_is_linear(t))
        return clv_node_no(n,
                           "%s is in storage %u and layout %u, not a linear "
                           "buffer",
                           name, (unsigned)t->storage, (unsigned)t->layout);
    if (clv_format_is(t->dtype, CLV_FORMAT_INTEGER) && !t->quant)
        return clv_node_no(n, "%s is %s without scales", name,
                           clv_dtype_label(t->dtype));
    if ((!input || (!i && !n->op->output.name)) &&
        (t->usage == CLV_USAGE_WEIGHT || t->usage == CLV_USAGE_INPUT))
        return clv_node_no(n, "%s is not to be written", name);
    return 1;
}

static inline int clv_check_op(clv_checked_node *n)
{
    clv_op_shape shape;
    memset(&shape, 0, sizeof shape);
    shape.op = n->node.op;
    shape.n_inputs = n->node.n_inputs;
    shape.n_symbols = n->n_symbols;
    shape.attr = &n->node.attr;
    shape.out = n->out;
    for (uint32_t i = 0; i < CLV_OP_OPERANDS; i++)
        shape.in[i] = clv_node_operand(n, i);
    return clv_op_check(&shape) == CLV_OK ||
           clv_refuse(n->reason, "%s", shape.text);
}

/* Reads node i of a graph, whose arrays are there, and checks it. flags:
 * CLV_NODE_*. */
static inline int clv_check_node(const clv_subgraph *g, uint32_t i,
                                 uint32_t flags, clv_checked_node *out)
{
    clv_node *node = &out->node;
    memset(out, 0, sizeof *out);
    clv_read(node, sizeof *node, clv_at(g->nodes, i, g->node_stride));
    out->index = i;
    out->n_symbols = g->n_symbols;
    out->op = clv_op_find(node->op);
    if (!out->op)
        return clv_refuse(out->reason, "op %u is not known here",
                          (unsigned)node->op);
    if (!clv_chain_known(node))
        return clv_node_no(out, "it needs an extension that is not known here");
    if (node->revision != 1)
        return clv_node_no(out, "revision %u is not known, 1 is",
                           (unsigned)node->revision);
    const clv_op_info *op = out->op;
    const uint32_t n_outputs = op->output.name != NULL;
    if (node->n_inputs > op->n_inputs || node->n_outputs != n_outputs)
        return clv_node_no(out, "%u inputs and %u outputs, not %u to %u and %u",
                           (unsigned)node->n_inputs, (unsigned)node->n_outputs,
                           (unsigned)op->n_required, (unsigned)op->n_inputs,
                           (unsigned)n_outputs);
    for (uint32_t k = 0; k < op->n_inputs; k++) {
        const uint32_t tensor =
            k < node->n_inputs ? node->inputs[k] : CLV_NO_TENSOR;
        if (tensor == CLV_NO_TENSOR && k < op->n_required)
            return clv_node_no(out, "input %u is missing: %s", (unsigned)k,
                               op->inputs[k].name);
        if (tensor != CLV_NO_TENSOR &&
            !clv_read_operand(g, out, k, tensor, flags))
            return 0;
    }
    if (n_outputs &&
        !clv_read_operand(g, out, CLV_OP_OPERANDS, node->outputs[0], flags))
        return 0;
    return clv_check_op(out);
}

#ifdef __cplusplus
}
#endif

#endif /* CLEAVE_PLUGIN_NODE_H_ */
