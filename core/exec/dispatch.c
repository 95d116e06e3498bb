/*
 * Runs in flight: they are put there, go on as they can, and end.
 */
#include "await.h"
#include "choose.h"
#include "file_reader.h"
#include "flight.h"
#include "life.h"
#include "submit.h"
#include "wait.h"
#include "../base/error.h"

#include <stdio.h>
#include <string.h>

static bool is_mine(const clv_run *run)
{
    return pthread_equal(run->owner, pthread_self());
}

void core_run_trouble(clv_run *run, clv_status status, const char *message)
{
    if (run->trouble)
        return;
    run->trouble = status;
    snprintf(run->message, sizeof run->message, "%s", message ? message : "");
}

/* ------------------------------------------------------------------------ */
/* Ending                                                                    */

/* Those that came after it do not wait for it any longer; if it failed, what
 * they need of it is not there. */
static void release(clv_run *other, const clv_run *run, clv_status status)
{
    bool needs = false;
    for (uint32_t i = 0; i < other->n_holds; i++)
        if (other->holds[i].on == run)
            other->holds[i].on = NULL;
    for (uint32_t i = other->need; i < other->n_needs; i++)
        if (other->needs[i].on == run) {
            other->needs[i].on = NULL;
            needs = true;
        }
    if (status && needs)
        core_run_trouble(other, status, run->message);
}

static void end(core_flight *flight, clv_run *run, clv_status status)
{
    clv_run **link = &flight->first;
    while (*link != run)
        link = &(*link)->next;
    *link = run->next;
    if (run->state == CORE_RUN_GOING) {
        core_flight_unload(run);
        core_file_reader_end(run->exec->reader);
    }
    if (status)
        snprintf(run->message, sizeof run->message, "%s", clv_last_error());
    core_flight_exit(flight, run);
    run->state = CORE_RUN_IDLE;
    run->status = status;
    for (clv_run *other = *link; other; other = other->next)
        release(other, run, status);
}

/* Of the timelines that failed, if it is not known yet. */
static clv_status reason_of(clv_run *run)
{
    for (uint32_t d = 0; d < run->exec->plan->n_queues; d++) {
        const core_run_queue *queue = &run->queues[d];
        if (!run->message[0] && queue->timeline &&
            core_timeline_failed(queue->timeline))
            return core_run_wait_for(run, d, queue->promised, 0);
    }
    return clv_error(run->trouble, "%s", run->message);
}

/* Others can go on meanwhile, on devices that work. */
static void end_badly(core_flight *flight, clv_run *run)
{
    const clv_plan *plan = run->exec->plan;
    clv_status status;
    const bool going = run->state == CORE_RUN_GOING;
    pthread_mutex_unlock(&flight->mutex);
    status = reason_of(run);
    if (going)
        status = core_run_drain(run, status);
    pthread_mutex_lock(&flight->mutex);
    for (uint32_t d = 0; d < plan->n_queues; d++)
        core_line_forget(run->queues[d].line, run);
    if (going) {
        core_use_end(run->exec->use);
        run->exec->use = NULL;
    }
    end(flight, run, status);
}

static void end_well(core_flight *flight, clv_run *run)
{
    core_use_end(run->exec->use);
    run->exec->use = NULL;
    end(flight, run, core_run_complete(run));
}

/* ------------------------------------------------------------------------ */
/* Going on                                                                  */

static bool is_complete(clv_run *run)
{
    return run->state == CORE_RUN_GOING &&
           run->n_submitted == run->exec->plan->n_steps &&
           !core_flight_block(run).run;
}

/* A run of this thread that can begin or end. */
static clv_run *find_turn(const core_flight *flight)
{
    for (clv_run *run = flight->first; run; run = run->next) {
        if (!is_mine(run))
            continue;
        if (run->exec->lost)
            core_run_trouble(run, run->exec->lost, run->exec->message);
        if (run->trouble || is_complete(run) ||
            (run->state == CORE_RUN_HELD && core_run_can_begin(run)))
            return run;
    }
    return NULL;
}

static void begin(core_flight *flight, clv_run *run)
{
    const clv_status status = core_run_begin(run, flight->first);
    if (status) {
        core_run_trouble(run, status, clv_last_error());
        return;
    }
    run->state = CORE_RUN_GOING;
    core_flight_load(run);
}

static void submit_next(clv_run *run)
{
    const uint32_t step = run->n_submitted;
    const clv_status status = core_run_submit_step(run);
    if (status)
        core_run_trouble(run, status, clv_last_error());
    else
        core_flight_serve(run, step);
}

