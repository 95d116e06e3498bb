/*
 * A loaded model. It owns its source (and with it the mapped file), the tensors
 * that wrap the data of the source, and the tokenizer. Sessions use all of
 * them.
 */
#pragma once

#include "popularity.h"
#include "weights.h"

#include <pthread.h>

struct clv_model {
    clv_context *ctx;
    llm_source *source;
    const llm_hparams *hp;    /* the source's */
    clv_tokenizer *tokenizer; /* NULL: none */
    llm_weights weights;
    llm_weight_list list;
    clv_model_info info;
    llm_popularity *popularity; /* of its experts; NULL: none */
    /* Locks the tensors of the weights while a session creates or destroys a
     * graph, plan or exec: only one thread at a time may use a tensor. Runs do
     * not use it. */
    pthread_mutex_t lock;
};

/* Whether an id ends a text: by the tokenizer, else by the settings. */
bool llm_model_is_end(const clv_model *model, int32_t id);

/* clv_model_load() from a source, which belongs to the model even on failure,
 * as does the popularity of its experts, which may be NULL. */
clv_status llm_model_create(clv_context *ctx, llm_source *source,
                            llm_popularity *popularity, clv_model **out);
