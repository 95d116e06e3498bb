#include "popularity.h"

#include "../base/str.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FOLDER "experts"
/* Rows without knowledge that count beside those that were seen. */
#define UNSEEN 128
/* Weights of experts that are no whole pages have to be copied: up to so many
 * bytes of a tensor. */
#define COPIED ((uint64_t)16 << 20)
/* The system allows a process 65530 mappings, and each expert of a weight takes
 * two: experts of layers beyond so many stay as they are. */
#define MOST_PARTS 24576

/* Counts of a layer: of each expert, then rows. */
typedef struct counts {
    uint64_t *in_use; /* [n_layers, n_experts + 1] what the order is by */
    uint64_t *all;    /* the same of all runs */
} counts;

struct llm_popularity {
    clv_context *ctx;
    uint32_t n_layers, n_experts, used;
    char key[256];
    counts kept;          /* of earlier processes */
    uint64_t *seen;       /* as kept, by this one */
    uint32_t *order;      /* [n_layers, n_experts] expert at each place */
    float *chances;       /* [n_experts] of places, in the mean of all layers */
    bool *ordered;        /* [n_layers] */
    pthread_mutex_t lock; /* of seen */
};

static uint64_t n_counts(const llm_popularity *p)
{
    return (uint64_t)p->n_layers * (p->n_experts + 1);
}

static uint64_t *of_layer(const llm_popularity *p, uint64_t *all,
                          uint32_t layer)
{
    return all + (uint64_t)layer * (p->n_experts + 1);
}

static uint64_t rows_of(const llm_popularity *p, uint64_t *all, uint32_t layer)
{
    return of_layer(p, all, layer)[p->n_experts];
}

/* ------------------------------------------------------------------------ */
/* What is kept                                                             */

static bool adds_up(const llm_popularity *p, uint64_t *all)
{
    for (uint32_t l = 0; l < p->n_layers; l++) {
        const uint64_t *layer = of_layer(p, all, l), rows = layer[p->n_experts];
        uint64_t sum = 0;
        for (uint32_t e = 0; e < p->n_experts; e++) {
            if (layer[e] > rows)
                return false;
            sum += layer[e];
        }
        if (rows > UINT64_MAX / LLM_MAX_EXPERTS || sum != rows * p->used)
            return false;
    }
    return true;
}

/* Zeros where nothing is kept; out->in_use is owned. */
static clv_status load(const llm_popularity *p, counts *out)
{
    const uint64_t n = n_counts(p), bytes = 2 * n * sizeof *out->in_use;
    void *data = NULL;
    uint64_t size = 0;
    const bool found = !clv_cache_get(p->ctx, FOLDER, p->key, &data, &size);
    *out = (counts){calloc(2 * n, sizeof *out->in_use), NULL};
    if (out->in_use && found && size == bytes) {
        memcpy(out->in_use, data, bytes);
        if (adds_up(p, out->in_use) && adds_up(p, out->in_use + n))
            size = 0;
        else
            memset(out->in_use, 0, bytes);
    }
    free(data);
    if (!out->in_use)
        return llm_no_memory("the popularity of experts");
    out->all = out->in_use + n;
    if (found && size)
        clv_log(p->ctx, CLV_LOG_WARN,
                "what is kept of '%s' does not add up; it begins again",
                p->key);
    return CLV_OK;
}

static uint64_t sum_of_rows(const llm_popularity *p, uint64_t *all)
{
    uint64_t sum = 0;
    for (uint32_t l = 0; l < p->n_layers; l++)
        sum += rows_of(p, all, l);
    return sum;
}

/* Rows that decide, with those without knowledge. */
static uint64_t weight_of(const llm_popularity *p, uint64_t *all)
{
    return sum_of_rows(p, all) + (uint64_t)p->n_layers * UNSEEN;
}

/* Beside what other processes have kept meanwhile. The order changes seldom, as
 * plans are made for it: each time that twice as many rows decide. */
