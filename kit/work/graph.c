#include "graph.h"
#include "element.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAD_BYTE 0xa5
#define UNWRITTEN_BYTE 0xff /* NaN in every float type */
#define FORGET_BYTE 0xdd

void kit_graph_init(kit *k, kit_graph *g)
{
    kit_graph_init_on(k, kit_under_test(k), g);
}

void kit_graph_init_on(kit *k, kit_plugin *plugin, kit_graph *g)
{
    memset(g, 0, sizeof *g);
    g->k = k;
    g->plugin = plugin;
}

void kit_graph_free(kit_graph *g)
{
    for (uint32_t i = 0; i < g->n_tensors; i++)
        if (g->tensors[i].base == i)
            free(g->tensors[i].data);
    memset(g, 0, sizeof *g);
}

/* ------------------------------------------------------------------------ */
/* Building                                                                 */

static uint32_t new_tensor(kit_graph *g)
{
    if (g->n_tensors == KIT_MAX_TENSORS)
        kit_fail(g->k, "the case has more than %d tensors", KIT_MAX_TENSORS);
    return g->n_tensors++;
}

static void fill(kit_graph *g, uint32_t index)
{
    const clv_tensor_desc *d = &g->descs[index];
    kit_tensor *t = &g->tensors[index];
    int64_t block = kit_block_size(d->dtype);
    bool written =
        d->usage == CLV_USAGE_OUTPUT || d->usage == CLV_USAGE_TRANSIENT;
    if (g->empty) {
        memset(t->data, 0, t->size);
        return;
    }
    for (int64_t i = 0; i < t->rows; i++) {
        uint8_t *row = t->data + i * t->stride;
        memset(row, PAD_BYTE,
               (size_t)(i + 1 < t->rows ? t->stride : t->data + t->size - row));
        if (written)
            memset(row, UNWRITTEN_BYTE, (size_t)t->row);
        else
            for (int64_t j = 0; j < t->row; j += block)
                kit_random_block(g->k, d->dtype, row + j);
    }
}

uint32_t kit_add_tensor(kit_graph *g, uint32_t dtype, uint32_t usage, int64_t n,
                        int64_t c, int64_t pad)
{
    uint32_t index = new_tensor(g);
    clv_tensor_desc *d = &g->descs[index];
    kit_tensor *t = &g->tensors[index];
    *d = (clv_tensor_desc)CLV_INIT(clv_tensor_desc, CLV_STRUCT_TENSOR_DESC);
    d->dtype = dtype;
    d->usage = usage;
    d->rank = n ? 2 : 1;
    d->dims[0] = n ? n : c;
    d->dims[1] = n ? c : 0;
    *t = (kit_tensor){
        .base = index, .rows = n ? n : 1, .row = kit_row_bytes(dtype, c)};
    t->stride = t->row + (n ? pad : 0);
    if (t->stride != t->row) {
        d->strides[0] = t->stride;
        d->strides[1] = kit_block_size(dtype);
    }
    t->size = (uint64_t)(t->stride * (t->rows - 1) + t->row);
    t->data = malloc(t->size + 1);
    if (!t->data)
        kit_fail(g->k,
                 "the kit has no memory for a tensor of %" PRIu64 " bytes",
                 t->size);
    fill(g, index);
    return index;
}

uint32_t kit_add_view(kit_graph *g, uint32_t base, int64_t row, int64_t n,
                      int64_t column, int64_t c)
{
    uint32_t index = new_tensor(g);
    clv_tensor_desc *d = &g->descs[index];
    const kit_tensor *of = &g->tensors[base];
    *d = g->descs[base];
    d->dims[0] = n;
    d->dims[1] = c;
    d->strides[0] = of->stride;
    d->strides[1] = kit_block_size(d->dtype);
    kit_tensor *t = &g->tensors[index];
    int64_t offset = row * of->stride + kit_row_bytes(d->dtype, column);
    *t = (kit_tensor){.data = of->data + offset,
                      .base = of->base,
                      .offset = of->offset + (uint64_t)offset,
                      .rows = n,
                      .row = kit_row_bytes(d->dtype, c),
                      .stride = of->stride};
    t->size = (uint64_t)(t->stride * (n - 1) + t->row);
    if (d->rank != 2 || column % kit_block_length(d->dtype) ||
        t->offset + t->size > g->tensors[t->base].size)
        kit_fail(g->k, "the case's view of tensor %u does not fit it", base);
    return index;
}

