/*
 * Where values lie: transients in an arena of their memory, of which there is
 * one for all devices that use the host's and one for each that has its own;
 * weights where they are or copied to a device, the rest in tensors.
 */
#include "memory.h"
#include "../../core/base/error.h"
#include "../../core/device/subgraph.h"
#include "../../core/graph/tensor.h"
#include "memplan.h"
#include "reuse.h"

#include <stdlib.h>
#include <string.h>

/* Cache lines, so that parts of one value on two devices do not share one. */
#define MIN_ALIGN 64
/* So that no answer of a plugin makes sums overflow. */
#define MOST_SCRATCH ((uint64_t)1 << 60)

static uint32_t home_of(const clv_plan *plan, clv_value value)
{
    if (plan->places[value].first_step == CORE_NO_STEP)
        return CORE_HOME_NONE;
    switch (plan->graph->tensors[value].usage) {
    case CLV_USAGE_TRANSIENT:
        return CORE_HOME_ARENA;
    case CLV_USAGE_STATE:
        return CORE_HOME_BOUND;
    case CLV_USAGE_WEIGHT:
        return CORE_HOME_WEIGHT;
    }
    return CORE_HOME_OWN;
}

/* ------------------------------------------------------------------------ */
/* Reuse in place                                                            */

static bool same_extent(const clv_tensor_desc *a, const clv_tensor_desc *b)
{
    return a->dtype == b->dtype && a->rank == b->rank &&
           !memcmp(a->dims, b->dims, sizeof a->dims) &&
           !memcmp(a->symbols, b->symbols, sizeof a->symbols);
}

/* The node of a part may write its output over input i: the device allows it
 * wherever the value is an operand, and nobody reads it later. */
static bool can_overwrite(const clv_plan *plan, const planner_uses *uses,
                          const clv_node *node, uint32_t part,
                          const clv_op_caps *caps, uint32_t i)
{
    clv_value in = node->inputs[i], out = node->outputs[0];
    if (in == CLV_NO_TENSOR || plan->places[in].home != CORE_HOME_ARENA ||
        plan->places[in].memory != plan->places[out].memory ||
        plan->places[in].last_part != part ||
        !planner_uses_over(uses, in, part) ||
        !same_extent(&plan->graph->tensors[in], &plan->graph->tensors[out]))
        return false;
    for (uint32_t j = 0; j < node->n_inputs; j++)
        if (node->inputs[j] == in && !(caps->alias_inputs >> j & 1))
            return false;
    return true;
}

/* viewed[v]: v is a view or has one; then others may use its memory. */
static void find_in_place(clv_plan *plan, const planner_uses *uses,
                          const clv_op_caps *caps, const bool *viewed)
{
    for (uint32_t p = 0; p < plan->n_parts; p++) {
        uint32_t index = plan->parts[p].node;
        const clv_node *node = &plan->graph->nodes[index];
        if (node->n_outputs != 1 || node->op == CORE_OP_COPY ||
            viewed[node->outputs[0]] ||
            plan->places[node->outputs[0]].home != CORE_HOME_ARENA)
            continue;
        for (uint32_t i = 0; i < node->n_inputs; i++) {
            if (node->inputs[i] == CLV_NO_TENSOR || viewed[node->inputs[i]] ||
                !can_overwrite(plan, uses, node, p, &caps[index], i))
                continue;
            plan->places[node->outputs[0]].in_place = node->inputs[i];
            break;
        }
    }
}

/* ------------------------------------------------------------------------ */
/* Arena                                                                     */

/* What the lifetimes are of. */
typedef struct owners {
    planner_uses *uses;
    clv_value *values; /* of each lifetime */
} owners;

static bool may_share(const void *ctx, uint32_t a, uint32_t b)
{
    const owners *o = ctx;
    return planner_uses_apart(o->uses, o->values[a], o->values[b]) ||
           planner_uses_apart(o->uses, o->values[b], o->values[a]);
}

