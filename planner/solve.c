/*
 * Plans by costs: measures what is not known yet, has the search choose how
 * each node is divided, makes plans of its choices and of the best one without
 * cuts, and takes the one that the forecast prefers.
 */
#include "compare.h"
#include "explain.h"
#include "hardware.h"
#include "learn.h"
#include "planner.h"
#include "prepare.h"
#include "refine.h"
#include "../core/base/error.h"

#include "../core/base/text.h"
#include "candidates/candidates.h"
#include "candidates/room.h"
#include "forecast/forecast.h"
#include "limits.h"
#include "loads.h"
#include "lower/lower.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A plan without cuts is made if the search predicts that it takes at most so
 * much longer. */
#define RIVAL 1.25

/* A plan that takes so much longer than the search said is not trusted to be
 * the best one. */
#define SURPRISE 1.1
/* The same, where weights pass through a device's memory. */
#define RING_SURPRISE 1.03

/* Preparation that takes less of a run does not change what is searched for. */
#define PREPARATION 0.01
#define PREPARED 4 /* searches where it does */

/* Until the time for which each device works on its part of the nodes is known.
 */
#define PART_HALVINGS 20

/* Searches for plans of which several runs are in flight. */
#define FLIGHT_SEARCHES 5

/* Searches at most until a plan keeps to memory and max_share. */
#define TIGHTER 8

/* How often what passes through a device's memory is halved until the rest of a
 * plan finds room beside it. */
#define HALVINGS 3

/* A plan whose workloads turn out to take longer or shorter than models had it
 * is made again, so many times. */
#define ROUNDS 12

