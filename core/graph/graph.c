#include "graph.h"
#include "../base/error.h"
#include "../base/grow.h"
#include "../device/subgraph.h"
#include "shape.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The graph keeps its first error, with the thread's message. */
static clv_value fail(clv_graph *g, clv_status status)
{
    if (!g->status) {
        g->status = status;
        snprintf(g->message, sizeof g->message, "%s", clv_last_error());
    }
    return CLV_NO_TENSOR;
}

static bool usable(clv_graph *g)
{
    if (g && g->frozen)
        fail(g, clv_error(CLV_ERR_INVALID, "the graph is planned and can no "
                                           "longer change; build a new one"));
    return g && !g->status;
}

static bool reserve_tensor(clv_graph *g)
{
    const uint64_t n = g->n_tensors + 1ull;
    uint32_t capacity = g->tensors_capacity;
    if (core_grow(&g->values, &capacity, n, sizeof *g->values) &&
        core_grow(&g->tensors, &g->tensors_capacity, n, sizeof *g->tensors))
        return true;
    fail(g, core_no_memory("for a graph"));
    return false;
}

static bool reserve_node(clv_graph *g)
{
    if (core_grow(&g->nodes, &g->nodes_capacity, g->n_nodes + 1ull,
                  sizeof *g->nodes))
        return true;
    fail(g, core_no_memory("for a graph"));
    return false;
}

clv_value core_graph_add_tensor(clv_graph *g, const clv_tensor_desc *desc,
                                const char *name, clv_tensor *weight)
{
    if (!reserve_tensor(g))
        return CLV_NO_TENSOR;
    core_value value = {.weight = weight, .base = g->n_tensors};
    if (name && !(value.name = strdup(name)))
        return fail(g, core_no_memory("for a name"));
    g->tensors[g->n_tensors] = *desc;
    g->values[g->n_tensors] = value;
    return g->n_tensors++;
}

clv_node *core_graph_add_node(clv_graph *g, const clv_node *node)
{
    if (!reserve_node(g))
        return NULL;
    g->nodes[g->n_nodes] = *node;
    return &g->nodes[g->n_nodes++];
}

clv_status clv_graph_create(clv_graph **out)
{
    *out = NULL;
    clv_graph *g = calloc(1, sizeof *g);
    if (!g)
        return core_no_memory("for a graph");
    *out = g;
    return CLV_OK;
}

void clv_graph_destroy(clv_graph *graph)
{
    if (!graph)
        return;
    for (uint32_t i = 0; i < graph->n_tensors; i++)
        free(graph->values[i].name);
    for (uint32_t i = 0; i < graph->n_symbols; i++)
        free(graph->symbol_names[i]);
    free(graph->tensors);
    free(graph->values);
    free(graph->nodes);
    free(graph);
}

clv_status clv_graph_check(const clv_graph *graph)
{
    if (!graph)
        return clv_error(CLV_ERR_INVALID, "the graph is NULL");
    if (graph->status)
        return clv_error(graph->status, "%s", graph->message);
    return CLV_OK;
}

clv_dim clv_dim_fixed(int64_t value)
{
    return (clv_dim){.value = value};
}

clv_dim clv_graph_symbol(clv_graph *graph, const char *name, int64_t min,
                         int64_t max)
{
    clv_dim none = {.value = 1};
    if (!usable(graph))
        return none;
    char *copy = NULL;
    if (graph->n_symbols == CLV_MAX_SYMBOLS)
        fail(graph, clv_error(CLV_ERR_LIMIT,
                              "symbol '%s' is one more than the %d a graph can "
                              "have",
                              name, CLV_MAX_SYMBOLS));
    else if (min < 1 || max < min)
        fail(graph, clv_error(CLV_ERR_INVALID,
                              "symbol '%s': the range %lld..%lld is empty or "
                              "starts below 1",
                              name, (long long)min, (long long)max));
    else if (!(copy = strdup(name)))
        fail(graph, core_no_memory("for a name"));
    if (!copy)
        return none;
    graph->symbol_names[graph->n_symbols] = copy;
    graph->symbols[graph->n_symbols++] = (clv_symbol_range){min, max};
    return (clv_dim){.value = max, .symbol = graph->n_symbols};
}

/* Copies dims into desc. Only the outermost dimension varies between runs:
 * then rows stay where they are. */
