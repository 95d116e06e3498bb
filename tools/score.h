/* How well a model predicts a text: of perplexity, and of quantize. */
#pragma once

#include "env.h"
#include "plans.h"

typedef struct tool_score_params {
    const char *model;         /* its path, for messages */
    const char *file;          /* of the text */
    const tool_strings *plans; /* NULL: none */
    uint32_t n_ctx, n_batch;   /* tokens of a window, and of a run */
    uint32_t kv_dtype;
    int64_t chunks; /* windows at most; -1: all */
} tool_score_params;

typedef struct tool_score {
    uint64_t tokens, n_windows;
    double nll; /* mean of the tokens */
    uint64_t ns;
} tool_score;

clv_status tool_score_text(tool_env *env, clv_model *model,
                           const tool_score_params *params, tool_score *out);
/* The ids of the text in a file; *ids: freed with clv_tokens_free(). */
clv_status tool_tokenize_file(const clv_model *model, const char *path,
                              const char *file, int32_t **ids, uint64_t *n);
