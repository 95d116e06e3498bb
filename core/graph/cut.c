#include "pieces.h"
#include "slices.h"
#include "../base/error.h"
#include "../base/grow.h"

#include <stdlib.h>
#include <string.h>

/* The element range of a dimension. */
typedef core_range span;

/* What a device computes of a value for itself. */
typedef struct replica {
    clv_value own;
    uint32_t device;
    uint32_t older; /* of the same value, or NO_REPLICA */
} replica;

#define NO_REPLICA 0xffffffffu

typedef struct cutter {
    const clv_graph *source;
    core_cut *out;
    uint32_t capacity;     /* of out's arrays */
    clv_value *last_view;  /* newest view of each value of the cut */
    clv_value *older_view; /* chain of those views */
    uint32_t last_capacity, views_capacity;
    replica *replicas;
    uint32_t *last_replica; /* [source->n_tensors] newest one of each value */
    uint32_t n_replicas, replica_capacity;
    const core_piece *full;   /* all pieces, ranges in full; or NULL: */
    const core_slice *slices; /* they are tried one by one */
    clv_value *partials;      /* where they write; CLV_NO_TENSOR: into their
                                 part of the output */
} cutter;

/* ------------------------------------------------------------------------ */
/* Views                                                                     */

/* A value without views. */
static clv_value add_value(cutter *c, const clv_tensor_desc *desc,
                           const char *name, clv_tensor *weight)
{
    const clv_value value =
        core_graph_add_tensor(c->out->graph, desc, name, weight);
    if (value == CLV_NO_TENSOR ||
        !core_grow(&c->last_view, &c->last_capacity, value + 1ull,
                   sizeof *c->last_view))
        return CLV_NO_TENSOR;
    c->last_view[value] = CLV_NO_TENSOR;
    return value;
}

static bool copy_source(cutter *c)
{
    clv_graph *g = c->out->graph;
    const clv_graph *s = c->source;
    for (uint32_t i = 0; i < s->n_tensors; i++)
        if (add_value(c, &s->tensors[i], s->values[i].name,
                      s->values[i].weight) == CLV_NO_TENSOR)
            return false;
    for (uint32_t i = 0; i < s->n_symbols; i++) {
        g->symbols[i] = s->symbols[i];
        if (!(g->symbol_names[i] = strdup(s->symbol_names[i])))
            return false;
        g->n_symbols++;
    }
    return true;
}

static clv_value find_view(const cutter *c, clv_value base, span first,
                           span last)
{
    const clv_graph *g = c->out->graph;
    clv_value v = c->last_view[base];
    for (; v != CLV_NO_TENSOR; v = c->older_view[v]) {
        const clv_tensor_desc *d = &g->tensors[v];
        const int64_t *origin = g->values[v].origin;
        uint32_t end = d->rank - 1;
        if (origin[end] == last.begin &&
            d->dims[end] == last.end - last.begin &&
            (!end || (origin[0] == first.begin &&
                      d->dims[0] == first.end - first.begin)))
            break;
    }
    return v;
}

static bool note_view(cutter *c, clv_value base, clv_value view)
{
    if (!core_grow(&c->older_view, &c->views_capacity, view + 1ull,
                   sizeof *c->older_view))
        return false;
    c->older_view[view] = c->last_view[base];
    c->last_view[base] = view;
    return true;
}

static clv_value view_of(cutter *c, clv_value base, span first, span last);

/* The scales that belong to rows and columns of a quantised weight. */
static uint32_t view_scales(cutter *c, const clv_tensor_desc *desc, span first,
                            span last)
{
    clv_value scales = desc->quant_scales - 1;
    span whole = {0, 0};
    if (desc->quant == CLV_QUANT_PER_CHANNEL)
        return 1 + view_of(c, scales, whole, first);
    if (desc->quant == CLV_QUANT_PER_GROUP && desc->quant_group) {
        span groups = {last.begin / desc->quant_group,
                       (last.end + desc->quant_group - 1) / desc->quant_group};
        return 1 + view_of(c, scales, first, groups);
    }
    return desc->quant_scales;
}