clv_node *kit_add_node(kit_graph *g, uint32_t op, const uint32_t *inputs,
                       uint32_t n, uint32_t output)
{
    if (g->n_nodes == KIT_MAX_NODES || n > CLV_MAX_INPUTS)
        kit_fail(g->k, "the case has more than %d nodes", KIT_MAX_NODES);
    clv_node *node = &g->nodes[g->n_nodes++];
    *node = (clv_node)CLV_INIT(clv_node, CLV_STRUCT_NODE);
    node->op = op;
    node->revision = 1;
    node->n_inputs = n;
    node->n_outputs = output != CLV_NO_TENSOR;
    node->outputs[0] = output;
    memcpy(node->inputs, inputs, n * sizeof *inputs);
    return node;
}

uint32_t kit_make_symbol(kit_graph *g, int64_t min, int64_t max, int64_t value)
{
    if (g->n_symbols == CLV_MAX_SYMBOLS || value < min || value > max)
        kit_fail(g->k, "the case's symbol is not one");
    g->ranges[g->n_symbols] = (clv_symbol_range){min, max};
    g->values[g->n_symbols] = value;
    return g->n_symbols++;
}

void kit_set_symbol(kit_graph *g, uint32_t tensor, uint32_t axis,
                    uint32_t symbol)
{
    clv_tensor_desc *d = &g->descs[tensor];
    if (symbol >= g->n_symbols || d->dims[axis] != g->ranges[symbol].max)
        kit_fail(g->k, "the case's tensor %u has not the symbol's upper bound",
                 tensor);
    d->symbols[axis] = symbol + 1;
}

clv_subgraph kit_subgraph(const kit_graph *g)
{
    clv_subgraph s = CLV_INIT(clv_subgraph, CLV_STRUCT_SUBGRAPH);
    s.tensors = g->descs;
    s.nodes = g->nodes;
    s.symbols = g->ranges;
    s.n_tensors = g->n_tensors;
    s.tensor_stride = sizeof *g->descs;
    s.n_nodes = g->n_nodes;
    s.node_stride = sizeof *g->nodes;
    s.n_symbols = g->n_symbols;
    return s;
}

/* ------------------------------------------------------------------------ */
/* Elements                                                                 */

double kit_get(const kit_graph *g, uint32_t t, int64_t i, int64_t j)
{
    const kit_tensor *tensor = &g->tensors[t];
    return kit_decode(g->descs[t].dtype, tensor->data + i * tensor->stride, j);
}

void kit_set(kit_graph *g, uint32_t t, int64_t i, int64_t j, double value)
{
    const kit_tensor *tensor = &g->tensors[t];
    if (!kit_encode(g->descs[t].dtype, tensor->data + i * tensor->stride, j,
                    value))
        kit_fail(g->k, "the case sets an element of %s, which cannot be",
                 kit_dtype_name(g->descs[t].dtype));
}

/* ------------------------------------------------------------------------ */
/* Capabilities                                                             */

static bool is_alignment(uint32_t n)
{
    return !(n & (n - 1));
}

