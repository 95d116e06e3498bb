/*
 * One way to run a model: its graph for a number of tokens a run, planned and
 * compiled. Weights are the model's and are shared. A session keeps several
 * runners over one KV cache: runners.h.
 *
 * A graph has one length, or a symbolic one up to a bound. One of one length
 * takes fewer tokens too: it is padded with rows that nothing looks at, behind
 * the real ones, whose rows of the cache are masked until later tokens
 * overwrite them.
 */
#pragma once

#include "kv_cache.h"
#include "model.h"

typedef struct llm_shape {
    uint32_t n_tokens;
    bool fixed;      /* that many rows; else up to as many. 1 is fixed */
    bool all_logits; /* of every token, not only the last */
} llm_shape;

typedef struct llm_runner {
    clv_model *model;
    llm_shape shape;
    clv_graph *graph;
    clv_plan *plan;
    clv_exec *exec;
    llm_graph io; /* values of the graph */
    clv_value logits;
    int64_t symbols[2]; /* of the latest run */
    uint32_t n_symbols;
} llm_runner;

typedef struct llm_runner_params {
    clv_device *const *devices; /* as clv_plan_params */
    uint32_t n_devices;
    char *const *plans; /* saved ones, as clv_session_params */
    uint32_t n_plans;
} llm_runner_params;

/* The graph alone. */
clv_status llm_runner_create(clv_model *model, const llm_kv_cache *cache,
                             const llm_shape *shape, llm_runner **out);
void llm_runner_destroy(llm_runner *runner); /* NULL is legal */
/* Whether one of the saved plans was made for its graph. */
bool llm_runner_is_saved(const llm_runner *runner,
                         const llm_runner_params *params);
/* By that plan, else anew. */
clv_status llm_runner_plan(llm_runner *runner, const llm_runner_params *params);
/* What a run should take, ns; 0: not known, or not planned. */
double llm_runner_predicted(const llm_runner *runner);
/* What is planned becomes ready to run. */
clv_status llm_runner_compile(llm_runner *runner, const llm_kv_cache *cache);

/* Runs n ids (1..n_tokens) at positions from position on. Those of all rows,
 * padding included, must fit the cache. */
clv_status llm_runner_run(llm_runner *runner, const int32_t *ids, uint32_t n,
                          uint32_t position);
/* Of the latest run: [n, n_vocab] with all_logits, else [1, n_vocab]. */
const float *llm_runner_logits(const llm_runner *runner);
