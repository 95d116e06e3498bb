#include "submit.h"
#include "copy.h"
#include "flight.h"
#include "guard.h"
#include "trace.h"
#include "wait.h"
#include "../base/error.h"
#include "../context/trace.h"
#include "../device/loss.h"
#include "../plan/choice.h"

#include <stdlib.h>
#include <time.h>

/* Other users of a device may fill its queue: how long to wait for room. */
#define QUEUE_PAUSE_NS 50000u

double core_run_moment(const clv_run *run)
{
    double latest = 0;
    for (uint32_t d = 0; d < run->exec->plan->n_queues; d++) {
        clv_device *dev = run->exec->plan->devices[d].dev;
        clv_moment now;
        if (!run->queues[d].timeline)
            continue;
        if (dev->info.clock != CLV_CLOCK_VIRTUAL)
            return (double)clv_now_ns();
        if (!clv_device_now(dev, &now))
            latest = now.ns > latest ? now.ns : latest;
    }
    return latest;
}

/* Whose fault a crash is while work is under way; NULL: of several. */
static const core_plugin *only_plugin(const clv_run *run)
{
    const core_plugin *plugin = NULL;
    for (uint32_t d = 0; d < run->exec->plan->n_queues; d++) {
        const core_plugin *other = run->exec->plan->devices[d].dev->plugin;
        if (run->queues[d].timeline && plugin && plugin != other)
            return NULL;
        plugin = run->queues[d].timeline ? other : plugin;
    }
    return plugin;
}

static void note_run(const clv_run *run)
{
    core_id_list ids = {.text = ""};
    for (uint32_t d = 0; d < run->exec->plan->n_queues; d++)
        if (run->queues[d].timeline)
            core_id_list_add(&ids, run->exec->plan->devices[d].dev->id);
    core_use_note(run->exec->use, only_plugin(run),
                  "the first run of a plan on %s", ids.text);
}

typedef struct submit_job {
    clv_device *dev;
    const core_submit *submit;
} submit_job;

static clv_status call_submit(void *arg)
{
    const submit_job *job = arg;
    return core_device_submit(job->dev, job->submit);
}

/* That a slot may block for ever is not to be paid for in each run. */
static clv_status submit_once(clv_run *run, uint32_t step)
{
    clv_exec *exec = run->exec;
    const submit_job now = {core_exec_device_of(exec, step),
                            &run->steps[step].submit};
    submit_job *job = exec->proven ? NULL : malloc(sizeof *job);
    if (!job)
        return core_device_submit(now.dev, now.submit);
    *job = now;
    clv_status status = core_exec_guard(exec, step, "submit", only_plugin(run),
                                        call_submit, job);
    note_run(run);
    if (!core_device_abandoned(now.dev))
        free(job);
    return status;
}

/* When the queue has room for steps of this run. */
static uint64_t room_at(const core_run_queue *queue)
{
    const uint64_t reached = core_timeline_reached(queue->timeline);
    return core_queue_room_at(reached > queue->base ? reached : queue->base,
                              queue->promised);
}

/* Well or badly. */
static bool has_ended(const core_entry *e)
{
    core_timeline *tl = e->run->queues[e->device].timeline;
    return core_timeline_failed(tl) ||
           core_timeline_done(tl, e->value, QUEUE_PAUSE_NS);
}

/* For the first step of any run in the queue that has not ended, a little: the
 * time of simulated devices passes only while somebody waits. Copies fill the
 * queue, too, and steps of runs that ended badly: then for the step that is to
 * be submitted. */
static void pause_for_others(const clv_run *run, uint32_t device)
{
    const struct timespec pause = {.tv_nsec = QUEUE_PAUSE_NS};
    const core_run_queue *queue = &run->queues[device];
    const core_line *line = queue->line;
    const core_entry *e = &line->entries[line->first];
    const core_entry *end = e + line->n;
    while (e < end && has_ended(e))
        e++;
    if (e < end)
        core_timeline_wait(e->run->queues[e->device].timeline, e->value, 0,
                           QUEUE_PAUSE_NS);
    else if (!core_timeline_done(queue->timeline, queue->promised + 1,
                                 QUEUE_PAUSE_NS))
        nanosleep(&pause, NULL);
}

/* Room in the device's queue is made by waiting for earlier steps of this run;
 * where others filled it, for theirs. */
static clv_status submit_when_room(clv_run *run, uint32_t step)
{
    const clv_exec *exec = run->exec;
    const uint32_t device = exec->plan->steps[step].device;
    const core_run_queue *queue = &run->queues[device];
    uint64_t start = 0;
    for (;;) {
        clv_status status = submit_once(run, step);
        if (status != CLV_ERR_LIMIT)
            return status;
        if (queue->promised > queue->base &&
            (status = core_run_wait_for(run, device, room_at(queue), 0)))
            return status;
        uint64_t now = clv_now_ns();
        start = start ? start : now;
        if (now - start >= exec->limit_ns)
            return clv_error(CLV_ERR_TIMEOUT,
                             "device '%s' took no work for "
                             "%g s (core.wait_timeout); its queue is full of "
                             "other work",
                             core_exec_device_of(exec, step)->id,
                             (double)exec->limit_ns * 1e-9);
        pause_for_others(run, device);
    }
}

/* Lack of memory may be the host's, and passes. */
static clv_status refused(clv_exec *exec, uint32_t index, clv_status status)
{
    return status == CLV_ERR_NO_MEMORY || status == CLV_ERR_INVALID
               ? core_exec_name_step(exec, index, status)
               : core_exec_blame(exec, exec->plan->steps[index].device, index,
                                 status);
}

/* Timeline values, symbols and the correlation change from time to time. */
static clv_status fill_in(clv_run *run, uint32_t index)
{
    const core_step *planned = &run->exec->plan->steps[index];
    core_run_step *step = &run->steps[index];
    core_point *point = step->waits;
    for (uint32_t i = 0; i < planned->n_waits; i++) {
        const core_wait *wait =
            &run->exec->plan->waits[planned->first_wait + i];
        if (!wait->by_host)
            (point++)->value = run->queues[wait->device].base + wait->value;
    }
    step->command.symbols = run->symbols;
    step->signal.value = run->queues[planned->device].base + planned->signal;
    step->submit.correlation =
        core_run_is_recorded(run) ? core_run_correlation(run, index) : 0;
    return core_run_put_commands(run, index, run->symbols);
}

clv_status core_run_submit_step(clv_run *run)
{
    clv_exec *exec = run->exec;
    const uint32_t index = run->n_submitted;
    const uint32_t device = exec->plan->steps[index].device;
    core_run_queue *queue = &run->queues[device];
    const bool traced = clv_trace_enabled(exec->plan->ctx);
    const uint64_t begin = traced ? clv_now_ns() : 0;
    CLV_TRY(core_line_reserve(queue->line));
    CLV_TRY(fill_in(run, index));
    core_exec_moments *moments =
        run->noted && exec->latest.part_ns ? &exec->latest.steps[index] : NULL;
    if (moments)
        moments->submit = core_run_moment(run);
    clv_status status = submit_when_room(run, index);
    if (moments)
        moments->submitted = core_run_moment(run);
    if (status)
        return exec->lost ? status : refused(exec, index, status);
    queue->promised = run->steps[index].signal.value;
    core_line_add(queue->line, run, device, queue->promised);
    run->n_submitted++;
    if (traced)
        core_trace_add(exec->plan->ctx, CLV_CLOCK_REAL, core_trace_host_track(),
                       "submit", begin, clv_now_ns());
    return CLV_OK;
}