/* The box of a value of the source graph: first of its outermost dimension,
 * last of its last one (of both for rank 1); end 0: the whole. CLV_NO_TENSOR
 * when memory runs out. */
static clv_value view_of(cutter *c, clv_value base, span first, span last)
{
    clv_graph *g = c->out->graph;
    clv_tensor_desc desc = g->tensors[base];
    uint32_t end = desc.rank - 1;
    if (!last.end)
        last.end = desc.dims[end];
    if (!first.end)
        first.end = desc.dims[0];
    bool whole_first = !end || first.end - first.begin == desc.dims[0];
    if (whole_first && last.end - last.begin == desc.dims[end])
        return base;
    clv_value view = find_view(c, base, first, last);
    if (view != CLV_NO_TENSOR)
        return view;
    if (desc.quant_scales) {
        desc.quant_scales = view_scales(c, &desc, first, last);
        if (!desc.quant_scales) /* 1 + CLV_NO_TENSOR */
            return CLV_NO_TENSOR;
    }
    core_desc_set_dense(&desc);
    if (!whole_first) {
        desc.dims[0] = first.end - first.begin;
        desc.symbols[0] = 0;
    }
    if (!end && last.end - last.begin != desc.dims[0])
        desc.symbols[0] = 0;
    desc.dims[end] = last.end - last.begin;
    view = core_graph_add_tensor(g, &desc, NULL, g->values[base].weight);
    if (view == CLV_NO_TENSOR || !note_view(c, base, view))
        return CLV_NO_TENSOR;
    core_value *value = &g->values[view];
    value->base = base;
    value->origin[0] = whole_first ? 0 : first.begin;
    value->origin[end] = last.begin;
    return view;
}

/* ------------------------------------------------------------------------ */
/* Nodes                                                                     */

static bool add_node(cutter *c, const clv_node *node, uint32_t device,
                     uint32_t piece, uint32_t source)
{
    core_cut *out = c->out;
    uint32_t n = out->graph->n_nodes;
    uint32_t devices = c->capacity, pieces = c->capacity;
    if (!core_grow(&out->devices, &devices, n + 1ull, sizeof *out->devices) ||
        !core_grow(&out->pieces, &pieces, n + 1ull, sizeof *out->pieces) ||
        !core_grow(&out->sources, &c->capacity, n + 1ull, sizeof *out->sources))
        return false;
    out->devices[n] = device;
    out->pieces[n] = piece;
    out->sources[n] = source;
    return core_graph_add_node(out->graph, node) != NULL;
}

/* An ADD node; false too where a value is CLV_NO_TENSOR. */
static bool add_sum(cutter *c, clv_value a, clv_value b, clv_value sum,
                    const core_piece *full, uint32_t piece)
{
    clv_node node = CLV_INIT(clv_node, CLV_STRUCT_NODE);
    node.op = CLV_OP_ADD;
    node.revision = 1;
    node.n_inputs = 2;
    node.n_outputs = 1;
    node.inputs[0] = a;
    node.inputs[1] = b;
    node.outputs[0] = sum;
    return b != CLV_NO_TENSOR && sum != CLV_NO_TENSOR &&
           add_node(c, &node, full->device, piece, full->node);
}

/* The value as the device has it: its replica, if there is one. */
static clv_value value_on(const cutter *c, clv_value value, uint32_t device)
{
    uint32_t at = c->last_replica[value];
    while (at != NO_REPLICA && c->replicas[at].device != device)
        at = c->replicas[at].older;
    return at == NO_REPLICA ? value : c->replicas[at].own;
}

static clv_value piece_operand(cutter *c, const core_piece *full,
                               uint32_t index)
{
    const clv_node *node = &c->source->nodes[full->node];
    core_range box[2];
    core_cut_box(c->source, full, index, box);
    return view_of(c, value_on(c, core_piece_value(node, index), full->device),
                   box[0], box[1]);
}

