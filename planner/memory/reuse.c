#include "reuse.h"
#include "../../core/base/error.h"

#include <stdlib.h>
#include <string.h>

static void note(planner_uses *uses, uint32_t part, clv_value value)
{
    const clv_plan *plan = uses->plan;
    if (value == CLV_NO_TENSOR)
        return;
    size_t at = (size_t)plan->graph->values[value].base * plan->n_queues +
                plan->parts[part].device;
    if (uses->first[at] == CORE_NO_PART)
        uses->first[at] = part;
    uses->last[at] = part;
}

clv_status planner_uses_find(const clv_plan *plan, planner_uses *out)
{
    size_t n = (size_t)plan->graph->n_tensors * plan->n_queues;
    *out = (planner_uses){.plan = plan,
                          .first = malloc(n * sizeof *out->first),
                          .last = malloc(n * sizeof *out->last)};
    if (!out->first || !out->last) {
        planner_uses_finish(out);
        return core_no_memory("for a plan");
    }
    memset(out->first, 0xff, n * sizeof *out->first);
    memset(out->last, 0xff, n * sizeof *out->last);
    for (uint32_t p = 0; p < plan->n_parts; p++) {
        const clv_node *node = &plan->graph->nodes[plan->parts[p].node];
        for (uint32_t i = 0; i < node->n_inputs; i++)
            note(out, p, node->inputs[i]);
        for (uint32_t i = 0; i < node->n_outputs; i++)
            note(out, p, node->outputs[i]);
    }
    return CLV_OK;
}

void planner_uses_finish(planner_uses *uses)
{
    free(uses->first);
    free(uses->last);
    *uses = (planner_uses){0};
}

void planner_uses_join(planner_uses *uses, clv_value value, clv_value other)
{
    uint32_t n = uses->plan->n_queues;
    uint32_t *first = uses->first + (size_t)value * n;
    uint32_t *last = uses->last + (size_t)value * n;
    for (uint32_t d = 0; d < n; d++) {
        uint32_t also_first = uses->first[(size_t)other * n + d];
        uint32_t also_last = uses->last[(size_t)other * n + d];
        if (also_first == CORE_NO_PART)
            continue;
        if (first[d] == CORE_NO_PART || also_first < first[d])
            first[d] = also_first;
        if (last[d] == CORE_NO_PART || also_last > last[d])
            last[d] = also_last;
    }
}

bool planner_uses_over(const planner_uses *uses, clv_value before,
                       uint32_t part)
{
    const clv_plan *plan = uses->plan;
    const core_part *now = &plan->parts[part];
    const uint64_t *clock = plan->clocks + (size_t)now->step * plan->n_queues;
    const uint32_t *last = uses->last + (size_t)before * plan->n_queues;
    for (uint32_t d = 0; d < plan->n_queues; d++) {
        if (last[d] == CORE_NO_PART || last[d] == part)
            continue;
        if (d == now->device
                ? last[d] > part
                : plan->steps[plan->parts[last[d]].step].signal > clock[d])
            return false;
    }
    return true;
}

bool planner_uses_apart(const planner_uses *uses, clv_value before,
                        clv_value after)
{
    uint32_t n = uses->plan->n_queues;
    for (uint32_t d = 0; d < n; d++) {
        uint32_t first = uses->first[(size_t)after * n + d];
        if (first != CORE_NO_PART &&
            (uses->last[(size_t)before * n + d] == first ||
             !planner_uses_over(uses, before, first)))
            return false;
    }
    return true;
}
