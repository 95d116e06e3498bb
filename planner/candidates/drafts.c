#include "drafts.h"
#include "../../core/device/subgraph.h"
#include "../../core/base/error.h"

#include "../../core/graph/cut.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const clv_op_caps *planner_maker_caps(const planner_maker *m, uint32_t kind,
                                      uint32_t device)
{
    return &m->caps[(size_t)device * m->graph->n_nodes +
                    m->kinds.kinds[kind].first];
}

clv_device *planner_maker_device(const planner_maker *m, uint32_t device)
{
    return m->plan->devices[device].dev;
}

bool planner_maker_needs_length(const planner_maker *m, uint32_t kind,
                                uint32_t device)
{
    return !m->takes[kind * m->n_devices + device] &&
           planner_maker_caps(m, kind, device)->answer == CLV_ANSWER_STATIC &&
           core_cut_extent(m->graph, m->kinds.kinds[kind].first,
                           CORE_AXIS_SEQUENCE);
}

/* Columns of weights are cut only where the device uses them in place, or has
 * them in memory of its own. */
static bool columns_reached(const planner_maker *m, uint32_t kind,
                            uint32_t device, uint32_t axis)
{
    const clv_node *node = &m->graph->nodes[m->kinds.kinds[kind].first];
    if (m->devices[device].memory_index)
        return true;
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        clv_value value = node->inputs[i];
        if (value == CLV_NO_TENSOR ||
            m->graph->tensors[value].usage != CLV_USAGE_WEIGHT ||
            m->graph->tensors[value].rank < 2 ||
            clv_op_operand(node, i).last != axis)
            continue;
        if (!planner_weight_in_place(m->graph, value,
                                     planner_maker_device(m, device), m->align))
            return false;
    }
    return true;
}

bool planner_maker_splits(const planner_maker *m, uint32_t kind,
                          uint32_t device, uint32_t axis)
{
    const clv_op_caps *caps = planner_maker_caps(m, kind, device);
    if (!m->usable[device] || !(caps->split_axes >> axis & 1) ||
        !columns_reached(m, kind, device, axis))
        return false;
    return m->takes[kind * m->n_devices + device] ||
           (planner_maker_needs_length(m, kind, device) &&
            caps->split_axes & CLV_SPLIT_SEQUENCE);
}

/* ------------------------------------------------------------------------ */
/* Costs                                                                     */

bool planner_maker_cost(const planner_maker *m, const core_piece *piece,
                        planner_cost *out, planner_demand *demand)
{
    core_workload workload;
    core_workload_of(m->graph, piece->node, piece, NULL, &workload);
    if (!m->costs->cost(m->costs->ctx, planner_maker_device(m, piece->device),
                        &workload, out) ||
        !isfinite(out->ns) || out->ns < 0)
        return false;
    *demand = (planner_demand){out->ns, core_workload_bytes(&workload)};
    return true;
}

/* Bytes of the weight that the piece's device has to hold. */
static uint64_t weight_bytes(const planner_maker *m, const core_piece *piece)
{
    const clv_node *node = &m->graph->nodes[piece->node];
    uint32_t index = node->op == CLV_OP_GET_ROWS ? 0 : 1;
    uint64_t bytes;
    if (index >= node->n_inputs || node->inputs[index] == CLV_NO_TENSOR)
        return 0;
    const clv_tensor_desc *desc = &m->graph->tensors[node->inputs[index]];
    if (desc->usage != CLV_USAGE_WEIGHT || core_desc_size(desc, NULL, &bytes))
        return 0;
    double part = 1;
    static const uint32_t axes[] = {CORE_AXIS_ROWS, CORE_AXIS_CHANNELS};
    for (int i = 0; i < 2; i++) {
        const core_range *r = &piece->ranges[axes[i]];
        if (r->end)
            part *= (double)(r->end - r->begin) /
                    (double)core_cut_extent(m->graph, piece->node, axes[i]);
    }
    return (uint64_t)((double)bytes * part);
}

static bool same_range(core_range a, core_range b)
{
    return a.begin == b.begin && a.end == b.end;
}

