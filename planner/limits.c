#include "limits.h"
#include "../core/base/error.h"
#include "candidates/room.h"

/* Of max_share: times are predictions. */
#define TOLERANCE 0.02

/* Of a device's own memory, for what no plan counts: buffers that copies pass
 * through, drivers, programs. */
#define RESERVE_PART 32
#define RESERVE_MOST ((uint64_t)160 << 20)

uint64_t planner_room(const clv_graph *graph, clv_device *dev)
{
    const uint64_t all =
        dev->info.memory_free ? dev->info.memory_free : dev->info.memory_size;
    uint64_t room = clv_device_room(dev);
    if (room == UINT64_MAX)
        return room;
    room += core_plan_unused_bytes(graph, dev);
    if (dev->info.clock == CLV_CLOCK_VIRTUAL || core_device_is_windowed(dev))
        return room;
    const uint64_t part = all / RESERVE_PART;
    const uint64_t reserve = part < RESERVE_MOST ? part : RESERVE_MOST;
    return room > reserve ? room - reserve : 0;
}

/* Of weights, those that are still to be loaded, and those that nobody uses. */
static uint64_t weight_bytes(const clv_plan *plan, uint32_t device)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < plan->n_loads; i++)
        if (plan->loads[i].device == device && !plan->loads[i].streamed)
            sum += core_plan_unused(plan, &plan->loads[i]);
    return sum;
}

uint64_t planner_limits_weights(const clv_plan *plan, uint32_t device)
{
    uint64_t sum = weight_bytes(plan, device);
    for (uint32_t i = 0; i < plan->n_loads; i++)
        if (plan->loads[i].device == device && plan->loads[i].kept)
            sum += plan->loads[i].bytes;
    return sum;
}

/* Whether a node on the device has the state for an operand. */
static bool uses_state(const clv_plan *plan, uint32_t device, clv_value state)
{
    for (uint32_t p = 0; p < plan->n_parts; p++) {
        const clv_node *node = &plan->graph->nodes[plan->parts[p].node];
        for (uint32_t i = 0;
             i < node->n_inputs && plan->parts[p].device == device; i++)
            if (node->inputs[i] != CLV_NO_TENSOR &&
                plan->graph->values[node->inputs[i]].base == state)
                return true;
    }
    return false;
}

/* Of states in the device's own memory, or of those in the host's that it has
 * to reach. */
static uint64_t state_bytes(const clv_plan *plan, uint32_t device)
{
    const bool local = plan->devices[device].local;
    uint64_t sum = 0;
    for (uint32_t v = 0; v < plan->graph->n_tensors; v++)
        if (plan->places[v].home == CORE_HOME_BOUND &&
            plan->graph->values[v].base == v &&
            plan->places[v].memory == (local ? 1 + device : 0) &&
            (local || uses_state(plan, device, v)))
            sum += plan->places[v].size;
    return sum;
}

uint64_t planner_limits_states(const clv_plan *plan, uint32_t device)
{
    const uint64_t bytes = state_bytes(plan, device);
    return bytes > plan->devices[device].states ? bytes
                                                : plan->devices[device].states;
}

uint64_t planner_limits_bytes(const clv_plan *plan, uint32_t device)
{
    const core_plan_device *d = &plan->devices[device];
    if ((!d->local && !core_device_is_windowed(d->dev)) || !d->n_steps)
        return 0;
    const uint64_t states = state_bytes(plan, device);
    /* It imports the arena whole. */
    const uint64_t values = d->local ? d->memory.size : plan->memory.size;
    return (values > d->given ? values - d->given : 0) + d->scratch_size +
           (states > d->states ? states - d->states : 0) +
           weight_bytes(plan, device);
}

/* By how much values take more than those of later plans will, where weights
 * are kept among them. */
static uint64_t kept_over(const clv_plan *plan, uint32_t device)
{
    const core_plan_device *d = &plan->devices[device];
    const uint64_t most = planner_room_for_values(plan->source, d);
    return d->kept != CLV_NO_TENSOR && d->memory.size > most
               ? d->memory.size - most
               : 0;
}

/* Weights stay, so those of the first plan would leave nothing for the values
 * of others, which work with the same weights. */
uint64_t planner_limits_over(const clv_plan *plan, uint32_t device)
{
    const core_plan_device *d = &plan->devices[device];
    const uint64_t bytes = planner_limits_bytes(plan, device);
    if (!bytes || d->room == UINT64_MAX)
        return 0;
    const uint64_t weights = weight_bytes(plan, device);
    const uint64_t left = planner_beside_weights(plan->source, d);
    const uint64_t most = weights && d->room > left ? d->room - left : 0;
    const uint64_t kept = kept_over(plan, device);
    const uint64_t held = weights > most ? weights - most : 0;
    const uint64_t over = held > kept ? held : kept;
    return bytes > d->room && bytes - d->room > over ? bytes - d->room : over;
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
        sum.bytes += planner_limits_over(plan, d);
        sum.share = share > sum.share ? share : sum.share;
    }
    return sum;
}

clv_status planner_limits_check(const clv_plan *plan)
{
    for (uint32_t d = 0; d < plan->n_devices; d++) {
        const clv_device *dev = plan->devices[d].dev;
        uint64_t over = planner_limits_over(plan, d);
        if (over)
            return clv_error(
                CLV_ERR_LIMIT,
                "device '%s' lacks %llu bytes of %s for the best plan "
                "found, which takes %llu of it; use a smaller model, context "
                "or batch, or list another device in core.devices",
                dev->id, (unsigned long long)over,
                core_device_is_windowed(dev) ? "address space" : "memory",
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
