#include "weights.h"

#include "../models/rope.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct llm_loader {
    clv_context *ctx;
    llm_source *source;
    llm_weight_list *list;
    clv_status status; /* the first failure */
};

/* "[4096, 128]" */
static void format_shape(char *out, size_t size, uint32_t rank,
                         const int64_t *dims)
{
    size_t at = (size_t)snprintf(out, size, "[");
    for (uint32_t i = 0; i < rank && at < size; i++)
        at += (size_t)snprintf(out + at, size - at, "%s%lld", i ? ", " : "",
                               (long long)dims[i]);
    if (at < size)
        snprintf(out + at, size - at, "]");
}

/* Adds an empty weight. The list owns it from now on. */
static llm_weight *append(llm_loader *l, const char *name)
{
    llm_weight_list *list = l->list;
    if (list->n == list->capacity) {
        const uint32_t capacity = list->capacity ? 2 * list->capacity : 64;
        llm_weight **items =
            realloc(list->items, capacity * sizeof(*list->items));
        if (!items)
            goto no_memory;
        list->items = items;
        list->capacity = capacity;
    }
    llm_weight *w = calloc(1, sizeof(*w));
    if (!w)
        goto no_memory;
    snprintf(w->name, sizeof(w->name), "%s", name);
    list->items[list->n++] = w;
    return w;

no_memory:
    l->status = clv_error(CLV_ERR_NO_MEMORY, "out of memory for the list of "
                                             "weights");
    return NULL;
}

