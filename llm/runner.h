/*
 * One way to run a model: its graph for a number of tokens a run, planned and
 * compiled. A session has up to three of them (one token, a batch, a batch with
 * all logits) over one KV cache. Weights are the model's and are shared.
 */
#pragma once

#include "kv_cache.h"
#include "model.h"

typedef struct llm_runner {
    clv_model *model;
    clv_graph *graph;
    clv_plan *plan;
    clv_exec *exec;
    uint32_t max_tokens; /* a run; 1: a fixed shape without the symbol */
    bool all_logits;
    llm_graph io; /* values of the graph */
    clv_value logits;
} llm_runner;

typedef struct llm_runner_params {
    uint32_t max_tokens;
    bool all_logits;            /* of every token, not only the last */
    clv_device *const *devices; /* as clv_plan_params */
    uint32_t n_devices;
    char *const *plans;         /* saved ones, as clv_session_params */
    uint32_t n_plans;
} llm_runner_params;

clv_status llm_runner_create(clv_model *model, const llm_kv_cache *cache,
                             const llm_runner_params *params, llm_runner **out);
void llm_runner_destroy(llm_runner *runner);

/* Runs n ids (1..max_tokens) at positions from position on, which must fit the
 * cache. */
clv_status llm_runner_run(llm_runner *runner, const int32_t *ids, uint32_t n,
                          uint32_t position);
/* Of the latest run: [n, n_vocab] with all_logits, else [1, n_vocab]. */
const float *llm_runner_logits(const llm_runner *runner);
