/*
 * A loaded model. It owns its source (and with it the mapped file), the tensors
 * wrapped around the source's data, and the tokenizer; sessions borrow all of
 * them.
 */
#pragma once

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
    /* Guards the weights' tensors while a session makes graph, plan and exec
     * from them, or destroys these: a tensor belongs to one thread at a time,
     * and runs do not touch it. */
    pthread_mutex_t lock;
};

/* Ends a text: by the tokenizer, else by the settings. */
bool llm_model_is_end(const clv_model *model, int32_t id);

/* clv_model_load() from a source, which becomes the model's even on failure. */
clv_status llm_model_create(clv_context *ctx, llm_source *source,
                            clv_model **out);
