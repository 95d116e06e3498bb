/*
 * A session holds the KV cache of a text, or of several, and what runs on it.
 * session.c creates it and tells about it, evaluate.c runs tokens of one text,
 * step.c one of each of several, session_loss.c leaves out devices that are
 * lost.
 */
#pragma once

#include "chunks.h"
#include "model.h"
#include "runners.h"
#include "split_choices.h"

#include <stdatomic.h>

/* One of the texts in the cache. */
typedef struct llm_sequence {
    uint32_t position;
    int32_t *ids; /* [position]: its tokens */
    uint32_t ids_capacity;
} llm_sequence;

struct clv_session {
    clv_model *model;
    uint32_t n_ctx, n_batch;
    clv_device **devices; /* owned; NULL: all */
    uint32_t n_devices;
    uint32_t n_lost; /* devices left out so far */
    char **plans;    /* saved ones; owned, as are their strings */
    uint32_t n_plans;
    llm_kv_cache cache;
    llm_sequence *sequences; /* [cache.n_sequences], owned */
    llm_sequence *now;       /* the selected one */
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

/* Memory for n more ids. */
clv_status llm_sequence_reserve(llm_sequence *sequence, uint32_t n,
                                uint32_t n_ctx);
/* What has been run; memory is reserved. */
void llm_sequence_add(llm_sequence *sequence, const int32_t *ids, uint32_t n);
/* Where the longest text decides the rotary frequencies, the cache is computed
 * again when they change. n: tokens of a sequence that is about to grow. */
clv_status llm_session_choose_rope(clv_session *session, uint32_t n);

/* For clv_generate(), beside llm.h. */
clv_model *llm_session_model(const clv_session *session);
/* [position]: the tokens of the selected sequence, until it changes. */
const int32_t *llm_session_ids(const clv_session *session);
/* Removes a cancellation that came after the run it was meant for. */
void llm_session_forget_cancel(clv_session *session);
