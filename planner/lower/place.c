/*
 * Chooses a device for every node: the first in the list that takes it. A
 * solver that weighs cuts and costs fills the same parts.
 */
#include "../../core/base/text.h"
#include "../../core/base/error.h"
#include "lower.h"
#include "../profile/accepts.h"
#include "../profile/variants.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static clv_status nobody_takes(const clv_plan *plan, uint32_t i,
                               const char *reasons)
{
    const clv_graph *graph = plan->source;
    const clv_node *node = &graph->nodes[i];
    core_text text = {0};
    char shape[CLV_SHAPE_TEXT], name[16];
    for (uint32_t j = 0; j < node->n_inputs; j++) {
        if (node->inputs[j] == CLV_NO_TENSOR)
            continue;
        const clv_tensor_desc *desc = &graph->tensors[node->inputs[j]];
        core_text_add(&text, "%s%s %s", j ? ", " : "",
                      core_value_name(graph, node->inputs[j], name),
                      clv_shape_text(desc, shape));
    }
    clv_status status =
        clv_error(CLV_ERR_UNSUPPORTED,
                  "no device takes node %u, %s (%s): %s; "
                  "add a device that does",
                  i, core_op_name(node->op), text.data ? text.data : "",
                  reasons ? reasons : "");
    core_text_finish(&text);
    return status;
}

static clv_status place_node(clv_plan *plan, const clv_op_caps *all, uint32_t i)
{
    const clv_graph *graph = plan->source;
    core_text reasons = {0};
    char reason[PLANNER_REASON_SIZE];
    for (uint32_t d = 0; d < plan->n_devices; d++) {
        const clv_device *dev = plan->devices[d].dev;
        const clv_op_caps *answer = &all[(size_t)d * graph->n_nodes + i];
        if (planner_accepts(graph, &graph->nodes[i], dev, answer, reason)) {
            plan->pieces[i] = (core_piece){
                .node = i,
                .device = d,
                .variant = planner_ways_of(plan->ctx, answer).ids[0]};
            return d ? core_text_take(&reasons, &plan->choices[i].reason)
                     : CLV_OK;
        }
        core_text_add(&reasons, "%s%s: %s", d ? "; " : "", dev->id, reason);
    }
    clv_status status = nobody_takes(plan, i, reasons.data);
    core_text_finish(&reasons);
    return status;
}

clv_status planner_place(clv_plan *plan, const clv_op_caps *all)
{
    uint32_t n = plan->source->n_nodes;
    plan->pieces = calloc(n, sizeof *plan->pieces);
    if (!plan->pieces)
        return core_no_memory("for a plan");
    plan->n_pieces = n;
    for (uint32_t i = 0; i < n; i++) {
        clv_status status = place_node(plan, all, i);
        if (status)
            return status;
    }
    return CLV_OK;
}