/* One lifetime for each value in the memory's arena that takes over no other's
 * memory; those that do extend it. index[v]: the value's lifetime. */
static uint32_t collect_lifetimes(const clv_plan *plan, uint32_t memory,
                                  const owners *owned,
                                  planner_lifetime *lifetimes, uint32_t *index,
                                  uint64_t *naive)
{
    uint32_t n = 0;
    *naive = 0;
    for (uint32_t v = 0; v < plan->graph->n_tensors; v++) {
        const core_place *place = &plan->places[v];
        if (place->home != CORE_HOME_ARENA || place->memory != memory ||
            plan->graph->values[v].base != v)
            continue;
        *naive += (place->size + plan->align - 1) & ~(plan->align - 1);
        if (place->in_place != CLV_NO_TENSOR)
            continue;
        index[v] = n;
        owned->values[n] = v;
        lifetimes[n++] =
            core_plan_is_kept(plan, v)
                ? (planner_lifetime){place->size, 0, plan->n_parts - 1}
                : (planner_lifetime){place->size, place->first_part,
                                     place->last_part};
    }
    for (uint32_t v = 0; v < plan->graph->n_tensors; v++) {
        clv_value owner = v;
        if (plan->places[v].memory != memory)
            continue;
        while (plan->places[owner].in_place != CLV_NO_TENSOR)
            owner = plan->places[owner].in_place;
        if (owner == v)
            continue;
        planner_lifetime *lifetime = &lifetimes[index[v] = index[owner]];
        if (plan->places[v].last_part > lifetime->last)
            lifetime->last = plan->places[v].last_part;
        planner_uses_join(owned->uses, owner, v);
    }
    return n;
}

static clv_status plan_arena(clv_plan *plan, planner_uses *uses,
                             uint32_t memory, core_memplan *out)
{
    uint32_t n_tensors = plan->graph->n_tensors;
    planner_lifetime *lifetimes = calloc(n_tensors, sizeof *lifetimes);
    uint32_t *index = calloc(n_tensors, sizeof *index);
    uint64_t *offsets = calloc(n_tensors, sizeof *offsets);
    owners owned = {uses, calloc(n_tensors, sizeof *owned.values)};
    clv_status status;
    if (!lifetimes || !index || !offsets || !owned.values) {
        status = core_no_memory("for a plan");
        goto done;
    }
    uint64_t naive;
    uint32_t n =
        collect_lifetimes(plan, memory, &owned, lifetimes, index, &naive);
    status = planner_memplan_make(lifetimes, n, plan->align, may_share, &owned,
                                  offsets, out);
    if (status)
        goto done;
    out->naive = naive;
    for (uint32_t v = 0; v < n_tensors; v++)
        if (plan->places[v].home == CORE_HOME_ARENA &&
            plan->places[v].memory == memory)
            plan->places[v].offset =
                offsets[index[plan->graph->values[v].base]] +
                core_view_offset(plan->graph, v);
done:
    free(owned.values);
    free(offsets);
    free(index);
    free(lifetimes);
    return status;
}

static clv_status plan_arenas(clv_plan *plan, planner_uses *uses)
{
    clv_status status = plan_arena(plan, uses, 0, &plan->memory);
    for (uint32_t d = 0; d < plan->n_devices && !status; d++)
        if (plan->devices[d].local)
            status = plan_arena(plan, uses, 1 + d, &plan->devices[d].memory);
    return status;
}

/* ------------------------------------------------------------------------ */
/* Weights                                                                   */

/* A view of a weight in the device's own memory begins at its start: it is rows
 * of the tensor, or columns of it without gaps (cut.h). */