static clv_status set_dims(const clv_graph *g, clv_tensor_desc *desc,
                           uint32_t rank, const clv_dim *dims)
{
    if (rank < 1 || rank > CLV_MAX_RANK)
        return clv_error(CLV_ERR_INVALID, "rank %u is outside 1..%d", rank,
                         CLV_MAX_RANK);
    desc->rank = rank;
    for (uint32_t i = 0; i < rank; i++) {
        uint32_t symbol = dims[i].symbol;
        if (symbol > g->n_symbols ||
            (symbol && dims[i].value != g->symbols[symbol - 1].max))
            return clv_error(CLV_ERR_INVALID,
                             "dimension %u is no symbol of this graph", i);
        if (symbol && i)
            return clv_error(
                CLV_ERR_INVALID,
                "dimension %u is a symbol; only the outermost can be", i);
        desc->dims[i] = dims[i].value;
        desc->symbols[i] = symbol;
    }
    return core_shape_check(desc->dtype, rank, desc->dims, NULL);
}

clv_value clv_graph_input(clv_graph *graph, const char *name, uint32_t dtype,
                          uint32_t rank, const clv_dim *dims)
{
    if (!usable(graph))
        return CLV_NO_TENSOR;
    clv_tensor_desc desc = CLV_INIT(clv_tensor_desc, CLV_STRUCT_TENSOR_DESC);
    desc.dtype = dtype;
    desc.usage = CLV_USAGE_INPUT;
    clv_status status = set_dims(graph, &desc, rank, dims);
    if (status)
        return fail(graph, clv_error_prefix(status, "input '%s'", name));
    return core_graph_add_tensor(graph, &desc, name, NULL);
}

/* The scales of a weight are a weight of their own, named after it. */
static clv_value add_scales(clv_graph *graph, const char *name,
                            clv_tensor *scales)
{
    char text[96];
    snprintf(text, sizeof text, "%s scales", name);
    return clv_graph_weight(graph, text, scales);
}

clv_value clv_graph_weight(clv_graph *graph, const char *name,
                           clv_tensor *tensor)
{
    if (!usable(graph))
        return CLV_NO_TENSOR;
    if (!tensor)
        return fail(graph, clv_error(CLV_ERR_INVALID,
                                     "weight '%s' has no tensor", name));
    clv_tensor_desc desc = CLV_INIT(clv_tensor_desc, CLV_STRUCT_TENSOR_DESC);
    desc.dtype = clv_tensor_dtype(tensor);
    desc.usage = CLV_USAGE_WEIGHT;
    desc.rank = clv_tensor_rank(tensor);
    memcpy(desc.dims, clv_tensor_dims(tensor), desc.rank * sizeof *desc.dims);
    desc.quant = clv_tensor_quant(tensor);
    if (desc.quant) {
        clv_value scales = add_scales(graph, name, clv_tensor_scales(tensor));
        if (scales == CLV_NO_TENSOR)
            return CLV_NO_TENSOR;
        desc.quant_group = clv_tensor_quant_group(tensor);
        desc.quant_scales = 1 + scales;
    }
    return core_graph_add_tensor(graph, &desc, name, tensor);
}

clv_value clv_graph_state(clv_graph *graph, const char *name, uint32_t dtype,
                          uint32_t rank, const int64_t *dims)
{
    if (!usable(graph))
        return CLV_NO_TENSOR;
    clv_tensor_desc desc = CLV_INIT(clv_tensor_desc, CLV_STRUCT_TENSOR_DESC);
    clv_status status = core_shape_check(dtype, rank, dims, NULL);
    if (status)
        return fail(graph, clv_error_prefix(status, "state '%s'", name));
    desc.dtype = dtype;
    desc.usage = CLV_USAGE_STATE;
    desc.rank = rank;
    memcpy(desc.dims, dims, rank * sizeof *dims);
    return core_graph_add_tensor(graph, &desc, name, NULL);
}

void clv_graph_output(clv_graph *graph, clv_value value, const char *name)
{
    if (!usable(graph))
        return;
    char *copy = NULL;
    if (value >= graph->n_tensors)
        fail(graph, clv_error(CLV_ERR_INVALID,
                              "output '%s' is no value of this graph", name));
    else if (graph->tensors[value].usage != CLV_USAGE_TRANSIENT)
        fail(graph, clv_error(CLV_ERR_INVALID,
                              "output '%s' is an input, weight, state or "
                              "output already; only the result of an op can "
                              "become one",
                              name));
    else if (!(copy = strdup(name)))
        fail(graph, core_no_memory("for a name"));
    if (!copy)
        return;
    free(graph->values[value].name);
    graph->values[value].name = copy;
    graph->tensors[value].usage = CLV_USAGE_OUTPUT;
}

