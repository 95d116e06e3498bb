#include "life.h"
#include "file_reader.h"
#include "order.h"
#include "states.h"
#include "submit.h"
#include "trace.h"
#include "../base/error.h"
#include "../base/grow.h"

#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------------ */
/* Before it begins                                                          */

static clv_status hold(clv_run *run, clv_run *on, bool until_end)
{
    if (!core_grow(&run->holds, &run->holds_capacity, run->n_holds + 1ull,
                   sizeof *run->holds))
        return core_no_memory("for a run");
    run->holds[run->n_holds++] = (core_hold){on, until_end};
    return CLV_OK;
}

/* The first run of an exec is alone among its runs: what a plugin does in a
 * first use is told apart from what it does later. */
static clv_status look_at(clv_run *run, clv_run *older)
{
    const clv_exec *exec = run->exec;
    const bool related = core_order_related(exec, older->exec);
    const bool until_end = older->workspace == run->workspace ||
                           (older->exec == exec && !exec->proven);
    if (related || until_end)
        CLV_TRY(hold(run, older, until_end));
    return related ? core_order_after(run, older) : CLV_OK;
}

clv_status core_run_look_back(clv_run *run, clv_run *first)
{
    run->n_holds = run->n_needs = 0;
    for (clv_run *older = first; older != run; older = older->next)
        CLV_TRY(look_at(run, older));
    core_order_finish(run);
    return CLV_OK;
}

/* Memory of states that is not coherent passes from run to run. */
static bool flushes_states(const clv_run *run)
{
    for (uint32_t i = 0; i < run->n_flushes; i++)
        if (run->exec->states[run->flushes[i].value])
            return true;
    return false;
}

bool core_run_can_begin(clv_run *run)
{
    bool related = false;
    for (uint32_t i = 0; i < run->n_holds; i++) {
        const core_hold *h = &run->holds[i];
        if (h->on && (h->until_end || h->on->state == CORE_RUN_HELD))
            return false;
        related |= h->on != NULL;
    }
    return !related ||
           (!flushes_states(run) && core_exec_states_there(run->exec));
}

/* ------------------------------------------------------------------------ */
/* What it takes                                                             */

static void forget(core_exec_run *latest)
{
    free(latest->part_ns);
    free(latest->steps);
    free(latest->waits);
    free(latest->copies);
    *latest = (core_exec_run){.symbols = latest->symbols};
}

void core_exec_forget_latest(clv_exec *exec)
{
    forget(&exec->latest);
    free(exec->latest.symbols);
}

/* Without memory the run is not observed. */
static void note_begin(clv_run *run)
{
    clv_exec *exec = run->exec;
    core_exec_run *latest = &exec->latest;
    const uint32_t n = exec->plan->graph->n_symbols;
    forget(latest);
    if (!latest->symbols)
        latest->symbols = calloc(n + 1u, sizeof *latest->symbols);
    run->noted = latest->symbols && !run->overlapped;
    if (!run->noted)
        return;
    memcpy(latest->symbols, run->symbols, n * sizeof *run->symbols);
    if (exec->observe) {
        const clv_plan *plan = exec->plan;
        latest->steps = calloc(plan->n_steps, sizeof *latest->steps);
        latest->waits = calloc((size_t)plan->n_waits + plan->n_queues,
                               sizeof *latest->waits);
        if (latest->steps && latest->waits)
            latest->part_ns =
                calloc(plan->n_parts + 1u, sizeof *latest->part_ns);
    }
    exec->observe = false;
}

/* What was seen of a run beside others tells nothing: the next one is to be
 * observed instead. */
static void note_end(clv_run *run)
{
    clv_exec *exec = run->exec;
    if (!run->noted)
        return;
    exec->latest.ns = core_run_moment(run) - run->begin;
    exec->latest.number = run->number;
    if (!run->overlapped)
        return;
    exec->observe = exec->latest.part_ns != NULL;
    forget(&exec->latest);
}

/* ------------------------------------------------------------------------ */
/* Begin and end                                                             */

static clv_status flush_memory(const clv_run *run, bool before)
{
    for (uint32_t i = 0; i < run->n_flushes; i++) {
        const core_run_flush *flush = &run->flushes[i];
        if (before && flush->before)
            CLV_TRY(
                core_buffer_flush(flush->buffer, flush->offset, flush->size));
        else if (!before && flush->after)
            CLV_TRY(core_buffer_invalidate(flush->buffer, flush->offset,
                                           flush->size));
    }
    return CLV_OK;
}

static void note_others(clv_run *run, clv_run *first)
{
    run->overlapped = run->mixed = false;
    for (clv_run *other = first; other; other = other->next) {
        if (other == run || other->state != CORE_RUN_GOING)
            continue;
        run->overlapped = other->overlapped = true;
        if (core_order_related(run->exec, other->exec))
            run->mixed = other->mixed = true;
    }
}

/* Until the run has ended well nobody knows what lies in arenas. No other run
 * begins in the workspace before it has ended: look_at(). */
static void begin_in_arenas(clv_run *run)
{
    for (uint32_t d = 0; d < run->exec->plan->n_devices; d++) {
        core_run_queue *queue = &run->queues[d];
        queue->keeps = queue->own->holder == run->exec->serial;
        if (run->exec->plan->devices[d].memory.size)
            queue->own->holder = 0;
    }
}

static void end_in_arenas(clv_run *run)
{
    for (uint32_t d = 0; d < run->exec->plan->n_devices; d++)
        if (run->exec->plan->devices[d].memory.size)
            run->queues[d].own->holder = run->exec->serial;
}

clv_status core_run_begin(clv_run *run, clv_run *first)
{
    clv_exec *exec = run->exec;
    note_others(run, first);
    CLV_TRY(core_run_settle(run));
    begin_in_arenas(run);
    CLV_TRY(core_exec_bring_states(exec));
    CLV_TRY(flush_memory(run, true));
    run->number = ++exec->run;
    note_begin(run);
    if (!exec->proven)
        exec->use = core_use_begin(exec->plan->ctx);
    core_file_reader_begin(exec->reader, run);
    run->begin = core_run_moment(run);
    return CLV_OK;
}

clv_status core_run_complete(clv_run *run)
{
    clv_exec *exec = run->exec;
    exec->proven = true;
    note_end(run);
    end_in_arenas(run);
    /* Where others wrote the same states, only their writers are known to have
     * all of the newest contents, as was noted when they began. */
    if (!run->mixed)
        CLV_TRY(core_exec_leave_states(exec));
    if (core_run_is_recorded(run))
        core_run_collect_records(run);
    return flush_memory(run, false);
}
