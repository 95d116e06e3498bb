/*
 * Where values lie: transients in one arena that all devices of the plan share,
 * weights where they are or copied to a device, the rest in tensors.
 */
#include "dtype.h"
#include "plan.h"
#include "tensor.h"

#include <stdlib.h>
#include <string.h>

/* Cache lines, so that parts of one value on two devices do not share one. */
#define MIN_ALIGN 64

static clv_status no_memory(void)
{
    return clv_error(CLV_ERR_NO_MEMORY, "no memory for a plan");
}

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

static const clv_op_caps *caps_of(const clv_plan *plan, const clv_op_caps *caps,
                                  uint32_t part)
{
    return &caps[(size_t)plan->parts[part].device * plan->graph->n_nodes +
                 plan->parts[part].node];
}

/* ------------------------------------------------------------------------ */
/* Reuse in place                                                            */

static bool same_extent(const clv_tensor_desc *a, const clv_tensor_desc *b)
{
    return a->dtype == b->dtype && a->rank == b->rank &&
           !memcmp(a->dims, b->dims, sizeof a->dims) &&
           !memcmp(a->symbols, b->symbols, sizeof a->symbols);
}

/* The node may write its output over input i: the device allows it wherever the
 * value is an operand, and nobody reads it later. */
static bool can_overwrite(const clv_plan *plan, const clv_node *node,
                          uint32_t index, const clv_op_caps *caps, uint32_t i)
{
    clv_value in = node->inputs[i], out = node->outputs[0];
    if (in == CLV_NO_TENSOR || plan->places[in].home != CORE_HOME_ARENA ||
        plan->places[in].last_node != index ||
        !same_extent(&plan->graph->tensors[in], &plan->graph->tensors[out]))
        return false;
    for (uint32_t j = 0; j < node->n_inputs; j++)
        if (node->inputs[j] == in && !(caps->alias_inputs >> j & 1))
            return false;
    return true;
}

static void find_in_place(clv_plan *plan, const clv_op_caps *caps)
{
    for (uint32_t p = 0; p < plan->n_parts; p++) {
        uint32_t index = plan->parts[p].node;
        const clv_node *node = &plan->graph->nodes[index];
        if (node->n_outputs != 1 || plan->nodes[index].n_parts != 1 ||
            plan->places[node->outputs[0]].home != CORE_HOME_ARENA)
            continue;
        for (uint32_t i = 0; i < node->n_inputs; i++) {
            if (!can_overwrite(plan, node, index, caps_of(plan, caps, p), i))
                continue;
            plan->places[node->outputs[0]].in_place = node->inputs[i];
            break;
        }
    }
}

/* ------------------------------------------------------------------------ */
/* Arena                                                                     */

/* One lifetime for each value in the arena that takes over no other's memory;
 * those that do, which come later, extend it. index[v]: the value's lifetime. */
static uint32_t collect_lifetimes(const clv_plan *plan, core_lifetime *lifetimes,
                                  uint32_t *index, uint64_t *naive)
{
    uint32_t n = 0;
    *naive = 0;
    for (uint32_t v = 0; v < plan->graph->n_tensors; v++) {
        const core_place *place = &plan->places[v];
        if (place->home != CORE_HOME_ARENA)
            continue;
        *naive += (place->size + plan->align - 1) & ~(plan->align - 1);
        if (place->in_place == CLV_NO_TENSOR) {
            index[v] = n;
            lifetimes[n++] = (core_lifetime){place->size, place->first_node,
                                             place->last_node};
            continue;
        }
        index[v] = index[place->in_place];
        if (place->last_node > lifetimes[index[v]].last)
            lifetimes[index[v]].last = place->last_node;
    }
    return n;
}

static clv_status plan_arena(clv_plan *plan)
{
    uint32_t n_tensors = plan->graph->n_tensors;
    core_lifetime *lifetimes = calloc(n_tensors, sizeof *lifetimes);
    uint32_t *index = calloc(n_tensors, sizeof *index);
    uint64_t *offsets = calloc(n_tensors, sizeof *offsets);
    clv_status status;
    if (!lifetimes || !index || !offsets) {
        status = no_memory();
        goto done;
    }
    uint64_t naive;
    uint32_t n = collect_lifetimes(plan, lifetimes, index, &naive);
    status = core_memplan_make(lifetimes, n, plan->align, offsets,
                               &plan->memory);
    if (status)
        goto done;
    plan->memory.naive = naive;
    for (uint32_t v = 0; v < n_tensors; v++)
        if (plan->places[v].home == CORE_HOME_ARENA)
            plan->places[v].offset = offsets[index[v]];
done:
    free(offsets);
    free(index);
    free(lifetimes);
    return status;
}

