#include "accepts.h"
#include "../../core/device/caps.h"
#include "../../core/device/loss.h"
#include "../../core/graph/tensor.h"

#include <stdio.h>

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

/* Whether the device can hold the node's weights or reach them where they are;
 * else clv_last_error() says why not. Those of measurements have no memory. */
static bool weights_fit(const clv_graph *graph, const clv_node *node,
                        const clv_device *dev)
{
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        const uint32_t value = node->inputs[i];
        const clv_tensor *weight =
            value == CLV_NO_TENSOR ? NULL : graph->values[value].weight;
        uint32_t holding;
        if (weight && core_tensor_holding(weight, dev, 1, true, &holding))
            return false;
    }
    return true;
}

bool planner_accepts(const clv_graph *graph, const clv_node *node,
                     const clv_device *dev, const clv_op_caps *caps,
                     char reason[PLANNER_REASON_SIZE])
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
    else if (node->variant && !core_caps_variant(caps, node->variant))
        why = "it does not list this variant of it";
    else if (!weights_fit(graph, node, dev))
        why = clv_last_error();
    snprintf(reason, PLANNER_REASON_SIZE, "%s", why ? why : "");
    return !why;
}