/* All that can be done without waiting. */
static void go_on(core_flight *flight)
{
    for (;;) {
        core_flight_look_again(flight);
        clv_run *run = find_turn(flight);
        if (!run && (run = core_flight_choose(flight))) {
            submit_next(run);
        } else if (!run) {
            return;
        } else if (run->trouble) {
            end_badly(flight, run);
        } else if (run->state == CORE_RUN_HELD) {
            begin(flight, run);
        } else {
            end_well(flight, run);
        }
    }
}

/* ------------------------------------------------------------------------ */

static clv_status check_submit(const clv_run *run, const int64_t *symbols,
                               uint32_t n_symbols)
{
    const clv_exec *exec = run->exec;
    const clv_graph *graph = exec->plan->graph;
    if (exec->lost)
        return clv_error(exec->lost, "%s", exec->message);
    if (run->state != CORE_RUN_IDLE)
        return clv_error(CLV_ERR_INVALID,
                         "run: it is in flight already; wait for it with "
                         "clv_run_wait()");
    if (n_symbols != graph->n_symbols || (n_symbols && !symbols))
        return clv_error(CLV_ERR_INVALID,
                         "run: %u symbols given, the graph has %u", n_symbols,
                         graph->n_symbols);
    for (uint32_t i = 0; i < n_symbols; i++)
        if (symbols[i] < graph->symbols[i].min ||
            symbols[i] > graph->symbols[i].max)
            return clv_error(CLV_ERR_INVALID,
                             "run: symbol '%s' is %lld, outside %lld..%lld",
                             graph->symbol_names[i], (long long)symbols[i],
                             (long long)graph->symbols[i].min,
                             (long long)graph->symbols[i].max);
    if (exec->n_unbound)
        for (uint32_t v = 0; v < graph->n_tensors; v++)
            if (exec->plan->places[v].home == CORE_HOME_BOUND &&
                graph->values[v].base == v &&
                !exec->states[exec->plan->places[v].original])
                return clv_error(CLV_ERR_INVALID,
                                 "run: state '%s' has no "
                                 "memory; give it some with clv_exec_bind()",
                                 graph->values[v].name);
    return CLV_OK;
}

static clv_status put_in_flight(core_flight *flight, clv_run *run)
{
    clv_run **last = &flight->first;
    while (*last)
        last = &(*last)->next;
    run->next = NULL;
    *last = run;
    clv_status status = core_run_look_back(run, flight->first);
    if (!status)
        status = core_flight_enter(flight, run);
    if (status) {
        *last = NULL;
        return status;
    }
    run->state = CORE_RUN_HELD;
    run->owner = pthread_self();
    run->age = ++flight->n_submits;
    run->trouble = CLV_OK;
    run->message[0] = 0;
    return CLV_OK;
}

clv_status clv_run_submit(clv_run *run, const int64_t *symbols,
                          uint32_t n_symbols)
{
    core_flight *flight = core_flight_of(run->exec->plan->ctx);
    pthread_mutex_lock(&flight->mutex);
    clv_status status = check_submit(run, symbols, n_symbols);
    if (!status) {
        for (uint32_t i = 0; i < n_symbols; i++)
            run->symbols[i] = symbols[i];
        for (uint32_t d = 0; d < run->exec->plan->n_queues; d++) {
            run->queues[d].base = run->queues[d].promised;
            run->queues[d].fetched = 0;
        }
        run->n_submitted = 0;
        status = put_in_flight(flight, run);
    }
    if (!status)
        go_on(flight);
    pthread_mutex_unlock(&flight->mutex);
    return status;
}

clv_status clv_run_wait(clv_run *run)
{
    core_flight *flight = core_flight_of(run->exec->plan->ctx);
    pthread_mutex_lock(&flight->mutex);
    run->owner = pthread_self();
    run->waited = true;
    while (run->state != CORE_RUN_IDLE) {
        go_on(flight);
        if (run->state != CORE_RUN_IDLE)
            core_flight_await(flight);
    }
    run->waited = false;
    clv_status status = run->status;
    if (status)
        status = clv_error(status, "%s", run->message);
    pthread_mutex_unlock(&flight->mutex);
    return status;
}

void clv_run_set_priority(clv_run *run, int32_t priority)
{
    core_flight_lock(run->exec->plan->ctx);
    run->priority = priority;
    core_flight_unlock(run->exec->plan->ctx);
}

bool clv_run_in_flight(const clv_run *run)
{
    core_flight_lock(run->exec->plan->ctx);
    const bool in_flight = run->state != CORE_RUN_IDLE;
    core_flight_unlock(run->exec->plan->ctx);
    return in_flight;
}

void clv_run_cancel(clv_run *run)
{
    core_flight_lock(run->exec->plan->ctx);
    if (run->state != CORE_RUN_IDLE)
        core_run_trouble(run, CLV_ERR_CANCELLED, "the run was cancelled");
    core_flight_unlock(run->exec->plan->ctx);
}