static clv_status load_view(const clv_plan *plan, clv_value value,
                            uint32_t device, core_load *load)
{
    const clv_graph *graph = plan->graph;
    const clv_tensor_desc *desc = &graph->tensors[value];
    const clv_tensor *tensor = graph->values[value].weight;
    const clv_device *dev = plan->devices[device].dev;
    uint64_t begin = core_view_offset(graph, value);
    bool aligned = !(begin & (plan->pointer_align - 1));
    if (load->holding == CORE_HOLD_IMPORT && aligned)
        return CLV_OK;
    const core_bounds box = core_bounds_of(graph, value);
    core_runs range;
    if (!core_desc_is_dense(desc) ||
        !core_bounds_runs(desc->dtype, desc->rank, tensor->dims, &box,
                          &range)) {
        if (load->holding == CORE_HOLD_COPY && aligned) {
            return CLV_OK; /* the copy is of all its columns */
        }
        return clv_error(CLV_ERR_UNSUPPORTED,
                         "device '%s' needs pieces of a weight's columns to "
                         "begin at multiples of %llu bytes in memory that it "
                         "imports, not at %llu; cut elsewhere",
                         dev->id, (unsigned long long)plan->pointer_align,
                         (unsigned long long)begin);
    }
    load->holding = CORE_HOLD_COPY;
    load->range = range;
    load->whole = false;
    load->bytes = plan->places[value].size;
    uint32_t type;
    return core_device_copy_type(dev, load->bytes, plan->pointer_align, &type);
}

/* loaded[weight * n_devices + device]: it is in plan->loads. */
static clv_status load_weight(clv_plan *plan, uint32_t part, clv_value value,
                              bool *loaded)
{
    uint32_t device = plan->parts[part].device;
    const clv_tensor *tensor = plan->graph->values[value].weight;
    clv_value base = plan->graph->values[value].base;
    bool *slot = &loaded[(size_t)value * plan->n_devices + device];
    core_load load = {.weight = value,
                      .device = device,
                      .bytes = plan->places[value].size,
                      .range = core_tensor_whole(tensor),
                      .whole = true};
    if (*slot)
        return CLV_OK;
    clv_status status =
        core_tensor_holding(tensor, plan->devices[device].dev,
                            plan->pointer_align, true, &load.holding);
    if (!status && base != value)
        status = load_view(plan, value, device, &load);
    if (!status && plan->graph->tensors[value].layout) {
        load.holding = CORE_HOLD_PRIVATE;
        load.whole = false;
    }
    if (status)
        return clv_error_prefix(status, "weight '%s'",
                                plan->graph->values[base].name);
    plan->loads[plan->n_loads++] = load;
    *slot = true;
    return CLV_OK;
}

/* What is copied in each run comes from memory that the host and the device
 * see. The same bytes serve all copies of them. */
static clv_status load_stream(clv_plan *plan, uint32_t part)
{
    const clv_node *node = &plan->graph->nodes[plan->parts[part].node];
    const clv_value value = node->inputs[0];
    const core_place *ring = core_plan_base(plan, node->outputs[0]);
    core_load load = {.weight = value,
                      .device = ring->memory - 1,
                      .holding = CORE_HOLD_STREAM,
                      .streamed = true,
                      .kept = core_plan_is_kept(plan, node->outputs[0]),
                      .bytes = plan->places[value].size};
    if (plan->places[value].home != CORE_HOME_WEIGHT)
        return CLV_OK; /* another kind of copy */
    CLV_TRY(core_plan_copy_runs(plan, value, NULL, &load.range));
    plan->loads[plan->n_loads++] = load;
    return CLV_OK;
}

/* A weight, and its scales where it is quantised by them. */
static clv_status load_operand(clv_plan *plan, uint32_t part, clv_value value,
                               bool *loaded)
{
    uint32_t scales = plan->graph->tensors[value].quant_scales;
    clv_status status = load_weight(plan, part, value, loaded);
    return status || !scales ? status
                             : load_weight(plan, part, scales - 1, loaded);
}

