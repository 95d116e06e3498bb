#include "weights.h"

#include "../base/array.h"
#include "../models/rope.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct loader {
    clv_context *ctx;
    llm_source *source;
    llm_weight_list *list;
} loader;

/* Adds an empty weight. The list owns it from now on. */
static clv_status append(llm_weight_list *list, const char *name,
                         llm_weight **out)
{
    llm_weight *w = calloc(1, sizeof *w);
    if (!w)
        return llm_no_memory(name);
    snprintf(w->name, sizeof w->name, "%s", name);
    *out = w;
    clv_status status = LLM_ARRAY_ADD(list, w);
    if (status)
        free(w);
    return status;
}

/* Finds a tensor and checks its shape. CLV_ERR_NOT_FOUND, without a message, if
 * there is none. */
static clv_status find(const loader *l, const char *name, uint32_t rank,
                       const int64_t *dims, llm_source_tensor *out)
{
    CLV_TRY(l->source->find(l->source, name, out));
    if (out->rank == rank && !memcmp(out->dims, dims, rank * sizeof *dims))
        return CLV_OK;
    return clv_error(CLV_ERR_FORMAT,
                     "tensor '%s' has shape %s where the model's settings want "
                     "%s",
                     name, llm_shape_show(out->dims, out->rank).text,
                     llm_shape_show(dims, rank).text);
}

static uint64_t count(const llm_source_tensor *t)
{
    uint64_t n = 1;
    for (uint32_t i = 0; i < t->rank; i++)
        n *= (uint64_t)t->dims[i];
    return n;
}

static void release(void *source)
{
    llm_source_destroy(source);
}

/* The file stays mapped until no device uses it any more, which may be after
 * the model is destroyed. */
static clv_status wrap(const loader *l, const llm_source_tensor *t,
                       clv_tensor **out)
{
    llm_source_hold(l->source);
    clv_status status = clv_tensor_wrap(
        l->ctx, t->dtype, t->rank, t->dims, (void *)(uintptr_t)t->data, t->size,
        CLV_ACCESS_READ, release, l->source, out);
    if (status)
        llm_source_destroy(l->source);
    return status;
}

static clv_status wrap_weight(const loader *l, const llm_source_tensor *t,
                              llm_weight *w)
{
    CLV_TRY(wrap(l, t, &w->tensor));
    if (!t->quant)
        return CLV_OK;
    const bool grouped = t->quant == CLV_QUANT_PER_GROUP;
    const int64_t rows = t->dims[0], n = (int64_t)t->n_scales;
    const llm_source_tensor scales = {
        .dtype = CLV_DTYPE_F32,
        .rank = grouped ? 2 : 1,
        .dims = {grouped ? rows : n, n / rows},
        .data = t->scales,
        .size = t->n_scales * sizeof(float),
    };
    CLV_TRY(wrap(l, &scales, &w->scales));
    return clv_tensor_set_quant(w->tensor, t->quant, t->group, w->scales);
}

/* As F32, which graphs expect of vectors. */
static clv_status convert(const loader *l, const llm_source_tensor *t,
                          llm_weight *w)
{
    CLV_TRY(
        clv_tensor_create(l->ctx, CLV_DTYPE_F32, t->rank, t->dims, &w->tensor));
    return clv_dtype_to_f32(t->dtype, t->data, clv_tensor_data(w->tensor),
                            count(t));
}

/* *out stays NULL for a tensor that may be absent and is. */
static clv_status load(const loader *l, const llm_tensor *expected,
                       const llm_weight **out)
{
    const char *name = expected->gguf;
    llm_source_tensor t;
    llm_weight *w = NULL;
    clv_status status = find(l, name, expected->rank, expected->dims, &t);
    if (status == CLV_ERR_NOT_FOUND) {
        if (expected->optional || expected->row->flags & LLM_TIED)
            return CLV_OK;
        return clv_error(CLV_ERR_FORMAT,
                         "tensor '%s' of shape %s is missing; the file is "
                         "incomplete or of another architecture",
                         name,
                         llm_shape_show(expected->dims, expected->rank).text);
    }
    if (status)
        return status;
    CLV_TRY(append(l->list, name, &w));
    status = t.rank == 1 && t.dtype != CLV_DTYPE_F32 ? convert(l, &t, w)
                                                     : wrap_weight(l, &t, w);
    if (status)
        return clv_error_prefix(status, "tensor '%s'", name);
    l->list->n_params += count(&t);
    l->list->size += t.size + t.n_scales * sizeof(float);
    if (t.rank > 1)
        l->list->by_dtype[t.dtype] += count(&t);
    *out = w;
    return CLV_OK;
}

static clv_status load_rope(const loader *l, const llm_weight **out)
{
    const llm_hparams *hp = &l->source->hparams;
    const int64_t n = hp->rope_dim / 2;
    llm_source_tensor t;
    llm_weight *w = NULL;
    CLV_TRY(llm_rope_check(hp));
    CLV_TRY(append(l->list, "rope_freqs", &w));
    CLV_TRY(clv_tensor_create(l->ctx, CLV_DTYPE_F32, 1, &n, &w->tensor));
    *out = w;
    float *freqs = clv_tensor_data(w->tensor);
    clv_status status = find(l, "rope_freqs.weight", 1, &n, &t);
    if (status == CLV_ERR_NOT_FOUND)
        return llm_rope_frequencies(hp, NULL, freqs);
    if (status)
        return status;
    float *divisors = malloc((size_t)n * sizeof *divisors);
    if (!divisors)
        return llm_no_memory("rope frequencies");
    status = clv_dtype_to_f32(t.dtype, t.data, divisors, (uint64_t)n);
    if (!status)
        status = llm_rope_frequencies(hp, divisors, freqs);
    free(divisors);
    return status;
}

clv_status llm_weights_load(clv_context *ctx, llm_source *source,
                            llm_weights *weights, llm_weight_list *list)
{
    const loader l = {ctx, source, list};
    const llm_hparams *hp = &source->hparams;
    weights->layers = calloc(hp->n_layers, sizeof *weights->layers);
    if (!weights->layers)
        return llm_no_memory("layers");
    for (llm_tensor t = {0}; llm_tensor_next(hp, &t);) {
        const uint8_t role = t.row->role;
        llm_linear *to = role < LLM_LAYER_ROLES
                             ? &weights->model[role]
                             : &weights->layers[t.layer][role];
        CLV_TRY(load(&l, &t, t.bias ? &to->bias : &to->weight));
    }
    return load_rope(&l, &weights->rope_freqs);
}

void llm_weights_finish(llm_weights *weights, llm_weight_list *list)
{
    for (uint64_t i = 0; i < list->n; i++) {
        clv_tensor_destroy(list->items[i]->tensor);
        clv_tensor_destroy(list->items[i]->scales);
        free(list->items[i]);
    }
    free(list->items);
    free(weights->layers);
    *list = (llm_weight_list){0};
    *weights = (llm_weights){0};
}