const clv_tensor_desc *clv_graph_value_desc(const clv_graph *g, clv_value value)
{
    return g && value < g->n_tensors ? &g->tensors[value] : NULL;
}

clv_subgraph core_graph_view(const clv_graph *graph)
{
    clv_subgraph view = CLV_INIT(clv_subgraph, CLV_STRUCT_SUBGRAPH);
    view.tensors = graph->tensors;
    view.nodes = graph->nodes;
    view.symbols = graph->symbols;
    view.n_tensors = graph->n_tensors;
    view.tensor_stride = sizeof *graph->tensors;
    view.n_nodes = graph->n_nodes;
    view.node_stride = sizeof *graph->nodes;
    view.n_symbols = graph->n_symbols;
    return view;
}

const char *core_value_name(const clv_graph *graph, clv_value value,
                            char text[16])
{
    if (graph->values[value].name)
        return graph->values[value].name;
    snprintf(text, 16, "%%%u", value);
    return text;
}

/* ------------------------------------------------------------------------ */
/* Views                                                                     */

/* Elements of a block along dimension i: 1 but for the last one. */
static int64_t block_of(const clv_tensor_desc *desc, uint32_t i)
{
    return i + 1 == desc->rank ? clv_format_of(desc->dtype)->elements : 1;
}

uint64_t core_view_offset(const clv_graph *graph, clv_value value)
{
    const core_value *v = &graph->values[value];
    clv_tensor_desc base = graph->tensors[v->base];
    int64_t offset = 0;
    if (v->base == value)
        return 0;
    core_desc_set_dense(&base);
    for (uint32_t i = 0; i < base.rank; i++)
        offset += v->origin[i] / block_of(&base, i) * base.strides[i];
    return (uint64_t)offset;
}

/* A view of another type or rank than its base is of the base's bytes. */
static bool is_of_bytes(const clv_graph *graph, clv_value value)
{
    const clv_tensor_desc *desc = &graph->tensors[value];
    const clv_tensor_desc *base = &graph->tensors[graph->values[value].base];
    return desc->dtype != base->dtype || desc->rank != base->rank;
}

static bool bytes_overlap(const clv_graph *graph, clv_value a, clv_value b)
{
    const uint64_t begin_a = core_view_offset(graph, a);
    const uint64_t begin_b = core_view_offset(graph, b);
    uint64_t size_a, size_b;
    return core_desc_size(&graph->tensors[a], NULL, &size_a) ||
           core_desc_size(&graph->tensors[b], NULL, &size_b) ||
           (begin_a < begin_b + size_b && begin_b < begin_a + size_a);
}

bool core_values_overlap(const clv_graph *graph, clv_value a, clv_value b)
{
    const core_value *va = &graph->values[a], *vb = &graph->values[b];
    if (va->base != vb->base)
        return false;
    const clv_tensor_desc *da = &graph->tensors[a], *db = &graph->tensors[b];
    if (is_of_bytes(graph, a) || is_of_bytes(graph, b))
        return bytes_overlap(graph, a, b);
    for (uint32_t i = 0; i < da->rank; i++)
        if (va->origin[i] >= vb->origin[i] + db->dims[i] ||
            vb->origin[i] >= va->origin[i] + da->dims[i])
            return false;
    return true;
}

void core_desc_set_dense(clv_tensor_desc *desc)
{
    int64_t stride = clv_format_of(desc->dtype)->bytes;
    for (uint32_t i = desc->rank; i-- > 0;) {
        desc->strides[i] = stride;
        stride *= desc->dims[i] / block_of(desc, i);
    }
}

bool core_desc_is_dense(const clv_tensor_desc *desc)
{
    static const int64_t none[CLV_MAX_RANK];
    clv_tensor_desc dense = *desc;
    core_desc_set_dense(&dense);
    return !memcmp(desc->strides, none, sizeof none) ||
           !memcmp(desc->strides, dense.strides, sizeof dense.strides);
}

/* ------------------------------------------------------------------------ */
/* Ops                                                                       */

