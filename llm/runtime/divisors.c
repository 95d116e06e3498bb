#include "divisors.h"

#include "../base/str.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The power of a column's excess that goes to the weights. */
#define MOVED 0.5f

static bool ends_with(const char *name, const char *end)
{
    const size_t n = strlen(name), m = strlen(end);
    return n >= m && !strcmp(name + n - m, end);
}

/* The same for the products of a gate and of a matrix's outputs. */
static const llm_linear *made_by_up(const llm_linear *layer)
{
    const llm_weight *gate = layer[LLM_FFN_GATE].weight;
    const llm_weight *up = layer[LLM_FFN_UP].weight;
    return gate && ends_with(gate->name, ".ffn_gate.weight") && up &&
                   ends_with(up->name, ".ffn_up.weight") &&
                   !layer[LLM_FFN_UP].bias
               ? &layer[LLM_FFN_UP]
               : NULL;
}

const llm_linear *llm_maker_of(const clv_model *model, const llm_weight *w)
{
    const llm_linear *ends = model->weights.model;
    for (uint32_t i = 0; i < model->hp->n_layers; i++) {
        const llm_linear *l = model->weights.layers[i];
        const bool experts = l[LLM_FFN_ROUTER].weight;
        if (l[LLM_ATTN_Q].weight == w || l[LLM_ATTN_K].weight == w ||
            l[LLM_ATTN_V].weight == w)
            return &l[LLM_ATTN_NORM];
        if (!experts &&
            (l[LLM_FFN_GATE].weight == w || l[LLM_FFN_UP].weight == w))
            return l[LLM_FFN_NORM].weight ? &l[LLM_FFN_NORM]
                                          : &l[LLM_ATTN_NORM];
        if (!experts && l[LLM_FFN_DOWN].weight == w)
            return made_by_up(l);
    }
    return ends[LLM_OUTPUT].weight == w ? &ends[LLM_OUTPUT_NORM] : NULL;
}

static int compare(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* The value in the middle. */
static clv_status median(const float *values, uint64_t n, float *out)
{
    float *sorted = malloc(n * sizeof *sorted);
    if (!sorted)
        return llm_no_memory("counts of activations");
    memcpy(sorted, values, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, compare);
    *out = sorted[n / 2];
    free(sorted);
    return CLV_OK;
}

/* What is larger than usual comes nearer to it, all the more where its weights
 * are smaller than usual. A part of the excess stays, as the weights are
 * rounded too. */
clv_status llm_choose_divisors(float *columns, const float *effects, uint64_t n)
{
    float size = 1, effect = 1;
    CLV_TRY(median(columns, n, &size));
    CLV_TRY(median(effects, n, &effect));
    for (uint64_t i = 0; i < n; i++) {
        const float weight = sqrtf(effects[i] / effect);
        const float d =
            powf(columns[i] / size, MOVED) * powf(weight, MOVED - 1);
        columns[i] = d > 1 && isfinite(d) ? d : 1;
    }
    return CLV_OK;
}
