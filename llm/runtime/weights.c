#include "weights.h"

#include "../base/array.h"
#include "../models/rope.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

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
    w->input_scale = t->input_scale;
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

/* Part of the float rows, which lie apart in the file. */
static clv_status gather(const loader *l, const llm_source_tensor *t,
                         const int64_t *dims, clv_tensor **out)
{
    const uint64_t row = (uint64_t)dims[1] * sizeof(uint16_t);
    const char *from = t->outliers;
    CLV_TRY(clv_tensor_create(l->ctx, CLV_DTYPE_F16, 3, dims, out));
    char *to = clv_tensor_data(*out);
    for (int64_t i = 0; i < dims[0]; i++, to += row)
        memcpy(to, from + (uint64_t)i * t->outlier_row * sizeof(uint16_t), row);
    return CLV_OK;
}

/* The pages that lie in these bytes altogether, or in part. */
static void advise(const char *data, uint64_t size, bool part, int advice)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t begin = (uintptr_t)data, end = begin + size;
    begin = (part ? begin : begin + page - 1) / page * page;
    end = (part ? end + page - 1 : end) / page * page;
    if (begin < end) /* it is only for speed */
        posix_madvise((void *)begin, end - begin, advice);
}

/* Rows of hot channels are read now; of others, when a channel is an outlier,
 * those alone. */
static void advise_rows(const llm_source_tensor *t)
{
    const uint64_t row = (uint64_t)t->dims[0] * sizeof(uint16_t);
    const char *data = t->outliers;
    advise(data, row * (uint64_t)t->dims[1], false, POSIX_MADV_RANDOM);
    for (uint64_t i = 0; i < t->n_hot; i++)
        advise(data + (uint64_t)t->hot[i] * row, row, true,
               POSIX_MADV_WILLNEED);
}

/* What outliers are multiplied with, each channel an expert. Used where they
 * lie in the file, so that only channels that are outliers are read from it. */
