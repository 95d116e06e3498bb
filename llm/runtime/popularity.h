/*
 * Popularity of experts: how often each is chosen, by layer, learned from runs
 * and kept in core.cache_dir/experts for each model. When a model is loaded,
 * the experts of a layer are put in order, the most popular first: their
 * weights, and the rows of the router, so that what it chooses are places in
 * that order. Nothing else in the model knows of it.
 */
#pragma once

#include "../sources/source.h"

typedef struct llm_popularity llm_popularity;

/* Orders the weights of a source whose tensors nobody uses yet. *out: NULL
 * where core.popularity is off, or there are no experts in files. */
clv_status llm_popularity_create(clv_context *ctx, llm_source *source,
                                 llm_popularity **out);
/* Keeps what was counted; NULL is legal. */
void llm_popularity_destroy(llm_popularity *popularity);
/* Tells the weights of a layer's experts their chances, if they are known. */
clv_status llm_popularity_tell(const llm_popularity *popularity, uint32_t layer,
                               const llm_linear *roles);
/* Counts what the router of a layer chose: ids [n, experts used]. Rows that
 * choose an expert twice, as those of devices that compute nothing do, are left
 * out. From any thread. */
void llm_popularity_count(llm_popularity *popularity, uint32_t layer,
                          const int32_t *ids, uint32_t n);
