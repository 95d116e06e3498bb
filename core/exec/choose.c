#include "choose.h"
#include "order.h"
#include "../base/error.h"
#include "../plan/choice.h"

#include <stdlib.h>

/* ------------------------------------------------------------------------ */
/* Sessions: runs on the same states, or of an exec without any               */

static const void *key_of(const clv_exec *exec)
{
    return exec->n_accesses ? (const void *)exec->states[exec->accesses->state]
                            : exec;
}

/* A new one begins where the one is that has had least. */
static double least_served(const core_flight *flight)
{
    double least = 0;
    for (const core_session *s = flight->sessions; s; s = s->next)
        if (s == flight->sessions || s->served_ns < least)
            least = s->served_ns;
    return least;
}

clv_status core_flight_enter(core_flight *flight, clv_run *run)
{
    const void *key = key_of(run->exec);
    core_session *s = flight->sessions;
    while (s && s->key != key)
        s = s->next;
    if (!s) {
        s = calloc(1, sizeof *s);
        if (!s)
            return core_no_memory("for a run");
        *s = (core_session){.key = key, .served_ns = least_served(flight)};
        s->next = flight->sessions;
        flight->sessions = s;
    }
    s->n_runs++;
    run->session = s;
    return CLV_OK;
}

void core_flight_exit(core_flight *flight, clv_run *run)
{
    core_session **link = &flight->sessions, *s = run->session;
    run->session = NULL;
    if (--s->n_runs)
        return;
    while (*link != s)
        link = &(*link)->next;
    *link = s->next;
    free(s);
}

/* ------------------------------------------------------------------------ */
/* Times, as predicted; 0 where they are not                                 */

static double step_ns(const clv_run *run, uint32_t s)
{
    const core_forecast *f = run->exec->plan->forecast;
    return f ? f->steps[s].end_ns - f->steps[s].begin_ns : 0;
}

static core_line *line_of(const clv_run *run, uint32_t s)
{
    return run->queues[run->exec->plan->steps[s].device].line;
}

static void add_rest(clv_run *run, int sign)
{
    const clv_plan *plan = run->exec->plan;
    for (uint32_t s = run->n_submitted; s < plan->n_steps; s++)
        line_of(run, s)->left_ns += sign * step_ns(run, s);
    for (uint32_t d = 0; d < plan->n_queues; d++)
        if (run->queues[d].timeline)
            run->queues[d].line->n_runs += (uint32_t)sign;
}

void core_flight_load(clv_run *run)
{
    add_rest(run, 1);
}

void core_flight_unload(clv_run *run)
{
    add_rest(run, -1);
}

void core_flight_serve(clv_run *run, uint32_t step)
{
    const double ns = step_ns(run, step);
    run->session->served_ns += ns;
    line_of(run, step)->left_ns -= ns;
}

static const core_line *critical_line(const core_flight *flight)
{
    const core_line *most = NULL;
    for (const core_line *line = flight->lines; line; line = line->next)
        if (!most || line->left_ns > most->left_ns)
            most = line;
    return most;
}

/* ------------------------------------------------------------------------ */

static bool goes_on(const clv_run *run)
{
    return run->state == CORE_RUN_GOING && !run->trouble &&
           run->n_submitted < run->exec->plan->n_steps;
}

/* The value that the next step gives its queue. */
static uint64_t next_value(const clv_run *run)
{
    const core_step *step = &run->exec->plan->steps[run->n_submitted];
    return run->queues[step->device].base + step->signal;
}

static void unlock(clv_run *run, const clv_run *by, uint32_t s,
                   const core_line *critical)
{
    if (line_of(by, s) == critical)
        run->unlocked_critical_ns += step_ns(by, s);
    else
        run->unlocked_other_ns += step_ns(by, s);
}

/* What can begin once the run's next step is done: its own step after that, if
 * it is another queue's, and those of runs that wait for this one. */
static void note_unlocked(clv_run *run, const core_line *critical)
{
    const core_block *block = &run->block;
    const uint32_t s = run->n_submitted;
    clv_run *on = block->run;
    if (s + 1 < run->exec->plan->n_steps &&
        line_of(run, s + 1) != line_of(run, s))
        unlock(run, run, s + 1, critical);
    if (on && on != run && goes_on(on) &&
        on->exec->plan->steps[on->n_submitted].device == block->device &&
        on->queues[block->device].promised < block->value &&
        block->value <= next_value(on))
        unlock(on, run, s, critical);
}

static core_candidate candidate_of(const core_flight *flight,
                                   const clv_run *run,
                                   const core_line *critical)
{
    return (core_candidate){
        .waits = run->waits,
        .priority = run->priority,
        .served_ns = run->session->served_ns,
        .gain_ns = flight->by_age
                       ? 0
                       : core_candidate_gain(
                             line_of(run, run->n_submitted) == critical,
                             run->unlocked_critical_ns, run->unlocked_other_ns),
        .age = run->age};
}

clv_run *core_flight_choose(core_flight *flight)
{
    const core_line *critical = critical_line(flight);
    core_candidate best;
    clv_run *chosen = NULL;
    for (clv_run *run = flight->first; run; run = run->next) {
        run->unlocked_critical_ns = run->unlocked_other_ns = 0;
        if (goes_on(run))
            run->block = core_flight_block(run);
    }
    for (clv_run *run = flight->first; run && !flight->by_age; run = run->next)
        if (goes_on(run))
            note_unlocked(run, critical);
    for (clv_run *run = flight->first; run; run = run->next) {
        if (!goes_on(run) || run->block.run)
            continue;
        const core_candidate c = candidate_of(flight, run, critical);
        if (!chosen || core_candidate_before(&c, &best)) {
            chosen = run;
            best = c;
        }
    }
    return chosen;
}
