#include "cached.h"

#include <cleave/plugin_blob.h>

/* A key says what each dispatch that fills the buffer does, with which text,
 * numbers and bytes. The bytes are known by where they lie: the buffers outlive
 * every program that uses the entry. */

typedef struct writer {
    unsigned char *to; /* NULL: only counted */
    size_t n;
} writer;

static void put(writer *w, const void *data, size_t size)
{
    if (w->to)
        memcpy(w->to + w->n, data, size);
    w->n += size;
}

static void put_number(writer *w, uint64_t number)
{
    put(w, &number, sizeof number);
}

static void put_expr(writer *w, const gpu_expr *e)
{
    put_number(w, (uint64_t)e->constant);
    put_number(w, (uint64_t)e->divisor);
}

bool gpu_cached_filled_by(const gpu_code *code, const gpu_dispatch *setup,
                          uint32_t index)
{
    const gpu_kernel *kernel = &code->kernels[setup->kernel];
    for (uint32_t i = 0; i < kernel->n_args; i++)
        if (setup->args[i].memory == GPU_MEMORY_PRIVATE &&
            setup->args[i].written && setup->args[i].index == index)
            return true;
    return false;
}

/* index: the private buffer, which of several that are filled together it is.
 */
static void put_dispatch(writer *w, const gpu_code *code, const gpu_dispatch *d,
                         uint32_t index, gpu_place_of place_of, const void *ctx)
{
    const gpu_kernel *kernel = &code->kernels[d->kernel];
    put_number(w, clv_hash_text(CLV_HASH_START, kernel->source));
    put_number(w, strlen(kernel->source));
    for (uint32_t i = 0; i < kernel->n_args; i++) {
        const gpu_arg *a = &d->args[i];
        uint64_t buffer = 0, offset = 0;
        if (a->memory == GPU_MEMORY_TENSOR)
            place_of(ctx, a->index, &buffer, &offset);
        else
            buffer = a->index == index;
        put_number(w, buffer);
        put_number(w, offset + a->offset);
    }
    for (uint32_t i = 0; i < kernel->n_params; i++)
        put_expr(w, &d->params[i]);
    for (uint32_t i = 0; i < 3; i++)
        put_expr(w, &d->groups[i]);
}

static void put_key(writer *w, const gpu_code *code, uint32_t index,
                    gpu_place_of place_of, const void *ctx)
{
    put_number(w, code->privates[index].size);
    for (uint32_t i = 0; i < code->n_setup; i++)
        if (gpu_cached_filled_by(code, &code->setup[i], index))
            put_dispatch(w, code, &code->setup[i], index, place_of, ctx);
}

clv_status gpu_cached_find(const clv_host_api *host, gpu_cached **list,
                           const gpu_code *code, uint32_t index,
                           gpu_place_of place_of, const void *ctx,
                           gpu_cached **out)
{
    const bool shared = !code->privates[index].own;
    writer w = {NULL, 0};
    if (shared)
        put_key(&w, code, index, place_of, ctx);
    gpu_cached *own = clv_new(host, sizeof *own + w.n);
    if (!own)
        return CLV_ERR_NO_MEMORY;
    w = (writer){own->key, 0};
    if (shared)
        put_key(&w, code, index, place_of, ctx);
    own->n_key = w.n; /* of those that nobody finds 0 */
    gpu_cached *k = shared ? *list : NULL;
    while (k && (k->n_key != own->n_key || memcmp(k->key, own->key, w.n)))
        k = k->next;
    if (k) {
        clv_free(host, own);
    } else {
        k = own;
        k->next = *list;
        *list = k;
    }
    k->users++;
    *out = k;
    return CLV_OK;
}

/* Kernels ask an image for its extent, a buffer for nothing. */
static bool serves(const gpu_private *there, const gpu_private *want)
{
    if (!there->size || there->storage != want->storage)
        return false;
    if (want->storage == CLV_STORAGE_BUFFER)
        return there->size >= want->size;
    return there->dtype == want->dtype &&
           !memcmp(there->extent, want->extent, sizeof want->extent);
}

static bool is_among(const gpu_cached *k, gpu_cached *const *taken, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (taken[i] == k)
            return true;
    return false;
}

clv_status gpu_cached_scratch(const clv_host_api *host, gpu_cached **list,
                              const gpu_private *want, gpu_cached *const *taken,
                              uint32_t n, gpu_cached **out)
{
    gpu_cached *best = NULL;
    for (gpu_cached *k = *list; k; k = k->next)
        if (serves(&k->scratch, want) && !is_among(k, taken, n) &&
            (!best || k->scratch.size < best->scratch.size))
            best = k;
    if (!best) {
        best = clv_new(host, sizeof *best);
        if (!best)
            return CLV_ERR_NO_MEMORY;
        best->scratch = *want;
        best->next = *list;
        *list = best;
    }
    best->users++;
    *out = best;
    return CLV_OK;
}

void *gpu_cached_drop(const clv_host_api *host, gpu_cached **list,
                      gpu_cached *entry)
{
    if (--entry->users)
        return NULL;
    void *memory = entry->memory;
    while (*list != entry)
        list = &(*list)->next;
    *list = entry->next;
    clv_free(host, entry);
    return memory;
}
