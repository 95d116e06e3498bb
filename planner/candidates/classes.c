#include "classes.h"
#include "../../core/base/error.h"
#include "../../core/base/hash.h"

#include "../../core/graph/tensor.h"
#include "../../core/plan/held.h"
#include "../../core/graph/slices.h"

#include <stdlib.h>
#include <string.h>

/* Axes of nodes come first, then of each value its first and its last dimension
 * and whose experts' its parts are. Sets are trees of `parent`. */
enum { FIRST, LAST, EXPERTS, N_SIDES };

typedef struct linker {
    const clv_plan *plan;
    const clv_graph *graph;
    const clv_op_caps *caps;
    const planner_node_reads *reads;
    uint64_t align;
    planner_classes *out;
    uint32_t *parent;
    uint64_t *own;    /* [n_nodes] what the node itself is */
    uint64_t *linked; /* [axes of nodes] of the set, at its root */
    uint64_t *full;   /* [n_nodes] both; then of classes */
    uint64_t *sums;   /* [n_links] */
    uint32_t *roots;  /* [n_links] */
} linker;

/* ------------------------------------------------------------------------ */
/* Sets                                                                      */

static uint32_t root_of(linker *l, uint32_t a)
{
    while (l->parent[a] != a)
        a = l->parent[a] = l->parent[l->parent[a]];
    return a;
}

static void join(linker *l, uint32_t a, uint32_t b)
{
    l->parent[root_of(l, a)] = root_of(l, b);
}

static uint32_t axis_of(uint32_t node, uint32_t axis)
{
    return node * CORE_AXIS_COUNT + axis;
}

static uint32_t side_of(const linker *l, clv_value value, uint32_t side)
{
    return l->graph->n_nodes * CORE_AXIS_COUNT + N_SIDES * value + side;
}

static void link_operand(linker *l, uint32_t index, uint32_t operand)
{
    const clv_node *node = &l->graph->nodes[index];
    clv_value value = operand < node->n_inputs ? node->inputs[operand]
                      : node->n_outputs        ? node->outputs[0]
                                               : CLV_NO_TENSOR;
    clv_operand rule = clv_op_operand(node, operand);
    if (value == CLV_NO_TENSOR)
        return;
    const clv_tensor_desc *desc = &l->graph->tensors[value];
    if (desc->usage == CLV_USAGE_WEIGHT || desc->usage == CLV_USAGE_INPUT)
        return;
    if (desc->rank > 1 && rule.first != CLV_CUT_NONE &&
        core_cut_extent(l->graph, index, rule.first))
        join(l, axis_of(index, rule.first), side_of(l, value, FIRST));
    if (rule.last != CLV_CUT_NONE &&
        core_cut_extent(l->graph, index, rule.last))
        join(l, axis_of(index, rule.last), side_of(l, value, LAST));
    if (core_cut_extent(l->graph, index, CORE_AXIS_EXPERTS) &&
        core_cut_has_parts(l->graph, index, operand))
        join(l, axis_of(index, CORE_AXIS_EXPERTS), side_of(l, value, EXPERTS));
}

/* ------------------------------------------------------------------------ */
/* What nodes are                                                            */

bool planner_weight_in_place(const clv_graph *graph, clv_value weight,
                             const clv_device *dev, uint64_t align)
{
    const clv_tensor *tensor = graph->values[weight].weight;
    uint32_t holding;
    return tensor && !core_tensor_holding(tensor, dev, align, true, &holding) &&
           holding == CORE_HOLD_IMPORT;
}

/* What devices hold of a weight already costs no memory there. */
static uint64_t mix_copies(const linker *l, uint64_t hash, clv_value value)
{
    clv_tensor *tensor = l->graph->values[value].weight;
    core_runs range;
    for (uint32_t d = 0; d < l->plan->n_devices && tensor; d++)
        for (uint32_t i = 0;
             core_held_at(&l->plan->devices[d], tensor, i, &range); i++)
            hash += core_hash(d, &range, sizeof range);
    return hash;
}

static uint64_t mix_operand(const linker *l, uint64_t hash, clv_value value)
{
    if (value == CLV_NO_TENSOR)
        return core_hash_mix(hash, 1);
    const clv_tensor_desc *desc = &l->graph->tensors[value];
    hash = core_hash_mix(hash, (uint64_t)desc->dtype << 32 | desc->usage);
    hash = core_hash_mix(hash, (uint64_t)desc->quant << 32 | desc->quant_group);
    for (uint32_t i = 0; i < desc->rank; i++)
        hash = core_hash_mix(core_hash_mix(hash, (uint64_t)desc->dims[i]),
                             desc->symbols[i]);
    for (uint32_t d = 0;
         d < l->plan->n_devices && desc->usage == CLV_USAGE_WEIGHT; d++)
        hash = core_hash_mix(
            hash, planner_weight_in_place(l->graph, value,
                                          l->plan->devices[d].dev, l->align));
    if (desc->usage == CLV_USAGE_WEIGHT)
        hash = mix_copies(l, hash, value);
    hash = core_tensor_mix_popularity(hash, l->graph->values[value].weight);
    return hash;
}

static uint64_t own_hash(const linker *l, uint32_t index)
{
    const clv_node *node = &l->graph->nodes[index];
    const planner_node_reads *reads = &l->reads[index];
    uint64_t hash = core_hash(node->op, &node->attr, sizeof node->attr);
    for (uint32_t i = 0; i < node->n_inputs; i++)
        hash = mix_operand(l, hash, node->inputs[i]);
    for (uint32_t i = 0; i < node->n_outputs; i++)
        hash = mix_operand(l, hash, node->outputs[i]);
    hash = core_hash(hash, reads->operand, sizeof reads->operand);
    hash = core_hash_mix(hash, reads->n_deps);
    for (uint32_t d = 0; d < l->plan->n_devices; d++) {
        const clv_op_caps *caps =
            &l->caps[(size_t)d * l->graph->n_nodes + index];
        hash = core_hash(hash, caps, sizeof *caps);
    }
    return hash;
}

