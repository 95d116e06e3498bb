/*
 * Waiting for devices, and what follows when one does not get there: which one
 * is to blame, and that nothing of the run is left in flight.
 */
#include "wait.h"
#include "flight.h"
#include "../base/clock.h"
#include "../base/unreleased.h"
#include "../device/calls.h"
#include "../device/loss.h"

#include <stdio.h>

/* The run's first step on the device that has not ended; n_steps: none. */
static uint32_t unfinished_step(const clv_run *run, uint32_t device)
{
    const core_run_queue *d = &run->queues[device];
    uint64_t reached = core_timeline_reached(d->timeline);
    uint32_t s = 0;
    while (s < run->exec->plan->n_steps &&
           (run->exec->plan->steps[s].device != device ||
            d->base + run->exec->plan->steps[s].signal <= reached))
        s++;
    return s;
}

/* Of a wait of `device` for this value of `other`. */
typedef bool (*wait_test)(const clv_run *run, uint32_t device, uint32_t other,
                          uint64_t value);

/* Finds a wait that passes the test, by the device itself, of the first step
 * that it was given and has not ended. Answers whom it waits for, and for which
 * value; the device itself: there is no such wait. */
static uint32_t find_wait(const clv_run *run, uint32_t device, wait_test test,
                          uint64_t *value)
{
    const core_run_queue *d = &run->queues[device];
    const uint32_t s = unfinished_step(run, device);
    if (s == run->exec->plan->n_steps)
        return device;
    const core_step *step = &run->exec->plan->steps[s];
    if (d->base + step->signal > d->promised)
        return device;
    for (uint32_t i = 0; i < step->n_waits; i++) {
        const core_wait *wait = &run->exec->plan->waits[step->first_wait + i];
        *value = run->queues[wait->device].base + wait->value;
        if (wait->device != device && !wait->by_host &&
            test(run, device, wait->device, *value))
            return wait->device;
    }
    return device;
}

static bool is_unmet(const clv_run *run, uint32_t device, uint32_t other,
                     uint64_t value)
{
    (void)device;
    return core_timeline_reached(run->queues[other].timeline) < value;
}

static uint32_t waits_for(const clv_run *run, uint32_t device, uint64_t *value)
{
    return find_wait(run, device, is_unmet, value);
}

/* What has reached the value may have failed since, and fails those who wait
 * all the same: unless it is the other one that waits for this one. */
static bool is_failed(const clv_run *run, uint32_t device, uint32_t other,
                      uint64_t value)
{
    uint64_t wanted;
    return core_timeline_failed(run->queues[other].timeline) &&
           (is_unmet(run, device, other, value) ||
            waits_for(run, other, &wanted) != device);
}

/* Whether another device of the plan waits for this one by itself. */
static bool awaited(const clv_plan *plan, uint32_t device)
{
    for (uint32_t s = 0; s < plan->n_steps; s++)
        for (uint32_t i = 0; i < plan->steps[s].n_waits; i++) {
            const core_wait *wait = &plan->waits[plan->steps[s].first_wait + i];
            if (wait->device == device && !wait->by_host &&
                plan->steps[s].device != device)
                return true;
        }
    return false;
}

clv_status core_exec_name_step(const clv_exec *exec, uint32_t step,
                               clv_status status)
{
    return clv_error_prefix(status, "step %u (%s)", step,
                            exec->steps[step].label);
}

clv_status core_exec_blame(clv_exec *exec, uint32_t device, uint32_t step,
                           clv_status status)
{
    char message[600];
    core_flight_lock(exec->plan->ctx);
    exec->blamed[device] |= status != CLV_ERR_CANCELLED;
    if (!exec->lost) {
        snprintf(message, sizeof message, "%s", clv_last_error());
        snprintf(exec->message, sizeof exec->message,
                 "step %u (%s): %s; device '%s' is left out from now on", step,
                 exec->steps[step].label, message,
                 exec->plan->devices[device].dev->id);
        exec->lost = status;
    }
    status = clv_error(exec->lost, "%s", exec->message);
    core_flight_unlock(exec->plan->ctx);
    return status;
}

static clv_status blame(clv_run *run, uint32_t device, clv_status status)
{
    uint32_t s = unfinished_step(run, device);
    return core_exec_blame(run->exec, device,
                           s < run->exec->plan->n_steps ? s : s - 1, status);
}

/* A timeline failed, perhaps only since the one that its step waits for did:
 * the first failure is the one to be named. */
static clv_status failed(clv_run *run, uint32_t device, clv_status status)
{
    uint64_t value;
    for (uint32_t i = 0; i < run->exec->plan->n_queues; i++) {
        const uint32_t other = find_wait(run, device, is_failed, &value);
        if (other == device)
            break;
        clv_status first =
            core_timeline_wait(run->queues[other].timeline, value, 0, 0);
        status = first ? first : status;
        device = other;
    }
    return blame(run, device, status);
}

/* Nothing has happened on the device for as long as a step may take. Whoever
 * waits for it is told so, which is the last that is asked of it. */
