#include "slices.h"
#include "../base/error.h"

#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------------ */
/* Experts of nodes                                                          */

static bool is_class(const clv_graph *graph, uint32_t node, uint32_t op_class)
{
    return clv_op_class_of(graph->nodes[node].op) == op_class;
}

static bool has_scores(const clv_node *node)
{
    return node->n_inputs > 3 && node->inputs[3] != CLV_NO_TENSOR;
}

/* Of products without scores. */
static bool experts_of_value(const clv_graph *graph, uint32_t before,
                             clv_value value, core_experts *out)
{
    while (before-- > 0) {
        const clv_node *node = &graph->nodes[before];
        if (!node->n_outputs || node->outputs[0] != value)
            continue;
        return is_class(graph, before, CLV_CLASS_EXPERTS) &&
               !has_scores(node) && core_cut_experts(graph, before, out);
    }
    return false;
}

bool core_cut_experts(const clv_graph *graph, uint32_t node, core_experts *out)
{
    const clv_node *n = &graph->nodes[node];
    core_experts up;
    if (is_class(graph, node, CLV_CLASS_EXPERTS)) {
        *out = (core_experts){n->inputs[2], n->attr.experts.first,
                              graph->tensors[n->inputs[1]].dims[0]};
        return true;
    }
    return is_class(graph, node, CLV_CLASS_GATED) &&
           experts_of_value(graph, node, n->inputs[0], out) &&
           experts_of_value(graph, node, n->inputs[1], &up) &&
           up.ids == out->ids && up.first == out->first && up.n == out->n;
}

bool core_cut_has_parts(const clv_graph *graph, uint32_t node, uint32_t operand)
{
    const clv_node *n = &graph->nodes[node];
    core_experts experts;
    if (!is_class(graph, node, CLV_CLASS_EXPERTS))
        return core_cut_experts(graph, node, &experts);
    const clv_tensor_desc *x = &graph->tensors[n->inputs[0]];
    const clv_tensor_desc *w = &graph->tensors[n->inputs[1]];
    const clv_tensor_desc *ids = &graph->tensors[n->inputs[2]];
    return operand == 0 ? x->dims[1] == ids->dims[1] * w->dims[2]
                        : operand == n->n_inputs && !has_scores(n);
}

/* ------------------------------------------------------------------------ */
/* Who reads which slice                                                     */

typedef struct finder {
    const clv_graph *graph;
    const core_piece *pieces;
    core_slice *slices;
    uint32_t *first;  /* [n_nodes + 1] piece of each node */
    uint32_t *writer; /* [n_tensors] node, or CORE_NO_SLICE */
} finder;

static bool inside(core_range a, core_range b)
{
    return a.begin >= b.begin && a.end <= b.end;
}

static bool overlap(core_range a, core_range b)
{
    return a.begin < b.end && b.begin < a.end;
}

static bool same(core_range a, core_range b)
{
    return a.begin == b.begin && a.end == b.end;
}

/* The experts that a piece is for; false: all. */
static bool experts_of_piece(const finder *f, uint32_t piece, core_range *out)
{
    const core_piece *p = &f->pieces[piece];
    const core_range *r = &p->ranges[CORE_AXIS_EXPERTS];
    core_experts e;
    if (!core_cut_experts(f->graph, p->node, &e))
        return false;
    *out = (core_range){e.first + r->begin, e.first + r->end};
    return r->end - r->begin != e.n;
}

/* What a piece reads of a value, or writes. */
static void box_of(const finder *f, uint32_t piece, uint32_t operand,
                   core_range out[2])
{
    core_cut_box(f->graph, &f->pieces[piece], operand, out);
}

static void box_made(const finder *f, uint32_t piece, core_range out[2])
{
    box_of(f, piece, f->graph->nodes[f->pieces[piece].node].n_inputs, out);
}

/* The pieces that write what a piece reads as an operand: [first, end). */
static void find_writers(const finder *f, uint32_t reader, uint32_t operand,
                         uint32_t *first, uint32_t *end)
{
    const clv_value value =
        f->graph->nodes[f->pieces[reader].node].inputs[operand];
    const uint32_t node =
        value == CLV_NO_TENSOR ? CORE_NO_SLICE : f->writer[value];
    *first = node == CORE_NO_SLICE ? 0 : f->first[node];
    *end = node == CORE_NO_SLICE ? 0 : f->first[node + 1];
}

/* Whether a piece makes a slice of something that another reads. */
static bool touches(const finder *f, uint32_t slice, uint32_t reader,
                    uint32_t operand)
{
    core_range has[2], needs[2];
    if (!f->slices[slice].valid.end)
        return false;
    box_made(f, slice, has);
    box_of(f, reader, operand, needs);
    return overlap(has[0], needs[0]) && overlap(has[1], needs[1]);
}

/* Whether the slice has all that the other reads of these experts. */
static bool serves(const finder *f, uint32_t slice, uint32_t reader,
                   uint32_t operand, core_range experts)
{
    core_range has[2], needs[2];
    core_experts a, b;
    if (!f->slices[slice].valid.end ||
        !inside(experts, f->slices[slice].valid) ||
        !core_cut_experts(f->graph, f->pieces[slice].node, &a) ||
        !core_cut_experts(f->graph, f->pieces[reader].node, &b) ||
        a.ids != b.ids)
        return false;
    box_made(f, slice, has);
    box_of(f, reader, operand, needs);
    return inside(needs[0], has[0]) && inside(needs[1], has[1]);
}

