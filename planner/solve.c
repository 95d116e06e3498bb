/*
 * Plans by costs: measures what is not known yet, has the search choose how
 * each node is divided, makes plans of its choices and of the best one without
 * cuts, and takes the one that the forecast prefers.
 */
#include "compare.h"
#include "explain.h"
#include "hardware.h"
#include "limits.h"
#include "plan_cache.h"
#include "rivals.h"
#include "../core/base/error.h"
#include "forecast/forecast.h"

#include <stdlib.h>

/* How often what passes through a device's memory is halved until the rest of a
 * plan finds room beside it. */
#define HALVINGS 3

/* A plan whose workloads turn out to take longer or shorter than models had it
 * is made again, so many times. */
#define ROUNDS 12

/* ------------------------------------------------------------------------ */
/* Costs                                                                     */

typedef struct notice {
    clv_context *ctx;
    bool given;
} notice;

/* Says once that it takes a moment. */
static int note_measuring(void *arg, const char *what, double fraction)
{
    notice *n = arg;
    if (!n->given)
        clv_log(n->ctx, CLV_LOG_INFO,
                "measuring what devices are good at, for "
                "plans; the results are kept in core.cache_dir");
    n->given = true;
    return core_context_progress(n->ctx, what, fraction) != CLV_OK;
}

static clv_status measure(planner_solver *v)
{
    clv_context *ctx = v->plan->ctx;
    notice given = {ctx, false};
    const planner_profile_params params = {.devices = v->devices,
                                           .n_devices = v->plan->n_devices,
                                           .progress = note_measuring,
                                           .progress_ctx = &given};
    clv_status status = planner_profile_cover(v->profile, v->graph, &params);
    if (!status && given.given) /* the end of a line of progress */
        status = core_context_progress(ctx, "measuring", 1);
    return status;
}

/* ------------------------------------------------------------------------ */
/* The best of all                                                           */

/* Until a plan keeps to memory and max_share. Where there is too little memory
 * for weights that pass through beside values, smaller ones pass through. */
static clv_status search_legal(planner_solver *v)
{
    for (v->halvings = 0;; v->halvings++) {
        CLV_TRY(planner_solver_make(v, NULL, &v->c));
        CLV_TRY(planner_solver_search_tighter(v));
        if (v->halvings == HALVINGS || !planner_solver_streams(&v->c) ||
            (v->best && planner_is_legal_plan(v->best)))
            return CLV_OK;
        planner_solver_forget(v);
    }
}

/* What a run takes if all devices work at the speeds that they have alone. */
static clv_status find_together(planner_solver *v)
{
    double speed = 0, ns;
    for (uint32_t d = 0; d < v->plan->n_devices; d++) {
        CLV_TRY(planner_whole_device(v, d, &ns));
        speed += ns > 0 ? 1 / ns : 0;
    }
    v->best->together_ns = speed > 0 ? 1 / speed : 0;
    return CLV_OK;
}

static clv_status find_best(planner_solver *v)
{
    CLV_TRY(search_legal(v));
    CLV_TRY(planner_consider_simpler(v));
    CLV_TRY(planner_consider_near(v));
    CLV_TRY(planner_consider_energy(v));
    CLV_TRY(planner_consider_flight(v));
    clv_status status = CLV_OK;
    for (uint32_t d = 0; d < v->plan->n_devices; d++)
        if ((status = planner_consider_device(v, d)) == CLV_ERR_NO_MEMORY)
            return status;
    CLV_TRY(planner_consider_streamed(v));
    CLV_TRY(planner_consider_fronts(v));
    CLV_TRY(planner_consider_preparation(v));
    return v->best ? CLV_OK : status;
}

/* First as if all experts had equal chances. Popular ones have to make a plan
 * that is faster by a margin, as other texts have other ones. */
static clv_status find_best_experts(planner_solver *v)
{
    v->equal = core_graph_has_popularity(v->graph);
    CLV_TRY(find_best(v));
    if (!v->equal)
        return CLV_OK;
    planner_solver other;
    clv_status status = planner_solver_begin_other(v, &other);
    if (!status)
        status = find_best(&other);
    planner_note_refined(&v->refined, other.refined);
    if (!status && planner_is_more_popular_plan(other.best, v->best))
        planner_solver_exchange(v, &other);
    planner_solver_end(&other);
    return status;
}

