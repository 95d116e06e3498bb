/*
 * Keys and values of the tokens seen: two states a layer, [n_ctx, n_kv_heads *
 * head_dim], row p that of position p. Rows from the session's position on are
 * left over from earlier tokens and are never looked at: attention is causal.
 */
#pragma once

#include "../models/hparams.h"

typedef struct llm_kv_cache {
    uint32_t n_layers, n_ctx, dtype;
    uint64_t size;       /* bytes */
    clv_tensor **k, **v; /* [n_layers] */
} llm_kv_cache;

/* On failure the cache is empty. */
clv_status llm_kv_cache_init(llm_kv_cache *cache, clv_context *ctx,
                             const llm_hparams *hp, uint32_t n_ctx,
                             uint32_t dtype);
/* Moves what a device that was given up may still write to new memory, with the
 * rows of the first n positions. No runner uses the cache. */
clv_status llm_kv_cache_rescue(llm_kv_cache *cache, clv_context *ctx,
                               uint32_t n);
/* Whether rows were only in the memory of a device that is lost. */
bool llm_kv_cache_lost(const llm_kv_cache *cache);
/* New memory, without contents. No runner uses the cache. */
clv_status llm_kv_cache_renew(llm_kv_cache *cache, clv_context *ctx);
void llm_kv_cache_finish(llm_kv_cache *cache);