/* What a piece reads of a slice. */
static clv_value slice_operand(cutter *c, const core_piece *full,
                               uint32_t index, uint32_t slice)
{
    const core_piece *from = &c->full[slice];
    core_range box[2], has[2];
    if (c->partials[slice] == CLV_NO_TENSOR)
        return piece_operand(c, full, index);
    core_cut_box(c->source, full, index, box);
    core_cut_box(c->source, from, c->source->nodes[from->node].n_inputs, has);
    for (int i = 0; i < 2; i++) {
        box[i].begin -= has[i].begin;
        box[i].end -= has[i].begin;
    }
    return view_of(c, c->partials[slice], box[0], box[1]);
}

/* A value of the same shape, which lies by itself. */
static clv_value add_like(cutter *c, clv_value like)
{
    if (like == CLV_NO_TENSOR)
        return CLV_NO_TENSOR;
    clv_tensor_desc desc = c->out->graph->tensors[like];
    desc.usage = CLV_USAGE_TRANSIENT;
    memset(desc.strides, 0, sizeof desc.strides);
    return add_value(c, &desc, NULL, NULL);
}

/* A value like the piece's part of the output, for a partial sum. */
static clv_value add_partial(cutter *c, const core_piece *full)
{
    const clv_node *node = &c->source->nodes[full->node];
    return add_like(c, piece_operand(c, full, node->n_inputs));
}

/* From now on the piece's device has a replica of the node's result. */
static bool add_replica(cutter *c, const core_piece *full)
{
    const clv_value value = c->source->nodes[full->node].outputs[0];
    const clv_value own = add_like(c, value);
    if (own == CLV_NO_TENSOR ||
        !core_grow(&c->replicas, &c->replica_capacity, c->n_replicas + 1ull,
                   sizeof *c->replicas))
        return false;
    c->replicas[c->n_replicas] =
        (replica){own, full->device, c->last_replica[value]};
    c->last_replica[value] = c->n_replicas++;
    return true;
}

/* The range of experts of a piece. */
static void set_experts(const clv_graph *graph, const core_piece *full,
                        clv_node *node)
{
    if (clv_op_class_of(node->op) != CLV_CLASS_EXPERTS ||
        !core_piece_is_cut(graph, full, CORE_AXIS_EXPERTS))
        return;
    const int64_t n = graph->tensors[node->inputs[1]].dims[0];
    node->attr.experts.total = (int32_t)clv_experts_total(&node->attr, n);
    node->attr.experts.first += (int32_t)full->ranges[CORE_AXIS_EXPERTS].begin;
}

/* Adds the node of a piece; partial: where it writes, CLV_NO_TENSOR for its
 * part of the output itself. */
static bool add_piece(cutter *c, const core_piece *full, uint32_t index,
                      clv_value partial)
{
    clv_node node = c->source->nodes[full->node];
    set_experts(c->source, full, &node);
    node.variant = full->variant;
    for (uint32_t i = 0; i < node.n_inputs; i++) {
        if (node.inputs[i] == CLV_NO_TENSOR)
            continue;
        const uint32_t slice =
            c->slices && i < 2 ? c->slices[index].from[i] : CORE_NO_SLICE;
        node.inputs[i] = slice == CORE_NO_SLICE
                             ? piece_operand(c, full, i)
                             : slice_operand(c, full, i, slice);
        if (node.inputs[i] == CLV_NO_TENSOR)
            return false;
    }
    /* Only the first of several partial sums adds the bias. */
    if (full->ranges[CORE_AXIS_CHANNELS].begin)
        for (uint32_t i = clv_op_find(node.op)->n_required; i < node.n_inputs;
             i++)
            node.inputs[i] = CLV_NO_TENSOR;
    if (node.n_outputs) {
        const clv_node *source = &c->source->nodes[full->node];
        node.outputs[0] = partial != CLV_NO_TENSOR
                              ? partial
                              : piece_operand(c, full, source->n_inputs);
        if (node.outputs[0] == CLV_NO_TENSOR)
            return false;
    }
    return add_node(c, &node, full->device, index, full->node);
}

