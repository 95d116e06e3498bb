/*
 * Chooses a device for every node: the first in the list that takes it. A
 * solver that weighs cuts and costs fills the same parts.
 */
#include "../base/text.h"
#include "../graph/shape.h"
#include "plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The activation's rows are fixed, and one of the lengths the device has. What
 * GET_ROWS and SET_ROWS take rows of, or put them into, comes first. */
static bool static_fits(const clv_graph *graph, const clv_node *node,
                        const clv_op_caps *caps)
{
    const bool second =
        node->op == CLV_OP_GET_ROWS || node->op == CLV_OP_SET_ROWS;
    const clv_tensor_desc *x = &graph->tensors[node->inputs[second]];
    if (x->symbols[0]) {
        const clv_symbol_range *range = &graph->symbols[x->symbols[0] - 1];
        if (range->min != range->max)
            return false;
    }
    for (uint32_t i = 0; i < caps->n_static; i++)
        if (caps->static_shapes[i] == x->dims[0])
            return true;
    return false;
}

/* A symbol whose value varies, in the node's tensors; 0: none. */
static uint32_t varying_symbol(const clv_graph *graph, const clv_node *node)
{
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        if (node->inputs[i] == CLV_NO_TENSOR)
            continue;
        uint32_t symbol = graph->tensors[node->inputs[i]].symbols[0];
        if (symbol &&
            graph->symbols[symbol - 1].min != graph->symbols[symbol - 1].max)
            return symbol;
    }
    return 0;
}

/* Rows are dense, or a view's; the device may ask for more. */
static bool strides_fit(const clv_graph *graph, const clv_node *node,
                        uint32_t align)
{
    for (uint32_t i = 0; i < node->n_inputs + node->n_outputs; i++) {
        uint32_t value = i < node->n_inputs ? node->inputs[i]
                                            : node->outputs[i - node->n_inputs];
        uint64_t bytes;
        if (value == CLV_NO_TENSOR || graph->tensors[value].rank < 2)
            continue;
        const clv_tensor_desc *desc = &graph->tensors[value];
        uint32_t outer = desc->rank - 2;
        if (desc->strides[outer])
            bytes = (uint64_t)desc->strides[outer];
        else if (clv_dtype_size(desc->dtype,
                                (uint64_t)desc->dims[desc->rank - 1], &bytes))
            return false;
        if (bytes % align)
            return false;
    }
    return true;
}

bool core_plan_accepts(const clv_graph *graph, const clv_node *node,
                       const clv_device *dev, const clv_op_caps *caps,
                       char reason[CORE_REASON_SIZE])
{
    uint32_t symbol = varying_symbol(graph, node);
    const char *why = NULL;
    if (core_device_lost(dev))
        why = "the device is lost";
    else if (caps->answer == CLV_ANSWER_NO)
        why = caps->reason[0] ? caps->reason : "no, without a reason";
    else if (caps->answer == CLV_ANSWER_STATIC &&
             !static_fits(graph, node, caps))
        why = "it has no program of this fixed length";
    else if ((dev->info.flags & CLV_DEVICE_STATIC_SHAPES) && symbol)
        why = "it needs fixed shapes, and the number of rows varies";
    else if (caps->stride_align > 1 &&
             !strides_fit(graph, node, caps->stride_align))
        why = "its rows must be a multiple of more bytes than these have";
    snprintf(reason, CORE_REASON_SIZE, "%s", why ? why : "");
    return !why;
}

static clv_status nobody_takes(const clv_plan *plan, uint32_t i,
                               const char *reasons)
{
    const clv_graph *graph = plan->source;
    const clv_node *node = &graph->nodes[i];
    core_text text = {0};
    char shape[CORE_SHAPE_TEXT], name[16];
    for (uint32_t j = 0; j < node->n_inputs; j++) {
        if (node->inputs[j] == CLV_NO_TENSOR)
            continue;
        const clv_tensor_desc *desc = &graph->tensors[node->inputs[j]];
        core_text_add(&text, "%s%s %s", j ? ", " : "",
                      core_value_name(graph, node->inputs[j], name),
                      core_shape_text(desc, shape));
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
    char reason[CORE_REASON_SIZE];
    for (uint32_t d = 0; d < plan->n_devices; d++) {
        const clv_device *dev = plan->devices[d].dev;
        const clv_op_caps *answer = &all[(size_t)d * graph->n_nodes + i];
        if (core_plan_accepts(graph, &graph->nodes[i], dev, answer, reason)) {
            plan->pieces[i] = (core_piece){.node = i, .device = d};
            return d ? core_text_take(&reasons, &plan->choices[i].reason)
                     : CLV_OK;
        }
        core_text_add(&reasons, "%s%s: %s", d ? "; " : "", dev->id, reason);
    }
    clv_status status = nobody_takes(plan, i, reasons.data);
    core_text_finish(&reasons);
    return status;
}

clv_status core_plan_place(clv_plan *plan, const clv_op_caps *all)
{
    uint32_t n = plan->source->n_nodes;
    plan->pieces = calloc(n, sizeof *plan->pieces);
    if (!plan->pieces)
        return clv_error(CLV_ERR_NO_MEMORY, "no memory for a plan");
    plan->n_pieces = n;
    for (uint32_t i = 0; i < n; i++) {
        clv_status status = place_node(plan, all, i);
        if (status)
            return status;
    }
    return CLV_OK;
}
