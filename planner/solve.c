/*
 * Plans by costs: measures what is not known yet, has the search choose how
 * each node is divided, and compares the plan that comes of it with the best
 * one that divides nothing, as the forecast sees them.
 */
#include "planner.h"
#include "../core/base/error.h"

#include "../core/base/text.h"
#include "candidates/candidates.h"
#include "forecast/forecast.h"
#include "refine.h"

#include <stdlib.h>
#include <string.h>

/* A plan without cuts is looked at if the search thinks that it takes at
 * most so much longer. */
#define RIVAL 1.25

/* Where costs are measurements of real time, a plan over more devices has to be
 * so much faster: less may be chance, and takes cores and power. */
#define WORTHWHILE 1.03

/* A plan whose works turn out to take longer or shorter than models had it is
 * made again, so many times. */
#define ROUNDS 12

typedef struct solver {
    planner_profile *profile;
    const clv_plan *plan; /* devices, and what is to be planned */
    clv_graph *graph;
    clv_device **devices;
    planner_candidates c;
    planner_solution s;
    uint32_t *chosen;  /* [n_nodes] options: the search's */
    uint32_t *crowded; /* the search's if all devices were always busy */
    uint32_t *rival;   /* the best without cuts */
    uint32_t *trial;
    double rival_ns;
} solver;

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

static clv_status measure(solver *v)
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
/* Plans without cuts                                                        */

static bool is_whole(const solver *v, uint32_t option)
{
    const planner_solve_option *o = &v->c.options[option];
    return o->n_pieces == 1 && core_piece_is_whole(&v->c.cuts[o->first_piece]);
}

/* Whole on the device if it takes the node, else where it is fastest. A node
 * that nobody takes whole has its first option. */
static uint32_t whole_option(const solver *v, uint32_t node, uint32_t device)
{
    const planner_solve_node *n = &v->c.nodes[node];
    uint32_t best = n->first_option;
    double least = 0;
    for (uint32_t i = 0; i < n->n_options; i++) {
        uint32_t option = n->first_option + i;
        const planner_solve_piece *p =
            &v->c.pieces[v->c.options[option].first_piece];
        if (!is_whole(v, option))
            continue;
        if (p->device == device)
            return option;
        if (!is_whole(v, best) || least == 0 || p->ns < least) {
            best = option;
            least = p->ns;
        }
    }
    return best;
}

static clv_status find_rival(solver *v)
{
    uint32_t n = v->graph->n_nodes;
    v->rival_ns = 0;
    for (uint32_t d = 0; d < v->plan->n_devices; d++) {
        double ns;
        for (uint32_t i = 0; i < n; i++)
            v->trial[i] = whole_option(v, i, d);
        clv_status status =
            planner_solve_evaluate(&v->c.problem, v->trial, NULL, NULL, &ns);
        if (status)
            return status;
        if (v->rival_ns > 0 && ns >= v->rival_ns)
            continue;
        v->rival_ns = ns;
        memcpy(v->rival, v->trial, n * sizeof *v->rival);
    }
    return CLV_OK;
}

/* ------------------------------------------------------------------------ */
/* From options to plans                                                     */

static clv_status make_plan(const solver *v, const uint32_t *options,
                            bool early, clv_plan **out)
{
    const clv_plan_params params = {v->devices, v->plan->n_devices};
    uint32_t n = 0, room = 0;
    for (uint32_t i = 0; i < v->graph->n_nodes; i++)
        room += v->c.options[options[i]].n_pieces;
    core_piece *pieces = calloc(room + 1u, sizeof *pieces);
    if (!pieces)
        return core_no_memory("for a plan");
    for (uint32_t i = 0; i < v->graph->n_nodes; i++) {
        const planner_solve_option *o = &v->c.options[options[i]];
        for (uint32_t j = 0; j < o->n_pieces; j++) {
            const core_piece *cut = &v->c.cuts[o->first_piece + j];
            if (cut->node == CORE_NO_PIECE)
                continue;
            pieces[n] = *cut;
            pieces[n++].node = i;
        }
    }
    clv_status status =
        planner_make(v->plan->ctx, v->graph, &params, pieces, n, early, out);
    free(pieces);
    return status;
}

static double foreseen(const clv_plan *plan)
{
    return plan && plan->forecast ? plan->forecast->makespan_ns : 0;
}

/* By how much a plan over more devices may be faster than this one, and this
 * one is taken all the same. */
static double leniency(const clv_plan *plan, const clv_plan *other)
{
    uint32_t n = 0, n_other = 0;
    for (uint32_t d = 0; d < plan->n_devices; d++) {
        if (other->devices[d].n_steps &&
            other->devices[d].dev->info.clock == CLV_CLOCK_VIRTUAL)
            return 1;
        n += plan->devices[d].n_steps != 0;
        n_other += other->devices[d].n_steps != 0;
    }
    return n < n_other ? WORTHWHILE : 1;
}