/* Whether the output of piece i is added to that of another. */
static bool is_added(const cutter *c, uint32_t i)
{
    return c->slices[i].valid.end ? c->slices[i].added
                                  : c->partials[i] != CLV_NO_TENSOR;
}

/* Adds the partial sums of pieces first .. end - 1 that are of the same output
 * as the first of them, on the device of piece `adder`. */
static bool add_sums(cutter *c, uint32_t first, uint32_t end, uint32_t adder)
{
    const core_piece *full = c->full, *on = &full[adder];
    const clv_node *source = &c->source->nodes[full[first].node];
    uint32_t last = first;
    for (uint32_t i = first + 1; i < end; i++)
        if (is_added(c, i) && core_piece_same_output(&full[first], &full[i]))
            last = i;
    clv_value sum = c->partials[first];
    for (uint32_t i = first + 1; i <= last; i++) {
        if (!is_added(c, i) || !core_piece_same_output(&full[first], &full[i]))
            continue;
        clv_value to = i == last ? piece_operand(c, on, source->n_inputs)
                                 : add_partial(c, on);
        if (!add_sum(c, sum, c->partials[i], to, on, CORE_NO_PIECE))
            return false;
        sum = to;
    }
    return true;
}

static bool first_of_output(const cutter *c, uint32_t first, uint32_t i)
{
    for (uint32_t j = first; j < i; j++)
        if (is_added(c, j) && core_piece_same_output(&c->full[i], &c->full[j]))
            return false;
    return true;
}

/* Pieces first .. end - 1, which are those of a node. */
static bool cut_node(cutter *c, uint32_t first, uint32_t end)
{
    const bool whole = core_piece_is_all(c->source, &c->full[first]);
    for (uint32_t i = first; i < end; i++) {
        if (whole && i > first && !add_replica(c, &c->full[i]))
            return false;
        const bool apart = c->slices[i].valid.end
                               ? !c->slices[i].whole
                               : core_piece_is_partial(c->source, &c->full[i]);
        c->partials[i] = apart ? add_partial(c, &c->full[i]) : CLV_NO_TENSOR;
        if ((apart && c->partials[i] == CLV_NO_TENSOR) ||
            !add_piece(c, &c->full[i], i, c->partials[i]))
            return false;
    }
    for (uint32_t i = first; i < end; i++)
        if (is_added(c, i) && first_of_output(c, first, i) &&
            !add_sums(c, i, end, i))
            return false;
    for (uint32_t i = first + 1; i < end; i++)
        if (c->full[i].adds &&
            (!add_replica(c, &c->full[i]) || !add_sums(c, first, end, i)))
            return false;
    return true;
}

static clv_status cut_all(cutter *c, uint32_t n)
{
    for (uint32_t at = 0, end; at < n; at = end) {
        for (end = at; end < n && c->full[end].node == c->full[at].node;)
            end++;
        if (!cut_node(c, at, end))
            return core_no_memory("to cut a graph");
    }
    return CLV_OK;
}

/* Adds a piece by itself, and the node that would add its partial sum to
 * another. */
static bool try_piece(cutter *c, const core_piece *full, uint32_t index)
{
    bool sums = core_piece_is_partial(c->source, full);
    clv_value partial = sums ? add_partial(c, full) : CLV_NO_TENSOR;
    if ((sums && partial == CLV_NO_TENSOR) ||
        !add_piece(c, full, index, partial))
        return false;
    if (!sums)
        return true;
    const clv_node *source = &c->source->nodes[full->node];
    const clv_value other = add_partial(c, full);
    return add_sum(c, partial, other, piece_operand(c, full, source->n_inputs),
                   full, index);
}

