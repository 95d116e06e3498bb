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

/* Whether the other run's next step is what the block waits for. */
static bool is_for_next(const core_block *block, const clv_run *on)
{
    return goes_on(on) &&
           on->exec->plan->steps[on->n_submitted].device == block->device &&
           on->queues[block->device].promised < block->value &&
           block->value <= next_value(on);
}

static void take_turn(clv_run *run)
{
    const uint32_t s = run->n_submitted;
    clv_run *on = run->block.run;
    run->turn = (core_turn){
        .run = run,
        .ready = !on,
        .queue = line_of(run, s),
        .ns = step_ns(run, s),
        .on =
            on && on != run && is_for_next(&run->block, on) ? &on->turn : NULL,
        .candidate = {.waits = run->waits,
                      .priority = run->priority,
                      .served_ns = run->session->served_ns,
                      .age = run->age}};
    if (s + 1 < run->exec->plan->n_steps) {
        run->turn.then_queue = line_of(run, s + 1);
        run->turn.then_ns = step_ns(run, s + 1);
    }
}

clv_run *core_flight_choose(core_flight *flight)
{
    core_turn *first = NULL, **last = &first;
    for (clv_run *run = flight->first; run; run = run->next) {
        if (!goes_on(run))
            continue;
        run->block = core_flight_block(run);
        take_turn(run);
        *last = &run->turn;
        last = &run->turn.next;
    }
    core_turn *best =
        core_turn_choose(first, critical_line(flight), flight->by_age);
    return best ? best->run : NULL;
}
