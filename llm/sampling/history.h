/* The latest tokens of a text, in a ring. */
#pragma once

#include <cleave/llm.h>

typedef struct llm_history {
    int32_t *ids; /* [size] */
    uint32_t size, at, n;
} llm_history;

clv_status llm_history_init(llm_history *h, uint32_t size);
void llm_history_finish(llm_history *h);
void llm_history_add(llm_history *h, int32_t id);
void llm_history_clear(llm_history *h);

/* The i-th latest of n, from 0. */
static inline int32_t llm_history_back(const llm_history *h, uint32_t i)
{
    return h->ids[h->at > i ? h->at - 1 - i : h->size + h->at - 1 - i];
}
