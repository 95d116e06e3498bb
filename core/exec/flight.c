#include "flight.h"
#include "copy.h"
#include "order.h"
#include "../base/error.h"
#include "../base/grow.h"
#include "../config/config.h"
#include "../context/context.h"
#include "../plan/choice.h"

#include <stdlib.h>
#include <string.h>

static void destroy(void *arg)
{
    core_flight *flight = arg;
    while (flight->lines) {
        core_line *line = flight->lines;
        flight->lines = line->next;
        free(line->entries);
        free(line);
    }
    pthread_cond_destroy(&flight->unwatched);
    pthread_mutex_destroy(&flight->mutex);
    free(flight);
}

static core_flight *create(const clv_context *ctx)
{
    core_flight *flight = calloc(1, sizeof *flight);
    pthread_mutexattr_t attr;
    if (!flight)
        return NULL;
    pthread_mutexattr_init(&attr);
    pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&flight->mutex, &attr);
    pthread_mutexattr_destroy(&attr);
    pthread_cond_init(&flight->unwatched, NULL);
    flight->by_age =
        core_config_choice(ctx->config, "core.dispatch") == CORE_DISPATCH_AGE;
    return flight;
}

core_flight *core_flight_of(clv_context *ctx)
{
    void *flight = atomic_load(&ctx->flight);
    if (flight)
        return flight;
    ctx->flight_destroy = destroy;
    core_flight *made = create(ctx);
    if (made && !atomic_compare_exchange_strong(&ctx->flight, &flight, made)) {
        destroy(made);
        return flight;
    }
    return made;
}

void core_flight_lock(clv_context *ctx)
{
    pthread_mutex_lock(&core_flight_of(ctx)->mutex);
}

void core_flight_unlock(clv_context *ctx)
{
    pthread_mutex_unlock(&core_flight_of(ctx)->mutex);
}

/* ------------------------------------------------------------------------ */
/* Lines                                                                     */

static core_line *line_of(core_flight *flight, const clv_device *dev,
                          uint32_t queue)
{
    core_line *line = flight->lines;
    while (line && (line->dev != dev || line->queue != queue))
        line = line->next;
    if (line)
        return line;
    line = calloc(1, sizeof *line);
    if (!line)
        return NULL;
    *line = (core_line){.next = flight->lines, .dev = dev, .queue = queue};
    flight->lines = line;
    return line;
}

clv_status core_flight_join(clv_run *run)
{
    const clv_plan *plan = run->exec->plan;
    core_flight_lock(plan->ctx);
    core_flight *flight = core_flight_of(plan->ctx);
    bool ok = true;
    for (uint32_t d = 0; d < plan->n_queues && ok; d++) {
        run->queues[d].line =
            line_of(flight, plan->devices[d].dev, plan->devices[d].queue);
        ok = run->queues[d].line != NULL;
    }
    core_flight_unlock(plan->ctx);
    return ok ? CLV_OK : core_no_memory("for a run");
}

void core_flight_leave(clv_run *run)
{
    core_flight *flight = core_flight_of(run->exec->plan->ctx);
    pthread_mutex_lock(&flight->mutex);
    while (run->watchers)
        pthread_cond_wait(&flight->unwatched, &flight->mutex);
    pthread_mutex_unlock(&flight->mutex);
}

/* A failed timeline will do no more. */
static bool is_over(const core_entry *e)
{
    const core_run_queue *queue = &e->run->queues[e->device];
    return queue->awaited >= e->value ||
           core_timeline_done(queue->timeline, e->value, 0) ||
           core_timeline_failed(queue->timeline);
}

static void note_done(const core_entry *e)
{
    core_run_queue *queue = &e->run->queues[e->device];
    if (core_timeline_failed(queue->timeline)) {
        core_run_trouble(e->run, CLV_ERR_DEVICE_LOST, NULL);
        return;
    }
    queue->done = e->value;
    const clv_status status = core_run_fetch(e->run, e->device, e->value);
    if (status)
        core_run_trouble(e->run, status, clv_last_error());
}

void core_flight_look_again(core_flight *flight)
{
    for (core_line *line = flight->lines; line; line = line->next)
        line->seen = false;
}

