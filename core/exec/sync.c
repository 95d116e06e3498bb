/*
 * Fast synchronisation (HeteroLLM, section 4.2): how long the host waits at a
 * point of a run differs little between layers and between runs. So it sleeps
 * for most of that time, then polls the flag word, which takes a microsecond,
 * and blocks only if the device is late. With core.sync = block it only blocks.
 *
 * A point is a wait of a step, or the last one on a device. Points between
 * steps of the same kinds share one expected time. It comes from the plan's
 * forecast first, then from the runs.
 */
#include "sync.h"
#include "../base/hash.h"
#include "wait.h"
#include "../base/clock.h"
#include "../base/error.h"
#include "../config/config.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A sleep may take this much longer than asked for, and that part of it. */
#define WAKE_EARLY_NS 120000u
#define WAKE_EARLY_PART 16
/* A sleep is interrupted to read the flag word each time this part of it has
 * passed, in case the device is much faster than expected. */
#define SLICE_PART 8
#define SLICE_MIN_NS 50000u
/* Polling goes on that long after the time at which the device was expected. */
#define LATE_NS 200000u
#define LATE_PART 8
/* How long to poll where the time is unknown. */
#define SPIN_NS 50000u
/* The same where polling takes a core from the devices. */
#define SPIN_SHARED_NS 2000u

/* ------------------------------------------------------------------------ */
/* Points                                                                    */

/* Steps of the same kind do the same to tensors of the same shapes. */
static uint64_t step_kind(const clv_plan *plan, uint32_t s)
{
    const core_step *step = &plan->steps[s];
    uint64_t hash =
        core_hash(CORE_HASH_SEED, &step->device, sizeof step->device);
    for (uint32_t i = 0; i < step->n_parts; i++) {
        const clv_node *node =
            &plan->graph->nodes[plan->parts[step->first_part + i].node];
        hash = core_hash(hash, &node->op, sizeof node->op);
        for (uint32_t j = 0; j < node->n_inputs + node->n_outputs; j++) {
            clv_value v = j < node->n_inputs
                              ? node->inputs[j]
                              : node->outputs[j - node->n_inputs];
            if (v != CLV_NO_TENSOR)
                hash = core_hash(hash, plan->graph->tensors[v].dims,
                                 sizeof plan->graph->tensors[v].dims);
        }
    }
    return hash;
}

static uint32_t step_of(const clv_plan *plan, uint32_t device, uint64_t signal)
{
    uint32_t s = 0;
    while (plan->steps[s].device != device || plan->steps[s].signal != signal)
        s++;
    return s;
}

/* When a step is expected to end, counted from `since`; NAN: unknown. */
static double expected(const clv_plan *plan, uint32_t step, double since)
{
    return plan->forecast ? fmax(plan->forecast->steps[step].end_ns - since, 0)
                          : NAN;
}

/* The pace of that kind, made with rest_ns if there is none yet. */
static uint32_t pace_of_kind(core_exec_sync *sync, uint64_t kind,
                             double rest_ns)
{
    uint32_t i = 0;
    while (i < sync->n_paces && sync->paces[i].kind != kind)
        i++;
    if (i == sync->n_paces)
        sync->paces[sync->n_paces++] = (core_exec_pace){
            kind, isnan(rest_ns) ? 0 : rest_ns, !isnan(rest_ns)};
    return i;
}

static void make_points(const clv_plan *plan, core_exec_sync *sync,
                        const uint64_t *kinds)
{
    const core_forecast *forecast = plan->forecast;
    for (uint32_t s = 0; s < plan->n_steps; s++) {
        double now = forecast ? forecast->host_waits[s].begin_ns : 0;
        for (uint32_t i = 0; i < plan->steps[s].n_waits; i++) {
            uint32_t w = plan->steps[s].first_wait + i;
            const core_wait *wait = &plan->waits[w];
            uint32_t on = step_of(plan, wait->device, wait->value);
            double rest = expected(plan, on, now);
            if (!wait->by_host)
                continue;
            sync->points[w] = pace_of_kind(
                sync, core_hash(kinds[s], &kinds[on], sizeof *kinds), rest);
            if (forecast)
                now = fmax(now, forecast->steps[on].end_ns);
        }
    }
    double now = forecast ? forecast->submits[plan->n_steps - 1].end_ns : 0;
    for (uint32_t d = 0; d < plan->n_queues; d++) {
        if (!plan->devices[d].n_steps)
            continue;
        uint32_t on = step_of(plan, d, plan->devices[d].n_steps);
        sync->points[plan->n_waits + d] = pace_of_kind(
            sync, core_hash(kinds[on], &d, sizeof d), expected(plan, on, now));
        if (forecast)
            now = fmax(now, forecast->steps[on].end_ns);
    }
}

