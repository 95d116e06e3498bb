/*
 * What repeats in a plan: layers. A stretch is found from its first item, with
 * the period that covers most; ties go to the shorter one.
 */
#include "plan_print.h"
#include "../base/hash.h"

#include <stdlib.h>
#include <string.h>

#define MAX_PERIOD 4096u

/* The fold that begins with item `first`. */
static core_fold fold_from(const uint64_t *signs, uint32_t n, uint32_t first,
                           uint32_t min_period)
{
    core_fold best = {first, 1, 1};
    uint32_t saved = 0, most = (n - first) / 2;
    most = most < MAX_PERIOD ? most : MAX_PERIOD;
    for (uint32_t period = min_period; period <= most; period++) {
        uint32_t length = 0;
        while (first + length + period < n &&
               signs[first + length] == signs[first + length + period])
            length++;
        uint32_t count = length / period + 1;
        if (period * (count - 1) <= saved)
            continue;
        saved = period * (count - 1);
        best = (core_fold){first, period, count};
    }
    return best;
}

clv_status core_folds_find(const uint64_t *signs, uint32_t n,
                           uint32_t min_period, core_fold **out,
                           uint32_t *n_out)
{
    core_fold *folds = calloc(n + 1u, sizeof *folds);
    uint32_t n_folds = 0;
    *out = folds;
    *n_out = 0;
    if (!folds)
        return clv_error(CLV_ERR_NO_MEMORY, "no memory to print a plan");
    for (uint32_t at = 0; at < n;) {
        core_fold fold = fold_from(signs, n, at, min_period);
        core_fold *last = n_folds ? &folds[n_folds - 1] : NULL;
        if (fold.count == 1 && last && last->count == 1)
            last->period++;
        else
            folds[n_folds++] = fold;
        at += fold.period * fold.count;
    }
    *n_out = n_folds;
    return CLV_OK;
}

/* ------------------------------------------------------------------------ */

static uint64_t sign_text(uint64_t sign, const char *text)
{
    return text ? core_hash(sign, text, strlen(text) + 1) : sign;
}

static uint64_t sign_tensor(uint64_t sign, const clv_graph *graph,
                            clv_value value)
{
    if (value == CLV_NO_TENSOR)
        return core_hash(sign, &value, sizeof value);
    const clv_tensor_desc *t = &graph->tensors[value];
    const uint32_t kind[] = {t->dtype, t->quant, t->quant_group, t->rank,
                             t->usage == CLV_USAGE_WEIGHT};
    sign = core_hash(sign, kind, sizeof kind);
    sign = core_hash(sign, t->symbols, t->rank * sizeof *t->symbols);
    return core_hash(sign, t->dims, t->rank * sizeof *t->dims);
}

static uint64_t sign_of(const clv_plan *plan, uint32_t node)
{
    const clv_graph *graph = plan->source;
    const clv_node *n = &graph->nodes[node];
    const core_choice *choice = &plan->choices[node];
    uint64_t sign = core_hash(CORE_HASH_SEED, &n->op, sizeof n->op);
    for (uint32_t i = 0; i < n->n_inputs; i++)
        sign = sign_tensor(sign, graph, n->inputs[i]);
    for (uint32_t i = 0; i < n->n_outputs; i++)
        sign = sign_tensor(sign, graph, n->outputs[i]);
    for (uint32_t i = 0; i < choice->n_pieces; i++) {
        const core_piece *piece = &plan->pieces[choice->first_piece + i];
        sign = core_hash(sign, &piece->device, sizeof piece->device);
        sign = core_hash(sign, piece->ranges, sizeof piece->ranges);
    }
    return sign_text(sign_text(sign, choice->reason), choice->alternative);
}

uint64_t *core_plan_node_signs(const clv_plan *plan)
{
    uint64_t *signs = calloc(plan->source->n_nodes + 1u, sizeof *signs);
    for (uint32_t i = 0; signs && i < plan->source->n_nodes; i++)
        signs[i] = sign_of(plan, i);
    return signs;
}

/* ------------------------------------------------------------------------ */

static bool layer_of(const char *name, char out[CORE_LAYER_NAME])
{
    size_t begin = strcspn(name, "0123456789");
    size_t end = begin + strspn(name + begin, "0123456789");
    if (end == begin || name[end] != '.' || end >= CORE_LAYER_NAME)
        return false;
    memcpy(out, name, end);
    out[end] = 0;
    return true;
}

void core_plan_layer(const clv_plan *plan, uint32_t node, uint32_t n,
                     char out[CORE_LAYER_NAME])
{
    const clv_graph *graph = plan->source;
    for (uint32_t i = node; i < node + n; i++)
        for (uint32_t j = 0; j < graph->nodes[i].n_inputs; j++) {
            clv_value v = graph->nodes[i].inputs[j];
            const char *name = v != CLV_NO_TENSOR && graph->tensors[v].usage ==
                                                         CLV_USAGE_WEIGHT
                                   ? graph->values[v].name
                                   : NULL;
            if (name && layer_of(name, out))
                return;
        }
    *out = 0;
}
