#include "graph.h"
#include "shape.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Keeps the thread's message as the graph's. */
static void fail(clv_graph *g, clv_status status)
{
    if (g->status)
        return;
    g->status = status;
    snprintf(g->message, sizeof g->message, "%s", clv_last_error());
}

static bool usable(clv_graph *g)
{
    if (g && !g->status && g->frozen)
        fail(g, clv_error(CLV_ERR_INVALID,
                          "the graph is planned and can no longer change; "
                          "build a new one"));
    return g && !g->status;
}

static bool grow(void **array, uint32_t capacity, size_t element)
{
    void *grown = reallocarray(*array, capacity, element);
    if (grown)
        *array = grown;
    return grown != NULL;
}

static bool reserve_tensor(clv_graph *g)
{
    if (g->n_tensors < g->tensors_capacity)
        return true;
    uint32_t capacity = g->tensors_capacity ? g->tensors_capacity * 2 : 64;
    if (capacity > INT32_MAX ||
        !grow((void **)&g->tensors, capacity, sizeof *g->tensors) ||
        !grow((void **)&g->values, capacity, sizeof *g->values)) {
        fail(g, clv_error(CLV_ERR_NO_MEMORY,
                          "no memory for a graph of %u "
                          "tensors",
                          capacity));
        return false;
    }
    g->tensors_capacity = capacity;
    return true;
}

static bool reserve_node(clv_graph *g)
{
    if (g->n_nodes < g->nodes_capacity)
        return true;
    uint32_t capacity = g->nodes_capacity ? g->nodes_capacity * 2 : 64;
    if (capacity > INT32_MAX ||
        !grow((void **)&g->nodes, capacity, sizeof *g->nodes)) {
        fail(g, clv_error(CLV_ERR_NO_MEMORY,
                          "no memory for a graph of %u "
                          "nodes",
                          capacity));
        return false;
    }
    g->nodes_capacity = capacity;
    return true;
}

clv_value core_graph_add_tensor(clv_graph *g, const clv_tensor_desc *desc,
                                const char *name, clv_tensor *weight)
{
    if (!reserve_tensor(g))
        return CLV_NO_TENSOR;
    core_value value = {.weight = weight, .base = g->n_tensors};
    if (name && !(value.name = strdup(name))) {
        fail(g, clv_error(CLV_ERR_NO_MEMORY, "no memory for a name"));
        return CLV_NO_TENSOR;
    }
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
        return clv_error(CLV_ERR_NO_MEMORY, "no memory for a graph");
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
    if (graph->n_symbols == CLV_MAX_SYMBOLS) {
        fail(graph, clv_error(CLV_ERR_LIMIT,
                              "symbol '%s' is one more than the "
                              "%d a graph can have",
                              name, CLV_MAX_SYMBOLS));
        return none;
    }
    if (min < 1 || max < min) {
        fail(graph, clv_error(CLV_ERR_INVALID,
                              "symbol '%s': the range "
                              "%lld..%lld is empty or starts below 1",
                              name, (long long)min, (long long)max));
        return none;
    }
    char *copy = strdup(name);
    if (!copy) {
        fail(graph, clv_error(CLV_ERR_NO_MEMORY, "no memory for a name"));
        return none;
    }
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
                             "dimension %u is no symbol of "
                             "this graph",
                             i);
        if (symbol && i)
            return clv_error(CLV_ERR_INVALID,
                             "dimension %u is a symbol; only "
                             "the outermost can be",
                             i);
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
    if (status) {
        fail(graph, clv_error_prefix(status, "input '%s'", name));
        return CLV_NO_TENSOR;
    }
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
    if (!tensor) {
        fail(graph,
             clv_error(CLV_ERR_INVALID, "weight '%s' has no tensor", name));
        return CLV_NO_TENSOR;
    }
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
    if (status) {
        fail(graph, clv_error_prefix(status, "state '%s'", name));
        return CLV_NO_TENSOR;
    }
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
    if (value >= graph->n_tensors) {
        fail(graph, clv_error(CLV_ERR_INVALID,
                              "output '%s' is no value of "
                              "this graph",
                              name));
        return;
    }
    clv_tensor_desc *desc = &graph->tensors[value];
    if (desc->usage != CLV_USAGE_TRANSIENT) {
        fail(graph, clv_error(CLV_ERR_INVALID,
                              "output '%s' is an input, "
                              "weight, state or output already; only the "
                              "result of an op can become one",
                              name));
        return;
    }
    char *copy = strdup(name);
    if (!copy) {
        fail(graph, clv_error(CLV_ERR_NO_MEMORY, "no memory for a name"));
        return;
    }
    free(graph->values[value].name);
    graph->values[value].name = copy;
    desc->usage = CLV_USAGE_OUTPUT;
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
/* Ops                                                                       */

/* Appends a node and its output, if the op has one. wanted: what the op leaves
 * open of it, the dtype of CONVERT, the columns of TOP_K; or NULL. */
