#include "reads.h"
#include "../../core/base/error.h"

#include "../../core/graph/slices.h"

#include <stdlib.h>
#include <string.h>

#define NO_NODE 0xffffffffu

typedef struct finder {
    const clv_graph *graph;
    planner_node_reads *reads;
    uint32_t *writer; /* [n_tensors] latest node that wrote it, or NO_NODE */
    uint32_t *reader; /* [n_tensors] latest node that read it since */
} finder;

static void add_dep(planner_node_reads *reads, uint32_t node, uint32_t operand)
{
    for (uint32_t i = 0; i < reads->n_deps; i++)
        if (reads->deps[i] == node && reads->operand[i] == operand)
            return;
    if (node == NO_NODE || reads->n_deps == PLANNER_SOLVE_DEPS)
        return;
    reads->deps[reads->n_deps] = node;
    reads->operand[reads->n_deps++] = (uint8_t)operand;
}

static void find_node(finder *f, uint32_t index)
{
    const clv_node *node = &f->graph->nodes[index];
    planner_node_reads *reads = &f->reads[index];
    for (uint32_t i = 0; i < node->n_inputs; i++)
        if (node->inputs[i] != CLV_NO_TENSOR)
            add_dep(reads, f->writer[node->inputs[i]], i);
    if (node->op == CLV_OP_SET_ROWS)
        add_dep(reads, f->reader[node->inputs[0]], PLANNER_NO_DEP);
    for (uint32_t i = 0; i < node->n_inputs; i++)
        if (node->inputs[i] != CLV_NO_TENSOR)
            f->reader[node->inputs[i]] = index;
    for (uint32_t i = 0; i < node->n_outputs; i++)
        f->writer[node->outputs[i]] = index;
    if (node->op == CLV_OP_SET_ROWS) {
        f->writer[node->inputs[0]] = index;
        f->reader[node->inputs[0]] = NO_NODE;
    }
}

clv_status planner_reads_find(const clv_graph *graph, planner_node_reads **out)
{
    finder f = {.graph = graph,
                .reads = calloc(graph->n_nodes + 1u, sizeof *f.reads),
                .writer = calloc(graph->n_tensors + 1u, sizeof *f.writer),
                .reader = calloc(graph->n_tensors + 1u, sizeof *f.reader)};
    bool enough = f.reads && f.writer && f.reader;
    if (enough) {
        memset(f.writer, 0xff, graph->n_tensors * sizeof *f.writer);
        memset(f.reader, 0xff, graph->n_tensors * sizeof *f.reader);
        for (uint32_t i = 0; i < graph->n_nodes; i++)
            find_node(&f, i);
    } else {
        free(f.reads);
        f.reads = NULL;
    }
    free(f.writer);
    free(f.reader);
    *out = f.reads;
    return enough ? CLV_OK : core_no_memory("for a plan");
}

/* ------------------------------------------------------------------------ */
/* Boxes                                                                     */

/* The operand that has the shape of the node's result. */
static uint32_t result_operand(const clv_node *node)
{
    return node->n_outputs ? node->n_inputs : 1;
}

planner_box planner_node_result(const clv_graph *graph, uint32_t index)
{
    const clv_node *node = &graph->nodes[index];
    const clv_tensor_desc *desc =
        &graph->tensors[node->n_outputs ? node->outputs[0] : node->inputs[1]];
    return (planner_box){.end = {desc->rank > 1 ? desc->dims[0] : 1,
                                 desc->dims[desc->rank - 1]}};
}

/* Narrows one side of a box to what the piece takes of an axis. */
static void narrow(const clv_graph *graph, const core_piece *piece,
                   uint32_t axis, bool groups, planner_box *box, int side)
{
    if (axis == CLV_CUT_NONE || !piece->ranges[axis].end)
        return;
    const clv_node *node = &graph->nodes[piece->node];
    int64_t unit = core_cut_unit(node, axis);
    int64_t group = groups ? core_cut_group(graph, node) : 1;
    box->begin[side] = piece->ranges[axis].begin / group * unit;
    box->end[side] = piece->ranges[axis].end / group * unit;
}

/* What a piece touches of an operand, which is `whole`. */
static planner_box touched(const clv_graph *graph, const core_piece *piece,
                           uint32_t operand, planner_box whole)
{
    const clv_node *node = &graph->nodes[piece->node];
    clv_value value =
        operand < node->n_inputs ? node->inputs[operand] : node->outputs[0];
    clv_operand rule = clv_op_operand(node, operand);
    if (graph->tensors[value].rank > 1)
        narrow(graph, piece, rule.first, false, &whole, 0);
    narrow(graph, piece, rule.last, rule.groups, &whole, 1);
    if (piece->ranges[CORE_AXIS_EXPERTS].end &&
        core_cut_has_parts(graph, piece->node, operand)) {
        whole.first = piece->ranges[CORE_AXIS_EXPERTS].begin;
        whole.last = piece->ranges[CORE_AXIS_EXPERTS].end;
    }
    return whole;
}

planner_box planner_piece_out(const clv_graph *graph, const core_piece *piece)
{
    return touched(graph, piece, result_operand(&graph->nodes[piece->node]),
                   planner_node_result(graph, piece->node));
}

planner_box planner_piece_needs(const clv_graph *graph, const core_piece *piece,
                                const planner_node_reads *reads, uint32_t dep)
{
    planner_box whole = planner_node_result(graph, reads->deps[dep]);
    return reads->operand[dep] == PLANNER_NO_DEP
               ? whole
               : touched(graph, piece, reads->operand[dep], whole);
}

planner_box planner_piece_weight(const clv_graph *graph,
                                 const core_piece *piece, uint32_t operand)
{
    const clv_tensor_desc *desc =
        &graph->tensors[graph->nodes[piece->node].inputs[operand]];
    const planner_box whole = {
        .end = {desc->dims[0], desc->dims[desc->rank - 1]}};
    return touched(graph, piece, operand, whole);
}
