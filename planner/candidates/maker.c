#include "maker.h"
#include "../../core/device/subgraph.h"
#include "../../core/base/error.h"

#include "../../core/graph/slices.h"
#include "../../core/graph/tensor.h"
#include "../../core/plan/held.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const clv_op_caps *planner_maker_caps(const planner_maker *m, uint32_t class,
                                      uint32_t device)
{
    return &m->caps[(size_t)device * m->graph->n_nodes +
                    m->classes.classes[class].first];
}

clv_device *planner_maker_device(const planner_maker *m, uint32_t device)
{
    return m->plan->devices[m->owners[device]].dev;
}

bool planner_maker_streams(const planner_maker *m, uint32_t device)
{
    return device >= m->plan->n_devices;
}

double planner_maker_bandwidth(const planner_maker *m, const uint32_t *devices,
                               uint32_t n)
{
    clv_device *devs[PLANNER_SHARE_DEVICES];
    uint32_t n_reading = 0;
    for (uint32_t i = 0; i < n; i++)
        if (!m->devices[devices[i]].memory_index ||
            planner_maker_streams(m, devices[i]))
            devs[n_reading++] = planner_maker_device(m, devices[i]);
    return n_reading ? m->costs->bandwidth(m->costs->ctx, devs, n_reading) : 0;
}

bool planner_maker_needs_length(const planner_maker *m, uint32_t class,
                                uint32_t device)
{
    return !m->takes[class * m->n_devices + device] &&
           planner_maker_caps(m, class, device)->answer == CLV_ANSWER_STATIC &&
           core_cut_extent(m->graph, m->classes.classes[class].first,
                           CORE_AXIS_SEQUENCE);
}

/* Columns of weights are cut only where the device uses them in place, or has
 * them in memory of its own. */
