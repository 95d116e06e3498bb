/*
 * Plans that give each device a run of consecutive nodes: of equal time first,
 * then with ends moved to where less passes from one device to the next.
 */
#include "rivals.h"
#include "../core/base/error.h"
#include "../core/device/subgraph.h"

#include <math.h>
#include <stdlib.h>

/* Until the time for which each device works on its nodes is known. */
#define HALVINGS 20

/* How far ends are moved, as a part of that time: more than a layer of models
 * that two devices share. */
#define WINDOW 0.08

/* ends[d]: the first node of the device after d; passing[i]: bytes of values
 * that nodes before the i-th make and others use. */
typedef struct parts {
    planner_solver *v;
    uint32_t n;       /* devices */
    uint32_t *ends;   /* [n] */
    uint32_t *equal;  /* [n] those of equal time */
    double *passing;  /* [n_nodes + 1] */
    uint32_t *since;  /* [n_tensors] the first end past which a value passes, of
                         those that are not counted yet; 0: no node made it */
    double enough_ns; /* for which each device works */
} parts;

static double option_ns(const planner_solver *v, uint32_t option)
{
    const planner_solve_option *o = &v->c.options[option];
    double ns = 0;
    for (uint32_t i = 0; i < o->n_pieces; i++)
        ns = fmax(ns, v->c.pieces[o->first_piece + i].ns);
    return ns;
}

static double node_ns(const planner_solver *v, uint32_t node, uint32_t device)
{
    return option_ns(v, planner_whole_option(v, node, device));
}

/* Each device has nodes until it has worked for so long. Whether the last one
 * does not work longer. */
static bool end_parts(parts *p, double most)
{
    const uint32_t n_nodes = p->v->graph->n_nodes;
    uint32_t device = 0;
    double work = 0;
    for (uint32_t i = 0; i < n_nodes; i++) {
        if (work + node_ns(p->v, i, device) > most && device + 1 < p->n) {
            p->ends[device++] = i;
            work = 0;
        }
        work += node_ns(p->v, i, device);
    }
    while (device < p->n)
        p->ends[device++] = n_nodes;
    return work <= most;
}

static void find_equal(parts *p)
{
    double low = 0;
    p->enough_ns = 0;
    for (uint32_t i = 0; i < p->v->graph->n_nodes; i++)
        for (uint32_t d = 0; d < p->n; d++)
            p->enough_ns += node_ns(p->v, i, d);
    for (uint32_t i = 0; i < HALVINGS; i++) {
        const double most = low + (p->enough_ns - low) / 2;
        *(end_parts(p, most) ? &p->enough_ns : &low) = most;
    }
    end_parts(p, p->enough_ns);
    for (uint32_t d = 0; d < p->n; d++)
        p->equal[d] = p->ends[d];
}

/* Adds what the value takes to all ends between its first and last node. */
static void pass(parts *p, clv_value value, uint32_t last)
{
    const clv_graph *g = p->v->graph;
    const uint32_t begin = p->since[value];
    uint64_t bytes;
    if (!begin || core_desc_size(&g->tensors[value], NULL, &bytes))
        return;
    for (uint32_t i = begin; i <= last; i++)
        p->passing[i] += (double)bytes;
    p->since[value] = last + 1; /* counted up to here */
}

static void find_passing(parts *p)
{
    const clv_graph *g = p->v->graph;
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        const clv_node *node = &g->nodes[i];
        for (uint32_t j = 0; j < node->n_inputs; j++)
            if (node->inputs[j] != CLV_NO_TENSOR)
                pass(p, g->values[node->inputs[j]].base, i);
        for (uint32_t j = 0; j < node->n_outputs; j++)
            if (g->values[node->outputs[j]].base == node->outputs[j])
                p->since[node->outputs[j]] = i + 1;
    }
}

/* Where least passes from device d on, from its end of equal time forward or
 * back; the nearest of several. */
static uint32_t best_end(const parts *p, uint32_t d, bool forward)
{
    uint32_t best = p->equal[d], i = best;
    double work = 0;
    while (forward ? i < p->v->graph->n_nodes : i > 0) {
        work += node_ns(p->v, forward ? i : i - 1, d);
        i = forward ? i + 1 : i - 1;
        if (work > WINDOW * p->enough_ns)
            break;
        if (p->passing[i] < p->passing[best])
            best = i;
    }
    return best;
}

static clv_status compare(parts *p)
{
    uint32_t device = 0;
    for (uint32_t i = 0; i < p->v->graph->n_nodes; i++) {
        while (device + 1 < p->n && i >= p->ends[device])
            device++;
        p->v->trial[i] = planner_whole_option(p->v, i, device);
    }
    return planner_solver_compare(p->v, "consecutive nodes on each device");
}

/* All ends are moved the same way. */
static clv_status compare_moved(parts *p, bool forward)
{
    bool moved = false;
    for (uint32_t d = 0; d + 1 < p->n; d++) {
        p->ends[d] = best_end(p, d, forward);
        moved |= p->ends[d] != p->equal[d];
    }
    return moved ? compare(p) : CLV_OK;
}

clv_status planner_consider_parts(planner_solver *v)
{
    const clv_graph *g = v->graph;
    parts p = {.v = v,
               .n = v->plan->n_devices,
               .ends = calloc(v->plan->n_devices, sizeof *p.ends),
               .equal = calloc(v->plan->n_devices, sizeof *p.equal),
               .passing = calloc(g->n_nodes + 1u, sizeof *p.passing),
               .since = calloc(g->n_tensors, sizeof *p.since)};
    clv_status status = p.ends && p.equal && p.passing && p.since
                            ? CLV_OK
                            : core_no_memory("for a plan");
    if (!status) {
        find_equal(&p);
        find_passing(&p);
        status = compare(&p);
    }
    if (!status)
        status = compare_moved(&p, true);
    if (!status)
        status = compare_moved(&p, false);
    free(p.since);
    free(p.passing);
    free(p.equal);
    free(p.ends);
    return status;
}