static void save(const llm_popularity *p)
{
    const uint64_t n = n_counts(p);
    counts now;
    if (!sum_of_rows(p, p->seen) || load(p, &now))
        return;
    for (uint64_t i = 0; i < n; i++)
        now.all[i] += p->seen[i];
    if (weight_of(p, now.all) >= 2 * weight_of(p, now.in_use))
        memcpy(now.in_use, now.all, n * sizeof *now.all);
    if (clv_cache_put(p->ctx, FOLDER, p->key, now.in_use,
                      2 * n * sizeof *now.in_use))
        clv_log(p->ctx, CLV_LOG_WARN,
                "which experts are popular is not kept: %s", clv_last_error());
    free(now.in_use);
}

/* ------------------------------------------------------------------------ */
/* The order                                                                */

/* A tensor whose first dimension are the experts that a router chooses of. */
static bool is_of_experts(const llm_hparams *h, const llm_tensor *t)
{
    const uint8_t role = t->row->role;
    return t->row->flags & LLM_SPARSE && t->dims[0] == h->n_experts &&
           (role == LLM_FFN_ROUTER || t->n_parts > 1);
}

/* Whether it can be put in order at little cost. */
static bool can_order(const llm_popularity *p, const llm_source_tensor *t)
{
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    return t->dims[0] == p->n_experts && !t->quant && !t->outliers &&
           (t->size <= COPIED || t->size / p->n_experts % page == 0);
}

/* Calls visit with all tensors of experts that are there. */
static clv_status each_tensor(llm_popularity *p, llm_source *source,
                              clv_status (*visit)(llm_popularity *p,
                                                  uint32_t layer,
                                                  const llm_source_tensor *t))
{
    llm_source_tensor found;
    for (llm_tensor t = {0}; llm_tensor_next(&source->hparams, &t);) {
        if (!is_of_experts(&source->hparams, &t))
            continue;
        const clv_status status = source->find(source, t.gguf, &found);
        if (status == CLV_ERR_NOT_FOUND)
            continue;
        CLV_TRY(status);
        CLV_TRY(visit(p, t.layer, &found));
    }
    return CLV_OK;
}

static clv_status check(llm_popularity *p, uint32_t layer,
                        const llm_source_tensor *t)
{
    p->ordered[layer] &= can_order(p, t);
    return CLV_OK;
}

static clv_status reorder(llm_popularity *p, uint32_t layer,
                          const llm_source_tensor *t)
{
    return p->ordered[layer]
               ? clv_file_reorder((void *)(uintptr_t)t->data,
                                  t->size / p->n_experts, p->n_experts,
                                  p->order + (uint64_t)layer * p->n_experts)
               : CLV_OK;
}

/* By insertion, so that equal ones stay as they are. */
static void sort_layer(llm_popularity *p, uint32_t layer)
{
    const uint64_t *n = of_layer(p, p->kept.in_use, layer);
    uint32_t *order = p->order + (uint64_t)layer * p->n_experts;
    for (uint32_t e = 0; e < p->n_experts; e++) {
        uint32_t at = e;
        for (; p->ordered[layer] && at && n[order[at - 1]] < n[e]; at--)
            order[at] = order[at - 1];
        order[at] = e;
    }
}

/* Of one chance for all layers, so that plans see that layers are alike. */
static void find_chances(llm_popularity *p)
{
    const double unseen = (double)UNSEEN * p->used / p->n_experts;
    double n = 0;
    for (uint32_t l = 0; l < p->n_layers; l++)
        n += p->ordered[l];
    for (uint32_t l = 0; l < p->n_layers; l++) {
        const uint64_t *layer = of_layer(p, p->kept.in_use, l);
        const uint32_t *order = p->order + (uint64_t)l * p->n_experts;
        const double rows = (double)layer[p->n_experts] + UNSEEN;
        for (uint32_t i = 0; i < p->n_experts && p->ordered[l]; i++)
            p->chances[i] +=
                (float)(((double)layer[order[i]] + unseen) / rows / n);
    }
    for (uint32_t i = 0; i < p->n_experts; i++)
        if (p->chances[i] > 1) /* rounded */
            p->chances[i] = 1;
}

