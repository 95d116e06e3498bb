/*
 * Weights of a model: found in its source, checked, and wrapped as tensors.
 */
#pragma once

#include "../sources/source.h"

/* Everything loaded, until the model is destroyed. */
typedef struct llm_weight_list {
    llm_weight **items;
    uint64_t n, capacity;
    uint64_t n_params, size;            /* elements and bytes of all */
    uint64_t by_dtype[CLV_DTYPE_COUNT]; /* elements of matrices */
} llm_weight_list;

/* All that the architecture of the source has. On failure both hold what must
 * be freed. */
clv_status llm_weights_load(clv_context *ctx, llm_source *source,
                            llm_weights *weights, llm_weight_list *list);
void llm_weights_finish(llm_weights *weights, llm_weight_list *list);
