#include "held.h"
#include "../graph/tensor.h"

/* The part of the weight that the load brings to the device or, in place, has
 * in its address space; false: it brings nothing of it there. */
static bool brings(const clv_plan *plan, const core_load *load,
                   const clv_device *dev, const clv_tensor *weight,
                   core_runs *range)
{
    if (plan->graph->values[load->weight].weight != weight ||
        plan->devices[load->device].dev != dev)
        return false;
    *range = load->range;
    return load->holding == CORE_HOLD_COPY ||
           load->holding == CORE_HOLD_PRIVATE ||
           (core_plan_load_reaches(plan, load) &&
            !core_plan_reach(plan, load, range));
}

bool core_held_at(const core_plan_device *of, clv_tensor *weight,
                  uint32_t index, core_runs *range)
{
    uint32_t n = 0;
    while (core_tensor_copy_at(weight, of->dev, n, range))
        if (n++ == index)
            return true;
    for (uint32_t i = 0; of->after && i < of->after->n_loads; i++)
        if (brings(of->after, &of->after->loads[i], of->dev, weight, range) &&
            n++ == index)
            return true;
    return false;
}

uint64_t core_held_bytes(const core_plan_device *of, clv_tensor *weight)
{
    uint64_t sum = 0;
    core_runs range;
    for (uint32_t i = 0; core_held_at(of, weight, i, &range); i++)
        sum += range.bytes * range.n;
    return sum;
}

bool core_held_has(const core_plan_device *of, clv_tensor *weight,
                   uint64_t align, uint32_t holding, const core_runs *range)
{
    core_runs there;
    if (core_tensor_has_used_copy(weight, of->dev, align, holding, range))
        return true;
    for (uint32_t i = 0; of->after && i < of->after->n_loads; i++) {
        const core_load *load = &of->after->loads[i];
        if (load->holding == holding &&
            brings(of->after, load, of->dev, weight, &there) &&
            core_same_runs(&there, range))
            return true;
    }
    return false;
}