static clv_status add_outliers(const loader *l, const llm_source_tensor *t,
                               llm_weight *to)
{
    const llm_source_tensor rows = {
        .dtype = CLV_DTYPE_F16,
        .rank = 3,
        .dims = {t->dims[1], t->dims[0], 1},
        .data = t->outliers,
        .size = (uint64_t)(t->dims[0] * t->dims[1]) * sizeof(uint16_t),
    };
    llm_weight *w = NULL;
    char name[LLM_TENSOR_NAME];
    snprintf(name, sizeof name, "%.*s.outliers", (int)sizeof name - 16,
             to->name);
    CLV_TRY(append(l->list, name, &w));
    to->outliers = w;
    to->outlier_bound = t->outlier_bound;
    l->list->size += rows.size;
    if (t->outlier_row != (uint64_t)t->dims[0])
        return gather(l, t, rows.dims, &w->tensor);
    advise_rows(t);
    return wrap(l, &rows, &w->tensor);
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

/* Adds a weight of this tensor. */
static clv_status add(const loader *l, const char *name,
                      const llm_source_tensor *t, const llm_weight **out)
{
    llm_weight *w = NULL;
    CLV_TRY(append(l->list, name, &w));
    clv_status status = t->rank == 1 && t->dtype != CLV_DTYPE_F32
                            ? convert(l, t, w)
                            : wrap_weight(l, t, w);
    if (!status && t->outliers)
        status = add_outliers(l, t, w);
    *out = w;
    return status ? clv_error_prefix(status, "tensor '%s'", name) : CLV_OK;
}

/* Rows of a tensor, as a tensor: those of one role of several. */
static llm_source_tensor rows_of(const llm_source_tensor *t, int64_t first,
                                 int64_t n)
{
    const uint64_t row = t->size / (uint64_t)t->dims[0];
    llm_source_tensor part = *t;
    part.dims[0] = n;
    part.data = (const uint8_t *)t->data + row * (uint64_t)first;
    part.size = row * (uint64_t)n;
    if (t->outliers)
        part.outliers = (const uint16_t *)t->outliers + first;
    if (t->n_scales > 1) {
        const uint64_t each = t->n_scales / (uint64_t)t->dims[0];
        part.scales = (const float *)t->scales + (uint64_t)first * each;
        part.n_scales = (uint64_t)n * each;
    }
    return part;
}

/* The roles whose rows a tensor of a file holds one after the other. Returns
 * how many. */
static uint32_t parts_of(const llm_hparams *h, uint8_t role, uint8_t roles[3],
                         int64_t rows[3])
{
    const int64_t q = (int64_t)h->n_heads * h->head_dim;
    const int64_t kv = (int64_t)h->n_kv_heads * h->head_dim;
    if (role == LLM_ATTN_QKV) {
        memcpy(roles, (uint8_t[]){LLM_ATTN_Q, LLM_ATTN_K, LLM_ATTN_V}, 3);
        memcpy(rows, (int64_t[]){q, kv, kv}, 3 * sizeof *rows);
        return 3;
    }
    if (role == LLM_FFN_GATE_UP) {
        memcpy(roles, (uint8_t[]){LLM_FFN_GATE, LLM_FFN_UP}, 2);
        memcpy(rows, (int64_t[]){h->n_ff, h->n_ff}, 2 * sizeof *rows);
        return 2;
    }
    roles[0] = role;
    return 1;
}

/* Adds a tensor to the roles that it has. Graphs see one expert as several. */
static clv_status add_roles(const loader *l, const llm_tensor *expected,
                            llm_source_tensor t, llm_linear *to)
{
    uint8_t roles[3];
    int64_t rows[3], at = 0;
    const uint32_t n =
        parts_of(&l->source->hparams, expected->row->role, roles, rows);
    if (expected->row->flags & LLM_ONE) {
        memmove(t.dims + 1, t.dims, t.rank * sizeof *t.dims);
        t.dims[0] = 1;
        t.rank++;
    }
    for (uint32_t i = 0; i < n; i++) {
        const llm_source_tensor part = n > 1 ? rows_of(&t, at, rows[i]) : t;
        llm_linear *role = &to[roles[i]];
        char name[LLM_TENSOR_NAME];
        snprintf(name, sizeof name, n > 1 ? "%.*s.%u" : "%.*s",
                 (int)sizeof name - 8, expected->gguf, i);
        CLV_TRY(
            add(l, name, &part, expected->bias ? &role->bias : &role->weight));
        at += n > 1 ? rows[i] : 0;
    }
    return CLV_OK;
}

/* to: the roles of the model or of a layer. */
static clv_status load(const loader *l, const llm_tensor *expected,
                       llm_linear *to)
{
    const char *name = expected->gguf;
    const llm_linear *role = &to[expected->row->role];
    llm_source_tensor t;
    if (expected->bias ? role->bias : role->weight)
        return CLV_OK; /* from a tensor of several roles */
    clv_status status = find(l, name, expected->rank, expected->dims, &t);
    if (status == CLV_ERR_NOT_FOUND) {
        if (expected->optional ||
            (expected->row->flags & LLM_TIED && !expected->bias))
            return CLV_OK;
        return clv_error(CLV_ERR_FORMAT,
                         "tensor '%s' of shape %s is missing; the file is "
                         "incomplete or of another architecture",
                         name,
                         llm_shape_show(expected->dims, expected->rank).text);
    }
    if (status)
        return status;
    l->list->n_params += count(&t);
    l->list->size += t.size + t.n_scales * sizeof(float);
    if (t.rank > 1)
        l->list->by_dtype[t.dtype] += count(&t);
    return add_roles(l, expected, t, to);
}

/* Frequencies by the settings, and by the divisors of that name if the source
 * has them. */
static clv_status add_rope(const loader *l, const char *name,
                           const llm_hparams *hp, const char *divisors,
                           const llm_weight **out)
{
    const int64_t n = hp->rope_dim / 2;
    llm_source_tensor t;
    llm_weight *w = NULL;
    float *values = NULL;
    CLV_TRY(append(l->list, name, &w));
    CLV_TRY(clv_tensor_create(l->ctx, CLV_DTYPE_F32, 1, &n, &w->tensor));
    *out = w;
    clv_status status =
        divisors ? find(l, divisors, 1, &n, &t) : CLV_ERR_NOT_FOUND;
    if (!status && !(values = malloc((size_t)n * sizeof *values)))
        return llm_no_memory("rope frequencies");
    if (!status)
        status = clv_dtype_to_f32(t.dtype, t.data, values, (uint64_t)n);
    if (!status || status == CLV_ERR_NOT_FOUND)
        status = llm_rope_frequencies(hp, values, clv_tensor_data(w->tensor));
    free(values);
    return status;
}

static clv_status load_rope(const loader *l, const llm_weight **out)
{
    const llm_hparams *hp = &l->source->hparams;
    const bool by_length = hp->rope_scaling == LLM_ROPE_LONG;
    llm_hparams local = *hp;
    CLV_TRY(llm_rope_check(hp));
    CLV_TRY(
        add_rope(l, "rope_freqs", hp,
                 by_length ? "rope_factors_short.weight" : "rope_freqs.weight",
                 &out[LLM_ROPE_MAIN]));
    if (by_length)
        CLV_TRY(add_rope(l, "rope_freqs_far", hp, "rope_factors_long.weight",
                         &out[LLM_ROPE_FAR]));
    local.rope_base = hp->rope_local_base;
    local.rope_scaling = LLM_ROPE_NONE;
    return hp->rope_local_base ? add_rope(l, "rope_freqs_local", &local, NULL,
                                          &out[LLM_ROPE_LOCAL])
                               : CLV_OK;
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
        llm_linear *to = t.row->role < LLM_LAYER_ROLES
                             ? weights->model
                             : weights->layers[t.layer];
        CLV_TRY(load(&l, &t, to));
    }
    for (uint64_t i = 0; i < list->n; i++)
        weights->outliers |= list->items[i]->outliers != NULL;
    return load_rope(&l, weights->rope);
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