static bool same_output(const core_piece *a, const core_piece *b)
{
    return same_range(a->ranges[CORE_AXIS_ROWS], b->ranges[CORE_AXIS_ROWS]) &&
           same_range(a->ranges[CORE_AXIS_SEQUENCE],
                      b->ranges[CORE_AXIS_SEQUENCE]);
}

/* Adding up the partial sums of one output, as core_cut_make() has it done: by
 * the first piece's device, one after another. */
static bool weigh_join(const planner_maker *m, planner_draft *d, uint32_t first,
                       uint32_t others)
{
    planner_box out = planner_piece_out(m->graph, &d->cuts[first]);
    const clv_node *node = &m->graph->nodes[d->cuts[first].node];
    core_workload workload = {
        .kind = {.op = CLV_OP_ADD,
                 .dtype = m->graph->tensors[node->outputs[0]].dtype},
        .n = out.end[0] - out.begin[0],
        .in = out.end[1] - out.begin[1],
        .out = out.end[1] - out.begin[1]};
    planner_cost cost;
    if (!m->costs->cost(m->costs->ctx,
                        planner_maker_device(m, d->cuts[first].device),
                        &workload, &cost))
        return false;
    d->joins[d->n_joins] = first;
    d->join_ns[d->n_joins] = cost.ns * others;
    d->join_nj[d->n_joins++] = cost.energy_nj * others;
    return true;
}

static bool weigh_joins(const planner_maker *m, planner_draft *d)
{
    d->n_joins = 0;
    for (uint32_t i = 0; i < d->n; i++) {
        uint32_t before = 0, others = 0;
        if (!d->cuts[i].ranges[CORE_AXIS_CHANNELS].end)
            continue;
        for (uint32_t j = 0; j < d->n; j++)
            if (j != i && same_output(&d->cuts[i], &d->cuts[j]))
                *(j < i ? &before : &others) += 1;
        if (!before && others && !weigh_join(m, d, i, others))
            return false;
    }
    return true;
}

/* ------------------------------------------------------------------------ */
/* Weighing                                                                  */

/* What each device has to do in all. */
typedef struct tally {
    planner_team team;
    planner_demand sums[PLANNER_SHARE_DEVICES];
    double ns[PLANNER_SHARE_DEVICES]; /* while all work */
} tally;

static uint32_t place_in(const planner_team *team, uint32_t device)
{
    uint32_t i = 0;
    while (i < team->n && team->devices[i] != device)
        i++;
    return i;
}

static void run_together(const planner_maker *m, tally *t)
{
    clv_device *devs[PLANNER_SHARE_DEVICES];
    for (uint32_t i = 0; i < t->team.n; i++) {
        devs[i] = planner_maker_device(m, t->team.devices[i]);
        t->ns[i] = t->sums[i].ns;
    }
    if (t->team.n < 2)
        return;
    const planner_costs *costs = m->costs;
    planner_contend(t->sums, t->team.n,
                    costs->bandwidth(costs->ctx, devs, t->team.n), t->ns);
    for (uint32_t i = 0; i < t->team.n; i++) {
        double slow =
            t->sums[i].ns * costs->slowdown(costs->ctx, devs, t->team.n, i);
        if (slow > t->ns[i])
            t->ns[i] = slow;
    }
}

static bool weigh_pieces(const planner_maker *m, planner_draft *d, tally *t)
{
    for (uint32_t i = 0; i < d->n; i++) {
        planner_cost cost;
        planner_demand demand;
        if (!planner_maker_cost(m, &d->cuts[i], &cost, &demand))
            return false;
        d->ns[i] = demand.ns;
        d->bytes[i] = demand.bytes;
        d->energy_nj[i] = cost.energy_nj;
        d->weight_bytes[i] = weight_bytes(m, &d->cuts[i]);
        uint32_t at = place_in(&t->team, d->cuts[i].device);
        if (at == PLANNER_SHARE_DEVICES)
            return false;
        if (at == t->team.n)
            t->team.devices[t->team.n++] = d->cuts[i].device;
        t->sums[at].ns += demand.ns;
        t->sums[at].bytes += demand.bytes;
    }
    return true;
}