static clv_status plan_loads(clv_plan *plan)
{
    const clv_graph *graph = plan->graph;
    size_t n = (size_t)graph->n_tensors * plan->n_devices;
    bool *loaded = calloc(n, sizeof *loaded);
    plan->loads = calloc(n + plan->n_parts, sizeof *plan->loads);
    clv_status status =
        loaded && plan->loads ? CLV_OK : core_no_memory("for a plan");
    for (uint32_t p = 0; p < plan->n_parts && !status; p++) {
        const clv_node *node = &graph->nodes[plan->parts[p].node];
        if (node->op == CORE_OP_COPY) {
            status = load_stream(plan, p);
            continue;
        }
        for (uint32_t j = 0; j < node->n_inputs && !status; j++)
            if (node->inputs[j] != CLV_NO_TENSOR &&
                plan->places[node->inputs[j]].home == CORE_HOME_WEIGHT)
                status = load_operand(plan, p, node->inputs[j], loaded);
    }
    free(loaded);
    return status;
}

/* ------------------------------------------------------------------------ */

uint64_t planner_largest_shared(const clv_plan *plan, bool states)
{
    uint64_t largest = plan->memory.size;
    for (uint32_t v = 0; v < plan->graph->n_tensors; v++) {
        const core_place *place = &plan->places[v];
        if ((place->home == CORE_HOME_OWN ||
             (place->home == CORE_HOME_BOUND && states)) &&
            !place->memory && place->size > largest)
            largest = place->size;
    }
    return largest;
}

/* Every device without memory of its own sees the arena, and the inputs,
 * outputs and states that it uses, in the host's memory. */
static clv_status check_sharing(const clv_plan *plan)
{
    uint32_t n_used = 0;
    for (uint32_t d = 0; d < plan->n_devices; d++)
        n_used += plan->devices[d].n_steps != 0;
    uint64_t largest = planner_largest_shared(plan, true);
    largest = largest ? largest : 1;
    for (uint32_t d = 0; d < plan->n_devices; d++) {
        if (!plan->devices[d].n_steps || plan->devices[d].local)
            continue;
        CLV_TRY(
            core_tensor_can_share(plan->devices[d].dev, largest, n_used > 1));
    }
    return CLV_OK;
}

/* What the programs of each device share: they run one after another. */
static void find_scratch(clv_plan *plan, const clv_op_caps *caps)
{
    for (uint32_t p = 0; p < plan->n_parts; p++) {
        core_plan_device *d = &plan->devices[plan->parts[p].device];
        const uint64_t size = caps[plan->parts[p].node].scratch_size;
        if (!core_part_copies(plan, p) && size > d->scratch_size)
            d->scratch_size = size < MOST_SCRATCH ? size : MOST_SCRATCH;
    }
}

void planner_alignment(clv_plan *plan, const clv_op_caps *caps)
{
    plan->pointer_align = 1;
    for (uint32_t p = 0; p < plan->n_parts; p++) {
        uint32_t align = caps[plan->parts[p].node].pointer_align;
        if (align > plan->pointer_align)
            plan->pointer_align = align;
    }
    plan->align =
        plan->pointer_align > MIN_ALIGN ? plan->pointer_align : MIN_ALIGN;
}

clv_status planner_memory(clv_plan *plan, const clv_op_caps *caps)
{
    const clv_graph *graph = plan->graph;
    find_scratch(plan, caps);
    planner_uses uses = {0};
    bool *viewed = calloc(graph->n_tensors, sizeof *viewed);
    clv_status status =
        viewed ? planner_uses_find(plan, &uses) : core_no_memory("for a plan");
    for (uint32_t v = 0; v < graph->n_tensors && !status; v++) {
        status =
            core_desc_size(&graph->tensors[v], NULL, &plan->places[v].size);
        plan->places[v].home = home_of(plan, v);
        if (graph->values[v].base != v)
            viewed[v] = viewed[graph->values[v].base] = true;
    }
    if (!status) {
        find_in_place(plan, &uses, caps, viewed);
        status = plan_arenas(plan, &uses);
    }
    planner_uses_finish(&uses);
    free(viewed);
    CLV_TRY(status);
    CLV_TRY(plan_loads(plan));
    CLV_TRY(check_sharing(plan));
    return planner_staging(plan);
}
