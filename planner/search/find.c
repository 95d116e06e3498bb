#include "find.h"
#include "../../core/base/error.h"

#include "beam.h"
#include "blocks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Partial schedules that a beam keeps. */
#define WIDTH 24
/* Copies of a repeated block that are searched. */
#define COPIES 6
/* Rounds of improvement. */
#define MAX_ROUNDS 4

typedef struct finder {
    const planner_schedule *s;
    const planner_find_params *params;
    uint32_t *options; /* [n_nodes] of a trial */
    planner_state *state;
    planner_finding *out;
    double priced; /* makespan and price of out->options; INFINITY: none yet */
} finder;

static bool has(const finder *f, planner_stage stage)
{
    return !(f->params->without & stage);
}

/* Keeps the trial's options if they are the best so far. */
static void consider(finder *f)
{
    const planner_tables *t = f->s->tables;
    uint32_t n = t->problem->n_nodes;
    double ns = planner_evaluate(f->s, f->options, f->state, NULL, NULL);
    double priced = ns;
    for (uint32_t i = 0; i < n; i++)
        priced += planner_price(t, f->params->prices, i, f->options[i]);
    if (priced >= f->priced)
        return;
    f->priced = priced;
    f->out->ns = ns;
    memcpy(f->out->options, f->options, n * sizeof *f->options);
}

static clv_status search_beam(finder *f, bool look_ahead, bool together)
{
    const planner_beam_params params = {
        .width = f->params->quick ? WIDTH / 2 : WIDTH,
        .look_ahead = look_ahead,
        .replicas = has(f, PLANNER_STAGE_REPLICAS),
        .together = together,
        .prices = f->params->prices};
    CLV_TRY(planner_beam_search(f->s, &params, f->options));
    consider(f);
    return CLV_OK;
}

static void forget_alternatives(finder *f)
{
    for (uint32_t i = 0; i < f->s->tables->problem->n_nodes; i++)
        f->out->alternatives[i] = (planner_alternative){.option = UINT32_MAX};
}

/* Improves n nodes from `first` on; n 0: all. */
static clv_status improve(finder *f, uint32_t first, uint32_t n)
{
    if (!has(f, PLANNER_STAGE_ALTERNATIVES)) {
        forget_alternatives(f);
        return CLV_OK;
    }
    const planner_improve_params params = {
        .max_rounds = has(f, PLANNER_STAGE_IMPROVE) ? MAX_ROUNDS : 0,
        .first = first,
        .n = n,
        .prices = f->params->prices};
    planner_trials trials;
    planner_value value;
    clv_status status = planner_trials_make(f->s, &trials);
    if (!status) {
        planner_improve(&trials, &params, f->out->options, f->out->alternatives,
                        &value);
        f->out->ns = value.ns;
    }
    planner_trials_finish(&trials);
    return status;
}

static clv_status find_plain(finder *f)
{
    bool first = has(f, PLANNER_STAGE_FIRST_DONE) && !f->params->quick;
    bool together = has(f, PLANNER_STAGE_TOGETHER) && !f->params->quick &&
                    f->s->tables->replicates;
    f->priced = INFINITY;
    if (has(f, PLANNER_STAGE_LOOK_AHEAD) || (!first && !together))
        CLV_TRY(search_beam(f, true, false));
    if (first)
        CLV_TRY(search_beam(f, false, false));
    for (int ahead = 1; ahead >= 0 && together; ahead--)
        CLV_TRY(search_beam(f, ahead, true));
    return f->params->quick ? CLV_OK : improve(f, 0, 0);
}

/* ------------------------------------------------------------------------ */
/* Repeated blocks                                                           */

/* The choice of the smaller problem for all copies: that copy is repeated with
 * which the whole takes least. Answers which. */
static uint32_t expand(finder *f, const planner_block *block,
                       const planner_finding *small)
{
    uint32_t n = f->s->tables->problem->n_nodes, repeated = 0;
    f->priced = INFINITY;
    for (uint32_t r = 0; r < COPIES; r++) {
        double before = f->priced;
        for (uint32_t i = 0; i < n; i++)
            f->options[i] =
                small->options[planner_block_map(block, COPIES, r, i)];
        consider(f);
        repeated = f->priced < before ? r : repeated;
    }
    return repeated;
}

/* A little time that every copy loses is much in all; improving one of the
 * repeated copies finds it. Alternatives of the others are the smaller
 * problem's. */
static clv_status finish(finder *f, const planner_block *block,
                         const planner_finding *small, uint32_t repeated)
{
    uint32_t n = f->s->tables->problem->n_nodes;
    uint32_t first = block->begin + (repeated + 1) * block->period;
    CLV_TRY(improve(f, first, block->period));
    for (uint32_t i = 0; i < n; i++) {
        planner_alternative *a = &f->out->alternatives[i];
        if (i - first < block->period)
            continue;
        *a = small->alternatives[planner_block_map(block, COPIES, repeated, i)];
        a->ns += f->out->ns - small->ns;
    }
    return CLV_OK;
}

static clv_status find_small(finder *f, const planner_block *block,
                             const planner_solve_node *nodes)
{
    planner_solve_problem small = *f->s->tables->problem;
    planner_tables tables;
    planner_schedule schedule;
    small.nodes = nodes;
    small.known = NULL;
    small.n_nodes -= (block->copies - COPIES) * block->period;
    CLV_TRY(planner_tables_make(&small, &tables));
    planner_schedule_init(&schedule, &tables);
    planner_finding found = {
        .options = calloc(small.n_nodes, sizeof *found.options),
        .alternatives = calloc(small.n_nodes, sizeof *found.alternatives)};
    clv_status status = found.options && found.alternatives
                            ? planner_find(&schedule, f->params, &found)
                            : core_no_memory("to search for a plan");
    if (!status)
        status = finish(f, block, &found, expand(f, block, &found));
    free(found.options);
    free(found.alternatives);
    planner_tables_finish(&tables);
    return status;
}

static clv_status find(finder *f)
{
    const planner_solve_problem *p = f->s->tables->problem;
    planner_block block;
    planner_solve_node *nodes;
    if (!has(f, PLANNER_STAGE_BLOCKS) || !planner_block_find(p, COPIES, &block))
        return find_plain(f);
    clv_status status = planner_block_reduce(p, &block, COPIES, &nodes);
    if (status == CLV_ERR_NOT_FOUND)
        return find_plain(f);
    CLV_TRY(status);
    status = find_small(f, &block, nodes);
    free(nodes);
    return status;
}

clv_status planner_find(const planner_schedule *s,
                        const planner_find_params *params, planner_finding *out)
{
    finder f = {.s = s, .params = params, .out = out};
    f.options = calloc(s->tables->problem->n_nodes, sizeof *f.options);
    f.state = calloc(1, s->state_size);
    clv_status status = f.options && f.state
                            ? find(&f)
                            : core_no_memory("to search for a plan");
    free(f.options);
    free(f.state);
    return status;
}
