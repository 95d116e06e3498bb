/* What parts of a plan read of weights in mapped files. */
#include "../base/file_map.h"
#include "../device/subgraph.h"
#include "../graph/tensor.h"
#include "plan.h"

#include <math.h>

uint64_t core_plan_file_operand(const clv_plan *plan, uint32_t part,
                                clv_value value, const char **data)
{
    const clv_graph *graph = plan->graph;
    const core_part *p = &plan->parts[part];
    const core_plan_device *d = &plan->devices[p->device];
    core_file_place place;
    uint64_t size;
    uint32_t holding;
    if (value == CLV_NO_TENSOR || !graph->values[value].weight || d->local ||
        core_part_copies(plan, part) ||
        graph->nodes[p->node].op == CLV_OP_GET_ROWS)
        return 0;
    const clv_tensor *tensor = graph->values[value].weight;
    const char *begin = tensor->memory->data;
    if (core_file_find(begin, &place) < 0 ||
        core_tensor_holding(tensor, d->dev, plan->pointer_align, true,
                            &holding) ||
        holding != CORE_HOLD_IMPORT ||
        core_desc_size(&graph->tensors[value], NULL, &size))
        return 0;
    const uint64_t offset = core_view_offset(graph, value);
    const uint64_t left = offset < tensor->size ? tensor->size - offset : 0;
    *data = begin + offset;
    return size < left ? size : left;
}

bool core_plan_reads_experts(const clv_plan *plan, uint32_t part)
{
    return plan->graph->nodes[plan->parts[part].node].op ==
           CLV_OP_MATMUL_EXPERTS;
}

/* The chance that one expert of those here is used. */
static double use_of_expert(const clv_plan *plan, uint32_t part,
                            const int64_t *symbols)
{
    const clv_graph *graph = plan->graph;
    const clv_node *node = &graph->nodes[plan->parts[part].node];
    const clv_tensor_desc *ids = &graph->tensors[node->inputs[2]];
    const int64_t total =
        clv_experts_total(&node->attr, graph->tensors[node->inputs[1]].dims[0]);
    uint64_t bytes;
    if (core_desc_size(ids, symbols, &bytes) || ids->dims[1] < 1 || total < 1)
        return 1;
    const double a_token = (double)ids->dims[1] / (double)total;
    const double tokens =
        (double)bytes / sizeof(int32_t) / (double)ids->dims[1];
    const core_value *w = &graph->values[node->inputs[1]];
    const int64_t held = graph->tensors[node->inputs[1]].dims[0];
    double experts, products;
    if (core_tensor_expected(w->weight, w->origin[0], w->origin[0] + held,
                             tokens, &experts, &products))
        return experts / (double)held;
    return 1 - pow(1 - fmin(a_token, 1), tokens);
}

uint64_t core_plan_file_bytes(const clv_plan *plan, uint32_t part,
                              const int64_t *symbols)
{
    const clv_graph *graph = plan->graph;
    const clv_node *node = &graph->nodes[plan->parts[part].node];
    const bool experts = core_plan_reads_experts(plan, part);
    const char *data;
    uint64_t sum = 0;
    for (uint32_t i = 0; plan->file.read && i < node->n_inputs; i++) {
        const clv_value value = node->inputs[i];
        const uint64_t bytes = core_plan_file_operand(plan, part, value, &data);
        if (bytes && experts)
            sum += (uint64_t)((double)bytes * plan->file.missed *
                              use_of_expert(plan, part, symbols));
        else if (bytes && plan->file.read[graph->values[value].base])
            sum += bytes;
    }
    return sum;
}

uint64_t core_plan_file_sum(const clv_plan *plan, const int64_t *symbols)
{
    uint64_t sum = 0;
    for (uint32_t p = 0; plan->file.read && p < plan->n_parts; p++)
        sum += core_plan_file_bytes(plan, p, symbols);
    return sum;
}