static clv_status try_all(cutter *c, const core_piece *pieces, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        core_piece full;
        CLV_TRY(core_piece_resolve(c->source, &pieces[i], &full));
        if (!try_piece(c, &full, i))
            return core_no_memory("to cut a graph");
    }
    return CLV_OK;
}

/* The graph of the cut with the source's values in it. */
static clv_status begin_cut(cutter *c, const clv_graph *graph, core_cut *out)
{
    *out = (core_cut){0};
    *c = (cutter){.source = graph, .out = out};
    c->last_replica = malloc((graph->n_tensors + 1u) * sizeof *c->last_replica);
    if (!c->last_replica)
        return core_no_memory("to cut a graph");
    memset(c->last_replica, 0xff, graph->n_tensors * sizeof *c->last_replica);
    clv_status status = clv_graph_create(&out->graph);
    return status || copy_source(c) ? status : core_no_memory("to cut a graph");
}

static clv_status end_cut(cutter *c, clv_status status)
{
    free(c->last_replica);
    free(c->replicas);
    free(c->older_view);
    free(c->last_view);
    if (status)
        core_cut_finish(c->out);
    return status;
}

clv_status core_cut_try(const clv_graph *graph, const core_piece *pieces,
                        uint32_t n_pieces, core_cut *out)
{
    cutter c;
    clv_status status = begin_cut(&c, graph, out);
    if (!status)
        status = try_all(&c, pieces, n_pieces);
    return end_cut(&c, status);
}

clv_status core_cut_make(const clv_graph *graph, const core_piece *pieces,
                         uint32_t n_pieces, core_cut *out)
{
    cutter c;
    clv_status status = begin_cut(&c, graph, out);
    core_piece *full = calloc(n_pieces + 1u, sizeof *full);
    core_slice *slices = NULL;
    c.partials = calloc(n_pieces + 1u, sizeof *c.partials);
    if (!status && (!full || !c.partials))
        status = core_no_memory("to cut a graph");
    if (!status)
        status = core_pieces_resolve(graph, pieces, n_pieces, full);
    if (!status)
        status = core_slices_find(graph, full, n_pieces, &slices);
    c.full = full;
    c.slices = slices;
    if (!status)
        status = cut_all(&c, n_pieces);
    free(slices);
    free(c.partials);
    free(full);
    return end_cut(&c, status);
}

/* ------------------------------------------------------------------------ */
/* Packed weights                                                            */

#define COPIED 1
#define IN_PLACE 2

/* Notes how a weight and its scales are used. */
static void note_use(const clv_graph *g, clv_value value, uint8_t how,
                     uint8_t *uses)
{
    while (value != CLV_NO_TENSOR &&
           g->tensors[value].usage == CLV_USAGE_WEIGHT) {
        uint32_t scales = g->tensors[value].quant_scales;
        uses[value] |= how;
        value = scales ? scales - 1 : CLV_NO_TENSOR;
    }
}

clv_status core_cut_pack(core_cut *cut, const bool *local)
{
    const clv_graph *g = cut->graph;
    uint8_t *uses = calloc(g->n_tensors + 1u, sizeof *uses);
    if (!uses)
        return core_no_memory("to cut a graph");
    for (uint32_t i = 0; i < g->n_nodes; i++)
        for (uint32_t j = 0; j < g->nodes[i].n_inputs; j++)
            note_use(g, g->nodes[i].inputs[j],
                     local[cut->devices[i]] ? COPIED : IN_PLACE, uses);
    for (clv_value v = 0; v < g->n_tensors; v++)
        if (g->values[v].base != v && uses[v] == COPIED)
            core_desc_set_dense(&g->tensors[v]);
    free(uses);
    return CLV_OK;
}

void core_cut_finish(core_cut *cut)
{
    clv_graph_destroy(cut->graph);
    free(cut->devices);
    free(cut->pieces);
    free(cut->sources);
    *cut = (core_cut){0};
}