static clv_status give_up(clv_run *run, uint32_t device)
{
    const core_run_queue *d = &run->queues[device];
    clv_error(CLV_ERR_TIMEOUT,
              "device '%s': the step did not end within "
              "%g s (core.wait_timeout)",
              run->exec->plan->devices[device].dev->id,
              (double)run->exec->limit_ns * 1e-9);
    clv_status status = blame(run, device, CLV_ERR_TIMEOUT);
    if (awaited(run->exec->plan, device))
        core_timeline_fail(d->timeline, CLV_ERR_TIMEOUT,
                           "given up by the host");
    core_device_abandon(run->exec->plan->devices[device].dev);
    return clv_error(status, "%s", run->exec->message);
}

static void tell_slow(clv_run *run, uint32_t device)
{
    const uint32_t s = unfinished_step(run, device);
    if (run->exec->told_slow || s == run->exec->plan->n_steps)
        return;
    run->exec->told_slow = true;
    clv_log(run->exec->plan->ctx, CLV_LOG_WARN,
            "device '%s': step %u (%s) has not ended for %.0f s; "
            "core.wait_timeout says when it is given up",
            run->exec->plan->devices[device].dev->id, s,
            run->exec->steps[s].label, (double)CORE_CALL_BLOCKED_NS * 1e-9);
}

/* As core_timeline_wait(). Where nothing happens in the process meanwhile, not
 * even on its processors, a message says whom it waits for. */
static clv_status wait_and_tell(clv_run *run, uint32_t device, uint64_t value,
                                uint64_t spin_ns)
{
    core_timeline *tl = run->queues[device].timeline;
    const uint64_t half = CORE_CALL_BLOCKED_NS / 2, limit = run->exec->limit_ns;
    const uint64_t seen = core_timeline_reached(tl);
    if (limit <= 2 * half)
        return core_timeline_wait(tl, value, spin_ns, limit);
    clv_status status = core_timeline_wait(tl, value, spin_ns, half);
    if (status != CLV_ERR_TIMEOUT)
        return status;
    const uint64_t used = core_processor_ns();
    uint64_t wanted;
    status = core_timeline_wait(tl, value, 0, half);
    if (status != CLV_ERR_TIMEOUT)
        return status;
    if (core_timeline_reached(tl) == seen &&
        waits_for(run, device, &wanted) == device &&
        core_is_idle(core_processor_ns() - used, half))
        tell_slow(run, device);
    return core_timeline_wait(tl, value, 0,
                              limit == UINT64_MAX ? limit : limit - 2 * half);
}

clv_status core_run_wait_for(clv_run *run, uint32_t device, uint64_t value,
                             uint64_t spin_ns)
{
    const core_run_queue *d = &run->queues[device];
    for (;;) {
        uint64_t seen = core_timeline_reached(d->timeline), wanted;
        clv_status status = wait_and_tell(run, device, value, spin_ns);
        if (status == CLV_OK)
            return CLV_OK;
        if (status != CLV_ERR_TIMEOUT || core_timeline_failed(d->timeline))
            return failed(run, device, status);
        if (core_timeline_reached(d->timeline) != seen)
            continue;
        uint32_t other = waits_for(run, device, &wanted);
        if (other == device)
            return give_up(run, device);
        /* Steps wait for earlier ones only, so this comes to an end. */
        CLV_TRY(core_run_wait_for(run, other, wanted, 0));
    }
}

clv_status core_run_drain(clv_run *run, clv_status status)
{
    const uint32_t n = run->exec->plan->n_queues;
    char message[1024];
    snprintf(message, sizeof message, "%s", clv_last_error());
    for (uint32_t i = 0; i < n; i++) {
        const core_run_queue *d = &run->queues[i];
        if (!d->timeline || d->promised == d->base)
            continue;
        /* Work behind the one that failed may still run. */
        if (core_run_wait_for(run, i, d->promised, 0) != CLV_OK &&
            !core_device_abandoned(d->timeline->dev))
            core_device_settle(d->timeline->dev, run->exec->limit_ns);
    }
    core_exec_lose(run->exec);
    return clv_error(status, "%s", message);
}

void core_exec_lose(const clv_exec *exec)
{
    for (uint32_t i = 0; i < exec->plan->n_queues; i++)
        if (exec->blamed[i])
            core_device_lose(exec->plan->devices[i].dev);
}

bool core_run_free_timelines(clv_run *run)
{
    const clv_plan *plan = run->exec->plan;
    bool abandoned = false;
    for (uint32_t d = 0; d < plan->n_queues; d++)
        abandoned |= run->queues[d].timeline &&
                     core_device_abandoned(run->exec->plan->devices[d].dev);
    for (uint32_t d = 0; d < plan->n_queues; d++) {
        core_timeline *tl = run->queues[d].timeline;
        if (tl && abandoned && awaited(plan, d)) {
            /* An abandoned device may still be watching its flag word. */
            core_plugin_keep(tl->dev->plugin);
            core_unreleased_add(tl);
        } else {
            core_timeline_destroy(tl);
        }
    }
    return abandoned;
}
