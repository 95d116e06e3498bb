#include "rivals.h"
#include "compare.h"
#include "loads.h"
#include "prepare.h"
#include "../core/base/error.h"

#include <math.h>
#include <stdlib.h>

/* A plan without cuts is made if the search predicts that it takes at most so
 * much longer. */
#define RIVAL 1.25

/* A plan that takes so much longer than the search said is not trusted to be
 * the best one. */
#define SURPRISE 1.1

/* One device alone is run if the search predicts that it takes at most so much
 * longer: a device may compute many nodes in one kernel, which their costs do
 * not show. */
#define ALONE 2

/* The same, where weights pass through a device's memory. */
#define RING_SURPRISE 1.03

/* Preparation that takes less of a run does not change what is searched for. */
#define PREPARATION 0.01
#define PREPARED 4 /* searches where it does */

/* Which part of a node plans near another one divide otherwise, at first and at
 * last. */
#define FARTHEST 8
#define NEAREST 32

/* Searches for plans of which several runs are in flight. */
#define FLIGHT_SEARCHES 5

clv_status planner_consider_device(planner_solver *v, uint32_t device)
{
    double ns;
    CLV_TRY(planner_whole_device(v, device, &ns));
    if (v->best && planner_is_legal_plan(v->best) &&
        !(planner_energy_weight(v->best) > 0) && v->plan->flight.n == 1 &&
        ns > RIVAL * fmax(v->s.makespan_ns, planner_effort(v->best, 0)))
        return CLV_OK;
    return planner_solver_compare(v, "whole nodes on one device");
}

clv_status planner_consider_alone(planner_solver *v)
{
    const double most = ALONE * core_plan_expected_ns(v->best);
    const bool simulated =
        v->devices[0]->info.clock == CLV_CLOCK_VIRTUAL; /* then all are */
    double ns, least = INFINITY;
    uint32_t device = 0;
    clv_plan *plan;
    if (v->plan->flight.n > 1 || clv_plan_summarise(v->best).n_devices < 2 ||
        v->best->run_ratio <= (simulated ? SURPRISE : 0))
        return CLV_OK;
    for (uint32_t d = 0; d < v->plan->n_devices; d++) {
        CLV_TRY(planner_whole_device(v, d, &ns));
        device = ns < least ? d : device;
        least = fmin(least, ns);
    }
    if (!(least <= most))
        return CLV_OK;
    CLV_TRY(planner_whole_device(v, device, &ns));
    CLV_TRY(planner_solver_plan(v, v->trial, &plan));
    if (plan->run_ratio > 0 || !planner_is_legal_plan(plan)) {
        clv_plan_destroy(plan);
        return CLV_OK;
    }
    clv_plan_destroy(v->best);
    v->best = NULL;
    v->known = false;
    planner_solver_adopt(v, plan, "one device, which has not run alone");
    return CLV_OK;
}

clv_status planner_consider_energy(planner_solver *v)
{
    const double weight = v->best ? planner_energy_weight(v->best) : 0;
    if (!(weight > 0) || !(v->best->forecast->energy_nj > 0))
        return CLV_OK;
    v->c.problem.energy_ns = weight / fmax(1 - weight, 0.01) *
                             core_plan_expected_ns(v->best) /
                             v->best->forecast->energy_nj;
    return planner_solver_search(v);
}

clv_status planner_consider_preparation(planner_solver *v)
{
    double before = INFINITY;
    for (uint32_t i = 0; i < PREPARED; i++) {
        if (!v->best || planner_effort(v->best, 0) >= before ||
            planner_prepare_share(v->best) <=
                PREPARATION * core_plan_expected_ns(v->best))
            return CLV_OK;
        before = planner_effort(v->best, 0);
        planner_prepare_prices(v->best, v->chosen, v->profile, &v->c);
        CLV_TRY(planner_solver_search(v));
    }
    return CLV_OK;
}

/* ns of the copies of weights that the option makes in each run; infinite if
 * devices have to hold more for it. *there: the device computes all of it. */
static double copies_ns(const planner_solver *v, uint32_t option,
                        uint32_t device, bool *there)
{
    const planner_solve_option *o = &v->c.options[option];
    double sum = 0;
    *there = true;
    for (uint32_t i = o->first_piece; i < o->first_piece + o->n_pieces; i++) {
        const planner_solve_piece *p = &v->c.pieces[i];
        *there = *there && v->c.cuts[i].device == device;
        if (p->weight_bytes)
            return INFINITY;
        if (v->c.cuts[i].node == CORE_NO_PIECE && !p->joins)
            sum += p->ns;
    }
    return sum;
}

/* The option on the device that copies the least, or else a whole one that
 * needs no memory, as of a table in the host's. */
static uint32_t least_copied(const planner_solver *v, uint32_t node,
                             uint32_t device)
{
    const planner_solve_node *n = &v->c.nodes[node];
    uint32_t best = planner_whole_option(v, node, device);
    double least = INFINITY;
    bool any = false, there;
    for (uint32_t i = n->first_option; i < n->first_option + n->n_options;
         i++) {
        const double ns = copies_ns(v, i, device, &there);
        const bool better = there == any ? ns < least : there;
        if (isinf(ns) || !better || !(there || planner_is_whole_option(v, i)))
            continue;
        any = there;
        least = ns;
        best = i;
    }
    return best;
}

