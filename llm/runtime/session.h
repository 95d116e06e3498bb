/*
 * A session holds the KV cache of a text and what runs on it. session.c creates
 * it and tells about it, evaluate.c runs tokens, session_loss.c leaves out
 * devices that are lost.
 */
#pragma once

#include "chunks.h"
#include "model.h"
#include "runners.h"
#include "split_choices.h"

#include <stdatomic.h>

struct clv_session {
    clv_model *model;
    uint32_t n_ctx, n_batch;
    clv_device **devices; /* owned; NULL: all */
    uint32_t n_devices;
    uint32_t n_lost; /* devices left out so far */
    char **plans;    /* saved ones; owned, as are their strings */
    uint32_t n_plans;
    llm_kv_cache cache;
    uint32_t position;
    int32_t *ids; /* [position]: the tokens in the cache */
    uint32_t ids_capacity;
    bool stale; /* the cache's rows must be computed again: it was lost, or
                   the frequencies are others */
    bool far;   /* with frequencies for long contexts */
    llm_runners runners;
    llm_splits splits;
    const llm_runner *latest;  /* one of them, or NULL */
    const llm_runner *several; /* one of them: it ran these chunks of the latest
                                  evaluation; NULL: it was one batch */
    llm_chunks chunks;
    bool rest;   /* another batch followed them */
    float *rows; /* logits of several batches, grown when asked for */
    uint64_t rows_size;
    atomic_bool cancelled;
};

/* For clv_generate(), beside llm.h. */
clv_model *llm_session_model(const clv_session *session);
/* [position]: the tokens in the cache, until it changes. */
const int32_t *llm_session_ids(const clv_session *session);
/* Removes a cancellation that came after the run it was meant for. */
void llm_session_forget_cancel(clv_session *session);