/* The device with most to do is given its work first: the others' submits pass
 * while it works. Pieces of one device stay in their order. */
static void order_pieces(planner_draft *d, const tally *t)
{
    planner_draft sorted = *d;
    bool used[PLANNER_SHARE_DEVICES] = {0};
    uint32_t at = 0;
    for (uint32_t k = 0; k < t->team.n; k++) {
        uint32_t next = t->team.n;
        for (uint32_t i = 0; i < t->team.n; i++)
            if (!used[i] &&
                (next == t->team.n || t->team.devices[i] == d->lead ||
                 (t->team.devices[next] != d->lead && t->ns[i] > t->ns[next])))
                next = i;
        used[next] = true;
        for (uint32_t i = 0; i < d->n; i++) {
            if (d->cuts[i].device != t->team.devices[next])
                continue;
            sorted.cuts[at] = d->cuts[i];
            sorted.ns[at] = d->ns[i];
            sorted.bytes[at] = d->bytes[i];
            sorted.energy_nj[at] = d->energy_nj[i];
            sorted.weight_bytes[at++] = d->weight_bytes[i];
        }
    }
    *d = sorted;
}

static bool weigh(const planner_maker *m, planner_draft *d)
{
    tally t = {.team.n = 0};
    if (!weigh_pieces(m, d, &t))
        return false;
    run_together(m, &t);
    order_pieces(d, &t);
    if (!weigh_joins(m, d))
        return false;
    d->time = 0;
    d->axes = 0;
    for (uint32_t i = 0; i < t.team.n; i++)
        d->time = t.ns[i] > d->time ? t.ns[i] : d->time;
    for (uint32_t i = 0; i < d->n_joins; i++)
        d->time += d->join_ns[i];
    for (uint32_t i = 0; i < d->n; i++) {
        uint32_t at = place_in(&t.team, d->cuts[i].device);
        if (t.sums[at].ns > 0)
            d->ns[i] *= t.ns[at] / t.sums[at].ns;
        for (uint32_t a = 0; a < CORE_AXIS_COUNT; a++)
            if (d->cuts[i].ranges[a].end)
                d->axes |= 1u << a;
    }
    return true;
}

static bool same_cuts(const planner_draft *a, const planner_draft *b)
{
    return a->n == b->n && !memcmp(a->cuts, b->cuts, a->n * sizeof *a->cuts);
}

clv_status planner_draft_add(planner_maker *m, uint32_t kind,
                             const planner_draft *draft)
{
    planner_drafts *drafts = &m->drafts[kind];
    planner_draft d = *draft;
    if (!weigh(m, &d))
        return CLV_OK;
    for (uint32_t i = 0; i < drafts->n; i++)
        if (same_cuts(&drafts->list[i], &d))
            return CLV_OK;
    if (drafts->n == drafts->capacity) {
        uint32_t capacity = drafts->capacity ? drafts->capacity * 2 : 16;
        planner_draft *grown =
            reallocarray(drafts->list, capacity, sizeof *grown);
        if (!grown)
            return core_no_memory("for a plan");
        drafts->list = grown;
        drafts->capacity = capacity;
    }
    drafts->list[drafts->n++] = d;
    return CLV_OK;
}

/* ------------------------------------------------------------------------ */
/* Teams                                                                     */

clv_status planner_each_team(planner_maker *m, bool alone,
                             clv_status (*fn)(planner_maker *,
                                              const planner_team *, void *),
                             void *ctx)
{
    uint32_t most = m->n_devices <= PLANNER_SHARE_DEVICES ? m->n_devices : 2;
    clv_status status = CLV_OK;
    for (uint32_t set = 1; set < 1u << m->n_devices && !status; set++) {
        planner_team team = {.n = 0};
        uint32_t size = 0;
        for (uint32_t d = 0; d < m->n_devices; d++)
            size += set >> d & 1;
        if (size > most || size < (alone ? 1 : 2))
            continue;
        for (uint32_t d = 0; d < m->n_devices; d++)
            if (set >> d & 1)
                team.devices[team.n++] = d;
        status = fn(m, &team, ctx);
    }
    return status;
}