/* The output of the op for these inputs; like: see clv_graph_op(). */
static clv_status infer(const clv_graph *g, clv_op_shape *shape,
                        const clv_value *inputs, const clv_tensor_desc *like)
{
    for (uint32_t i = 0; i < shape->n_inputs && i < CLV_MAX_INPUTS; i++) {
        if (inputs[i] != CLV_NO_TENSOR && inputs[i] >= g->n_tensors)
            return clv_error(CLV_ERR_INVALID,
                             "%s: operand %u is no value of this graph",
                             clv_op_name(shape->op), i);
        shape->in[i] = clv_graph_value_desc(g, inputs[i]);
    }
    if (like)
        shape->out = *like;
    shape->out.layout = CLV_LAYOUT_LINEAR; /* plans choose others */
    clv_status status = clv_op_infer(shape);
    if (status)
        return clv_error(status, "%s", shape->text);
    const clv_tensor_desc *out = &shape->out;
    if (shape->info->output.name &&
        (status = core_shape_check(out->dtype, out->rank, out->dims, NULL)))
        clv_error_prefix(status, "%s: output", shape->info->name);
    return status;
}

clv_value clv_graph_op(clv_graph *g, uint32_t op, const clv_op_attr *attr,
                       const clv_value *inputs, uint32_t n_inputs,
                       const clv_tensor_desc *like)
{
    static const clv_op_attr zero;
    if (!usable(g) || !reserve_node(g))
        return CLV_NO_TENSOR;
    clv_op_shape shape = {.op = op,
                          .n_inputs = n_inputs,
                          .n_symbols = g->n_symbols,
                          .attr = attr ? attr : &zero};
    const clv_status status = infer(g, &shape, inputs, like);
    if (status)
        return fail(g, clv_error_prefix(status, "node %u", g->n_nodes));
    clv_node node = CLV_INIT(clv_node, CLV_STRUCT_NODE);
    node.op = op;
    node.revision = 1;
    node.n_inputs = n_inputs;
    memcpy(node.inputs, inputs, n_inputs * sizeof *inputs);
    node.attr = *shape.attr;
    if (shape.info->output.name) {
        node.outputs[0] = core_graph_add_tensor(g, &shape.out, NULL, NULL);
        if (node.outputs[0] == CLV_NO_TENSOR)
            return CLV_NO_TENSOR;
        node.n_outputs = 1;
    }
    g->nodes[g->n_nodes++] = node;
    return node.n_outputs ? node.outputs[0] : CLV_NO_TENSOR;
}

#define OP(g, op, attr, ...)                                                   \
    clv_graph_op(g, op, attr, (const clv_value[]){__VA_ARGS__},                \
                 sizeof((const clv_value[]){__VA_ARGS__}) / sizeof(clv_value), \
                 NULL)

clv_value clv_graph_get_rows(clv_graph *g, clv_value table, clv_value ids)
{
    return OP(g, CLV_OP_GET_ROWS, NULL, table, ids);
}

void clv_graph_set_rows(clv_graph *g, clv_value state, clv_value src,
                        clv_value ids)
{
    OP(g, CLV_OP_SET_ROWS, NULL, state, src, ids);
}

clv_value clv_graph_matmul(clv_graph *g, clv_value x, clv_value w,
                           clv_value bias)
{
    return OP(g, CLV_OP_MATMUL, NULL, x, w, bias);
}

clv_value clv_graph_matmul_rounded(clv_graph *g, clv_value x, clv_value w,
                                   clv_value bias, float input_scale)
{
    clv_op_attr attr = {.matmul = {input_scale}};
    return OP(g, CLV_OP_MATMUL, &attr, x, w, bias);
}

clv_value clv_graph_add(clv_graph *g, clv_value a, clv_value b)
{
    return OP(g, CLV_OP_ADD, NULL, a, b);
}

clv_value clv_graph_mul(clv_graph *g, clv_value a, clv_value b)
{
    return OP(g, CLV_OP_MUL, NULL, a, b);
}

clv_value clv_graph_silu(clv_graph *g, clv_value x)
{
    return OP(g, CLV_OP_SILU, NULL, x);
}

clv_value clv_graph_gelu(clv_graph *g, clv_value x)
{
    return OP(g, CLV_OP_GELU, NULL, x);
}

clv_value clv_graph_glu(clv_graph *g, clv_value gate, clv_value up,
                        uint32_t activation)
{
    clv_op_attr attr = {.glu = {activation}};
    return OP(g, CLV_OP_GLU, &attr, gate, up);
}

clv_value clv_graph_sigmoid(clv_graph *g, clv_value x)
{
    return OP(g, CLV_OP_SIGMOID, NULL, x);
}

clv_value clv_graph_scale(clv_graph *g, clv_value x, float factor)
{
    clv_op_attr attr = {.scale = {factor}};
    return OP(g, CLV_OP_SCALE, &attr, x);
}

clv_value clv_graph_round(clv_graph *g, clv_value x, float scale)
{
    clv_op_attr attr = {.round = {scale}};
    return OP(g, CLV_OP_ROUND, &attr, x);
}

