/*
 * The graph with its copies: nodes, parts and answers in their new order, and
 * which memory each value is in.
 */
#include "interleave.h"
#include "../../core/base/error.h"

#include <stdlib.h>

typedef struct woven {
    clv_node *nodes;
    uint32_t *devices, *pieces, *sources;
    clv_op_caps *caps;
    uint32_t n;
} woven;

static void put_moves(const planner_interleaver *w, woven *out, uint32_t at,
                      bool after)
{
    for (uint32_t i = 0; i < w->n_moves; i++) {
        const planner_move *m = &w->moves[i];
        if (m->at != at || m->after != after)
            continue;
        clv_node node = CLV_INIT(clv_node, CLV_STRUCT_NODE);
        node.op = CORE_OP_COPY;
        node.n_inputs = node.n_outputs = 1;
        node.inputs[0] = m->from;
        node.outputs[0] = m->to;
        out->nodes[out->n] = node;
        out->devices[out->n] = m->device;
        out->pieces[out->n] = CORE_NO_PIECE;
        out->sources[out->n++] = m->source;
    }
}

static void put_all(const planner_interleaver *w, woven *out,
                    const clv_op_caps *caps)
{
    const core_cut *cut = &w->plan->cut;
    for (uint32_t i = 0; i < w->graph->n_nodes; i++) {
        put_moves(w, out, i, false);
        out->nodes[out->n] = w->graph->nodes[i];
        out->devices[out->n] = cut->devices[i];
        out->pieces[out->n] = cut->pieces[i];
        out->caps[out->n] = caps[i];
        out->sources[out->n++] = cut->sources[i];
        put_moves(w, out, i, true);
    }
}

/* Puts the new lists in the place of the old ones. */
static void take(planner_interleaver *w, woven *o, core_part *parts,
                 core_place *places, clv_op_caps **caps)
{
    clv_plan *plan = w->plan;
    free(w->graph->nodes);
    free(plan->cut.devices);
    free(plan->cut.pieces);
    free(plan->cut.sources);
    free(plan->parts);
    free(plan->places);
    free(*caps);
    w->graph->nodes = o->nodes;
    w->graph->n_nodes = w->graph->nodes_capacity = plan->n_parts = o->n;
    plan->cut.devices = o->devices;
    plan->cut.pieces = o->pieces;
    plan->cut.sources = o->sources;
    plan->parts = parts;
    plan->places = places;
    *caps = o->caps;
    for (uint32_t i = 0; i < o->n; i++)
        parts[i] = (core_part){.node = i, .device = o->devices[i]};
}

static void mark_places(const planner_interleaver *w)
{
    core_place *places = w->plan->places;
    const clv_graph *g = w->graph;
    for (clv_value v = 0; v < g->n_tensors; v++)
        places[v].original = v;
    for (clv_value v = 0; v < w->n_values; v++)
        if (g->tensors[v].usage != CLV_USAGE_WEIGHT && g->values[v].base == v)
            places[v].memory = planner_interleave_home(w, v);
    for (clv_value v = 0; v < w->n_values; v++)
        for (uint32_t m = 0; m < w->n_memories; m++) {
            clv_value name = *planner_interleave_name(w, v, m);
            if (g->values[v].base != v || name == CLV_NO_TENSOR || name == v)
                continue;
            places[name].memory = m;
            places[name].original = v;
        }
    for (clv_value v = 0; v < g->n_tensors; v++)
        places[v].memory = places[g->values[v].base].memory;
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        const clv_node *node = &g->nodes[i];
        if (node->op == CORE_OP_COPY)
            places[g->values[node->inputs[0]].base].copied =
                places[g->values[node->outputs[0]].base].copied = true;
    }
}

clv_status planner_interleave_rebuild(planner_interleaver *w,
                                      clv_op_caps **caps)
{
    size_t n = (size_t)w->graph->n_nodes + w->n_moves;
    woven out = {.nodes = calloc(n, sizeof *out.nodes),
                 .devices = calloc(n, sizeof *out.devices),
                 .pieces = calloc(n, sizeof *out.pieces),
                 .sources = calloc(n, sizeof *out.sources),
                 .caps = calloc(n, sizeof *out.caps)};
    core_part *parts = calloc(n, sizeof *parts);
    core_place *places = calloc(w->graph->n_tensors, sizeof *places);
    if (!out.nodes || !out.devices || !out.pieces || !out.sources ||
        !out.caps || !parts || !places) {
        free(places);
        free(parts);
        free(out.caps);
        free(out.sources);
        free(out.pieces);
        free(out.devices);
        free(out.nodes);
        return core_no_memory("for a plan");
    }
    put_all(w, &out, *caps);
    take(w, &out, parts, places, caps);
    mark_places(w);
    return CLV_OK;
}
