#include "solver.h"
#include "compare.h"
#include "keep.h"
#include "learn.h"
#include "limits.h"
#include "plan_cache.h"
#include "candidates/room.h"
#include "../core/base/error.h"

#include <stdlib.h>

/* Searches at most until a plan keeps to memory and max_share. */
/* Times the best makespan. */
#define TOGETHER_NEAR 1.05
#define TIGHTER 8

/* After so many searches of a plan half of the time is said to have passed. */
#define HALF_WAY 8

/* What is held for measuring does not count against a plan. */
static void set_rooms(const planner_solver *v, clv_plan *plan)
{
    for (uint32_t d = 0; d < plan->n_devices; d++) {
        plan->devices[d].room = v->plan->devices[d].room;
        plan->devices[d].given = v->plan->devices[d].given;
        plan->devices[d].states = v->plan->devices[d].states;
        plan->devices[d].after = v->plan->devices[d].after;
        plan->devices[d].reserve = v->plan->devices[d].reserve;
        plan->devices[d].reserve_values = v->plan->devices[d].reserve_values;
        plan->devices[d].work = v->plan->devices[d].work;
        plan->devices[d].scratch = v->plan->devices[d].scratch;
    }
}

clv_status planner_solver_plan(const planner_solver *v, const uint32_t *options,
                               clv_plan **out)
{
    const clv_plan_params params = {.devices = v->devices,
                                    .n_devices = v->plan->n_devices,
                                    .n_flight = v->plan->flight.n,
                                    .flight_symbols = v->plan->flight.symbols};
    uint32_t n = 0, most = 0;
    for (uint32_t i = 0; i < v->graph->n_nodes; i++)
        most += v->c.options[options[i]].n_pieces;
    core_piece *pieces = calloc(most + 1u, sizeof *pieces);
    uint64_t *bytes = calloc(most + 1u, sizeof *bytes);
    if (!pieces || !bytes) {
        free(pieces);
        free(bytes);
        return core_no_memory("for a plan");
    }
    for (uint32_t i = 0; i < v->graph->n_nodes; i++) {
        const planner_solve_option *o = &v->c.options[options[i]];
        for (uint32_t j = 0; j < o->n_pieces; j++) {
            const core_piece *cut = &v->c.cuts[o->first_piece + j];
            if (cut->node == CORE_NO_PIECE)
                continue;
            bytes[n] = v->c.pieces[o->first_piece + j].weight_bytes;
            pieces[n] = *cut;
            pieces[n++].node = i;
        }
    }
    planner_keep_some(v, pieces, bytes, n);
    clv_status status =
        planner_from_pieces(v->plan->ctx, v->graph, &params, pieces, n, out);
    free(bytes);
    free(pieces);
    if (!status)
        set_rooms(v, *out);
    return status;
}

/* The search does not see all that a plan takes: work takes longer beside
 * others, and values between nodes lie in memory too. It is given less of the
 * devices that the plan takes too much of, and not as much as it used. */
static void tighten(planner_solver *v, const clv_plan *plan)
{
    for (uint32_t d = 0; d < plan->n_devices; d++) {
        planner_solve_device *dev = &v->c.devices[d];
        const uint64_t over = planner_limits_over(plan, d);
        double share = planner_limits_share(plan, d);
        double most = core_device_max_share(v->devices[d]);
        if (over && planner_limits_weights(plan, d) < dev->memory)
            dev->memory = planner_limits_weights(plan, d);
        dev->memory -= over < dev->memory ? over : dev->memory;
        if (most < 1 && share > most)
            dev->max_share *= most / share;
    }
}

/* Takes over the plan if it is better than the best one. */
static bool adopt(planner_solver *v, clv_plan *plan, const char *what)
{
    const bool better = planner_is_better_plan(plan, v->best);
    clv_log(v->plan->ctx, CLV_LOG_DEBUG,
            "plan: %s: %.3f ms expected, %s memory and max_share%s", what,
            core_plan_expected_ns(plan) / 1e6,
            planner_is_legal_plan(plan) ? "within" : "past",
            better ? "; the best so far" : "");
    clv_plan_destroy(better ? v->best : plan);
    if (better)
        v->best = plan;
    return better;
}

clv_status planner_solver_find(planner_solver *v, uint64_t question)
{
    clv_plan *plan;
    CLV_TRY(planner_plan_cache_find(v->plan, v->graph, question, &plan));
    if (!plan)
        return CLV_OK;
    set_rooms(v, plan);
    if (planner_is_legal_plan(plan)) {
        v->best = plan;
        v->known = true;
    } else {
        clv_plan_destroy(plan);
    }
    return CLV_OK;
}