static void check_limits(kit_graph *g, uint32_t i, const clv_op_caps *caps)
{
    const char *op = clv_op_name(g->nodes[i].op);
    const clv_axis_limit *axes[] = {&caps->rows, &caps->sequence,
                                    &caps->channels};
    for (int a = 0; a < 3; a++)
        KIT_CHECK(g->k,
                  axes[a]->min >= 0 && axes[a]->max >= 0 &&
                      axes[a]->multiple >= 0 &&
                      (!axes[a]->max || axes[a]->min <= axes[a]->max),
                  "op_caps: node %u (%s): an axis of %lld to %lld in multiples "
                  "of %lld",
                  i, op, (long long)axes[a]->min, (long long)axes[a]->max,
                  (long long)axes[a]->multiple);
    for (int a = 0; a < 4; a++)
        KIT_CHECK(g->k, caps->split_granularity[a] >= 0,
                  "op_caps: node %u (%s): a split granularity of %lld", i, op,
                  (long long)caps->split_granularity[a]);
    KIT_CHECK(g->k,
              is_alignment(caps->pointer_align) &&
                  is_alignment(caps->stride_align),
              "op_caps: node %u (%s): alignments of %u and %u, not powers of "
              "two",
              i, op, caps->pointer_align, caps->stride_align);
    for (uint32_t s = 0; caps->static_shapes && s < caps->n_static; s++)
        KIT_CHECK(g->k, caps->static_shapes[s] > 0,
                  "op_caps: node %u (%s): a static shape of %lld rows", i, op,
                  (long long)caps->static_shapes[s]);
}

static void check_variants(kit_graph *g, uint32_t i, const clv_op_caps *caps)
{
    const char *op = clv_op_name(g->nodes[i].op);
    KIT_CHECK(g->k, caps->n_variants <= CLV_MAX_VARIANTS,
              "op_caps: node %u (%s): %u variants", i, op, caps->n_variants);
    for (uint32_t v = 0; v < caps->n_variants; v++) {
        const clv_variant *variant = &caps->variants[v];
        const size_t length = strnlen(variant->name, sizeof variant->name);
        KIT_CHECK(g->k, variant->id,
                  "op_caps: node %u (%s): a variant has the id 0, which is the "
                  "plain one's",
                  i, op);
        KIT_CHECK(g->k,
                  length && length < sizeof variant->name &&
                      strspn(variant->name,
                             "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTU"
                             "VWXYZ0123456789-_.") == length,
                  "op_caps: node %u (%s): variant %u has no proper name", i, op,
                  variant->id);
        KIT_CHECK(g->k, variant->error_class <= CLV_ERROR_Q8_TENSOR,
                  "op_caps: node %u (%s): error class %u of variant '%s' is "
                  "none",
                  i, op, variant->error_class, variant->name);
        for (uint32_t w = 0; w < v; w++)
            KIT_CHECK(g->k,
                      caps->variants[w].id != variant->id &&
                          strcmp(caps->variants[w].name, variant->name),
                      "op_caps: node %u (%s): two variants of id %u or name "
                      "'%s'",
                      i, op, variant->id, variant->name);
    }
}

/* Of the inputs that exist: the graph may be malformed. */
static void check_layouts(kit_graph *g, uint32_t i, const clv_op_caps *caps)
{
    const clv_node *node = &g->nodes[i];
    for (uint32_t j = 0; j < node->n_inputs && j < CLV_MAX_INPUTS; j++)
        if (node->inputs[j] < g->n_tensors &&
            g->descs[node->inputs[j]].usage == CLV_USAGE_WEIGHT)
            KIT_CHECK(g->k,
                      caps->layouts[j] == CLV_LAYOUT_LINEAR ||
                          caps->layouts[j] == CLV_LAYOUT_PRIVATE,
                      "op_caps: node %u (%s): layout %u is preferred for input "
                      "%u, a weight",
                      i, clv_op_name(node->op), caps->layouts[j], j);
    KIT_CHECK(g->k,
              is_alignment(caps->private_rows) &&
                  caps->private_rows <= CLV_MAX_PRIVATE_ROWS,
              "op_caps: node %u (%s): blocks of %u rows, not a power of two up "
              "to %u",
              i, clv_op_name(node->op), caps->private_rows,
              CLV_MAX_PRIVATE_ROWS);
}

