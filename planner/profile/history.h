/*
 * What runs of plans took. Costs predict a plan that has not run yet; for one
 * that has, its own runs are better evidence. Kept in core.cache_dir for all
 * devices and graphs, the latest ones.
 */
#pragma once

#include <cleave/cleave.h>

#include <pthread.h>

#define PLANNER_PAST_SYMBOLS 4
#define PLANNER_PAST_TIMES 5

/* Runs of a plan with symbols like these. */
typedef struct planner_past {
    uint64_t problem; /* the graph, and the devices that could be used */
    uint64_t plan;    /* the problem, and how it was divided */
    int64_t symbols[PLANNER_PAST_SYMBOLS]; /* of the latest run */
    uint32_t n_symbols;
    uint32_t runs;
    double ns[PLANNER_PAST_TIMES]; /* of the latest runs, in a ring */
} planner_past;

typedef struct planner_history {
    pthread_mutex_t lock;
    planner_past *items; /* the latest one last */
    uint32_t n, capacity;
    bool loaded, changed;
} planner_history;

void planner_history_begin(planner_history *history);
/* Writes what has changed. */
void planner_history_finish(planner_history *history, clv_context *ctx);
/* A failure is logged. */
void planner_history_save(planner_history *history, clv_context *ctx);

/* The run's plan and symbols are those of `run`. */
clv_status planner_history_add(planner_history *history, clv_context *ctx,
                               const planner_past *run, double ns);
/* How many runs of the plan with symbols like these there were. */
uint32_t planner_history_runs(planner_history *history, const clv_context *ctx,
                              const planner_past *run);
/* The runs of the plan whose symbols are nearest; false: it has not run. */
bool planner_history_find(planner_history *history, clv_context *ctx,
                          uint64_t plan, const int64_t *symbols,
                          uint32_t n_symbols, planner_past *out);
/* How many plans of the problem have run, and how many of these took more than
 * `worse` times what the fastest did, with the symbols that are nearest. */
void planner_history_count(planner_history *history, clv_context *ctx,
                           const planner_past *run, double worse,
                           uint32_t *n_plans, uint32_t *n_worse);
/* The median of the latest runs, ns. */
double planner_past_median(const planner_past *past);