clv_status planner_solver_recall(planner_solver *v)
{
    clv_plan *plan;
    if (v->strategy != PLANNER_STRATEGY_TENSOR || v->plan->flight.n > 1)
        return CLV_OK;
    CLV_TRY(planner_plan_cache_find_best(v->plan, v->graph,
                                         planner_problem_of(v->plan), &plan));
    if (!plan)
        return CLV_OK;
    set_rooms(v, plan);
    if (planner_has_tried_enough(plan, v->profile, NULL) &&
        planner_is_legal_plan(plan)) {
        clv_plan_destroy(v->best);
        v->best = NULL;
    }
    v->known = adopt(v, plan, "the best of earlier runs");
    return CLV_OK;
}

bool planner_solver_adopt(planner_solver *v, clv_plan *plan, const char *what)
{
    if (!adopt(v, plan, what))
        return false;
    uint32_t *swap = v->chosen;
    v->chosen = v->trial;
    v->trial = swap;
    return true;
}

/* Makes a plan of the trial's options; it becomes the best one if it is. */
static clv_status consider(planner_solver *v, bool *taken)
{
    clv_plan *plan;
    *taken = false;
    CLV_TRY(planner_solver_plan(v, v->trial, &plan));
    tighten(v, plan);
    *taken = planner_solver_adopt(v, plan, "the search's");
    return CLV_OK;
}

clv_status planner_solver_take(planner_solver *v, planner_solution *s)
{
    bool same = v->best != NULL, taken = false;
    clv_log(v->plan->ctx, CLV_LOG_DEBUG, "plan: the search has %.3f ms",
            s->makespan_ns / 1e6);
    for (uint32_t i = 0; i < v->graph->n_nodes; i++) {
        v->trial[i] = s->choices[i].option;
        same = same && v->trial[i] == v->chosen[i];
    }
    if (same)
        tighten(v, v->best);
    clv_status status = same ? CLV_OK : consider(v, &taken);
    if (status && status != CLV_ERR_NO_MEMORY) {
        clv_log(v->plan->ctx, CLV_LOG_WARN, "the best plan cannot be had: %s",
                clv_last_error());
        status = CLV_OK;
    }
    if (taken || !v->s.choices) {
        planner_solution_finish(&v->s);
        v->s = *s;
    } else {
        planner_solution_finish(s);
    }
    return status;
}

/* The search, maybe with one of its beams. */
static clv_status consider_search(planner_solver *v, uint32_t without)
{
    planner_solution s;
    CLV_TRY(planner_search(&v->c.problem, without, &s));
    return planner_solver_take(v, &s);
}

bool planner_solver_streams(const planner_candidates *c)
{
    for (uint32_t i = 0; i < c->problem.n_pieces; i++)
        if (c->cuts[i].streamed)
            return true;
    return false;
}

/* Searches take most of the time: seconds, for a model larger than a card. */
static clv_status tell(const planner_solver *v)
{
    const double n = *v->searches;
    ++*v->searches;
    return core_context_progress(v->plan->ctx, "planning", n / (n + HALF_WAY));
}

/* Whether devices may add partial sums for themselves. */
static bool has_replicas(const planner_candidates *c)
{
    for (uint32_t i = 0; i < c->problem.n_pieces; i++)
        if (c->cuts[i].adds)
            return true;
    return false;
}

/* What the third beam finds is improved, which takes most of a search's time,
 * only if it comes near the best without that. */
static clv_status consider_together(planner_solver *v)
{
    const uint32_t without = PLANNER_BEAMS & ~PLANNER_STAGE_TOGETHER;
    planner_solution s;
    CLV_TRY(planner_search(&v->c.problem, without | PLANNER_STAGE_ALTERNATIVES,
                           &s));
    const bool near =
        !v->s.choices || s.makespan_ns < TOGETHER_NEAR * v->s.makespan_ns;
    planner_solution_finish(&s);
    return near ? consider_search(v, without) : CLV_OK;
}

clv_status planner_solver_search(planner_solver *v)
{
    CLV_TRY(tell(v));
    if (planner_solver_streams(&v->c))
        return consider_search(v, 0);
    /* Forecasts may differ from the search, so one choice has no replicas from
     * a beam. */
    CLV_TRY(consider_search(v, (PLANNER_BEAMS & ~PLANNER_STAGE_LOOK_AHEAD) |
                                   PLANNER_STAGE_REPLICAS));
    CLV_TRY(consider_search(v, PLANNER_BEAMS & ~PLANNER_STAGE_FIRST_DONE));
    return has_replicas(&v->c) ? consider_together(v) : CLV_OK;
}

