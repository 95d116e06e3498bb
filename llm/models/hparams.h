/*
 * What every source checks about settings, wherever they come from.
 */
#pragma once

#include "../sources/source.h"

enum {
    LLM_MAX_LAYERS = 1024,
    LLM_MAX_WIDTH = 1 << 20, /* n_embd, n_ff */
    LLM_MAX_HEADS = 4096,
    LLM_MAX_HEAD_DIM = 4096,
    LLM_MAX_VOCAB = 1 << 24,
    LLM_MAX_CTX = 1 << 28,
};

/* where begins the message: a path. */
clv_status llm_hparams_check(const llm_hparams *h, const char *where);
