/* What plans take of the memory of a device, and of the host's. */
#include "../graph/tensor.h"
#include "plan.h"

/* Of a device's own memory, for what longer runs work on. */
#define LONGER_RUNS_PART 16

/* Of memory of its own. */
static uint64_t budget_of(const clv_device *dev)
{
    return dev->info.memory_free ? dev->info.memory_free
                                 : dev->info.memory_size;
}

static bool is_copy(const core_load *load)
{
    return load->holding != CORE_HOLD_IMPORT;
}

/* Whether the bytes of a load lie there; dev: NULL: in the host's memory. */
static bool lies_there(const clv_plan *plan, const core_load *load,
                       const clv_device *dev)
{
    const core_plan_device *d = &plan->devices[load->device];
    return (d->local && is_copy(load) && !load->streamed ? d->dev : NULL) ==
           dev;
}

static bool is_same(const clv_plan *a, const core_load *x, const clv_plan *b,
                    const core_load *y)
{
    return a->graph->values[x->weight].weight ==
               b->graph->values[y->weight].weight &&
           x->streamed == y->streamed &&
           a->devices[x->device].dev == b->devices[y->device].dev &&
           !memcmp(&x->range, &y->range, sizeof x->range);
}

/* Whether an earlier one of the plans, or of this one's loads, has it. */
static bool is_counted(const clv_plan *const *plans, uint32_t plan,
                       uint32_t load)
{
    for (uint32_t p = 0; p <= plan; p++)
        for (uint32_t i = 0; i < (p < plan ? plans[p]->n_loads : load); i++)
            if (is_same(plans[p], &plans[p]->loads[i], plans[plan],
                        &plans[plan]->loads[load]))
                return true;
    return false;
}

/* Of a part of a matrix's columns the place is as large as all of it. */
static uint64_t bytes_of(const clv_plan *plan, const core_load *load)
{
    core_runs runs;
    return core_plan_copy_runs(plan, load->weight, NULL, &runs)
               ? load->bytes
               : runs.bytes * runs.n;
}

/* Whether a load of the whole weight covers one that is used in place too. */
static bool is_covered(const clv_plan *plan, uint32_t load)
{
    const core_load *x = &plan->loads[load];
    const clv_tensor *tensor = plan->graph->values[x->weight].weight;
    for (uint32_t i = 0; i < plan->n_loads; i++) {
        const core_load *y = &plan->loads[i];
        if (i != load && !is_copy(y) &&
            plan->graph->values[y->weight].weight == tensor &&
            bytes_of(plan, y) == tensor->size &&
            (i < load || bytes_of(plan, x) < tensor->size))
            return true;
    }
    return false;
}

static void add_weights(const clv_plan *const *plans, uint32_t plan,
                        const clv_device *dev, clv_memory_use *use)
{
    const clv_plan *p = plans[plan];
    uint64_t kept = 0;
    for (uint32_t i = 0; i < p->n_loads; i++) {
        const core_load *load = &p->loads[i];
        if (load->streamed && (!dev || p->devices[load->device].dev == dev))
            *(load->kept ? &kept : &use->streamed) += load->bytes;
        if (dev && core_plan_load_reaches(p, load) &&
            p->devices[load->device].dev == dev && !is_counted(plans, plan, i))
            use->in_place += bytes_of(p, load);
        if (!lies_there(p, load, dev))
            continue;
        if (!is_copy(load) && !is_covered(p, i))
            use->in_place += bytes_of(p, load);
        else if (is_copy(load) && !is_counted(plans, plan, i))
            use->weights += load->bytes;
    }
    use->kept = kept > use->kept ? kept : use->kept;
}

/* States are the same in all plans. shared: so is the memory of values. */
static void add_values(const clv_plan *plan, const clv_device *dev, bool shared,
                       clv_memory_use *use)
{
    uint64_t states = 0;
    uint32_t memory = 0;
    if (!dev && !shared)
        use->values += plan->memory.size;
    for (uint32_t d = 0; d < plan->n_devices; d++)
        if (plan->devices[d].dev == dev && plan->devices[d].local) {
            memory = 1 + d;
            use->values += (shared ? 0 : plan->devices[d].memory.size) +
                           plan->devices[d].scratch_size;
        }
    for (clv_value v = 0; v < plan->graph->n_tensors; v++)
        if (plan->places[v].home == CORE_HOME_BOUND &&
            plan->places[v].memory == memory && (memory || !dev) &&
            plan->graph->values[v].base == v)
            states += plan->places[v].size;
    use->states = states > use->states ? states : use->states;
}

uint64_t core_plan_room_for_copies(const clv_plan *plan, uint32_t device,
                                   uint64_t *weights)
{
    const core_plan_device *d = &plan->devices[device];
    const uint64_t all = budget_of(d->dev);
    clv_memory_use use = {0};
    uint64_t there = 0;
    add_values(plan, d->dev, false, &use);
    *weights = 0;
    for (uint32_t i = 0; i < plan->n_loads; i++)
        if (plan->loads[i].device == device &&
            lies_there(plan, &plan->loads[i], d->dev)) {
            there += plan->loads[i].bytes;
            *weights += plan->loads[i].holding == CORE_HOLD_PRIVATE
                            ? 0
                            : plan->loads[i].bytes;
        }
    const uint64_t used = all / LONGER_RUNS_PART + there + use.states +
                          (use.values > d->reserve ? use.values : d->reserve);
    return !all ? UINT64_MAX : all > used ? all - used : 0;
}

clv_memory_use clv_plans_memory(const clv_plan *const *plans, uint32_t n,
                                const clv_workspace *workspace,
                                const clv_device *dev)
{
    clv_memory_use use = {
        .values = workspace ? clv_workspace_size(workspace, dev) : 0};
    uint32_t type;
    if (dev && core_device_has_local(dev, &type))
        use.budget = budget_of(dev);
    else if (dev && core_device_is_windowed(dev))
        use.budget = dev->info.address_size;
    for (uint32_t p = 0; p < n; p++) {
        if (!dev && plans[p]->file.read) {
            use.budget = plans[p]->file.room;
            use.from_file += core_plan_file_sum(plans[p], NULL);
        }
        add_weights(plans, p, dev, &use);
        add_values(plans[p], dev, workspace != NULL, &use);
    }
    return use;
}
