#include "accesses.h"
#include "../base/error.h"

#include <stdlib.h>

/* Of a value in its base; the whole base where it lies there as bytes. */
static core_bounds box_of(const clv_graph *g, clv_value value)
{
    const clv_tensor_desc *desc = &g->tensors[value];
    const clv_tensor_desc *base = &g->tensors[g->values[value].base];
    return desc->rank == base->rank && desc->dtype == base->dtype
               ? core_bounds_of(g, value)
               : core_bounds_whole(base->rank, base->dims);
}

/* Where the indices are an input's, or a part of one. */
static void note_ids(const clv_plan *plan, clv_value value, core_access *out)
{
    const clv_graph *g = plan->graph;
    const clv_value original = core_plan_base(plan, value)->original;
    if (g->tensors[original].usage != CLV_USAGE_INPUT ||
        g->tensors[original].dtype != CLV_DTYPE_I32)
        return;
    const core_bounds box = core_bounds_of(g, value);
    out->ids = original;
    out->first_id = box.begin[0];
    out->end_id = box.end[0];
}

static void add_access(const clv_plan *plan, core_access *list, uint32_t *n,
                       uint32_t step, const clv_node *node, clv_value value,
                       bool write)
{
    if (value == CLV_NO_TENSOR ||
        core_plan_base(plan, value)->home != CORE_HOME_BOUND)
        return;
    core_access *a = &list[(*n)++];
    *a = (core_access){.step = step,
                       .state = core_plan_base(plan, value)->original,
                       .box = box_of(plan->graph, value),
                       .write = write,
                       .ids = CLV_NO_TENSOR};
    if (node->op == CLV_OP_SET_ROWS)
        note_ids(plan, node->inputs[2], a);
    if (node->op == CLV_OP_ATTENTION)
        a->rows_symbol = node->attr.attention.rows_symbol;
}

static int by_state(const void *a, const void *b)
{
    const core_access *x = a, *y = b;
    if (x->state != y->state)
        return x->state < y->state ? -1 : 1;
    return (x->step > y->step) - (x->step < y->step);
}

clv_status core_plan_accesses(const clv_plan *plan, core_access **out,
                              uint32_t *n)
{
    size_t most = 0;
    *n = 0;
    for (uint32_t p = 0; p < plan->n_parts; p++)
        most += plan->graph->nodes[plan->parts[p].node].n_inputs +
                plan->graph->nodes[plan->parts[p].node].n_outputs;
    core_access *list = *out = calloc(most + 1, sizeof *list);
    if (!list)
        return core_no_memory("for the accesses of a plan to states");
    for (uint32_t p = 0; p < plan->n_parts; p++) {
        const clv_node *node = &plan->graph->nodes[plan->parts[p].node];
        const uint32_t step = plan->parts[p].step;
        for (uint32_t j = 0; j < node->n_inputs; j++)
            add_access(plan, list, n, step, node, node->inputs[j],
                       node->op == CLV_OP_SET_ROWS && !j);
        for (uint32_t j = 0; j < node->n_outputs; j++)
            add_access(plan, list, n, step, node, node->outputs[j], true);
    }
    qsort(list, *n, sizeof *list, by_state);
    return CLV_OK;
}
