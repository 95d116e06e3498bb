/*
 * Keys and values of the tokens so far: two states for each layer, [n_sequences
 * * n_ctx, n_kv_heads * head_dim]; row s * n_ctx + p belongs to position p of
 * sequence s. Rows from a sequence's position on hold old tokens and are never
 * read: attention is causal.
 */
#pragma once

#include "../models/hparams.h"

typedef struct llm_kv_cache {
    uint32_t n_layers, dtype;
    uint32_t n_ctx; /* positions of a sequence */
    uint32_t n_sequences;
    uint64_t size;       /* bytes */
    clv_tensor **k, **v; /* [n_layers] */
} llm_kv_cache;

/* On failure the cache is empty. */
clv_status llm_kv_cache_init(llm_kv_cache *cache, clv_context *ctx,
                             const llm_hparams *hp, uint32_t n_ctx,
                             uint32_t n_sequences, uint32_t dtype);
/* CLV_ERR_LIMIT, with the number of positions that would fit, if size bytes for
 * n_ctx positions are more than are available. */
clv_status llm_kv_cache_fits(uint64_t size, uint32_t n_ctx, uint64_t available);
/* Moves tensors that a lost device may still write to new memory, with the
 * first n rows. No runner may use the cache. */
clv_status llm_kv_cache_rescue(llm_kv_cache *cache, clv_context *ctx,
                               uint32_t n);
/* Whether rows were only in the memory of a device that is lost. */
bool llm_kv_cache_lost(const llm_kv_cache *cache);
/* New memory, without contents. No runner may use the cache. */
clv_status llm_kv_cache_renew(llm_kv_cache *cache, clv_context *ctx);
void llm_kv_cache_finish(llm_kv_cache *cache);
