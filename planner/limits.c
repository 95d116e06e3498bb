#include "limits.h"
#include "../core/base/error.h"

/* Of max_share: times are predictions. */
#define TOLERANCE 0.02

uint64_t planner_limits_bytes(const clv_plan *plan, uint32_t device)
{
    const core_plan_device *d = &plan->devices[device];
    uint64_t states = 0, there = atomic_load(&d->dev->state_bytes);
    if (!d->local || !d->n_steps)
        return 0;
    for (uint32_t v = 0; v < plan->graph->n_tensors; v++)
        if (plan->places[v].home == CORE_HOME_BOUND &&
            plan->places[v].memory == 1 + device &&
            plan->graph->values[v].base == v)
            states += plan->places[v].size;
    uint64_t sum = d->memory.size + (states > there ? states - there : 0);
    for (uint32_t i = 0; i < plan->n_loads; i++)
        if (plan->loads[i].device == device && !plan->loads[i].streamed)
            sum += core_plan_missing(plan, &plan->loads[i]);
    return sum;
}

static uint64_t bytes_over(const clv_plan *plan, uint32_t device)
{
    uint64_t room = plan->devices[device].room;
    uint64_t bytes = planner_limits_bytes(plan, device);
    return bytes > room ? bytes - room : 0;
}

double planner_limits_share(const clv_plan *plan, uint32_t device)
{
    const core_forecast *f = plan->forecast;
    if (f)
        return f->makespan_ns > 0 ? f->busy_ns[device] / f->makespan_ns : 0;
    for (uint32_t d = 0; d < plan->n_devices; d++)
        if ((d == device) != (plan->devices[d].n_steps != 0))
            return 0;
    return 1;
}

static double share_over(const clv_plan *plan, uint32_t device)
{
    double most = core_device_max_share(plan->devices[device].dev);
    double over = planner_limits_share(plan, device) - most;
    return most < 1 && over > 0 ? over : 0;
}

planner_excess planner_limits_excess(const clv_plan *plan)
{
    planner_excess sum = {0};
    for (uint32_t d = 0; d < plan->n_devices; d++) {
        double share = share_over(plan, d);
        sum.bytes += bytes_over(plan, d);
        sum.share = share > sum.share ? share : sum.share;
    }
    return sum;
}

clv_status planner_limits_check(const clv_plan *plan)
{
    for (uint32_t d = 0; d < plan->n_devices; d++) {
        const clv_device *dev = plan->devices[d].dev;
        uint64_t over = bytes_over(plan, d);
        if (over)
            return clv_error(
                CLV_ERR_LIMIT,
                "device '%s' lacks %llu bytes of memory for the best plan "
                "found, which takes %llu of it; use a smaller model, context "
                "or batch, or list another device in core.devices",
                dev->id, (unsigned long long)over,
                (unsigned long long)planner_limits_bytes(plan, d));
    }
    for (uint32_t d = 0; d < plan->n_devices; d++) {
        const clv_device *dev = plan->devices[d].dev;
        if (share_over(plan, d) > TOLERANCE)
            return clv_error(
                CLV_ERR_LIMIT,
                "device '%s' works %.0f%% of the time in the best plan found, "
                "not the %.0f%% of its max_share; raise max_share, list "
                "another device in core.devices, or set core.plan = auto",
                dev->id, 100 * planner_limits_share(plan, d),
                100 * core_device_max_share(dev));
    }
    return CLV_OK;
}
