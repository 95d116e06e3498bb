#include "loads.h"

#include <math.h>

/* The price of a device without work falls by e^STEP first, and by less with
 * each further move. */
#define STEP 2.0
#define LESS 0.8

static void add_work(const planner_loads *loads,
                     const planner_candidates *candidates, uint32_t option,
                     double *work)
{
    const planner_solve_option *o = &candidates->options[option];
    for (uint32_t i = 0; i < o->n_pieces; i++) {
        const planner_solve_piece *p = &candidates->pieces[o->first_piece + i];
        work[p->device] += p->ns + loads->step_ns[p->device];
    }
}

/* Each device's price goes down by how far its work is from the busiest one's.
 */
static void move(planner_loads *loads, const double *work)
{
    double most = 0, sum = 0;
    loads->step *= LESS;
    for (uint32_t d = 0; d < loads->n_devices; d++)
        most = fmax(most, work[d]);
    for (uint32_t d = 0; d < loads->n_devices; d++) {
        if (most > 0)
            loads->prices[d] *= exp(loads->step * (work[d] / most - 1));
        sum += loads->prices[d];
    }
    for (uint32_t d = 0; d < loads->n_devices; d++)
        loads->prices[d] *= loads->total / sum;
}

void planner_loads_begin(planner_loads *loads, uint32_t n_flight,
                         const clv_plan *plan, const uint32_t *options,
                         const planner_candidates *candidates)
{
    const planner_solve_problem *p = &candidates->problem;
    double work[PLANNER_SOLVE_DEVICES] = {0};
    uint32_t pieces[PLANNER_SOLVE_DEVICES] = {0};
    *loads = (planner_loads){
        .total = n_flight - 1, .step = STEP / LESS, .n_devices = p->n_devices};
    for (uint32_t i = 0; i < p->n_nodes; i++) {
        const planner_solve_option *o = &candidates->options[options[i]];
        for (uint32_t j = 0; j < o->n_pieces; j++)
            pieces[candidates->pieces[o->first_piece + j].device]++;
    }
    for (uint32_t d = 0; d < p->n_devices; d++) {
        const double steps = d < plan->n_queues ? plan->devices[d].n_steps : 0;
        loads->prices[d] = 1;
        loads->step_ns[d] =
            candidates->devices[d].dispatch_ns *
            (pieces[d] && steps < pieces[d] ? steps / pieces[d] : 1);
    }
    for (uint32_t i = 0; i < p->n_nodes; i++)
        add_work(loads, candidates, options[i], work);
    move(loads, work);
}

void planner_loads_price(const planner_loads *loads,
                         planner_candidates *candidates)
{
    for (uint32_t i = 0; i < candidates->problem.n_pieces; i++) {
        planner_solve_piece *p = &candidates->pieces[i];
        p->extra_ns =
            loads->prices[p->device] * (p->ns + loads->step_ns[p->device]);
    }
}

void planner_loads_clear(planner_candidates *candidates)
{
    for (uint32_t i = 0; i < candidates->problem.n_pieces; i++)
        candidates->pieces[i].extra_ns = 0;
}

void planner_loads_move(planner_loads *loads,
                        const planner_candidates *candidates,
                        const planner_solution *solution)
{
    double work[PLANNER_SOLVE_DEVICES] = {0};
    for (uint32_t i = 0; i < candidates->problem.n_nodes; i++)
        add_work(loads, candidates, solution->choices[i].option, work);
    move(loads, work);
}