static clv_status solve(planner_solver *v)
{
    const uint64_t begin = clv_now_ns();
    CLV_TRY(find_best_experts(v));
    CLV_TRY(planner_solver_recall(v));
    CLV_TRY(planner_consider_alone(v));
    clv_log(v->plan->ctx, CLV_LOG_DEBUG,
            "plan: the best of %u candidates in %.1f ms",
            v->c.problem.n_options, (double)(clv_now_ns() - begin) / 1e6);
    return v->known ? CLV_OK
                    : planner_explain(v->best, &v->c, &v->s, v->chosen);
}

static clv_status predict_again(clv_plan *plan)
{
    core_forecast *forecast;
    CLV_TRY(planner_predict(plan, NULL, &forecast));
    core_forecast_free(plan->forecast);
    plan->forecast = forecast;
    return CLV_OK;
}

/* Until the plan goes by measurements, or by models that are as good. */
static clv_status solve_rounds(planner_solver *v)
{
    planner_refined refined = PLANNER_REFINED_MUCH;
    for (uint32_t round = 0; refined == PLANNER_REFINED_MUCH; round++) {
        refined = PLANNER_REFINED_NOTHING;
        planner_solver_forget(v);
        v->refined = PLANNER_REFINED_NOTHING;
        v->measures = round < ROUNDS;
        CLV_TRY(solve(v));
        if (v->measures)
            CLV_TRY(planner_refine_plan(v->best, v->profile, &refined));
        planner_note_refined(&refined, v->refined);
    }
    CLV_TRY(find_together(v));
    return refined == PLANNER_REFINED_LITTLE ? predict_again(v->best) : CLV_OK;
}

static clv_status find_new(planner_solver *v, const clv_op_caps *caps)
{
    clv_op_caps *used = NULL;
    uint32_t searches = 0;
    clv_status status = planner_leave_out_same_hardware(v->plan, v->graph, caps,
                                                        v->profile, &used);
    v->caps = used;
    v->searches = &searches;
    if (!status)
        status = solve_rounds(v);
    if (!status)
        status = core_context_progress(v->plan->ctx, "planning", 1);
    free(used);
    v->caps = NULL;
    v->searches = NULL;
    return status;
}

/* Measures what is not known yet. Then the plan that was found when this was
 * asked before, or a new one. */
static clv_status answer(planner_solver *v, const clv_op_caps *caps)
{
    const uint64_t question = planner_question(v->plan, v->strategy);
    CLV_TRY(measure(v));
    CLV_TRY(planner_solver_find(v, question));
    const bool found = v->best;
    CLV_TRY(found ? planner_solver_recall(v) : find_new(v, caps));
    v->best->question = question; /* also of the best of earlier runs */
    if (!found)
        planner_plan_cache_keep(v->best);
    return CLV_OK;
}

clv_status planner_plan_by_costs(const clv_plan *plan, clv_graph *graph,
                                 const clv_op_caps *caps,
                                 planner_strategy strategy, clv_plan **out)
{
    size_t n = graph->n_nodes;
    planner_solver v = {.plan = plan,
                        .graph = graph,
                        .strategy = strategy,
                        .devices =
                            calloc(plan->n_devices + 1u, sizeof *v.devices),
                        .chosen = calloc(n + 1, sizeof *v.chosen),
                        .trial = calloc(n + 1, sizeof *v.trial)};
    *out = NULL;
    clv_status status = v.devices && v.chosen && v.trial
                            ? CLV_OK
                            : core_no_memory("for a plan");
    for (uint32_t d = 0; d < plan->n_devices && !status; d++)
        v.devices[d] = plan->devices[d].dev;
    clv_status found = planner_profile_of(plan->ctx, &v.profile);
    if (!found)
        planner_profile_hold(v.profile);
    if (!status)
        status = found ? found : answer(&v, caps);
    if (!found)
        planner_profile_release(v.profile);
    if (!status) {
        *out = v.best;
        v.best = NULL;
        if (planner_energy_weight(*out) > 0 &&
            !((*out)->forecast && (*out)->forecast->energy_nj > 0))
            clv_log(plan->ctx, CLV_LOG_WARN,
                    "core.objective weighs energy, but not all devices report "
                    "theirs: plans are compared by time");
    }
    planner_solver_forget(&v);
    free(v.trial);
    free(v.chosen);
    free(v.devices);
    return status;
}