clv_status planner_consider_streamed(planner_solver *v)
{
    for (uint32_t d = 0; d < v->plan->n_devices; d++) {
        if (!planner_solver_scarce(v, d) || !planner_solver_streams(&v->c))
            continue;
        for (uint32_t i = 0; i < v->graph->n_nodes; i++)
            v->trial[i] = least_copied(v, i, d);
        if (planner_solver_compare(v, "all nodes on one device, which is sent "
                                      "what it lacks") == CLV_ERR_NO_MEMORY)
            return CLV_ERR_NO_MEMORY;
    }
    return CLV_OK;
}

/* The first nodes whole on one device, the rest on another. */
static clv_status make_front(planner_solver *v, uint32_t end, uint32_t device,
                             uint32_t other, clv_plan **out)
{
    for (uint32_t i = 0; i < v->graph->n_nodes; i++)
        v->trial[i] = planner_whole_option(v, i, i < end ? device : other);
    return planner_solver_plan(v, v->trial, out);
}

/* As many of the first nodes on the device as its memory holds: few exchanges.
 * Repeated blocks have one choice in the search, so it does not find this. */
static clv_status consider_front(planner_solver *v, uint32_t device,
                                 uint32_t other)
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
    planner_solver_adopt(v, plan, "the first nodes on one device");
    return CLV_OK;
}

clv_status planner_consider_fronts(planner_solver *v)
{
    for (uint32_t d = 0; d < v->plan->n_devices; d++)
        for (uint32_t o = 0; o < v->plan->n_devices; o++)
            if (o != d && planner_solver_scarce(v, d) &&
                !planner_solver_scarce(v, o) &&
                consider_front(v, d, o) == CLV_ERR_NO_MEMORY)
                return CLV_ERR_NO_MEMORY;
    return CLV_OK;
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
static bool count_pieces(planner_solver *v, bool (*are)(const core_piece *),
                         double ns)
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
static clv_status consider_without(planner_solver *v,
                                   bool (*are)(const core_piece *))
{
    if (!count_pieces(v, are, v->s.makespan_ns))
        return CLV_OK;
    const clv_status status = planner_solver_search(v);
    count_pieces(v, are, 0);
    return status;
}

/* A copy lies in one piece in its ring, so fewer find room than the search
 * counts, and wait longer. With half of each ring it counts too few. The
 * forecast decides. */
static clv_status consider_half_rings(planner_solver *v)
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
    const clv_status status = planner_solver_search(v);
    for (uint32_t d = 0; d < n; d++)
        v->c.devices[d].ring = all[d];
    free(all);
    return status;
}

clv_status planner_consider_simpler(planner_solver *v)
{
    if (!v->best || !planner_solver_streams(&v->c))
        return CLV_OK;
    CLV_TRY(consider_half_rings(v));
    if (core_plan_expected_ns(v->best) > SURPRISE * v->s.makespan_ns)
        CLV_TRY(consider_without(v, is_of_some_experts));
    return consider_without(v, is_part_or_streamed);
}

/* What the search learned of memory and max_share holds near its plan, too. */
static clv_status search_near(planner_solver *v, uint32_t parts)
{
    const planner_near near = {&v->c, v->chosen, parts};
    planner_solver other;
    clv_status status = planner_solver_begin_other(v, &other);
    other.equal = v->equal;
    if (!status)
        status = planner_solver_make(v, &near, &other.c);
    for (uint32_t d = 0; d < v->c.problem.n_devices && !status; d++) {
        other.c.devices[d].memory = v->c.devices[d].memory;
        other.c.devices[d].max_share = v->c.devices[d].max_share;
    }
    if (!status)
        status = planner_solver_search_tighter(&other);
    if (!status && planner_is_better_near_plan(other.best, v->best))
        planner_solver_exchange(v, &other);
    planner_solver_end(&other);
    return status;
}

clv_status planner_consider_near(planner_solver *v)
{
    bool scarce = false;
    for (uint32_t d = 0; d < v->plan->n_devices; d++)
        scarce |= planner_solver_scarce(v, d);
    if (!scarce || v->strategy != PLANNER_STRATEGY_TENSOR ||
        v->plan->n_devices < 2)
        return CLV_OK;
    for (uint32_t parts = FARTHEST; parts <= NEAREST && v->best; parts *= 2)
        CLV_TRY(search_near(v, parts));
    return CLV_OK;
}

clv_status planner_consider_flight(planner_solver *v)
{
    planner_loads loads;
    if (v->plan->flight.n == 1 || !v->best)
        return CLV_OK;
    planner_loads_begin(&loads, v->plan->flight.n, v->best, v->chosen, &v->c);
    for (uint32_t i = 0; i < FLIGHT_SEARCHES; i++) {
        planner_solution s;
        const uint32_t beam =
            i % 2 ? PLANNER_STAGE_FIRST_DONE : PLANNER_STAGE_LOOK_AHEAD;
        planner_loads_price(&loads, &v->c);
        clv_status status = planner_search(
            &v->c.problem, (PLANNER_BEAMS & ~beam) | PLANNER_STAGE_ALTERNATIVES,
            &s);
        if (!status) {
            planner_loads_move(&loads, &v->c, &s);
            status = planner_solver_take(v, &s);
        }
        CLV_TRY(status);
    }
    planner_loads_clear(&v->c);
    return planner_consider_parts(v);
}
