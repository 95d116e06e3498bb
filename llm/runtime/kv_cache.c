#include "kv_cache.h"

#include "../base/memory.h"
#include "../base/str.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Bytes of the whole cache; false if that does not fit 64 bits. */
static bool total_size(const llm_hparams *hp, uint64_t rows, uint32_t dtype,
                       uint64_t *size)
{
    uint64_t elements, bytes;
    if (__builtin_mul_overflow((uint64_t)hp->n_kv_heads * hp->head_dim, rows,
                               &elements) ||
        clv_dtype_size(dtype, elements, &bytes))
        return false;
    return !__builtin_mul_overflow(bytes, 2 * (uint64_t)hp->n_layers, size);
}

/* Whether work is done, and memory used, at all. */
static bool is_simulated(const clv_context *ctx)
{
    const uint32_t n = clv_context_device_count(ctx);
    for (uint32_t i = 0; i < n; i++)
        if (clv_device_info_of(clv_context_device(ctx, i))->clock !=
            CLV_CLOCK_VIRTUAL)
            return false;
    return n > 0;
}

clv_status llm_kv_cache_fits(uint64_t size, uint32_t n_ctx, uint64_t available)
{
    if (size <= available)
        return CLV_OK;
    const uint64_t each = size / n_ctx ? size / n_ctx : 1;
    uint64_t fit = available / each;
    fit -= fit > 256 ? fit % 256 : 0;
    return clv_error(CLV_ERR_LIMIT,
                     "KV cache of %u positions takes %.1f MiB, %.1f MiB of "
                     "memory are free; %llu positions would fit (n_ctx), about "
                     "twice as many of type q8_0 as of f16",
                     n_ctx, (double)size / (1 << 20),
                     (double)available / (1 << 20), (unsigned long long)fit);
}

#define SEQUENCES_TEXT 40

static const char *of_sequences(const llm_kv_cache *cache,
                                char text[SEQUENCES_TEXT])
{
    text[0] = 0;
    if (cache->n_sequences > 1)
        snprintf(text, SEQUENCES_TEXT, " for each of %u sequences",
                 cache->n_sequences);
    return text;
}

/* Says what is taken before it is: loudly if it is much. */
static clv_status announce(const llm_kv_cache *cache, clv_context *ctx)
{
    const uint64_t available = llm_memory_available();
    const bool simulated = is_simulated(ctx);
    char text[SEQUENCES_TEXT];
    const bool much = !simulated && cache->size > available / 2;
    clv_log(ctx, much ? CLV_LOG_WARN : CLV_LOG_INFO,
            "KV cache of %u positions%s in %s: %.1f MiB", cache->n_ctx,
            of_sequences(cache, text), clv_dtype_name(cache->dtype),
            (double)cache->size / (1 << 20));
    return simulated ? CLV_OK
                     : llm_kv_cache_fits(cache->size, cache->n_ctx, available);
}

static clv_status make_tensors(llm_kv_cache *cache, clv_context *ctx,
                               const llm_hparams *hp)
{
    const int64_t dims[2] = {(int64_t)cache->n_ctx * cache->n_sequences,
                             (int64_t)hp->n_kv_heads * hp->head_dim};
    cache->k = calloc(cache->n_layers, sizeof *cache->k);
    cache->v = calloc(cache->n_layers, sizeof *cache->v);
    if (!cache->k || !cache->v)
        return llm_no_memory("layers");
    for (uint32_t i = 0; i < cache->n_layers; i++) {
        CLV_TRY(clv_tensor_create(ctx, cache->dtype, 2, dims, &cache->k[i]));
        CLV_TRY(clv_tensor_create(ctx, cache->dtype, 2, dims, &cache->v[i]));
    }
    return CLV_OK;
}

clv_status llm_kv_cache_init(llm_kv_cache *cache, clv_context *ctx,
                             const llm_hparams *hp, uint32_t n_ctx,
                             uint32_t n_sequences, uint32_t dtype)
{
    *cache = (llm_kv_cache){
        .n_layers = hp->n_layers,
        .n_ctx = n_ctx,
        .n_sequences = n_sequences,
        .dtype = dtype,
    };
    const uint64_t rows = (uint64_t)n_ctx * n_sequences;
    char text[SEQUENCES_TEXT];
    if (rows > INT32_MAX || !total_size(hp, rows, dtype, &cache->size))
        return clv_error(CLV_ERR_LIMIT,
                         "a KV cache of %u positions%s is too large to "
                         "address; use a smaller context (n_ctx)",
                         n_ctx, of_sequences(cache, text));
    CLV_TRY(announce(cache, ctx));
    clv_status status = make_tensors(cache, ctx, hp);
    if (status) {
        clv_error_prefix(status,
                         "KV cache of %u positions, %.1f MiB; use a smaller "
                         "context (n_ctx)",
                         n_ctx, (double)cache->size / (1 << 20));
        llm_kv_cache_finish(cache);
    }
    return status;
}

static clv_status rescue(clv_tensor **tensor, clv_context *ctx, uint32_t n)
{
    clv_tensor *moved;
    if (!clv_tensor_contested(*tensor))
        return CLV_OK;
    const int64_t *dims = clv_tensor_dims(*tensor);
    clv_status status =
        clv_tensor_create(ctx, clv_tensor_dtype(*tensor), 2, dims, &moved);
    if (status)
        return clv_error_prefix(status, "moving the KV cache");
    const void *rows = clv_tensor_data(*tensor);
    if (!rows) {
        clv_tensor_destroy(moved);
        return clv_error(CLV_ERR_DEVICE_LOST, "moving the KV cache: %s",
                         clv_last_error());
    }
    memcpy(clv_tensor_data(moved), rows,
           clv_tensor_size(*tensor) / (uint64_t)dims[0] * n);
    clv_tensor_destroy(*tensor);
    *tensor = moved;
    return CLV_OK;
}

clv_status llm_kv_cache_rescue(llm_kv_cache *cache, clv_context *ctx,
                               uint32_t n)
{
    for (uint32_t i = 0; i < cache->n_layers; i++) {
        CLV_TRY(rescue(&cache->k[i], ctx, n));
        CLV_TRY(rescue(&cache->v[i], ctx, n));
    }
    return CLV_OK;
}

bool llm_kv_cache_lost(const llm_kv_cache *cache)
{
    for (uint32_t i = 0; i < cache->n_layers; i++)
        if (clv_tensor_lost(cache->k[i]) || clv_tensor_lost(cache->v[i]))
            return true;
    return false;
}

static clv_status renew(clv_tensor **tensor, clv_context *ctx)
{
    clv_tensor *made;
    clv_status status = clv_tensor_create(ctx, clv_tensor_dtype(*tensor), 2,
                                          clv_tensor_dims(*tensor), &made);
    if (status)
        return clv_error_prefix(status, "a new KV cache");
    clv_tensor_destroy(*tensor);
    *tensor = made;
    return CLV_OK;
}

clv_status llm_kv_cache_renew(llm_kv_cache *cache, clv_context *ctx)
{
    for (uint32_t i = 0; i < cache->n_layers; i++) {
        CLV_TRY(renew(&cache->k[i], ctx));
        CLV_TRY(renew(&cache->v[i], ctx));
    }
    return CLV_OK;
}

void llm_kv_cache_finish(llm_kv_cache *cache)
{
    for (uint32_t i = 0; i < cache->n_layers; i++) {
        if (cache->k)
            clv_tensor_destroy(cache->k[i]);
        if (cache->v)
            clv_tensor_destroy(cache->v[i]);
    }
    free(cache->k);
    free(cache->v);
    *cache = (llm_kv_cache){0};
}