/* Finds the slice that serves. False if there are only others, so that all of
 * them are needed; valid: narrowed to the slice. */
static bool find_slice(const finder *f, uint32_t reader, uint32_t operand,
                       core_range experts, uint32_t *slice, core_range *valid)
{
    uint32_t at, end;
    bool sliced = false;
    find_writers(f, reader, operand, &at, &end);
    for (; at < end; at++) {
        const core_range *has = &f->slices[at].valid;
        sliced |= touches(f, at, reader, operand);
        if (!serves(f, at, reader, operand, experts))
            continue;
        *slice = at;
        if (valid->begin < has->begin)
            valid->begin = has->begin;
        if (valid->end > has->end)
            valid->end = has->end;
        return true;
    }
    return !sliced;
}

/* What a GLU makes is valid where both of its inputs are. It reads either one
 * slice of each or all: so what its pieces make is the same, apart, or all. */
static void find_pair(const finder *f, uint32_t piece, core_range experts,
                      core_slice *out)
{
    core_slice pair = *out;
    if (find_slice(f, piece, 0, experts, &pair.from[0], &pair.valid) &&
        find_slice(f, piece, 1, experts, &pair.from[1], &pair.valid))
        *out = pair;
}

static void find_piece(const finder *f, uint32_t piece)
{
    const uint32_t node = f->pieces[piece].node;
    const clv_node *n = &f->graph->nodes[node];
    core_slice *slice = &f->slices[piece];
    core_range experts, any = {0, INT64_MAX};
    core_experts all;
    *slice = (core_slice){.from = {CORE_NO_SLICE, CORE_NO_SLICE}};
    if (!experts_of_piece(f, piece, &experts) ||
        !core_cut_experts(f->graph, node, &all))
        return;
    if (is_class(f->graph, node, CLV_CLASS_GATED)) {
        slice->valid = (core_range){all.first, all.first + all.n};
        find_pair(f, piece, experts, slice);
        return;
    }
    if (core_cut_has_parts(f->graph, node, 0))
        find_slice(f, piece, 0, experts, &slice->from[0], &any);
    if (core_cut_has_parts(f->graph, node, n->n_inputs))
        slice->valid = experts;
}

/* ------------------------------------------------------------------------ */
/* Who needs more than a slice                                               */

static bool same_box(const finder *f, uint32_t a, uint32_t b)
{
    core_range p[2], q[2];
    box_made(f, a, p);
    box_made(f, b, q);
    return same(p[0], q[0]) && same(p[1], q[1]);
}

/* One of the slices is all already, or those that are apart are added. */
static void join_slice(const finder *f, uint32_t piece)
{
    const uint32_t node = f->pieces[piece].node;
    core_slice *slice = &f->slices[piece];
    bool has_whole = false, is_first = true;
    core_experts all;
    if (!slice->joined || !core_cut_experts(f->graph, node, &all))
        return;
    for (uint32_t i = f->first[node]; i < f->first[node + 1]; i++) {
        const core_range *valid = &f->slices[i].valid;
        if (!valid->end || !same_box(f, piece, i))
            continue;
        has_whole |= valid->end - valid->begin == all.n;
        is_first &= i >= piece || !same(*valid, slice->valid);
    }
    slice->whole = is_first && slice->valid.end - slice->valid.begin == all.n;
    slice->added = is_first && !has_whole;
}

/* Marks the slices of which a piece reads all. */
static void mark_joined(const finder *f, uint32_t reader)
{
    const clv_node *node = &f->graph->nodes[f->pieces[reader].node];
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        uint32_t at, end;
        if (i < 2 && f->slices[reader].from[i] != CORE_NO_SLICE)
            continue;
        find_writers(f, reader, i, &at, &end);
        for (; at < end; at++)
            f->slices[at].joined |= touches(f, at, reader, i);
    }
}

static void find_joined(const finder *f, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        const clv_node *node = &f->graph->nodes[f->pieces[i].node];
        mark_joined(f, i);
        f->slices[i].joined |=
            f->slices[i].valid.end &&
            f->graph->tensors[node->outputs[0]].usage == CLV_USAGE_OUTPUT;
    }
    for (uint32_t i = 0; i < n; i++)
        join_slice(f, i);
}

clv_status core_slices_find(const clv_graph *graph, const core_piece *pieces,
                            uint32_t n, core_slice **out)
{
    finder f = {.graph = graph,
                .pieces = pieces,
                .slices = calloc(n + 1u, sizeof *f.slices),
                .first = calloc(graph->n_nodes + 1u, sizeof *f.first),
                .writer = malloc((graph->n_tensors + 1u) * sizeof *f.writer)};
    const bool enough = f.slices && f.first && f.writer;
    uint32_t at = 0;
    for (uint32_t i = 0; i < graph->n_nodes && enough; i++) {
        f.first[i] = at;
        while (at < n && pieces[at].node == i)
            at++;
        f.first[i + 1] = at;
    }
    if (enough)
        memset(f.writer, 0xff, graph->n_tensors * sizeof *f.writer);
    for (uint32_t i = 0; i < graph->n_nodes && enough; i++) {
        for (uint32_t p = f.first[i]; p < f.first[i + 1]; p++)
            find_piece(&f, p);
        if (graph->nodes[i].n_outputs)
            f.writer[graph->nodes[i].outputs[0]] = i;
    }
    if (enough)
        find_joined(&f, n);
    free(f.first);
    free(f.writer);
    if (!enough)
        free(f.slices);
    *out = enough ? f.slices : NULL;
    return enough ? CLV_OK : core_no_memory("to cut a graph");
}