static clv_value add_node(clv_graph *g, uint32_t op, const clv_op_attr *attr,
                          const clv_value *inputs, uint32_t n_inputs,
                          const clv_tensor_desc *wanted)
{
    const clv_tensor_desc *in[CLV_MAX_INPUTS];
    clv_tensor_desc out = wanted ? *wanted : (clv_tensor_desc){.dtype = 0};
    bool has_output;
    if (!usable(g) || !reserve_node(g))
        return CLV_NO_TENSOR;
    for (uint32_t i = 0; i < n_inputs; i++) {
        if (inputs[i] != CLV_NO_TENSOR && inputs[i] >= g->n_tensors) {
            fail(g, clv_error(CLV_ERR_INVALID,
                              "%s: operand %u is no value of "
                              "this graph",
                              core_op_name(op), i));
            return CLV_NO_TENSOR;
        }
        in[i] = clv_graph_value_desc(g, inputs[i]);
    }
    clv_status status =
        core_shape_infer(op, attr, in, n_inputs, &out, &has_output);
    if (status) {
        fail(g, clv_error_prefix(status, "node %u", g->n_nodes));
        return CLV_NO_TENSOR;
    }
    clv_node node = CLV_INIT(clv_node, CLV_STRUCT_NODE);
    node.op = op;
    node.revision = 1;
    node.n_inputs = n_inputs;
    memcpy(node.inputs, inputs, n_inputs * sizeof *inputs);
    node.attr = *attr;
    clv_value value = CLV_NO_TENSOR;
    if (has_output) {
        value = core_graph_add_tensor(g, &out, NULL, NULL);
        if (value == CLV_NO_TENSOR)
            return value;
        node.n_outputs = 1;
        node.outputs[0] = value;
    }
    g->nodes[g->n_nodes++] = node;
    return value;
}

#define OP(g, op, attr, ...)                                                   \
    add_node(g, op, attr, (const clv_value[]){__VA_ARGS__},                    \
             sizeof((const clv_value[]){__VA_ARGS__}) / sizeof(clv_value),     \
             NULL)

static const clv_op_attr no_attr;

clv_value clv_graph_get_rows(clv_graph *g, clv_value table, clv_value ids)
{
    return OP(g, CLV_OP_GET_ROWS, &no_attr, table, ids);
}

void clv_graph_set_rows(clv_graph *g, clv_value state, clv_value src,
                        clv_value ids)
{
    OP(g, CLV_OP_SET_ROWS, &no_attr, state, src, ids);
}

clv_value clv_graph_matmul(clv_graph *g, clv_value x, clv_value w,
                           clv_value bias)
{
    return OP(g, CLV_OP_MATMUL, &no_attr, x, w, bias);
}

clv_value clv_graph_add(clv_graph *g, clv_value a, clv_value b)
{
    return OP(g, CLV_OP_ADD, &no_attr, a, b);
}

clv_value clv_graph_mul(clv_graph *g, clv_value a, clv_value b)
{
    return OP(g, CLV_OP_MUL, &no_attr, a, b);
}

clv_value clv_graph_silu(clv_graph *g, clv_value x)
{
    return OP(g, CLV_OP_SILU, &no_attr, x);
}

clv_value clv_graph_gelu(clv_graph *g, clv_value x)
{
    return OP(g, CLV_OP_GELU, &no_attr, x);
}

clv_value clv_graph_glu(clv_graph *g, clv_value gate, clv_value up,
                        uint32_t activation)
{
    clv_op_attr attr = {.glu = {activation}};
    return OP(g, CLV_OP_GLU, &attr, gate, up);
}

clv_value clv_graph_rms_norm(clv_graph *g, clv_value x, clv_value weight,
                             float eps)
{
    clv_op_attr attr = {.norm = {eps}};
    return OP(g, CLV_OP_RMS_NORM, &attr, x, weight);
}

clv_value clv_graph_layer_norm(clv_graph *g, clv_value x, clv_value weight,
                               clv_value bias, float eps)
{
    clv_op_attr attr = {.norm = {eps}};
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
    return OP(g, CLV_OP_SOFTMAX, &no_attr, x);
}

clv_value clv_graph_attention(clv_graph *g, clv_value q, clv_value k,
                              clv_value v, clv_value pos,
                              const clv_attention_params *params)
{
    clv_op_attr attr = {.attention = {.head_dim = params->head_dim,
                                      .scale = params->scale,
                                      .softcap = params->softcap,
                                      .window = params->window,
                                      .rows_symbol = params->rows.symbol}};
    if (!usable(g))
        return CLV_NO_TENSOR;
    if (params->rows.symbol > g->n_symbols) {
        fail(g, clv_error(CLV_ERR_INVALID, "attention: rows is no symbol of "
                                           "this graph"));
        return CLV_NO_TENSOR;
    }
    if (attr.attention.scale == 0 && params->head_dim)
        attr.attention.scale = 1.0f / sqrtf((float)params->head_dim);
    return OP(g, CLV_OP_ATTENTION, &attr, q, k, v, pos);
}

clv_value clv_graph_convert(clv_graph *g, clv_value x, uint32_t dtype)
{
    const clv_tensor_desc wanted = {.dtype = dtype};
    return add_node(g, CLV_OP_CONVERT, &no_attr, &x, 1, &wanted);
}

clv_value clv_graph_top_k(clv_graph *g, clv_value x, uint32_t k)
{
    const clv_tensor_desc wanted = {.dims = {0, k}};
    return add_node(g, CLV_OP_TOP_K, &no_attr, &x, 1, &wanted);
}

clv_value clv_graph_matmul_experts(clv_graph *g, clv_value x, clv_value w,
                                   clv_value ids, clv_value scores,
                                   bool normalised)
{
    clv_op_attr attr = {.experts = {normalised}};
    return OP(g, CLV_OP_MATMUL_EXPERTS, &attr, x, w, ids, scores);
}