/* Makes a plan of the options and keeps it if the forecast prefers it to *best,
 * which may be NULL. */
static clv_status consider(const solver *v, const uint32_t *options, bool early,
                           clv_plan **best, const uint32_t **chosen)
{
    clv_plan *plan;
    clv_status status = make_plan(v, options, early, &plan);
    if (status)
        return status;
    if (*best && !(foreseen(plan) > 0 &&
                   foreseen(plan) < foreseen(*best) * leniency(plan, *best))) {
        clv_plan_destroy(plan);
        return CLV_OK;
    }
    clv_plan_destroy(*best);
    *best = plan;
    *chosen = options;
    return CLV_OK;
}

/* The search's plans, with steps in either way, or the one without cuts.
 * chosen: the options of the one taken. */
static clv_status compare(const solver *v, clv_plan **out,
                          const uint32_t **chosen)
{
    clv_plan *best = NULL;
    clv_status status = consider(v, v->chosen, true, &best, chosen);
    if (!status)
        status = consider(v, v->chosen, false, &best, chosen);
    if (!status &&
        memcmp(v->chosen, v->crowded, v->graph->n_nodes * sizeof *v->chosen))
        status = consider(v, v->crowded, true, &best, chosen);
    if (status && status != CLV_ERR_NO_MEMORY)
        clv_log(v->plan->ctx, CLV_LOG_WARN, "the best plan cannot be had: %s",
                clv_last_error());
    if (status != CLV_ERR_NO_MEMORY &&
        (!best || v->rival_ns <= RIVAL * v->s.makespan_ns)) {
        status = consider(v, v->rival, false, &best, chosen);
        status = best ? CLV_OK : status;
    }
    if (status) {
        clv_plan_destroy(best);
        best = NULL;
    }
    *out = best;
    return status;
}

/* ------------------------------------------------------------------------ */
/* Why                                                                       */

/* "all on cpu", "rows: 0..384 on cpu:big, 384..512 on cpu:little". */
static clv_status option_text(const solver *v, uint32_t option, char **out)
{
    const planner_solve_option *o = &v->c.options[option];
    core_text text = {0};
    for (uint32_t i = 0; i < o->n_pieces; i++) {
        const core_piece *cut = &v->c.cuts[o->first_piece + i];
        const char *id = v->devices[cut->device]->id;
        bool any = false;
        if (cut->node == CORE_NO_PIECE)
            continue;
        core_text_add(&text, "%s", i ? ", " : "");
        for (uint32_t a = 0; a < CORE_AXIS_COUNT; a++) {
            if (!cut->ranges[a].end)
                continue;
            core_text_add(&text, "%s%s %lld..%lld", any ? " x " : "",
                          core_axis_name(a), (long long)cut->ranges[a].begin,
                          (long long)cut->ranges[a].end);
            any = true;
        }
        core_text_add(&text, "%s on %s", any ? "" : "all", id);
    }
    return core_text_take(&text, out);
}

static clv_status explain(const solver *v, const uint32_t *options,
                          double search_ns, clv_plan *plan)
{
    clv_status status = CLV_OK;
    /* The search sees less than the forecast: differences are told. */
    const double more =
        plan->forecast ? plan->forecast->makespan_ns - search_ns : 0;
    for (uint32_t i = 0; i < v->graph->n_nodes && !status; i++) {
        core_choice *choice = &plan->choices[i];
        const planner_solve_choice *s = &v->s.choices[i];
        const planner_solve_option *o = &v->c.options[options[i]];
        uint32_t other = s->alternative;
        for (uint32_t j = 0; j < o->n_pieces; j++)
            if (v->c.pieces[o->first_piece + j].ns > choice->ns)
                choice->ns = v->c.pieces[o->first_piece + j].ns;
        choice->alternative_ns = s->alternative_ns + more;
        if (options[i] != s->option) { /* the search thought otherwise */
            other = s->option;
            choice->alternative_ns = search_ns;
        }
        if (other != UINT32_MAX)
            status = option_text(v, other, &choice->alternative);
        else
            choice->alternative_ns = 0;
    }
    return status;
}

/* ------------------------------------------------------------------------ */

/* The search takes a whole node to have the memory for itself, which another
 * node on another device may want as well. So it is asked again as if that were
 * always so; the forecast, which sees who works when, decides. */