static uint64_t member_hash(const linker *l, uint32_t node, uint32_t axis)
{
    return core_hash_mix(l->own[node], axis + 1);
}

static void hash_all(linker *l)
{
    const clv_graph *graph = l->graph;
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        l->own[i] = own_hash(l, i);
        for (uint32_t j = 0; j <= graph->nodes[i].n_inputs; j++)
            link_operand(l, i, j);
    }
    /* Sums do not mind the order of members. */
    for (uint32_t i = 0; i < graph->n_nodes; i++)
        for (uint32_t a = 0; a < CORE_AXIS_COUNT; a++)
            if (core_cut_extent(graph, i, a))
                l->linked[root_of(l, axis_of(i, a))] += member_hash(l, i, a);
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        l->full[i] = l->own[i];
        for (uint32_t a = 0; a < CORE_AXIS_COUNT; a++)
            l->full[i] = core_hash_mix(
                l->full[i], core_cut_extent(graph, i, a)
                                ? l->linked[root_of(l, axis_of(i, a))]
                                : 0);
    }
}

/* ------------------------------------------------------------------------ */
/* Kinds and links                                                           */

static uint32_t link_of(linker *l, uint32_t node, uint32_t axis)
{
    if (!core_cut_extent(l->graph, node, axis))
        return PLANNER_NO_LINK;
    uint32_t root = root_of(l, axis_of(node, axis)), i = 0;
    while (i < l->out->n_links && l->sums[i] != l->linked[root])
        i++;
    if (i == l->out->n_links) {
        l->sums[i] = l->linked[root];
        l->roots[i] = root;
        l->out->n_links++;
    }
    return i;
}

static void sort_nodes(linker *l)
{
    planner_classes *out = l->out;
    for (uint32_t i = 0; i < l->graph->n_nodes; i++) {
        uint32_t k = 0;
        while (k < out->n_classes &&
               l->full[out->classes[k].first] != l->full[i])
            k++;
        out->of[i] = k;
        if (k < out->n_classes)
            continue;
        planner_class *class = &out->classes[out->n_classes++];
        class->first = i;
        for (uint32_t a = 0; a < CORE_AXIS_COUNT; a++)
            class->links[a] = link_of(l, i, a);
    }
}

static void add_member(planner_classes *out, planner_link *link, uint32_t class,
                       uint32_t axis)
{
    for (uint32_t i = 0; i < link->n_members; i++) {
        planner_member *m = &out->members[link->first_member + i];
        if (m->class == class && m->axis == axis) {
            m->count++;
            return;
        }
    }
    out->members[link->first_member + link->n_members++] =
        (planner_member){class, axis, 1};
}

static void collect_members(linker *l)
{
    planner_classes *out = l->out;
    for (uint32_t i = 0; i < out->n_links; i++) {
        planner_link *link = &out->links[i];
        link->first_member = out->n_members;
        for (uint32_t n = 0; n < l->graph->n_nodes; n++)
            for (uint32_t a = 0; a < CORE_AXIS_COUNT; a++)
                if (root_of(l, axis_of(n, a)) == l->roots[i] &&
                    core_cut_extent(l->graph, n, a))
                    add_member(out, link, out->of[n], a);
        out->n_members += link->n_members;
    }
}

clv_status planner_classes_find(const clv_plan *plan, const clv_op_caps *caps,
                                const planner_node_reads *reads, uint64_t align,
                                planner_classes *out)
{
    const clv_graph *graph = plan->source;
    size_t n = graph->n_nodes, axes = n * CORE_AXIS_COUNT;
    size_t sets = axes + N_SIDES * (size_t)graph->n_tensors;
    *out = (planner_classes){.of = calloc(n + 1, sizeof *out->of),
                             .classes = calloc(n + 1, sizeof *out->classes),
                             .links = calloc(axes + 1, sizeof *out->links),
                             .members = calloc(axes + 1, sizeof *out->members)};
    linker l = {.plan = plan,
                .graph = graph,
                .caps = caps,
                .reads = reads,
                .align = align,
                .out = out,
                .parent = calloc(sets + 1, sizeof *l.parent),
                .own = calloc(n + 1, sizeof *l.own),
                .linked = calloc(sets + 1, sizeof *l.linked),
                .full = calloc(n + 1, sizeof *l.full),
                .sums = calloc(axes + 1, sizeof *l.sums),
                .roots = calloc(axes + 1, sizeof *l.roots)};
    bool enough = out->of && out->classes && out->links && out->members &&
                  l.parent && l.own && l.linked && l.full && l.sums && l.roots;
    for (uint32_t i = 0; i < sets && enough; i++)
        l.parent[i] = i;
    if (enough) {
        hash_all(&l);
        sort_nodes(&l);
        collect_members(&l);
    }
    free(l.roots);
    free(l.sums);
    free(l.full);
    free(l.linked);
    free(l.own);
    free(l.parent);
    if (enough)
        return CLV_OK;
    planner_classes_finish(out);
    return core_no_memory("for a plan");
}

void planner_classes_finish(planner_classes *classes)
{
    free(classes->of);
    free(classes->classes);
    free(classes->links);
    free(classes->members);
    *classes = (planner_classes){0};
}