static void look(core_line *line)
{
    if (line->seen)
        return;
    line->seen = true;
    while (line->n && is_over(&line->entries[line->first])) {
        const core_entry entry = line->entries[line->first++];
        line->n--;
        note_done(&entry);
    }
    if (!line->n)
        line->first = 0;
}

clv_status core_line_reserve(core_line *line)
{
    if (line->first > line->n) {
        memmove(line->entries, line->entries + line->first,
                line->n * sizeof *line->entries);
        line->first = 0;
    }
    return core_grow(&line->entries, &line->capacity,
                     (uint64_t)line->first + line->n + 1, sizeof *line->entries)
               ? CLV_OK
               : core_no_memory("for a run");
}

void core_line_add(core_line *line, clv_run *run, uint32_t device,
                   uint64_t value)
{
    line->entries[line->first + line->n++] = (core_entry){run, device, value};
}

void core_line_forget(core_line *line, const clv_run *run)
{
    core_entry *list = line->entries + line->first;
    uint32_t n = 0;
    for (uint32_t i = 0; i < line->n; i++)
        if (list[i].run != run)
            list[n++] = list[i];
    line->n = n;
}

bool core_flight_done(clv_run *run, uint32_t device, uint64_t value)
{
    const core_run_queue *queue = &run->queues[device];
    if (queue->done < value)
        look(queue->line);
    return queue->done >= value;
}

/* ------------------------------------------------------------------------ */
/* What keeps a run from going on                                            */

static bool is_met(const clv_run *run, const core_need *need)
{
    clv_run *on = need->on;
    if (!on)
        return true;
    return core_need_is_queued(run, need)
               ? on->queues[need->device].promised >= need->value
               : core_flight_done(on, need->device, need->value);
}

/* Of those of older runs, which the run goes through once. */
static core_block need_of(clv_run *run, uint32_t s)
{
    while (run->need < run->n_needs && run->needs[run->need].step < s)
        run->need++;
    for (; run->need < run->n_needs && run->needs[run->need].step == s;
         run->need++) {
        const core_need *need = &run->needs[run->need];
        if (!is_met(run, need))
            return (core_block){need->on, need->device, need->value,
                                CORE_NO_POINT};
    }
    return (core_block){0};
}

/* Whether the line is to be kept short: others want it, or may want it soon,
 * as nobody waits for this run yet. */
static bool is_short(const clv_run *run, const core_line *line)
{
    return line->n_runs > 1 || !run->waited;
}

/* A device that waits by itself for another one does no other work meanwhile:
 * in a short line it is given such a step only if it has none. */
static core_block wait_of(clv_run *run, uint32_t s)
{
    const core_step *step = &run->exec->plan->steps[s];
    core_line *line = run->queues[step->device].line;
    run->waits = false;
    if (is_short(run, line))
        look(line);
    for (uint32_t i = 0; i < step->n_waits; i++) {
        const uint32_t index = step->first_wait + i;
        const core_wait *wait = &run->exec->plan->waits[index];
        const uint64_t value = run->queues[wait->device].base + wait->value;
        if ((!wait->by_host && !is_short(run, line)) ||
            core_flight_done(run, wait->device, value))
            continue;
        if (wait->by_host || line->n)
            return (core_block){run, wait->device, value,
                                wait->by_host ? index : CORE_NO_POINT};
        run->waits = true;
    }
    return (core_block){0};
}

static core_block room_of(const clv_run *run, uint32_t s)
{
    const core_line *line = run->queues[run->exec->plan->steps[s].device].line;
    const core_entry *e = &line->entries[line->first];
    return is_short(run, line) && line->n >= CORE_LINE_DEPTH
               ? (core_block){e->run, e->device, e->value, CORE_NO_POINT}
               : (core_block){0};
}

static core_block end_of(clv_run *run)
{
    const clv_plan *plan = run->exec->plan;
    for (uint32_t d = 0; d < plan->n_queues; d++)
        if (!core_flight_done(run, d, run->queues[d].promised))
            return (core_block){run, d, run->queues[d].promised,
                                plan->n_waits + d};
    return (core_block){0};
}

core_block core_flight_block(clv_run *run)
{
    const uint32_t s = run->n_submitted;
    if (s == run->exec->plan->n_steps)
        return end_of(run);
    core_block block = wait_of(run, s);
    if (!block.run)
        block = need_of(run, s);
    return block.run ? block : room_of(run, s);
}