clv_value clv_graph_excess(clv_graph *g, clv_value x, float limit)
{
    clv_op_attr attr = {.excess = {limit}};
    return OP(g, CLV_OP_EXCESS, &attr, x);
}

clv_value clv_graph_softcap(clv_graph *g, clv_value x, float cap)
{
    clv_op_attr attr = {.softcap = {cap}};
    return OP(g, CLV_OP_SOFTCAP, &attr, x);
}

clv_value clv_graph_head_norm(clv_graph *g, clv_value x, clv_value weight,
                              uint32_t head_dim, float eps)
{
    clv_op_attr attr = {.norm = {eps, head_dim}};
    return OP(g, CLV_OP_HEAD_NORM, &attr, x, weight);
}

clv_value clv_graph_sparse_mixer(clv_graph *g, clv_value x, float jitter)
{
    clv_op_attr attr = {.mixer = {jitter}};
    return OP(g, CLV_OP_SPARSE_MIXER, &attr, x);
}

clv_value clv_graph_rms_norm(clv_graph *g, clv_value x, clv_value weight,
                             float eps)
{
    clv_op_attr attr = {.norm = {.eps = eps}};
    return OP(g, CLV_OP_RMS_NORM, &attr, x, weight);
}

clv_value clv_graph_layer_norm(clv_graph *g, clv_value x, clv_value weight,
                               clv_value bias, float eps)
{
    clv_op_attr attr = {.norm = {.eps = eps}};
    return OP(g, CLV_OP_LAYER_NORM, &attr, x, weight, bias);
}

clv_value clv_graph_rope(clv_graph *g, clv_value x, clv_value pos,
                         clv_value inv_freq, uint32_t mode, uint32_t head_dim,
                         float scale)
{
    clv_op_attr attr = {.rope = {mode, head_dim, scale}};
    return OP(g, CLV_OP_ROPE, &attr, x, pos, inv_freq);
}

clv_value clv_graph_softmax(clv_graph *g, clv_value x)
{
    return OP(g, CLV_OP_SOFTMAX, NULL, x);
}

clv_value clv_graph_attention(clv_graph *g, clv_value q, clv_value k,
                              clv_value v, clv_value pos, clv_value first,
                              const clv_attention_params *params)
{
    clv_op_attr attr = {.attention = {.head_dim = params->head_dim,
                                      .scale = params->scale,
                                      .softcap = params->softcap,
                                      .window = params->window,
                                      .rows_symbol = params->rows.symbol,
                                      .seen_symbol = params->seen.symbol,
                                      .apart = params->apart}};
    if (attr.attention.scale == 0 && params->head_dim)
        attr.attention.scale = 1.0f / sqrtf((float)params->head_dim);
    return first == CLV_NO_TENSOR
               ? OP(g, CLV_OP_ATTENTION, &attr, q, k, v, pos)
               : OP(g, CLV_OP_ATTENTION, &attr, q, k, v, pos, first);
}

clv_value clv_graph_convert(clv_graph *g, clv_value x, uint32_t dtype)
{
    const clv_tensor_desc like = {.dtype = dtype};
    return clv_graph_op(g, CLV_OP_CONVERT, NULL, &x, 1, &like);
}

clv_value clv_graph_top_k(clv_graph *g, clv_value x, uint32_t k)
{
    const clv_tensor_desc like = {.dims = {0, k}};
    return clv_graph_op(g, CLV_OP_TOP_K, NULL, &x, 1, &like);
}

clv_value clv_graph_nonzero(clv_graph *g, clv_value x, uint32_t k)
{
    const clv_tensor_desc like = {.dims = {0, k}};
    return clv_graph_op(g, CLV_OP_NONZERO, NULL, &x, 1, &like);
}

clv_value clv_graph_matmul_experts(clv_graph *g, clv_value x, clv_value w,
                                   clv_value ids, clv_value scores,
                                   bool normalised)
{
    clv_op_attr attr = {.experts = {normalised}};
    return OP(g, CLV_OP_MATMUL_EXPERTS, &attr, x, w, ids, scores);
}

uint64_t core_graph_weight_bytes(const clv_graph *graph)
{
    uint64_t sum = 0, size;
    for (uint32_t v = 0; v < graph->n_tensors; v++)
        if (graph->tensors[v].usage == CLV_USAGE_WEIGHT &&
            graph->values[v].base == v &&
            !core_desc_size(&graph->tensors[v], NULL, &size))
            sum += size;
    return sum;
}