static bool columns_reached(const planner_maker *m, uint32_t class,
                            uint32_t device, uint32_t axis)
{
    const clv_node *node = &m->graph->nodes[m->classes.classes[class].first];
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

bool planner_maker_splits(const planner_maker *m, uint32_t class,
                          uint32_t device, uint32_t axis)
{
    const clv_op_caps *caps = planner_maker_caps(m, class, device);
    const uint32_t op = m->graph->nodes[m->classes.classes[class].first].op;
    /* GLU is the same work for whatever experts. */
    const uint32_t axes = caps->split_axes | ~clv_op_splits(op);
    if (!m->usable[device] || !(axes >> axis & 1) ||
        !columns_reached(m, class, device, axis))
        return false;
    return m->takes[class * m->n_devices + device] ||
           (planner_maker_needs_length(m, class, device) &&
            caps->split_axes & CLV_SPLIT_SEQUENCE);
}

bool planner_maker_sums(const planner_maker *m, uint32_t node, uint32_t axis)
{
    const uint32_t output = m->graph->nodes[node].n_inputs;
    return axis == CORE_AXIS_CHANNELS ||
           (axis == CORE_AXIS_EXPERTS &&
            !core_cut_has_parts(m->graph, node, output));
}

/* ------------------------------------------------------------------------ */
/* Costs                                                                     */

clv_value planner_maker_weight(const planner_maker *m, uint32_t node,
                               uint32_t *operand)
{
    const clv_node *n = &m->graph->nodes[node];
    *operand = n->op == CLV_OP_GET_ROWS ? 0 : 1;
    clv_value value =
        *operand < n->n_inputs ? n->inputs[*operand] : CLV_NO_TENSOR;
    return value != CLV_NO_TENSOR &&
                   m->graph->tensors[value].usage == CLV_USAGE_WEIGHT
               ? value
               : CLV_NO_TENSOR;
}

clv_tensor *planner_maker_tensor(const planner_maker *m, uint32_t node)
{
    uint32_t operand;
    clv_value value = planner_maker_weight(m, node, &operand);
    return value == CLV_NO_TENSOR ? NULL : m->graph->values[value].weight;
}

/* The part of its weight that a piece works with; false: it has none. */
bool planner_maker_weight_range(const planner_maker *m, const core_piece *piece,
                                core_runs *out)
{
    uint32_t operand;
    clv_value value = planner_maker_weight(m, piece->node, &operand);
    clv_tensor *weight = planner_maker_tensor(m, piece->node);
    if (!weight)
        return false;
    const clv_tensor_desc *desc = &m->graph->tensors[value];
    *out = core_tensor_whole(weight);
    if (desc->rank > 1) {
        planner_box box = planner_piece_weight(m->graph, piece, operand);
        core_bounds bounds = core_bounds_whole(desc->rank, desc->dims);
        bounds.begin[0] = box.begin[0];
        bounds.end[0] = box.end[0];
        bounds.begin[desc->rank - 1] = box.begin[1];
        bounds.end[desc->rank - 1] = box.end[1];
        core_bounds_runs(desc->dtype, desc->rank, desc->dims, &bounds, out);
    }
    return true;
}

static double stream_ns(const planner_maker *m, uint32_t device, double bytes)
{
    const planner_solve_device *d = &m->devices[device];
    return d->copy_ns + d->copy_byte_ns * bytes;
}

/* Of the ways in which the device may compute the workload the fastest one that
 * is known. */
static bool fastest_way(const planner_maker *m, const core_piece *piece,
                        planner_workload *workload, planner_cost *out)
{
    const clv_device *dev = planner_maker_device(m, piece->device);
    const planner_ways *ways =
        &m->ways[m->classes.of[piece->node] * m->n_devices + piece->device];
    bool any = false;
    for (uint32_t i = 0; i < ways->n; i++) {
        planner_workload way = *workload;
        planner_cost cost;
        way.kind.way = ways->ids[i];
        if (!m->costs->cost(m->costs->ctx, dev, &way, &cost) ||
            !isfinite(cost.ns) || cost.ns < 0 || (any && cost.ns >= out->ns))
            continue;
        *out = cost;
        workload->kind.way = way.kind.way;
        any = true;
    }
    return any;
}

bool planner_maker_cost(const planner_maker *m, const core_piece *piece,
                        uint32_t *variant, planner_cost *out,
                        planner_demand *demand)
{
    planner_workload workload;
    planner_workload_on(planner_maker_device(m, piece->device), m->graph,
                        piece->node, piece, NULL, &workload);
    if (!fastest_way(m, piece, &workload, out))
        return false;
    *variant = workload.kind.way;
    /* Of the host's memory. */
    *demand =
        (planner_demand){out->ns, m->devices[piece->device].memory_index
                                      ? 0
                                      : planner_workload_bytes(&workload)};
    if (planner_maker_streams(m, piece->device)) {
        core_runs range;
        if (!planner_maker_weight_range(m, piece, &range))
            return false;
        if (range.bytes * range.n > m->devices[piece->device].memory)
            return false;
        demand->bytes = (double)(range.bytes * range.n);
        demand->ns = fmax(out->ns, stream_ns(m, piece->device, demand->bytes));
    }
    return true;
}

static bool is_held(const planner_maker *m, const core_piece *piece,
                    const core_runs *range, uint32_t holding)
{
    return core_held_has(&m->plan->devices[m->owners[piece->device]],
                         planner_maker_tensor(m, piece->node), m->align,
                         holding, range);
}

static bool is_used_there(const planner_maker *m, const core_piece *piece,
                          const core_runs *range)
{
    return m->devices[piece->device].memory_index
               ? is_held(m, piece, range, CORE_HOLD_COPY) ||
                     is_held(m, piece, range, CORE_HOLD_PRIVATE)
               : is_held(m, piece, range, CORE_HOLD_IMPORT);
}

/* Bytes of the weight that the piece's device has to hold and that no exec uses
 * there yet. */
static uint64_t weight_bytes(const planner_maker *m, const core_piece *piece)
{
    core_runs range;
    if (planner_maker_streams(m, piece->device) ||
        !planner_maker_weight_range(m, piece, &range))
        return 0;
    return is_used_there(m, piece, &range) ? 0 : range.bytes * range.n;
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

/* Adding what one piece makes to what another does, on its device. */
static bool cost_of_sum(const planner_maker *m, const core_piece *piece,
                        planner_cost *cost)
{
    planner_box out = planner_piece_out(m->graph, piece);
    const clv_node *node = &m->graph->nodes[piece->node];
    planner_workload workload = {
        .kind = {.op = CLV_OP_ADD,
                 .dtype = m->graph->tensors[node->outputs[0]].dtype},
        .n = out.end[0] - out.begin[0],
        .in = out.end[1] - out.begin[1],
        .out = out.end[1] - out.begin[1]};
    return m->costs->cost(m->costs->ctx, planner_maker_device(m, piece->device),
                          &workload, cost);
}

bool planner_is_less_than_exchange(const planner_maker *m, uint32_t node,
                                   uint32_t device, double ns)
{
    const planner_solve_device *d = &m->devices[device];
    const planner_box result = planner_node_result(m->graph, node);
    const double elements = (double)(result.end[0] - result.begin[0]) *
                            (double)(result.end[1] - result.begin[1]);
    const double copy = d->copy_ns + d->copy_byte_ns * sizeof(float) * elements;
    return d->memory_index && !planner_maker_streams(m, device) &&
           ns < d->submit_ns + d->dispatch_ns + d->wait_ns + 2 * copy;
}

/* Adding up the partial sums of one output, as core_cut_make() has it done: by
 * one piece's device, one after another. Several devices add for themselves
 * only if that takes less than an exchange. */
static bool weigh_join(const planner_maker *m, planner_candidate *d,
                       uint32_t piece, uint32_t others)
{
    const core_piece *cut = &d->cuts[piece];
    planner_cost cost;
    if (!cost_of_sum(m, cut, &cost) ||
        (cut->adds && !planner_is_less_than_exchange(m, cut->node, cut->device,
                                                     cost.ns * others)))
        return false;
    d->joins[d->n_joins] = piece;
    d->join_ns[d->n_joins] = cost.ns * others;
    d->join_nj[d->n_joins++] = cost.energy_nj * others;
    return true;
}

/* Adding a slice to those of the other pieces. The device, which works in
 * order, does nothing else until they are there. When the search reads slices
 * it does not see what that delays, so it counts several times. */
#define SLICES_ADDED 10
static bool weigh_slice(const planner_maker *m, planner_candidate *d,
                        uint32_t at)
{
    planner_cost cost;
    d->add_ns[at] = 0;
    if (!planner_piece_out(m->graph, &d->cuts[at]).last)
        return true;
    if (!cost_of_sum(m, &d->cuts[at], &cost))
        return false;
    for (uint32_t i = 0; i < d->n; i++)
        d->add_ns[at] = fmax(d->add_ns[at], cost.ns + SLICES_ADDED * d->ns[i]);
    return true;
}

bool planner_piece_partial(const planner_maker *m, const core_piece *piece)
{
    for (uint32_t a = 0; a < CORE_AXIS_COUNT; a++)
        if (piece->ranges[a].end && planner_maker_sums(m, piece->node, a))
            return true;
    return false;
}

static bool weigh_joins(const planner_maker *m, planner_candidate *d)
{
    d->n_joins = 0;
    for (uint32_t i = 0; i < d->n; i++) {
        const core_piece *cut = &d->cuts[i];
        uint32_t before = 0, others = 0;
        if (!weigh_slice(m, d, i))
            return false;
        if (!planner_piece_partial(m, cut))
            continue;
        for (uint32_t j = 0; j < d->n; j++)
            if (j != i && same_output(&d->cuts[i], &d->cuts[j]))
                *(j < i ? &before : &others) += 1;
        if ((before ? cut->adds : others) &&
            !weigh_join(m, d, i, before + others))
            return false;
    }
    return true;
}

/* ------------------------------------------------------------------------ */
/* Weighing                                                                  */

/* Each piece by its time alone: that devices contend for the memory is the
 * forecast's to count, which knows what else they do. */
static bool weigh(const planner_maker *m, planner_candidate *d)
{
    double sums[2 * PLANNER_SOLVE_DEVICES] = {0}; /* work, then copies */
    d->time = 0;
    d->axes = 0;
    for (uint32_t i = 0; i < d->n; i++) {
        planner_cost cost;
        planner_demand demand;
        if (!planner_maker_cost(m, &d->cuts[i], &d->cuts[i].variant, &cost,
                                &demand))
            return false;
        const uint32_t device = d->cuts[i].device;
        d->ns[i] = cost.ns;
        d->energy_nj[i] = cost.energy_nj;
        d->weight_bytes[i] = weight_bytes(m, &d->cuts[i]);
        const bool streams = planner_maker_streams(m, device);
        d->copy_ns[i] = streams ? stream_ns(m, device, demand.bytes) : 0;
        d->copy_bytes[i] = streams ? (uint64_t)demand.bytes : 0;
        d->time = fmax(d->time, sums[m->owners[device]] += cost.ns);
        d->time = fmax(d->time,
                       sums[PLANNER_SOLVE_DEVICES + device] += d->copy_ns[i]);
        for (uint32_t a = 0; a < CORE_AXIS_COUNT; a++)
            if (d->cuts[i].ranges[a].end)
                d->axes |= 1u << a;
    }
    if (!weigh_joins(m, d))
        return false;
    double join = 0; /* devices add at the same time, each for itself */
    for (uint32_t i = 0; i < d->n_joins; i++)
        join = d->cuts[d->joins[i]].adds ? fmax(join, d->join_ns[i])
                                         : join + d->join_ns[i];
    d->time += join;
    return true;
}

static bool same_cuts(const planner_candidate *a, const planner_candidate *b)
{
    return a->n == b->n && !memcmp(a->cuts, b->cuts, a->n * sizeof *a->cuts);
}

uint32_t planner_candidate_find(const planner_maker *m, uint32_t class,
                                const planner_candidate *candidate)
{
    const planner_candidate_set *set = &m->sets[class];
    uint32_t i = 0;
    while (i < set->n && !same_cuts(&set->list[i], candidate))
        i++;
    return i;
}

clv_status planner_candidate_add(planner_maker *m, uint32_t class,
                                 const planner_candidate *candidate)
{
    planner_candidate_set *set = &m->sets[class];
    planner_candidate d = *candidate;
    if (!weigh(m, &d))
        return CLV_OK;
    const uint32_t at = planner_candidate_find(m, class, &d);
    if (at < set->n) {
        set->list[at].near |= d.near;
        return CLV_OK;
    }
    if (set->n == set->capacity) {
        uint32_t capacity = set->capacity ? set->capacity * 2 : 16;
        planner_candidate *grown =
            reallocarray(set->list, capacity, sizeof *grown);
        if (!grown)
            return core_no_memory("for a plan");
        set->list = grown;
        set->capacity = capacity;
    }
    set->list[set->n++] = d;
    return CLV_OK;
}

/* ------------------------------------------------------------------------ */
/* Sets of devices */

clv_status planner_each_device_set(planner_maker *m, bool alone,
                                   clv_status (*fn)(planner_maker *,
                                                    const planner_device_set *,
                                                    void *),
                                   void *ctx)
{
    uint32_t most = m->n_devices <= PLANNER_SHARE_DEVICES ? m->n_devices : 2;
    clv_status status = CLV_OK;
    for (uint32_t set = 1; set < 1u << m->n_devices && !status; set++) {
        planner_device_set chosen = {.n = 0};
        uint32_t size = 0;
        for (uint32_t d = 0; d < m->n_devices; d++)
            size += set >> d & 1;
        if (size > most || size < (alone ? 1 : 2))
            continue;
        for (uint32_t d = 0; d < m->n_devices; d++)
            if (set >> d & 1)
                chosen.devices[chosen.n++] = d;
        status = fn(m, &chosen, ctx);
    }
    return status;
}

/* ------------------------------------------------------------------------ */
/* Where devices, formats and alignment allow cuts                           */

int64_t planner_common_divisor(int64_t a, int64_t b)
{
    while (b) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* 0 where it is out of all bounds. */
static int64_t common_multiple(int64_t a, int64_t b)
{
    int64_t product;
    if (!a || !b ||
        __builtin_mul_overflow(a / planner_common_divisor(a, b), b, &product))
        return 0;
    return product;
}

static const clv_axis_limit *limit_of(const clv_op_caps *caps, uint32_t axis)
{
    switch (axis) {
    case CORE_AXIS_ROWS:
        return &caps->rows;
    case CORE_AXIS_SEQUENCE:
        return &caps->sequence;
    case CORE_AXIS_CHANNELS:
        return &caps->channels;
    default:
        return NULL;
    }
}

/* Elements between which `bytes` an element come to a multiple of align. */
static int64_t aligned(double bytes, uint64_t align)
{
    int64_t n = 1;
    while (n < (int64_t)align * 2 && (uint64_t)(bytes * (double)n) % align)
        n *= 2;
    return n;
}

static double row_bytes(const clv_tensor_desc *desc)
{
    uint32_t elements, bytes;
    clv_dtype_block(desc->dtype, &elements, &bytes);
    return (double)desc->dims[desc->rank - 1] / elements * bytes;
}

/* A view begins at aligned addresses, in the operand and in its scales. */
static int64_t operand_step(const planner_maker *m, clv_value value,
                            clv_operand rule, uint32_t axis, int64_t unit)
{
    const clv_tensor_desc *desc = &m->graph->tensors[value];
    uint32_t elements, bytes;
    int64_t step = 1;
    clv_dtype_block(desc->dtype, &elements, &bytes);
    if (rule.last == axis) {
        step = elements * aligned(bytes, m->align);
        if (desc->quant == CLV_QUANT_PER_GROUP && desc->quant_group)
            step = common_multiple(step, desc->quant_group *
                                             aligned(sizeof(float), m->align));
        step /= planner_common_divisor(step, unit);
    }
    if (desc->rank > 1 && rule.first == axis) {
        const double rows = desc->rank > 2 ? (double)desc->dims[1] : 1;
        step = aligned(rows * row_bytes(desc), m->align);
        if (desc->quant == CLV_QUANT_PER_CHANNEL)
            step = common_multiple(step, aligned(sizeof(float), m->align));
    }
    return step;
}

int64_t planner_step_of(const planner_maker *m, uint32_t class, uint32_t axis,
                        const planner_device_set *set)
{
    uint32_t index = m->classes.classes[class].first;
    const clv_node *node = &m->graph->nodes[index];
    int64_t step = core_cut_granule(m->graph, index, axis);
    for (uint32_t i = 0; i < set->n; i++) {
        const clv_op_caps *caps = planner_maker_caps(m, class, set->devices[i]);
        const clv_axis_limit *limit = limit_of(caps, axis);
        const int64_t granularity = clv_split_granularity(caps, axis);
        if (granularity > 1)
            step = common_multiple(step, granularity);
        if (limit && limit->multiple > 1)
            step = common_multiple(step, limit->multiple);
    }
    for (uint32_t i = 0; i <= node->n_inputs && m->align > 1 && step; i++) {
        clv_value value = i < node->n_inputs ? node->inputs[i]
                          : node->n_outputs  ? node->outputs[0]
                                             : CLV_NO_TENSOR;
        if (value == CLV_NO_TENSOR)
            continue;
        clv_operand rule = clv_op_operand(node, i);
        int64_t own =
            operand_step(m, value, rule, axis, core_cut_unit(node, axis));
        if (rule.groups && rule.last == axis)
            own = common_multiple(own, core_cut_group(m->graph, node));
        step = common_multiple(step, own);
    }
    return step;
}