static void check_answer(kit_graph *g, uint32_t i, const clv_op_caps *caps)
{
    const char *op = clv_op_name(g->nodes[i].op);
    KIT_CHECK(g->k, caps->answer <= CLV_ANSWER_STATIC,
              "op_caps: node %u (%s): answer %u is none", i, op, caps->answer);
    KIT_CHECK(g->k, memchr(caps->reason, 0, sizeof caps->reason),
              "op_caps: node %u (%s): the reason does not end", i, op);
    KIT_CHECK(g->k, caps->answer != CLV_ANSWER_NO || caps->reason[0],
              "op_caps: node %u (%s): a no without a reason", i, op);
    KIT_CHECK(g->k, caps->error_class <= CLV_ERROR_Q8_TENSOR,
              "op_caps: node %u (%s): error class %u is none", i, op,
              caps->error_class);
    KIT_CHECK(g->k,
              caps->answer != CLV_ANSWER_STATIC ||
                  (caps->static_shapes && caps->n_static),
              "op_caps: node %u (%s): static shapes, but none are given", i,
              op);
    check_limits(g, i, caps);
    check_variants(g, i, caps);
    if (caps->answer != CLV_ANSWER_NO)
        check_layouts(g, i, caps);
}

void kit_forget(void *data, size_t size)
{
    memset(data, FORGET_BYTE, size);
    __asm__ volatile("" : : "r"(data) : "memory"); /* or it is left out */
}

void kit_caps(kit_graph *g, clv_op_caps *out)
{
    kit_plugin *p = g->plugin;
    /* Lent for the call, and rubbish after it. */
    kit_graph *lent = malloc(sizeof *lent);
    if (!lent)
        kit_fail(g->k, "the kit has no memory for a graph");
    *lent = *g;
    for (uint32_t i = 0; i < g->n_nodes; i++)
        out[i] = (clv_op_caps)CLV_INIT(clv_op_caps, CLV_STRUCT_OP_CAPS);
    clv_subgraph s = kit_subgraph(lent);
    KIT_OK(g->k, p->api.op_caps(p->dev, &s, out, sizeof *out), "op_caps");
    kit_forget(lent, sizeof *lent);
    free(lent);
    for (uint32_t i = 0; i < g->n_nodes; i++)
        check_answer(g, i, &out[i]);
}

/* The activation rows of a node, which static shapes are about. */
static int64_t sequence_of(const kit_graph *g, const clv_node *node)
{
    const clv_tensor_desc *d =
        &g->descs[node->inputs[clv_op_sequence_input(node->op)]];
    return d->rank > 1 || d->dtype == CLV_DTYPE_I32 ? d->dims[0] : 1;
}

static bool is_static_shape(const kit_graph *g, uint32_t node,
                            const clv_op_caps *caps)
{
    for (uint32_t i = 0; i < g->n_symbols; i++)
        if (g->ranges[i].min != g->ranges[i].max)
            return false;
    for (uint32_t i = 0; i < caps->n_static; i++)
        if (caps->static_shapes[i] == sequence_of(g, &g->nodes[node]))
            return true;
    return false;
}

bool kit_takes(kit_graph *g, char reason[KIT_TEXT_SIZE])
{
    clv_op_caps caps[KIT_MAX_NODES];
    kit_caps(g, caps);
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        const char *why = caps[i].answer == CLV_ANSWER_NO ? caps[i].reason
                          : caps[i].answer == CLV_ANSWER_STATIC &&
                                  !is_static_shape(g, i, &caps[i])
                              ? "only in other static shapes"
                              : NULL;
        if (why) {
            snprintf(reason, KIT_TEXT_SIZE, "not taken: %s: %.300s",
                     clv_op_name(g->nodes[i].op), why);
            return false;
        }
    }
    return true;
}
