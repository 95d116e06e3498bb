#include "await.h"
#include "submit.h"
#include "sync.h"
#include "trace.h"
#include "wait.h"
#include "../base/error.h"
#include "../base/clock.h"
#include "../context/trace.h"
#include "../device/loss.h"

#include <sched.h>

/* Runs beyond these are looked at when one of them has gone on. */
#define MAX_BLOCKS 16
/* Of several things to wait for, one is blocked for so long at a time. */
#define SLICE_NS 100000u
/* Before that, all are polled for so long. */
#define SPIN_NS 50000u
/* Simulated hosts look at all of them each time that this part of the time so
 * far has passed, but not more often than that. */
#define VIRTUAL_PART 64
#define VIRTUAL_SLICE_NS 1000u

typedef struct blocks {
    core_block list[MAX_BLOCKS];
    uint32_t n;
    uint32_t n_runs; /* that wait */
} blocks;

static bool is_mine(const clv_run *run)
{
    return pthread_equal(run->owner, pthread_self());
}

/* What this thread's runs wait for, the oldest first, each once. */
static blocks collect(const core_flight *flight)
{
    blocks out = {.n = 0};
    for (clv_run *run = flight->first; run && out.n < MAX_BLOCKS;
         run = run->next) {
        if (run->state != CORE_RUN_GOING || !is_mine(run))
            continue;
        const core_block block = core_flight_block(run);
        uint32_t i = 0;
        out.n_runs++;
        while (i < out.n && (out.list[i].run != block.run ||
                             out.list[i].device != block.device))
            i++;
        if (block.run && i == out.n)
            out.list[out.n++] = block;
        else if (block.run && block.value < out.list[i].value)
            out.list[i] = block;
    }
    return out;
}

static core_timeline *timeline_of(const core_block *b)
{
    return b->run->queues[b->device].timeline;
}

static bool any_over(const blocks *all)
{
    for (uint32_t i = 0; i < all->n; i++)
        if (core_timeline_done(timeline_of(&all->list[i]), all->list[i].value,
                               0) ||
            core_timeline_failed(timeline_of(&all->list[i])))
            return true;
    return false;
}

/* As the plan says. */
static clv_status await_one(const core_block *b)
{
    clv_exec *exec = b->run->exec;
    const bool traced = clv_trace_enabled(exec->plan->ctx);
    const uint64_t begin = traced ? clv_now_ns() : 0;
    core_span *span =
        b->run->noted && exec->latest.part_ns && b->point != CORE_NO_POINT
            ? &exec->latest.waits[b->point]
            : NULL;
    if (span)
        span->begin_ns = core_run_moment(b->run);
    const clv_status status =
        b->point == CORE_NO_POINT
            ? core_run_wait_for(b->run, b->device, b->value, SPIN_NS)
            : core_run_await(b->run, b->device, b->value, b->point);
    if (span)
        span->end_ns = core_run_moment(b->run);
    if (traced)
        core_trace_add(exec->plan->ctx, CLV_CLOCK_REAL, core_trace_host_track(),
                       "wait", begin, clv_now_ns());
    return status;
}

/* Simulated time passes in slices, for the oldest. */
static void pass_virtual(const blocks *all, uint64_t limit_ns)
{
    const core_block *b = &all->list[0];
    uint64_t waited = 0;
    while (waited < limit_ns && !any_over(all)) {
        uint64_t slice = waited / VIRTUAL_PART;
        slice = slice > VIRTUAL_SLICE_NS ? slice : VIRTUAL_SLICE_NS;
        core_timeline_done(timeline_of(b), b->value, slice);
        waited += slice;
    }
}

static void pass_real(const blocks *all, uint64_t limit_ns)
{
    const uint64_t begin = clv_now_ns();
    uint64_t now = begin;
    for (uint32_t turn = 0; now - begin < limit_ns && !any_over(all); turn++) {
        const core_block *b = &all->list[turn % all->n];
        if (now - begin < SPIN_NS)
            sched_yield();
        else
            core_timeline_wait(timeline_of(b), b->value, 0, SLICE_NS);
        now = clv_now_ns();
    }
}

/* Until one of them is over; where nothing is for as long as a step may take,
 * the oldest is waited for alone. */
static void pass(const blocks *all)
{
    const clv_exec *exec = all->list[0].run->exec;
    if (timeline_of(&all->list[0])->dev->info.clock == CLV_CLOCK_VIRTUAL)
        pass_virtual(all, exec->limit_ns);
    else
        pass_real(all, exec->limit_ns);
}

void core_flight_await(core_flight *flight)
{
    const blocks all = collect(flight);
    const core_block *oldest = &all.list[0];
    for (uint32_t i = 0; i < all.n; i++)
        all.list[i].run->watchers++;
    const bool mine = all.n && is_mine(oldest->run);
    pthread_mutex_unlock(&flight->mutex);
    clv_status status = CLV_ERR_TIMEOUT;
    const bool passes = all.n_runs > 1 || !mine;
    if (!all.n)
        sched_yield(); /* another thread ends what they wait for */
    else if (passes)
        pass(&all);
    const bool alone = mine && !(passes && any_over(&all));
    if (alone)
        status = await_one(oldest);
    pthread_mutex_lock(&flight->mutex);
    for (uint32_t i = 0; i < all.n; i++)
        all.list[i].run->watchers--;
    pthread_cond_broadcast(&flight->unwatched);
    if (alone && !status)
        oldest->run->queues[oldest->device].awaited = oldest->value;
    else if (alone)
        core_run_trouble(oldest->run, status, clv_last_error());
}
