/*
 * A model's graph for a number of tokens, planned and compiled. The weights
 * belong to the model and are shared. A session has several runners on one KV
 * cache: runners.h.
 *
 * A graph has one length, or a symbolic length up to a bound. A graph of one
 * length takes fewer tokens too: it is padded after the real tokens. Nothing
 * reads the rows of the padding; in the cache they are masked until later
 * tokens overwrite them.
 */
#pragma once

#include "kv_cache.h"
#include "model.h"

typedef struct llm_rounding llm_rounding; /* importance.h */

typedef struct llm_shape {
    uint32_t n_tokens;
    bool fixed;      /* n_tokens rows; else up to n_tokens. 1 is fixed */
    bool all_logits; /* of every token, not of the last one only */
    bool apart;    /* each token is of another sequence; else all are of one */
    bool observed; /* what weights are multiplied with can be read */
    bool flight;   /* its plan is for LLM_PLAN_FLIGHT runs under way at once */
    const llm_rounding *rounding; /* of that, while it is created; or NULL */
} llm_shape;

/* A product of the graph. */
typedef struct llm_observed {
    clv_value x;
    const llm_weight *w;
} llm_observed;

/* Of a graph, at most. */
#define LLM_SYMBOLS 3

#define LLM_MAX_FLIGHT 8
/* That plans are made for, however many are in flight then. */
#define LLM_PLAN_FLIGHT 4

typedef struct llm_runner {
    clv_model *model;
    llm_shape shape;
    uint32_t n_ctx; /* positions of a sequence */
    clv_graph *graph;
    clv_plan *plan;
    clv_exec *exec;
    clv_run *runs[LLM_MAX_FLIGHT];   /* the first is the exec's own */
    uint32_t n_rows[LLM_MAX_FLIGHT]; /* tokens of the latest submit of each */
    uint32_t n_runs;
    const clv_run *latest; /* that ended well */
    llm_graph io;          /* values of the graph */
    clv_value logits;
    struct {
        llm_observed *items;
        uint64_t n, capacity;
        bool failed;              /* memory ran out */
    } observed;                   /* with shape.observed or rounding */
    clv_learned learned;          /* from the latest run */
    int64_t symbols[LLM_SYMBOLS]; /* of the latest submit */
    uint32_t n_symbols;
} llm_runner;

/* What a plan works on, as clv_plan_work() has it. */
typedef struct llm_work {
    uint64_t bytes, values;
} llm_work;

typedef struct llm_runner_params {
    clv_device *const *devices; /* as clv_plan_params */
    uint32_t n_devices;
    char *const *plans; /* saved ones, as clv_session_params */
    uint32_t n_plans;
    clv_workspace *workspace; /* of all that run in turn; NULL: each has its
                                 own */
    clv_workspace *others[LLM_MAX_FLIGHT]; /* of further runs in flight, from
                                              [1] on; made when needed */
    bool scarce; /* some device's memory does not hold all weights: what a plan
                    works on is free again before another is made */
    llm_work reserve; /* as clv_plan_params, of the plan that is made now */
    /* Likewise. */
    const clv_plan *after;
} llm_runner_params;

/* The graph alone. */
clv_status llm_runner_create(clv_model *model, const llm_kv_cache *cache,
                             const llm_shape *shape, llm_runner **out);
void llm_runner_destroy(llm_runner *runner); /* NULL is legal */
/* Whether one of the saved plans was made for its graph. */
bool llm_runner_is_saved(const llm_runner *runner,
                         const llm_runner_params *params);
/* With such a plan, else with a new one. */
clv_status llm_runner_plan(llm_runner *runner, const llm_runner_params *params);
/* If the latest run showed other costs than the plan was made with: plans
 * again, and where that gives another plan takes it, which is not compiled yet.
 * A failure is logged. */
void llm_runner_plan_again(llm_runner *runner, const llm_runner_params *params);
/* clv_plan_work() of its graph. */
clv_status llm_runner_work(const llm_runner *runner,
                           const llm_runner_params *params, llm_work *out);
/* clv_plan_weigh() of its graph. */
clv_status llm_runner_weigh(const llm_runner *runner,
                            const llm_runner_params *params,
                            const clv_device *dev, uint64_t bytes, double *ns);
/* Whether a device of its plan is in real time. */
bool llm_runner_is_real(const llm_runner *runner);
/* The predicted time of a run, ns; 0: not known, or not planned. */
double llm_runner_predicted(const llm_runner *runner);
/* Makes a planned runner ready to run. */
clv_status llm_runner_compile(llm_runner *runner,
                              const llm_runner_params *params,
                              const llm_kv_cache *cache);

/* Where a token lies in the cache. */
typedef struct llm_place {
    uint32_t sequence, position;
} llm_place;

/* Tokens to run. The positions of all rows, padding included, must fit the
 * cache. */
typedef struct llm_input {
    const int32_t *ids;      /* [n] */
    uint32_t n;              /* 1..n_tokens */
    llm_place first;         /* the others follow it */
    const llm_place *places; /* [n]: instead, of a shape that is apart */
    bool far;                /* with the frequencies of LLM_ROPE_FAR */
} llm_input;

clv_status llm_runner_run(llm_runner *runner, const llm_input *input);
/* Makes so many runs that can be in flight together, or fewer where memory does
 * not suffice, which is logged; at most LLM_MAX_FLIGHT. */
void llm_runner_reserve(llm_runner *runner, llm_runner_params *params,
                        uint32_t n);
/* The symbols of a run of n tokens at the position; how many. */
uint32_t llm_runner_symbols(const llm_runner *runner, uint32_t n,
                            uint32_t position, int64_t symbols[LLM_SYMBOLS]);
/* llm_runner_run() of one of its runs, in two parts. */
clv_status llm_runner_submit(llm_runner *runner, uint32_t run,
                             const llm_input *input);
clv_status llm_runner_wait(llm_runner *runner, uint32_t run);
/* The logits of the latest run: [n, n_vocab] with all_logits, else [1,
 * n_vocab]. */
const float *llm_runner_logits(const llm_runner *runner);
/* The elements of an observed value in the latest run. */
const float *llm_runner_value(const llm_runner *runner, clv_value value,
                              uint64_t *n);