static clv_status solve_crowded(solver *v)
{
    uint32_t n = v->c.problem.n_pieces;
    planner_solution solution = {0};
    planner_solve_problem problem = v->c.problem;
    planner_solve_piece *pieces = calloc(n + 1u, sizeof *pieces);
    if (!pieces)
        return core_no_memory("for a plan");
    for (uint32_t i = 0; i < n; i++) {
        pieces[i] = v->c.pieces[i];
        pieces[i].ns = v->c.crowded[i];
    }
    problem.pieces = pieces;
    clv_status status = planner_search(&problem, &solution);
    for (uint32_t i = 0; i < v->graph->n_nodes && !status; i++)
        v->crowded[i] = solution.choices[i].option;
    planner_solution_finish(&solution);
    free(pieces);
    return status;
}

static double since(uint64_t *from)
{
    uint64_t begin = *from;
    *from = clv_now_ns();
    return (double)(*from - begin) / 1e6;
}

static clv_status solve(solver *v, const clv_op_caps *caps,
                        planner_strategy strategy, clv_plan **out)
{
    const planner_costs costs = planner_costs_of(v->profile);
    const uint32_t *options;
    uint64_t clock = clv_now_ns();
    double made = 0, searched = 0;
    clv_status status =
        planner_candidates_make(v->plan, caps, &costs, strategy, &v->c);
    made = since(&clock);
    if (!status)
        status = planner_search(&v->c.problem, &v->s);
    for (uint32_t i = 0; i < v->graph->n_nodes && !status; i++)
        v->chosen[i] = v->s.choices[i].option;
    if (!status)
        status = solve_crowded(v);
    if (!status)
        status = find_rival(v);
    searched = since(&clock);
    if (!status)
        status = compare(v, out, &options);
    if (!status)
        clv_log(v->plan->ctx, CLV_LOG_DEBUG,
                "plan: %u candidates in %.1f ms, "
                "search %.1f ms, comparison %.1f ms",
                v->c.problem.n_options, made, searched, since(&clock));
    if (status)
        return status;
    status = explain(v, options, v->s.makespan_ns, *out);
    if (status) {
        clv_plan_destroy(*out);
        *out = NULL;
    }
    return status;
}

static void forget_solution(solver *v)
{
    planner_solution_finish(&v->s);
    planner_candidates_finish(&v->c);
    v->s = (planner_solution){0};
    v->c = (planner_candidates){0};
}

static clv_status foresee_again(clv_plan *plan)
{
    core_forecast *forecast;
    clv_status status = planner_foresee(plan, NULL, &forecast);
    if (status)
        return status;
    core_forecast_free(plan->forecast);
    plan->forecast = forecast;
    return CLV_OK;
}

/* Until the plan goes by measurements, or by models that are as good. */
static clv_status solve_rounds(solver *v, const clv_op_caps *caps,
                               planner_strategy strategy, clv_plan **out)
{
    for (uint32_t round = 0;; round++) {
        planner_refined refined = PLANNER_REFINED_NOTHING;
        clv_status status = solve(v, caps, strategy, out);
        if (!status && round < ROUNDS)
            status = planner_refine(*out, v->profile, &refined);
        if (!status && refined == PLANNER_REFINED_LITTLE)
            status = foresee_again(*out);
        if (!status && refined != PLANNER_REFINED_MUCH)
            return CLV_OK;
        clv_plan_destroy(*out);
        *out = NULL;
        if (status)
            return status;
        forget_solution(v);
    }
}

clv_status planner_plan_by_costs(const clv_plan *plan, clv_graph *graph,
                                 const clv_op_caps *caps,
                                 planner_strategy strategy, clv_plan **out)
{
    size_t n = graph->n_nodes;
    solver v = {.plan = plan,
                .graph = graph,
                .devices = calloc(plan->n_devices + 1u, sizeof *v.devices),
                .chosen = calloc(n + 1, sizeof *v.chosen),
                .crowded = calloc(n + 1, sizeof *v.crowded),
                .rival = calloc(n + 1, sizeof *v.rival),
                .trial = calloc(n + 1, sizeof *v.trial)};
    *out = NULL;
    clv_status status = v.devices && v.chosen && v.crowded && v.rival && v.trial
                            ? CLV_OK
                            : core_no_memory("for a plan");
    for (uint32_t d = 0; d < plan->n_devices && !status; d++)
        v.devices[d] = plan->devices[d].dev;
    clv_status found = planner_profile_of(plan->ctx, &v.profile);
    if (!found)
        planner_profile_hold(v.profile);
    if (!status)
        status = found ? found : measure(&v);
    if (!status)
        status = solve_rounds(&v, caps, strategy, out);
    if (!found)
        planner_profile_release(v.profile);
    forget_solution(&v);
    free(v.trial);
    free(v.rival);
    free(v.crowded);
    free(v.chosen);
    free(v.devices);
    return status;
}