static clv_status order(llm_popularity *p, llm_source *source)
{
    for (uint32_t l = 0; l < p->n_layers; l++)
        p->ordered[l] = rows_of(p, p->kept.in_use, l) > 0 &&
                        (l + 1) * 3 * p->n_experts <= MOST_PARTS;
    CLV_TRY(each_tensor(p, source, check));
    for (uint32_t l = 0; l < p->n_layers; l++)
        sort_layer(p, l);
    find_chances(p);
    return each_tensor(p, source, reorder);
}

/* ------------------------------------------------------------------------ */

static void name(llm_popularity *p, const llm_hparams *h)
{
    snprintf(p->key, sizeof p->key,
             "experts of %.100s, %s, %u layers, %u of %u, %u x %u, %u heads, "
             "%u tokens, format 1",
             h->name, h->arch->name, h->n_layers, h->n_experts_used,
             h->n_experts, h->n_embd, h->n_ff_expert ? h->n_ff_expert : h->n_ff,
             h->n_heads, h->n_vocab);
}

clv_status llm_popularity_create(clv_context *ctx, llm_source *source,
                                 llm_popularity **out)
{
    const llm_hparams *h = &source->hparams;
    *out = NULL;
    if (!h->n_experts || h->n_experts_used >= h->n_experts ||
        !source->each_map ||
        !clv_config_get_bool(clv_context_config(ctx), "core.popularity"))
        return CLV_OK;
    llm_popularity *p = calloc(1, sizeof *p);
    if (!p || pthread_mutex_init(&p->lock, NULL)) {
        free(p);
        return llm_no_memory("the popularity of experts");
    }
    p->ctx = ctx;
    p->n_layers = h->n_layers;
    p->n_experts = h->n_experts;
    p->used = h->n_experts_used;
    name(p, h);
    p->seen = calloc(n_counts(p), sizeof *p->seen);
    p->order = calloc(n_counts(p), sizeof *p->order);
    p->chances = calloc(p->n_experts, sizeof *p->chances);
    p->ordered = calloc(p->n_layers, sizeof *p->ordered);
    clv_status status = p->seen && p->order && p->chances && p->ordered
                            ? load(p, &p->kept)
                            : llm_no_memory("the popularity of experts");
    if (!status)
        status = order(p, source);
    if (status)
        llm_popularity_destroy(p);
    else
        *out = p;
    return status;
}

void llm_popularity_destroy(llm_popularity *p)
{
    if (!p)
        return;
    if (p->seen)
        save(p);
    pthread_mutex_destroy(&p->lock);
    free(p->kept.in_use);
    free(p->seen);
    free(p->order);
    free(p->chances);
    free(p->ordered);
    free(p);
}

clv_status llm_popularity_tell(const llm_popularity *p, uint32_t layer,
                               const llm_linear *roles)
{
    static const uint8_t of_experts[] = {LLM_FFN_GATE, LLM_FFN_UP,
                                         LLM_FFN_DOWN};
    for (uint32_t i = 0; p->ordered[layer] && i < 3; i++)
        if (roles[of_experts[i]].weight)
            CLV_TRY(clv_tensor_set_popularity(
                roles[of_experts[i]].weight->tensor, p->chances));
    return CLV_OK;
}

static bool is_choice(const llm_popularity *p, const int32_t *ids)
{
    for (uint32_t k = 0; k < p->used; k++) {
        if (ids[k] < 0 || (uint32_t)ids[k] >= p->n_experts)
            return false;
        for (uint32_t j = 0; j < k; j++)
            if (ids[j] == ids[k])
                return false;
    }
    return true;
}

void llm_popularity_count(llm_popularity *p, uint32_t layer, const int32_t *ids,
                          uint32_t n)
{
    const uint32_t *order = p->order + (uint64_t)layer * p->n_experts;
    uint64_t *seen = of_layer(p, p->seen, layer);
    pthread_mutex_lock(&p->lock);
    for (uint32_t i = 0; i < n; i++, ids += p->used) {
        if (!is_choice(p, ids))
            continue;
        for (uint32_t k = 0; k < p->used; k++)
            seen[order[ids[k]]]++;
        seen[p->n_experts]++;
    }
    pthread_mutex_unlock(&p->lock);
}