/* ------------------------------------------------------------------------ */
/* Weights                                                                   */

/* loaded[weight * n_devices + device]: it is in plan->loads. */
static clv_status load_weight(clv_plan *plan, uint32_t part, clv_value value,
                              bool *loaded)
{
    uint32_t device = plan->parts[part].device;
    const clv_tensor *tensor = plan->graph->values[value].weight;
    bool *slot = &loaded[(size_t)value * plan->n_devices + device];
    uint32_t holding;
    if (*slot)
        return CLV_OK;
    clv_status status = core_tensor_holding(
        tensor, plan->devices[device].dev, plan->pointer_align, true,
        &holding);
    if (status)
        return clv_error_prefix(status, "weight '%s'",
                                plan->graph->values[value].name);
    plan->loads[plan->n_loads] = (core_load){.weight = value,
                                             .device = device,
                                             .holding = holding,
                                             .bytes = tensor->size};
    plan->n_loads++;
    *slot = true;
    return CLV_OK;
}

static clv_status plan_loads(clv_plan *plan)
{
    const clv_graph *graph = plan->graph;
    size_t n = (size_t)graph->n_tensors * plan->n_devices;
    bool *loaded = calloc(n, sizeof *loaded);
    plan->loads = calloc(n, sizeof *plan->loads);
    clv_status status = loaded && plan->loads ? CLV_OK : no_memory();
    for (uint32_t p = 0; p < plan->n_parts && !status; p++) {
        const clv_node *node = &graph->nodes[plan->parts[p].node];
        for (uint32_t j = 0; j < node->n_inputs && !status; j++)
            if (node->inputs[j] != CLV_NO_TENSOR &&
                plan->places[node->inputs[j]].home == CORE_HOME_WEIGHT)
                status = load_weight(plan, p, node->inputs[j], loaded);
    }
    free(loaded);
    return status;
}

/* ------------------------------------------------------------------------ */

/* Every device of the plan sees the arena, and the inputs, outputs and states
 * that it uses, in the host's memory. */
static clv_status check_sharing(const clv_plan *plan)
{
    uint32_t n_used = 0;
    for (uint32_t d = 0; d < plan->n_devices; d++)
        n_used += plan->devices[d].n_steps != 0;
    uint64_t largest = plan->memory.size ? plan->memory.size : 1;
    for (uint32_t v = 0; v < plan->graph->n_tensors; v++) {
        const core_place *place = &plan->places[v];
        if ((place->home == CORE_HOME_OWN || place->home == CORE_HOME_BOUND) &&
            place->size > largest)
            largest = place->size;
    }
    for (uint32_t d = 0; d < plan->n_devices; d++) {
        if (!plan->devices[d].n_steps)
            continue;
        clv_status status = core_tensor_can_share(plan->devices[d].dev, largest,
                                                  n_used > 1);
        if (status)
            return status;
    }
    return CLV_OK;
}

clv_status core_plan_memory(clv_plan *plan, const clv_op_caps *caps)
{
    const clv_graph *graph = plan->graph;
    plan->pointer_align = 1;
    for (uint32_t p = 0; p < plan->n_parts; p++) {
        uint32_t align = caps_of(plan, caps, p)->pointer_align;
        if (align > plan->pointer_align)
            plan->pointer_align = align;
    }
    plan->align = plan->pointer_align > MIN_ALIGN ? plan->pointer_align
                                                  : MIN_ALIGN;
    for (uint32_t v = 0; v < graph->n_tensors; v++) {
        clv_status status =
            core_desc_size(&graph->tensors[v], NULL, &plan->places[v].size);
        if (status)
            return status;
        plan->places[v].home = home_of(plan, v);
    }
    find_in_place(plan, caps);
    clv_status status = plan_arena(plan);
    if (!status)
        status = plan_loads(plan);
    return status ? status : check_sharing(plan);
}
