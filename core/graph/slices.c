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

/* Whether the slice of a piece has all that another reads of it. */
static bool serves(const finder *f, uint32_t slice, uint32_t reader,
                   uint32_t operand, core_range experts)
{
    const core_piece *from = &f->pieces[slice], *to = &f->pieces[reader];
    const clv_node *node = &f->graph->nodes[from->node];
    core_range has[2], needs[2];
    core_experts a, b;
    if (!f->slices[slice].valid.end ||
        !inside(experts, f->slices[slice].valid) ||
        !core_cut_experts(f->graph, from->node, &a) ||
        !core_cut_experts(f->graph, to->node, &b) || a.ids != b.ids)
        return false;
    core_cut_box(f->graph, from, node->n_inputs, has);
    core_cut_box(f->graph, to, operand, needs);
    return inside(needs[0], has[0]) && inside(needs[1], has[1]);
}

/* A piece whose slice serves, of those that are valid for these experts if
 * exact is not NULL, from `at` on. */
static uint32_t find_slice(const finder *f, uint32_t reader, uint32_t operand,
                           core_range experts, const core_range *exact,
                           uint32_t at)
{
    const clv_value value =
        f->graph->nodes[f->pieces[reader].node].inputs[operand];
    const uint32_t node = f->writer[value];
    if (node == CORE_NO_SLICE)
        return CORE_NO_SLICE;
    for (at = at > f->first[node] ? at : f->first[node];
         at < f->first[node + 1]; at++)
        if (serves(f, at, reader, operand, experts) &&
            (!exact || same(*exact, f->slices[at].valid)))
            return at;
    return CORE_NO_SLICE;
}

/* Slices of gate and up go together if they are of the same experts: so those
 * of the output are either alike or apart. */
static void find_pair(const finder *f, uint32_t piece, core_range experts,
                      core_slice *out)
{
    uint32_t gate = 0;
    while ((gate = find_slice(f, piece, 0, experts, NULL, gate)) !=
           CORE_NO_SLICE) {
        const core_range *valid = &f->slices[gate].valid;
        const uint32_t up = find_slice(f, piece, 1, experts, valid, 0);
        if (up != CORE_NO_SLICE) {
            *out = (core_slice){.valid = *valid, .from = {gate, up}};
            return;
        }
        gate++;
    }
}

static void find_piece(const finder *f, uint32_t piece)
{
    const uint32_t node = f->pieces[piece].node;
    const clv_node *n = &f->graph->nodes[node];
    core_slice *slice = &f->slices[piece];
    core_range experts;
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
        slice->from[0] = find_slice(f, piece, 0, experts, NULL, 0);
    if (core_cut_has_parts(f->graph, node, n->n_inputs))
        slice->valid = experts;
}

/* ------------------------------------------------------------------------ */
/* Who needs the whole value                                                 */

static bool same_box(const finder *f, uint32_t a, uint32_t b)
{
    const uint32_t node = f->pieces[a].node;
    core_range p[2], q[2];
    core_cut_box(f->graph, &f->pieces[a], f->graph->nodes[node].n_inputs, p);
    core_cut_box(f->graph, &f->pieces[b], f->graph->nodes[node].n_inputs, q);
    return same(p[0], q[0]) && same(p[1], q[1]);
}

/* One of the slices is the whole already, or those that are apart are added. */
static void join_slices(const finder *f, uint32_t node)
{
    core_experts all;
    if (!core_cut_experts(f->graph, node, &all))
        return;
    for (uint32_t i = f->first[node]; i < f->first[node + 1]; i++) {
        core_slice *slice = &f->slices[i];
        bool has_whole = false, is_first = true;
        for (uint32_t j = f->first[node]; j < f->first[node + 1]; j++) {
            const core_range *valid = &f->slices[j].valid;
            if (!valid->end || !same_box(f, i, j))
                continue;
            has_whole |= valid->end - valid->begin == all.n;
            is_first &= j >= i || !same(*valid, slice->valid);
        }
        const bool is_whole = slice->valid.end - slice->valid.begin == all.n;
        slice->whole = slice->valid.end && is_whole && is_first;
        slice->added = slice->valid.end && !has_whole && is_first;
    }
}

static bool is_sliced(const finder *f, uint32_t node)
{
    for (uint32_t i = f->first[node]; i < f->first[node + 1]; i++)
        if (f->slices[i].valid.end)
            return true;
    return false;
}

static bool reads_whole(const finder *f, uint32_t node, clv_value value)
{
    const clv_node *n = &f->graph->nodes[node];
    for (uint32_t j = 0; j < n->n_inputs; j++)
        for (uint32_t i = f->first[node];
             n->inputs[j] == value && i < f->first[node + 1]; i++)
            if (j > 1 || f->slices[i].from[j] == CORE_NO_SLICE)
                return true;
    return false;
}

static void find_joined(const finder *f, uint32_t node)
{
    if (!is_sliced(f, node))
        return;
    const clv_value value = f->graph->nodes[node].outputs[0];
    bool joined = f->graph->tensors[value].usage == CLV_USAGE_OUTPUT;
    for (uint32_t i = node + 1; i < f->graph->n_nodes && !joined; i++)
        joined = reads_whole(f, i, value);
    if (joined)
        join_slices(f, node);
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
    for (uint32_t i = 0; i < graph->n_nodes && enough; i++)
        find_joined(&f, i);
    free(f.first);
    free(f.writer);
    if (!enough)
        free(f.slices);
    *out = enough ? f.slices : NULL;
    return enough ? CLV_OK : core_no_memory("to cut a graph");
}