typedef struct solver {
    planner_profile *profile;
    const clv_plan *plan; /* devices, and what is to be planned */
    clv_graph *graph;
    clv_device **devices;
    planner_candidates c;
    planner_solution s; /* the search's best, with its alternatives */
    uint32_t *trial;    /* [n_nodes] options */
    uint32_t *chosen;   /* [n_nodes] those of the best plan */
    clv_plan *best;     /* NULL: none yet */
    bool known;         /* the best one is of earlier runs, not of options */
    bool equal;         /* chances of experts in costs of candidates */
    planner_refined refined; /* by measuring what rivals rely on, */
    bool measures;           /* if that is still done */
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
/* From options to plans                                                     */

/* What is held for measuring does not count against a plan. */
static void set_rooms(const solver *v, clv_plan *plan)
{
    for (uint32_t d = 0; d < plan->n_devices; d++) {
        plan->devices[d].room = v->plan->devices[d].room;
        plan->devices[d].given = v->plan->devices[d].given;
        plan->devices[d].reserve = v->plan->devices[d].reserve;
        plan->devices[d].work = v->plan->devices[d].work;
        plan->devices[d].scratch = v->plan->devices[d].scratch;
    }
}

static clv_status make_plan(const solver *v, const uint32_t *options,
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
        planner_from_pieces(v->plan->ctx, v->graph, &params, pieces, n, out);
    free(pieces);
    if (!status)
        set_rooms(v, *out);
    return status;
}

/* The search does not see all that a plan takes: work takes longer beside
 * others, and values between nodes lie in memory too. It is given less of the
 * devices that the plan takes too much of. */
static void tighten(solver *v, const clv_plan *plan)
{
    for (uint32_t d = 0; d < plan->n_devices; d++) {
        planner_solve_device *dev = &v->c.devices[d];
        const uint64_t over = planner_limits_over(plan, d);
        double share = planner_limits_share(plan, d);
        double most = core_device_max_share(v->devices[d]);
        dev->memory -= over < dev->memory ? over : dev->memory;
        if (most < 1 && share > most)
            dev->max_share *= most / share;
    }
}

/* Takes over the plan if it is better than the best one. */
static bool adopt(solver *v, clv_plan *plan, const char *what)
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

/* The plan that did best in runs, if there is one. */
static clv_status consider_known(solver *v, planner_strategy strategy)
{
    clv_plan *plan;
    if (strategy != PLANNER_STRATEGY_TENSOR || v->plan->flight.n > 1)
        return CLV_OK;
    CLV_TRY(planner_recall_best(v->plan, v->graph, &plan));
    if (!plan)
        return CLV_OK;
    set_rooms(v, plan);
    v->known = adopt(v, plan, "the best of earlier runs");
    return CLV_OK;
}

/* The plan is that of the trial's options. */
static bool adopt_trial(solver *v, clv_plan *plan, const char *what)
{
    if (!adopt(v, plan, what))
        return false;
    uint32_t *swap = v->chosen;
    v->chosen = v->trial;
    v->trial = swap;
    return true;
}

/* Makes a plan of the trial's options; it becomes the best one if it is. */
static clv_status consider(solver *v, bool *taken)
{
    clv_plan *plan;
    *taken = false;
    CLV_TRY(make_plan(v, v->trial, &plan));
    tighten(v, plan);
    *taken = adopt_trial(v, plan, "the search's");
    return CLV_OK;
}

/* What the search found, which is taken over. The forecast, which knows more,
 * decides. */
static clv_status consider_solution(solver *v, planner_solution *s)
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

/* The search, maybe with one of its two beams. */
static clv_status consider_search(solver *v, uint32_t without)
{
    planner_solution s;
    CLV_TRY(planner_search(&v->c.problem, without, &s));
    return consider_solution(v, &s);
}

static bool can_stream(const planner_candidates *c)
{
    for (uint32_t i = 0; i < c->problem.n_pieces; i++)
        if (c->cuts[i].streamed)
            return true;
    return false;
}

/* Where weights are streamed, what limits make of a choice takes the time, and
 * both beams begin alike: they are one search. */
static clv_status consider_searches(solver *v)
{
    if (can_stream(&v->c))
        return consider_search(v, 0);
    CLV_TRY(consider_search(v, PLANNER_STAGE_FIRST_DONE));
    return consider_search(v, PLANNER_STAGE_LOOK_AHEAD);
}

static bool is_whole(const solver *v, uint32_t option)
{
    const planner_solve_option *o = &v->c.options[option];
    return o->n_pieces == 1 && core_piece_is_whole(&v->c.cuts[o->first_piece]);
}

/* Whole on the device if it takes the node, else where it is fastest. A node
 * that no device takes whole has its first option. */
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

static void note_refined(planner_refined *all, planner_refined one)
{
    *all = one > *all ? one : *all;
}

/* A rival is known as well as the plan that it is compared with. */
static clv_status consider_rival(solver *v, const char *what)
{
    clv_plan *plan;
    planner_refined refined = PLANNER_REFINED_NOTHING;
    CLV_TRY(make_plan(v, v->trial, &plan));
    clv_status status =
        v->measures ? planner_refine_plan(plan, v->profile, &refined) : CLV_OK;
    note_refined(&v->refined, refined);
    if (status) {
        clv_plan_destroy(plan);
        return status;
    }
    tighten(v, plan);
    adopt_trial(v, plan, what);
    return CLV_OK;
}

/* The trial's options: as much as possible on one device, whole. *ns: what the
 * search has for it. */
static clv_status try_device(solver *v, uint32_t device, double *ns)
{
    for (uint32_t i = 0; i < v->graph->n_nodes; i++)
        v->trial[i] = whole_option(v, i, device);
    return planner_solve_evaluate(&v->c.problem, v->trial, NULL, NULL, ns);
}

static clv_status consider_device(solver *v, uint32_t device)
{
    double ns;
    CLV_TRY(try_device(v, device, &ns));
    if (v->best && planner_is_legal_plan(v->best) &&
        !(planner_energy_weight(v->best) > 0) && v->plan->flight.n == 1 &&
        ns > RIVAL * fmax(v->s.makespan_ns, planner_effort(v->best, 0)))
        return CLV_OK;
    return consider_rival(v, "whole nodes on one device");
}

static void forget(solver *v)
{
    clv_plan_destroy(v->best);
    v->best = NULL;
    v->known = false;
    planner_solution_finish(&v->s);
    planner_candidates_finish(&v->c);
    v->c = (planner_candidates){0};
}

/* What a percent of the energy is worth in time: near the best plan so far the
 * search can add both up. */
static clv_status consider_energy(solver *v)
{
    const double weight = v->best ? planner_energy_weight(v->best) : 0;
    if (!(weight > 0) || !(v->best->forecast->energy_nj > 0))
        return CLV_OK;
    v->c.problem.energy_ns = weight / fmax(1 - weight, 0.01) *
                             core_plan_expected_ns(v->best) /
                             v->best->forecast->energy_nj;
    return consider_searches(v);
}

/* Where compiling counts, plans of fewer programs may be better. What programs
 * take is spread as it is in the best plan so far, so a better one is asked
 * again. */
static clv_status consider_preparation(solver *v)
{
    double before = INFINITY;
    for (uint32_t i = 0; i < PREPARED; i++) {
        if (!v->best || planner_effort(v->best, 0) >= before ||
            planner_prepare_share(v->best) <=
                PREPARATION * core_plan_expected_ns(v->best))
            return CLV_OK;
        before = planner_effort(v->best, 0);
        planner_prepare_prices(v->best, v->chosen, v->profile, &v->c);
        CLV_TRY(consider_searches(v));
    }
    return CLV_OK;
}

/* The first nodes whole on one device, the rest on another. */
static clv_status make_front(solver *v, uint32_t end, uint32_t device,
                             uint32_t other, clv_plan **out)
{
    for (uint32_t i = 0; i < v->graph->n_nodes; i++)
        v->trial[i] = whole_option(v, i, i < end ? device : other);
    return make_plan(v, v->trial, out);
}

/* As many of the first nodes on the device as its memory holds: few exchanges.
 * Repeated blocks have one choice in the search, so it does not find this. */
static clv_status consider_front(solver *v, uint32_t device, uint32_t other)
{
    uint32_t fits = 0, too_many = v->graph->n_nodes;
    clv_plan *plan;
    while (too_many - fits > 1) {
        const uint32_t end = fits + (too_many - fits) / 2;
        CLV_TRY(make_front(v, end, device, other, &plan));
        if (planner_is_legal_plan(plan))
            fits = end;
        else
            too_many = end;
        clv_plan_destroy(plan);
    }
    if (!fits)
        return CLV_OK;
    CLV_TRY(make_front(v, fits, device, other, &plan));
    adopt_trial(v, plan, "the first nodes on one device");
    return CLV_OK;
}

/* Where the device's own memory cannot hold all weights. */
static bool is_too_small(const solver *v, uint32_t device)
{
    return planner_is_scarce(v->graph, &v->plan->devices[device]);
}

static clv_status consider_fronts(solver *v)
{
    for (uint32_t d = 0; d < v->plan->n_devices; d++)
        for (uint32_t o = 0; o < v->plan->n_devices; o++)
            if (o != d && is_too_small(v, d) && !is_too_small(v, o) &&
                consider_front(v, d, o) == CLV_ERR_NO_MEMORY)
                return CLV_ERR_NO_MEMORY;
    return CLV_OK;
}

/* Whether the best plan takes too much of what the search can be given less
 * of. */
static bool can_tighten(const solver *v)
{
    for (uint32_t d = 0; d < v->plan->n_devices; d++)
        if (planner_limits_over(v->best, d) && !v->c.devices[d].memory)
            return false;
    return !planner_is_legal_plan(v->best);
}

/* Until a plan keeps to memory and max_share. Where there is too little memory
 * for weights that pass through beside values, smaller ones pass through. */
static clv_status search_legal(solver *v, const clv_op_caps *caps,
                               planner_strategy strategy)
{
    const planner_costs costs = v->equal ? planner_costs_of_equal(v->profile)
                                         : planner_costs_of(v->profile);
    for (uint32_t halvings = 0;; halvings++) {
        CLV_TRY(planner_candidates_make(v->plan, caps, &costs, strategy,
                                        halvings, &v->c));
        for (uint32_t i = 0; i < TIGHTER; i++) {
            CLV_TRY(consider_searches(v));
            if (!v->best || !can_tighten(v))
                break;
        }
        if (halvings == HALVINGS || !can_stream(&v->c) ||
            (v->best && planner_is_legal_plan(v->best)))
            return CLV_OK;
        forget(v);
    }
}

static bool is_of_some_experts(const core_piece *cut)
{
    return cut->ranges[CORE_AXIS_EXPERTS].end != 0;
}

static bool is_part_or_streamed(const core_piece *cut)
{
    return cut->streamed || !core_piece_is_whole(cut);
}

/* How long each such piece counts beside the makespan; false: there are none.
 */
static bool count_pieces(solver *v, bool (*are)(const core_piece *), double ns)
{
    bool any = false;
    for (uint32_t i = 0; i < v->c.problem.n_pieces; i++) {
        if (v->c.cuts[i].node == CORE_NO_PIECE || !are(&v->c.cuts[i]))
            continue;
        v->c.pieces[i].extra_ns = ns;
        any = true;
    }
    return any;
}

/* The search does not see all that divided products wait for, nor many small
 * weights that pass through a device's memory. Plans without such pieces are
 * considered, too. */
static clv_status consider_without(solver *v, bool (*are)(const core_piece *))
{
    if (!count_pieces(v, are, v->s.makespan_ns))
        return CLV_OK;
    const clv_status status = consider_searches(v);
    count_pieces(v, are, 0);
    return status;
}

/* A copy lies in one piece in its ring, so fewer find room than the search
 * counts, and wait longer. With half of each ring it counts too few. The
 * forecast decides. */
static clv_status consider_half_rings(solver *v)
{
    const uint32_t n = v->c.problem.n_devices;
    if (core_plan_expected_ns(v->best) <= RING_SURPRISE * v->s.makespan_ns)
        return CLV_OK;
    uint64_t *all = calloc(n, sizeof *all);
    if (!all)
        return core_no_memory("for a plan");
    for (uint32_t d = 0; d < n; d++) {
        all[d] = v->c.devices[d].ring;
        v->c.devices[d].ring = all[d] / 2;
    }
    const clv_status status = consider_searches(v);
    for (uint32_t d = 0; d < n; d++)
        v->c.devices[d].ring = all[d];
    free(all);
    return status;
}

static clv_status consider_simpler(solver *v)
{
    if (!v->best || !can_stream(&v->c))
        return CLV_OK;
    CLV_TRY(consider_half_rings(v));
    if (core_plan_expected_ns(v->best) > SURPRISE * v->s.makespan_ns)
        CLV_TRY(consider_without(v, is_of_some_experts));
    return consider_without(v, is_part_or_streamed);
}

static double option_ns(const solver *v, uint32_t option)
{
    const planner_solve_option *o = &v->c.options[option];
    double ns = 0;
    for (uint32_t i = 0; i < o->n_pieces; i++)
        ns = fmax(ns, v->c.pieces[o->first_piece + i].ns);
    return ns;
}

/* Nodes whole on the first device until it has worked for so long, then on the
 * next. Whether the last one does not work longer. */
static bool place_parts(const solver *v, double most)
{
    uint32_t device = 0;
    double work = 0;
    for (uint32_t i = 0; i < v->graph->n_nodes; i++) {
        uint32_t option = whole_option(v, i, device);
        if (work + option_ns(v, option) > most &&
            device + 1 < v->plan->n_devices) {
            option = whole_option(v, i, ++device);
            work = 0;
        }
        v->trial[i] = option;
        work += option_ns(v, option);
    }
    return work <= most;
}

/* Each device has some of the nodes that follow one another, for the same time.
 * So a run needs few exchanges, and devices work on one run each. */
static clv_status consider_parts(solver *v)
{
    double enough = 0, low = 0;
    for (uint32_t i = 0; i < v->graph->n_nodes; i++)
        for (uint32_t d = 0; d < v->plan->n_devices; d++)
            enough += option_ns(v, whole_option(v, i, d));
    for (uint32_t i = 0; i < PART_HALVINGS; i++) {
        const double most = low + (enough - low) / 2;
        *(place_parts(v, most) ? &enough : &low) = most;
    }
    place_parts(v, enough);
    return consider_rival(v, "consecutive nodes on each device");
}

/* Of runs in flight the busiest device tells how long they take, and of one
 * alone what its steps wait for. */
static clv_status consider_flight(solver *v)
{
    planner_loads loads;
    if (v->plan->flight.n == 1 || !v->best)
        return CLV_OK;
    planner_loads_begin(&loads, v->plan->flight.n, v->best, v->chosen, &v->c);
    for (uint32_t i = 0; i < FLIGHT_SEARCHES; i++) {
        planner_solution s;
        const uint32_t beam =
            i % 2 ? PLANNER_STAGE_LOOK_AHEAD : PLANNER_STAGE_FIRST_DONE;
        planner_loads_price(&loads, &v->c);
        clv_status status = planner_search(
            &v->c.problem, beam | PLANNER_STAGE_ALTERNATIVES, &s);
        if (!status) {
            planner_loads_move(&loads, &v->c, &s);
            status = consider_solution(v, &s);
        }
        CLV_TRY(status);
    }
    planner_loads_clear(&v->c);
    return consider_parts(v);
}

/* What a run takes if all devices work at the speeds that they have alone. */
static clv_status find_together(solver *v)
{
    double speed = 0, ns;
    for (uint32_t d = 0; d < v->plan->n_devices; d++) {
        CLV_TRY(try_device(v, d, &ns));
        speed += ns > 0 ? 1 / ns : 0;
    }
    v->best->together_ns = speed > 0 ? 1 / speed : 0;
    return CLV_OK;
}

static clv_status find_best(solver *v, const clv_op_caps *caps,
                            planner_strategy strategy)
{
    CLV_TRY(search_legal(v, caps, strategy));
    CLV_TRY(consider_simpler(v));
    CLV_TRY(consider_energy(v));
    CLV_TRY(consider_flight(v));
    clv_status status = CLV_OK;
    for (uint32_t d = 0; d < v->plan->n_devices; d++)
        if ((status = consider_device(v, d)) == CLV_ERR_NO_MEMORY)
            return status;
    CLV_TRY(consider_fronts(v));
    CLV_TRY(consider_preparation(v));
    return v->best ? CLV_OK : status;
}

/* First as if all experts had equal chances. Popular ones have to make a plan
 * that is faster by a margin, as other texts have other ones. */
static clv_status find_best_experts(solver *v, const clv_op_caps *caps,
                                    planner_strategy strategy)
{
    const size_t n = v->graph->n_nodes + 1u;
    v->equal = core_graph_has_popularity(v->graph);
    CLV_TRY(find_best(v, caps, strategy));
    if (!v->equal)
        return CLV_OK;
    solver other = {.profile = v->profile,
                    .plan = v->plan,
                    .graph = v->graph,
                    .devices = v->devices,
                    .chosen = calloc(n, sizeof *other.chosen),
                    .trial = calloc(n, sizeof *other.trial),
                    .measures = v->measures};
    clv_status status = other.chosen && other.trial
                            ? find_best(&other, caps, strategy)
                            : core_no_memory("for a plan");
    note_refined(&v->refined, other.refined);
    if (!status && planner_is_more_popular_plan(other.best, v->best)) {
        const solver equal = *v;
        *v = other;
        v->refined = equal.refined;
        other = equal;
    }
    forget(&other);
    free(other.chosen);
    free(other.trial);
    return status;
}

/* ------------------------------------------------------------------------ */

static clv_status solve(solver *v, const clv_op_caps *caps,
                        planner_strategy strategy)
{
    const uint64_t begin = clv_now_ns();
    CLV_TRY(find_best_experts(v, caps, strategy));
    CLV_TRY(consider_known(v, strategy));
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
static clv_status solve_rounds(solver *v, const clv_op_caps *caps,
                               planner_strategy strategy)
{
    planner_refined refined = PLANNER_REFINED_MUCH;
    for (uint32_t round = 0; refined == PLANNER_REFINED_MUCH; round++) {
        refined = PLANNER_REFINED_NOTHING;
        forget(v);
        v->refined = PLANNER_REFINED_NOTHING;
        v->measures = round < ROUNDS;
        CLV_TRY(solve(v, caps, strategy));
        if (v->measures)
            CLV_TRY(planner_refine_plan(v->best, v->profile, &refined));
        note_refined(&refined, v->refined);
    }
    CLV_TRY(find_together(v));
    return refined == PLANNER_REFINED_LITTLE ? predict_again(v->best) : CLV_OK;
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
        status = found ? found : measure(&v);
    clv_op_caps *used = NULL;
    if (!status)
        status = planner_leave_out_same_hardware(plan, graph, caps, v.profile,
                                                 &used);
    if (!status)
        status = solve_rounds(&v, used, strategy);
    free(used);
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
    forget(&v);
    free(v.trial);
    free(v.chosen);
    free(v.devices);
    return status;
}