/* Whether the best plan takes too much of what the search can be given less
 * of. */
static bool can_tighten(const planner_solver *v)
{
    for (uint32_t d = 0; d < v->plan->n_devices; d++)
        if (planner_limits_over(v->best, d) && !v->c.devices[d].memory)
            return false;
    return !planner_is_legal_plan(v->best);
}

clv_status planner_solver_search_tighter(planner_solver *v)
{
    for (uint32_t i = 0; i < TIGHTER; i++) {
        CLV_TRY(planner_solver_search(v));
        if (!v->best || !can_tighten(v))
            break;
    }
    return CLV_OK;
}

bool planner_is_whole_option(const planner_solver *v, uint32_t option)
{
    const planner_solve_option *o = &v->c.options[option];
    return o->n_pieces == 1 && core_piece_is_whole(&v->c.cuts[o->first_piece]);
}

uint32_t planner_whole_option(const planner_solver *v, uint32_t node,
                              uint32_t device)
{
    const planner_solve_node *n = &v->c.nodes[node];
    uint32_t best = n->first_option;
    double least = 0;
    for (uint32_t i = 0; i < n->n_options; i++) {
        uint32_t option = n->first_option + i;
        const planner_solve_piece *p =
            &v->c.pieces[v->c.options[option].first_piece];
        if (!planner_is_whole_option(v, option))
            continue;
        if (p->device == device)
            return option;
        if (!planner_is_whole_option(v, best) || least == 0 || p->ns < least) {
            best = option;
            least = p->ns;
        }
    }
    return best;
}

void planner_note_refined(planner_refined *all, planner_refined one)
{
    *all = one > *all ? one : *all;
}

clv_status planner_solver_compare(planner_solver *v, const char *what)
{
    clv_plan *plan;
    planner_refined refined = PLANNER_REFINED_NOTHING;
    CLV_TRY(planner_solver_plan(v, v->trial, &plan));
    clv_status status =
        v->measures ? planner_refine_plan(plan, v->profile, &refined) : CLV_OK;
    planner_note_refined(&v->refined, refined);
    if (status) {
        clv_plan_destroy(plan);
        return status;
    }
    tighten(v, plan);
    planner_solver_adopt(v, plan, what);
    return CLV_OK;
}

clv_status planner_whole_device(planner_solver *v, uint32_t device, double *ns)
{
    for (uint32_t i = 0; i < v->graph->n_nodes; i++)
        v->trial[i] = planner_whole_option(v, i, device);
    return planner_solve_evaluate(&v->c.problem, v->trial, NULL, NULL, ns);
}

void planner_solver_forget(planner_solver *v)
{
    clv_plan_destroy(v->best);
    v->best = NULL;
    v->known = false;
    planner_solution_finish(&v->s);
    planner_candidates_finish(&v->c);
    v->c = (planner_candidates){0};
}

clv_status planner_solver_make(const planner_solver *v,
                               const planner_near *near,
                               planner_candidates *out)
{
    const planner_costs costs = v->equal ? planner_costs_of_equal(v->profile)
                                         : planner_costs_of(v->profile);
    return planner_candidates_make(v->plan, v->caps, &costs, v->strategy,
                                   v->halvings, near, out);
}

bool planner_solver_scarce(const planner_solver *v, uint32_t device)
{
    return planner_is_scarce(v->graph, &v->plan->devices[device]);
}

clv_status planner_solver_begin_other(const planner_solver *v,
                                      planner_solver *out)
{
    const size_t n = v->graph->n_nodes + 1u;
    *out = (planner_solver){.profile = v->profile,
                            .plan = v->plan,
                            .graph = v->graph,
                            .caps = v->caps,
                            .strategy = v->strategy,
                            .devices = v->devices,
                            .chosen = calloc(n, sizeof *out->chosen),
                            .trial = calloc(n, sizeof *out->trial),
                            .halvings = v->halvings,
                            .searches = v->searches,
                            .measures = v->measures};
    return out->chosen && out->trial ? CLV_OK : core_no_memory("for a plan");
}

void planner_solver_exchange(planner_solver *v, planner_solver *other)
{
    const planner_solver old = *v;
    *v = *other;
    *other = old;
    planner_note_refined(&v->refined, old.refined);
}

void planner_solver_end(planner_solver *v)
{
    planner_solver_forget(v);
    free(v->chosen);
    free(v->trial);
}
