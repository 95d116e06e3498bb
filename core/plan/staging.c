/*
 * Where copies pass between a device's own memory and the host's: directly,
 * where the device imports host memory, else through a buffer of the device
 * that the host sees, in which each copy has bytes of its own.
 */
#include "../graph/tensor.h"
#include "plan.h"

#include <stdlib.h>

#define STAGING_ALIGN 64u

/* Of a dimension that is a symbol a box has all or, where the symbol is fixed
 * to one value, a part of what it is at most. */
clv_status core_plan_copy_runs(const clv_plan *plan, clv_value value,
                               const int64_t *symbols, core_runs *out)
{
    const clv_graph *g = plan->graph;
    const clv_tensor_desc *base = &g->tensors[g->values[value].base];
    core_bounds box = core_bounds_of(g, value);
    int64_t dims[CLV_MAX_RANK];
    bool known = true;
    for (uint32_t d = 0; d < base->rank; d++) {
        uint32_t symbol = base->symbols[d];
        dims[d] = base->dims[d];
        if (symbol && symbols && box.end[d] == dims[d] && !box.begin[d])
            dims[d] = box.end[d] = symbols[symbol - 1];
        known &= !d || !symbol ||
                 g->symbols[symbol - 1].min == g->symbols[symbol - 1].max;
    }
    if (known && core_bounds_runs(base->dtype, base->rank, dims, &box, out))
        return CLV_OK;
    return clv_error(CLV_ERR_UNSUPPORTED,
                     "plan: a part of '%s' cannot be "
                     "copied between memories; only the first dimension can "
                     "vary, and only the first and the last can be cut",
                     g->values[g->values[value].base].name
                         ? g->values[g->values[value].base].name
                         : "a value");
}

static clv_status list_copies(clv_plan *plan)
{
    uint32_t n = 0;
    for (uint32_t p = 0; p < plan->n_parts; p++)
        n += core_part_copies(plan, p);
    plan->copies = calloc(n + 1u, sizeof *plan->copies);
    if (!plan->copies)
        return clv_error(CLV_ERR_NO_MEMORY, "no memory for a plan");
    for (uint32_t p = 0; p < plan->n_parts; p++) {
        if (!core_part_copies(plan, p))
            continue;
        const clv_node *node = &plan->graph->nodes[plan->parts[p].node];
        plan->copies[plan->n_copies++] =
            (core_copy){.part = p,
                        .from = node->inputs[0],
                        .to = node->outputs[0],
                        .out = core_part_copies_out(plan, p)};
    }
    return CLV_OK;
}

static clv_status place_copy(clv_plan *plan, core_copy *copy)
{
    core_plan_device *d = &plan->devices[plan->parts[copy->part].device];
    core_runs runs;
    CLV_TRY(core_plan_copy_runs(plan, copy->from, NULL, &runs));
    copy->bytes = runs.bytes * runs.n;
    copy->n_runs = runs.n;
    if (!d->staged)
        return CLV_OK;
    copy->staging = d->staging_size;
    d->staging_size +=
        (copy->bytes + STAGING_ALIGN - 1) & ~(uint64_t)(STAGING_ALIGN - 1);
    return CLV_OK;
}

static clv_status check_device(const core_plan_device *d)
{
    uint32_t type;
    if (d->memory.size > d->dev->mem_types[d->local_type].max_size)
        return clv_error(
            CLV_ERR_LIMIT,
            "device '%s' allocates at most %llu bytes of its memory at once, "
            "its intermediate values need %llu; use a smaller batch or context",
            d->dev->id,
            (unsigned long long)d->dev->mem_types[d->local_type].max_size,
            (unsigned long long)d->memory.size);
    clv_status status = d->staged ? core_device_can_exchange(d->dev) : CLV_OK;
    if (status || !d->staging_size)
        return status;
    core_device_staging_type(d->dev, &type);
    if (d->staging_size > d->dev->mem_types[type].max_size)
        return clv_error(CLV_ERR_LIMIT,
                         "device '%s' has at most %llu bytes that the host "
                         "sees, copies of a run need %llu; use a smaller batch",
                         d->dev->id,
                         (unsigned long long)d->dev->mem_types[type].max_size,
                         (unsigned long long)d->staging_size);
    return CLV_OK;
}

clv_status core_plan_staging(clv_plan *plan)
{
    const uint64_t largest = core_plan_largest_shared(plan);
    clv_status status = list_copies(plan);
    for (uint32_t d = 0; d < plan->n_devices; d++)
        plan->devices[d].staged =
            plan->devices[d].local &&
            !core_device_reaches_host(plan->devices[d].dev, largest);
    for (uint32_t i = 0; i < plan->n_copies && !status; i++)
        status = place_copy(plan, &plan->copies[i]);
    for (uint32_t d = 0; d < plan->n_devices && !status; d++)
        if (plan->devices[d].local && plan->devices[d].n_steps)
            status = check_device(&plan->devices[d]);
    return status;
}