clv_status core_exec_sync_begin(clv_exec *exec)
{
    const clv_plan *plan = exec->plan;
    core_exec_sync *sync = &exec->sync;
    size_t n = (size_t)plan->n_waits + plan->n_queues;
    sync->fast =
        core_config_choice(plan->ctx->config, "core.sync") == CORE_SYNC_FAST;
    sync->spare_core = core_plan_spare_core(plan);
    sync->points = calloc(n, sizeof *sync->points);
    sync->paces = calloc(n, sizeof *sync->paces);
    uint64_t *kinds = calloc(plan->n_steps, sizeof *kinds);
    clv_status status = sync->points && sync->paces && kinds
                            ? CLV_OK
                            : core_no_memory("for an exec");
    for (uint32_t s = 0; s < plan->n_steps && !status; s++)
        kinds[s] = step_kind(plan, s);
    if (!status)
        make_points(plan, sync, kinds);
    free(kinds);
    return status;
}

void core_exec_sync_finish(core_exec_sync *sync)
{
    free(sync->points);
    free(sync->paces);
}

/* ------------------------------------------------------------------------ */
/* Waiting                                                                   */

static bool is_virtual(const core_run_queue *d)
{
    return d->timeline->dev->info.clock == CLV_CLOCK_VIRTUAL;
}

static bool is_over(const core_run_queue *d, uint64_t value)
{
    return core_timeline_reached(d->timeline) >= value ||
           core_timeline_failed(d->timeline);
}

static void sleep_until(uint64_t ns)
{
    const struct timespec t = core_timespec(ns);
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
}

/* Sleeps until shortly before the device is expected. */
static void sleep_for(const core_run_queue *d, uint64_t value, uint64_t rest_ns)
{
    uint64_t early = WAKE_EARLY_NS + rest_ns / WAKE_EARLY_PART;
    uint64_t begin = clv_now_ns(), now = begin, end = begin + rest_ns;
    while (now + early < end && !is_over(d, value)) {
        uint64_t slice = (now - begin) / SLICE_PART;
        uint64_t left = end - early - now;
        slice = slice > SLICE_MIN_NS ? slice : SLICE_MIN_NS;
        sleep_until(now + (slice < left ? slice : left));
        now = clv_now_ns();
    }
}

/* How long to poll after the sleep. A simulated device only counts polling, so
 * it gets the whole time. */
static uint64_t spin_ns(const core_exec_sync *sync, const core_exec_pace *pace,
                        bool simulated)
{
    if (!sync->fast)
        return 0;
    if (!simulated && !sync->spare_core)
        return SPIN_SHARED_NS;
    if (!pace->known)
        return SPIN_NS;
    uint64_t rest = (uint64_t)pace->rest_ns;
    uint64_t early = WAKE_EARLY_NS + rest / WAKE_EARLY_PART;
    return (simulated || rest < early ? rest : early) + rest / LATE_PART +
           LATE_NS;
}

/* A shorter time counts more: too long a sleep costs time, too short a one only
 * keeps a core busy. A time beyond polling replaces what was expected. */
static void learn(core_exec_pace *pace, double ns)
{
    double change = ns - pace->rest_ns;
    if (!pace->known || change > pace->rest_ns / LATE_PART + LATE_NS)
        pace->rest_ns = ns;
    else
        pace->rest_ns += change < 0 ? change / 2 : change / 8;
    pace->known = true;
}

static double moment(const core_run_queue *d)
{
    clv_moment now;
    if (!is_virtual(d))
        return (double)clv_now_ns();
    return clv_device_now(d->timeline->dev, &now) ? NAN : now.ns;
}

clv_status core_run_await(clv_run *run, uint32_t device, uint64_t value,
                          uint32_t point)
{
    const core_run_queue *d = &run->queues[device];
    core_exec_sync *sync = &run->exec->sync;
    core_exec_pace *pace = &sync->paces[sync->points[point]];
    bool simulated = is_virtual(d);
    if (!sync->fast)
        return core_run_wait_for(run, device, value, 0);
    double begin = moment(d);
    if (!simulated && pace->known && sync->spare_core)
        sleep_for(d, value, (uint64_t)pace->rest_ns);
    clv_status status =
        core_run_wait_for(run, device, value, spin_ns(sync, pace, simulated));
    double took = moment(d) - begin;
    if (!status && took >= 0)
        learn(pace, took);
    return status;
}
