/*
 * Where copies pass between a device's own memory and the host's: directly,
 * where the device imports host memory, or where the host's side is in memory
 * that the host sees of this device, or of one whose memory it imports; else
 * through a buffer of such memory, in which each copy has bytes of its own.
 * Streamed weights are in such memory already.
 */
#include "../../core/base/error.h"
#include "../../core/graph/tensor.h"
#include "memory.h"

#include <stdlib.h>

#define STAGING_ALIGN 64u

static clv_status list_copies(clv_plan *plan)
{
    uint32_t n = 0;
    for (uint32_t p = 0; p < plan->n_parts; p++)
        n += core_part_copies(plan, p);
    plan->copies = calloc(n + 1u, sizeof *plan->copies);
    if (!plan->copies)
        return core_no_memory("for a plan");
    for (uint32_t p = 0; p < plan->n_parts; p++) {
        if (!core_part_copies(plan, p))
            continue;
        const clv_node *node = &plan->graph->nodes[plan->parts[p].node];
        plan->copies[plan->n_copies++] = (core_copy){
            .part = p,
            .from = node->inputs[0],
            .to = node->outputs[0],
            .out = core_part_copies_out(plan, p),
            .streams = plan->places[node->inputs[0]].home == CORE_HOME_WEIGHT,
            .kept = core_plan_is_kept(plan, node->outputs[0])};
    }
    return CLV_OK;
}

/* The first device that cannot copy from and to other memory of the host's. */
static uint32_t shared_device(const clv_plan *plan)
{
    const uint64_t largest = planner_largest_shared(plan, false);
    uint32_t type;
    for (uint32_t d = 0; d < plan->n_devices; d++) {
        const clv_device *dev = plan->devices[d].dev;
        if (!plan->devices[d].staged || !plan->devices[d].n_steps ||
            !core_device_staging_type(dev, &type))
            continue;
        const clv_mem_type *t = &dev->mem_types[type];
        if ((t->flags & CLV_MEM_COHERENT) && (t->flags & CLV_MEM_CACHED) &&
            largest <= t->max_size)
            return 1 + d;
    }
    return 0;
}

/* Whether memory that belongs to plan->shared_device is this one's, too. */
static bool reaches_shared(const clv_plan *plan, uint32_t device)
{
    const clv_device *dev = plan->devices[device].dev, *owner;
    uint32_t type;
    if (!plan->shared_device)
        return false;
    owner = plan->devices[plan->shared_device - 1].dev;
    return dev == owner || (core_device_imports_mapped(dev, owner, &type) &&
                            planner_largest_shared(plan, false) <=
                                dev->mem_types[type].max_size);
}

static bool reaches_host(const clv_plan *plan, const core_copy *copy)
{
    const core_place *host =
        core_plan_base(plan, copy->out ? copy->to : copy->from);
    return (host->home == CORE_HOME_ARENA || host->home == CORE_HOME_OWN) &&
           reaches_shared(plan, plan->parts[copy->part].device);
}

/* Whether node i writes (or reads) a part of that base. */
static bool touches(const clv_graph *g, uint32_t i, clv_value base, bool write)
{
    const clv_node *node = &g->nodes[i];
    const bool in_place = write && node->op == CLV_OP_SET_ROWS;
    const clv_value *list = write && !in_place ? node->outputs : node->inputs;
    const uint32_t n = in_place ? 1 : write ? node->n_outputs : node->n_inputs;
    for (uint32_t j = 0; j < n; j++)
        if (list[j] != CLV_NO_TENSOR && g->values[list[j]].base == base)
            return true;
    return false;
}

/* Whether only the host writes what is copied in before the run, or reads what
 * is copied out after it. */
static bool is_for_host(const clv_plan *plan, const core_copy *copy)
{
    const clv_graph *g = plan->graph;
    const clv_value base = g->values[copy->out ? copy->to : copy->from].base;
    for (uint32_t i = 0; i < g->n_nodes; i++)
        if (touches(g, i, base, !copy->out))
            return false;
    return true;
}

static clv_status place_copy(clv_plan *plan, core_copy *copy)
{
    core_plan_device *d = &plan->devices[plan->parts[copy->part].device];
    core_runs runs;
    CLV_TRY(core_plan_copy_runs(plan, copy->from, NULL, &runs));
    copy->bytes = runs.bytes * runs.n;
    copy->n_runs = copy->streams ? 1 : runs.n;
    copy->staged = d->staged && !copy->streams && !reaches_host(plan, copy);
    if (!copy->staged)
        return CLV_OK;
    copy->relayed = !is_for_host(plan, copy);
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

clv_status planner_staging(clv_plan *plan)
{
    const uint64_t largest = planner_largest_shared(plan, true);
    clv_status status = list_copies(plan);
    for (uint32_t d = 0; d < plan->n_devices; d++)
        plan->devices[d].staged =
            plan->devices[d].local &&
            !core_device_reaches_host(plan->devices[d].dev, largest);
    plan->shared_device = shared_device(plan);
    for (uint32_t i = 0; i < plan->n_copies && !status; i++)
        status = place_copy(plan, &plan->copies[i]);
    for (uint32_t d = 0; d < plan->n_devices && !status; d++)
        if (plan->devices[d].local && plan->devices[d].n_steps)
            status = check_device(&plan->devices[d]);
    return status;
}
