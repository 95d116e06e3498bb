#include "find.h"
#include "../../core/base/error.h"

#include "beam.h"
#include "exact.h"
#include "stretch.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Copies of a stretch that are searched. */
#define COPIES 6
#define MAX_ROUNDS 4

typedef struct finder {
    const planner_schedule *s;
    const planner_find_params *params;
    uint32_t *options; /* [n_nodes] of a trial */
    planner_state *state;
    planner_finding *out;
    double priced; /* makespan and price of out->options; INFINITY: none yet */
} finder;

/* ------------------------------------------------------------------------ */
/* Choices to begin with                                                     */

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

/* As much on one device as it takes. */
static void consider_device(finder *f, uint32_t device)
{
    const planner_tables *t = f->s->tables;
    for (uint32_t i = 0; i < t->problem->n_nodes; i++) {
        uint32_t n = t->kinds[t->nodes[i].kind].n_options, o = 0;
        f->options[i] = 0;
        for (; o < n; o++) {
            const planner_parts *parts = planner_tables_parts(t, i, o);
            if (parts->n == 1 && t->parts[parts->first].device == device)
                break;
        }
        f->options[i] = o < n ? o : 0;
    }
    consider(f);
}

static clv_status consider_beam(finder *f, uint32_t width, bool look_ahead,
                                bool whole)
{
    planner_beam_params params = {.width = width,
                                  .look_ahead = look_ahead,
                                  .whole = whole,
                                  .prices = f->params->prices};
    planner_improve_params improve = {
        .max_rounds = MAX_ROUNDS, .whole = true, .prices = params.prices};
    clv_status status = planner_beam_search(f->s, &params, f->options);
    if (status)
        return status;
    consider(f);
    if (!whole)
        return CLV_OK;
    core_value value;
    status = planner_improve(f->s, &improve, f->options, NULL, &value);
    if (!status)
        consider(f);
    return status;
}

static clv_status find_plain(finder *f)
{
    const planner_tables *t = f->s->tables;
    planner_improve_params improve = {.max_rounds = MAX_ROUNDS,
                                      .prices = f->params->prices};
    core_value value;
    f->priced = INFINITY;
    for (uint32_t d = 0; d < t->problem->n_devices; d++)
        consider_device(f, d);
    clv_status status = consider_beam(f, f->params->width, true, false);
    if (status || f->params->quick)
        return status;
    status = consider_beam(f, f->params->width, false, false);
    if (!status)
        status = consider_beam(f, f->params->width, true, true);
    if (!status)
        status = consider_beam(f, 1, false, false);
    if (!status)
        status = planner_improve(f->s, &improve, f->out->options,
                                 f->out->alternatives, &value);
    if (!status)
        f->out->ns = value.ns;
    return status;
}

/* ------------------------------------------------------------------------ */
/* Stretches                                                                 */

/* The choice of the smaller problem for all copies: that copy is repeated with
 * which it takes least. Answers which. */
static uint32_t expand(finder *f, const planner_stretch *stretch,
                       const planner_finding *small)
{
    uint32_t n = f->s->tables->problem->n_nodes, repeated = 0;
    f->priced = INFINITY;
    for (uint32_t r = 0; r < COPIES; r++) {
        double before = f->priced;
        for (uint32_t i = 0; i < n; i++)
            f->options[i] =
                small->options[planner_stretch_map(stretch, COPIES, r, i)];
        consider(f);
        repeated = f->priced < before ? r : repeated;
    }
    return repeated;
}

/* What many copies come to together may be put right in one of them. */
static clv_status finish(finder *f, const planner_stretch *stretch,
                         const planner_finding *small, uint32_t repeated)
{
    const planner_improve_params params = {
        .max_rounds = MAX_ROUNDS,
        .n = stretch->period,
        .first = stretch->begin + (repeated + 1) * stretch->period,
        .prices = f->params->prices};
    uint32_t n = f->s->tables->problem->n_nodes;
    core_value value;
    clv_status status = planner_improve(f->s, &params, f->out->options,
                                        f->out->alternatives, &value);
    f->out->ns = value.ns;
    for (uint32_t i = 0; i < n && !status; i++) {
        planner_alternative *a = &f->out->alternatives[i];
        if (i - params.first < params.n)
            continue;
        *a = small->alternatives[planner_stretch_map(stretch, COPIES, repeated,
                                                     i)];
        a->ns += value.ns - small->ns;
    }
    return status;
}

static clv_status find_small(finder *f, const planner_stretch *stretch,
                             const planner_solve_node *nodes)
{
    planner_solve_problem small = *f->s->tables->problem;
    small.nodes = nodes;
    small.n_nodes -= (stretch->copies - COPIES) * stretch->period;
    planner_finding found = {
        .options = calloc(small.n_nodes, sizeof *found.options),
        .alternatives = calloc(small.n_nodes, sizeof *found.alternatives)};
    clv_status status = found.options && found.alternatives
                            ? CLV_OK
                            : core_no_memory("to search for a plan");
    if (!status)
        status = planner_find(&small, f->params, &found);
    if (!status)
        status = finish(f, stretch, &found, expand(f, stretch, &found));
    free(found.options);
    free(found.alternatives);
    return status;
}

static clv_status find(finder *f)
{
    const planner_solve_problem *p = f->s->tables->problem;
    planner_stretch stretch;
    planner_solve_node *nodes;
    if (!planner_stretch_find(p, COPIES, &stretch))
        return find_plain(f);
    clv_status status = planner_stretch_reduce(p, &stretch, COPIES, &nodes);
    if (status == CLV_ERR_NOT_FOUND)
        return find_plain(f);
    if (!status) {
        status = find_small(f, &stretch, nodes);
        free(nodes);
    }
    return status;
}

clv_status planner_find(const planner_solve_problem *problem,
                        const planner_find_params *params, planner_finding *out)
{
    planner_solve_device devices[PLANNER_SOLVE_DEVICES];
    planner_solve_problem free_problem = *problem;
    planner_tables tables;
    planner_schedule schedule;
    memcpy(devices, problem->devices, problem->n_devices * sizeof *devices);
    for (uint32_t d = 0; d < problem->n_devices; d++) {
        devices[d].memory = UINT64_MAX;
        devices[d].max_share = 1;
    }
    free_problem.devices = devices;
    clv_status status = planner_tables_make(&free_problem, &tables);
    if (status)
        return status;
    planner_schedule_init(&schedule, &tables);
    finder f = {.s = &schedule, .params = params, .out = out};
    f.options = calloc(problem->n_nodes, sizeof *f.options);
    f.state = calloc(1, schedule.state_size);
    status = f.options && f.state ? find(&f)
                                  : core_no_memory("to search for a plan");
    free(f.options);
    free(f.state);
    planner_tables_finish(&tables);
    return status;
}