/* Finds a tensor and checks its shape; false if there is none to use. */
static bool find(llm_loader *l, const char *name, bool optional, uint32_t rank,
                 const int64_t *dims, llm_source_tensor *out)
{
    if (l->status)
        return false;
    char wanted[64], found[128];
    format_shape(wanted, sizeof(wanted), rank, dims);
    const clv_status status = l->source->find(l->source, name, out);
    if (status == CLV_ERR_NOT_FOUND) {
        if (!optional)
            l->status = clv_error(CLV_ERR_FORMAT,
                                  "tensor '%s' of shape %s is missing; the "
                                  "file is incomplete or of another "
                                  "architecture",
                                  name, wanted);
        return false;
    }
    l->status = status;
    if (status)
        return false;
    if (out->rank != rank || memcmp(out->dims, dims, rank * sizeof(*dims))) {
        format_shape(found, sizeof(found), out->rank, out->dims);
        l->status = clv_error(CLV_ERR_FORMAT,
                              "tensor '%s' has shape %s where the model's "
                              "settings want %s",
                              name, found, wanted);
        return false;
    }
    return true;
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

/* The file stays mapped until no device looks at it any more, be it longer than
 * the model. */
static clv_status wrap(llm_loader *l, const llm_source_tensor *t,
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

static clv_status wrap_weight(llm_loader *l, const llm_source_tensor *t,
                              llm_weight *w)
{
    clv_status status = wrap(l, t, &w->tensor);
    if (status || !t->quant)
        return status;
    const llm_source_tensor scales = {
        .dtype = CLV_DTYPE_F32,
        .rank = 1,
        .dims = {(int64_t)t->n_scales},
        .data = t->scales,
        .size = t->n_scales * sizeof(float),
    };
    status = wrap(l, &scales, &w->scales);
    return status ? status
                  : clv_tensor_set_quant(w->tensor, t->quant, 0, w->scales);
}

static clv_status convert(llm_loader *l, const llm_source_tensor *t,
                          clv_tensor **out)
{
    clv_tensor *tensor;
    clv_status status =
        clv_tensor_create(l->ctx, CLV_DTYPE_F32, t->rank, t->dims, &tensor);
    if (status)
        return status;
    status =
        clv_dtype_to_f32(t->dtype, t->data, clv_tensor_data(tensor), count(t));
    if (status) {
        clv_tensor_destroy(tensor);
        return status;
    }
    *out = tensor;
    return CLV_OK;
}

static const llm_weight *load(llm_loader *l, bool optional, uint32_t rank,
                              const int64_t *dims, const char *fmt,
                              va_list args)
{
    char name[64];
    vsnprintf(name, sizeof(name), fmt, args);
    llm_source_tensor t;
    if (!find(l, name, optional, rank, dims, &t))
        return NULL;
    llm_weight *w = append(l, name);
    if (!w)
        return NULL;
    l->status = rank == 1 && t.dtype != CLV_DTYPE_F32
                    ? convert(l, &t, &w->tensor)
                    : wrap_weight(l, &t, w);
    if (l->status) {
        clv_error_prefix(l->status, "tensor '%s'", name);
        return NULL;
    }
    l->list->n_params += count(&t);
    l->list->size += t.size + t.n_scales * sizeof(float);
    if (rank > 1)
        l->list->by_dtype[t.dtype] += count(&t);
    return w;
}

const llm_weight *llm_load_matrix(llm_loader *l, int64_t out, int64_t in,
                                  const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    const llm_weight *w = load(l, false, 2, (int64_t[]){out, in}, fmt, args);
    va_end(args);
    return w;
}

const llm_weight *llm_load_optional_matrix(llm_loader *l, int64_t out,
                                           int64_t in, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    const llm_weight *w = load(l, true, 2, (int64_t[]){out, in}, fmt, args);
    va_end(args);
    return w;
}

const llm_weight *llm_load_experts(llm_loader *l, int64_t n, int64_t out,
                                   int64_t in, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    const llm_weight *w = load(l, false, 3, (int64_t[]){n, out, in}, fmt, args);
    va_end(args);
    return w;
}

const llm_weight *llm_load_vector(llm_loader *l, int64_t n, const char *fmt,
                                  ...)
{
    va_list args;
    va_start(args, fmt);
    const llm_weight *w = load(l, false, 1, &n, fmt, args);
    va_end(args);
    return w;
}

const llm_weight *llm_load_optional_vector(llm_loader *l, int64_t n,
                                           const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    const llm_weight *w = load(l, true, 1, &n, fmt, args);
    va_end(args);
    return w;
}

static clv_status make_rope(llm_loader *l, llm_weight *w)
{
    const llm_hparams *hp = &l->source->hparams;
    clv_status status = llm_rope_check(hp);
    if (status)
        return status;
    const int64_t n = hp->rope_dim / 2;
    status = clv_tensor_create(l->ctx, CLV_DTYPE_F32, 1, &n, &w->tensor);
    if (status)
        return status;
    float *freqs = clv_tensor_data(w->tensor);
    llm_source_tensor t;
    if (!find(l, "rope_freqs.weight", true, 1, &n, &t))
        return l->status ? l->status : llm_rope_frequencies(hp, NULL, freqs);

    float *divisors = malloc((size_t)n * sizeof(*divisors));
    if (!divisors)
        return clv_error(CLV_ERR_NO_MEMORY,
                         "out of memory for rope frequencies");
    status = clv_dtype_to_f32(t.dtype, t.data, divisors, (uint64_t)n);
    if (!status)
        status = llm_rope_frequencies(hp, divisors, freqs);
    free(divisors);
    return status;
}

const llm_weight *llm_load_rope(llm_loader *l)
{
    if (l->status)
        return NULL;
    llm_weight *w = append(l, "rope_freqs");
    if (!w)
        return NULL;
    l->status = make_rope(l, w);
    return l->status ? NULL : w;
}

clv_status llm_weights_load(clv_context *ctx, llm_source *source,
                            const llm_arch *arch, llm_weights *weights,
                            llm_weight_list *list)
{
    llm_loader loader = {.ctx = ctx, .source = source, .list = list};
    weights->layers =
        calloc(source->hparams.n_layers, sizeof(*weights->layers));
    if (!weights->layers)
        return clv_error(CLV_ERR_NO_MEMORY, "out of memory for %u layers",
                         source->hparams.n_layers);
    arch->load(&loader, &source->hparams, weights);
    return loader.status;
}

void llm_weights_finish(llm_weight_list *list)
{
    for (uint32_t i = 0; i < list->n; i++) {
        clv_tensor_destroy(list->items[i]->tensor);
        clv_tensor_destroy(list->items[i]->scales);
        free(list->items[i]);
    }
    free(list->items);
    *list = (llm_weight_list){0};
}
