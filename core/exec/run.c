#include "run.h"
#include "copy.h"
#include "flight.h"
#include "wait.h"
#include "../base/error.h"
#include "../base/unreleased.h"

#include <stdlib.h>

/* ------------------------------------------------------------------------ */
/* Creation                                                                  */

static clv_status make_queues(clv_run *run)
{
    const clv_plan *plan = run->exec->plan;
    for (uint32_t d = 0; d < plan->n_queues; d++) {
        const core_plan_device *device = &plan->devices[d];
        if (d < plan->n_devices)
            run->queues[d].own =
                core_workspace_part(run->workspace, device->dev);
        if (device->n_steps)
            CLV_TRY(
                core_timeline_create(device->dev, 0, &run->queues[d].timeline));
    }
    return core_flight_join(run);
}

/* What of a submit is the same each time. */
static void prepare_submit(clv_run *run, uint32_t index)
{
    const clv_plan *plan = run->exec->plan;
    const core_step *planned = &plan->steps[index];
    core_run_step *step = &run->steps[index];
    step->command =
        (core_command){.kind = CLV_COMMAND_RUN,
                       .program = run->exec->steps[index].program,
                       .bindings = step->bindings,
                       .n_bindings = run->exec->steps[index].n_bindings};
    step->signal.timeline = run->queues[planned->device].timeline;
    step->submit = (core_submit){.commands = &step->command,
                                 .n_commands = 1,
                                 .waits = step->waits,
                                 .signals = &step->signal,
                                 .n_signals = 1,
                                 .queue = plan->devices[planned->device].queue};
    for (uint32_t i = 0; i < planned->n_waits; i++) {
        const core_wait *wait = &plan->waits[planned->first_wait + i];
        if (!wait->by_host)
            step->waits[step->submit.n_waits++].timeline =
                run->queues[wait->device].timeline;
    }
}

static clv_status make_step(clv_run *run, uint32_t s)
{
    core_run_step *step = &run->steps[s];
    step->bindings =
        calloc(run->exec->steps[s].n_bindings + 1u, sizeof *step->bindings);
    step->waits = calloc((size_t)run->exec->plan->steps[s].n_waits + 1,
                         sizeof *step->waits);
    if (!step->bindings || !step->waits)
        return core_no_memory("for a run");
    CLV_TRY(core_run_make_copies(run, s));
    prepare_submit(run, s);
    return CLV_OK;
}

/* Inputs and outputs are its own, states the exec's. */
static clv_status make_tensors(clv_run *run)
{
    const clv_plan *plan = run->exec->plan;
    clv_status status = CLV_OK;
    for (uint32_t v = 0; v < plan->graph->n_tensors && !status; v++) {
        const clv_tensor_desc *desc = &plan->graph->tensors[v];
        if (plan->graph->values[v].base != v)
            continue;
        if (desc->usage == CLV_USAGE_INPUT || desc->usage == CLV_USAGE_OUTPUT)
            status = core_tensor_create_shared(plan, desc->dtype, desc->rank,
                                               desc->dims, &run->tensors[v]);
        clv_tensor *tensor = core_run_tensor(run, v);
        if (!status && tensor)
            status = core_run_set_tensor(run, v, tensor);
        if (status)
            clv_error_prefix(status, "'%s'", plan->graph->values[v].name);
    }
    return status;
}

static clv_status fill(clv_run *run)
{
    const clv_plan *plan = run->exec->plan;
    if (!run->queues || !run->steps || !run->tensors || !run->symbols)
        return core_no_memory("for a run");
    CLV_TRY(core_workspace_fit(run->workspace, plan));
    CLV_TRY(make_queues(run));
    for (uint32_t s = 0; s < plan->n_steps; s++)
        CLV_TRY(make_step(run, s));
    CLV_TRY(core_run_settle(run));
    return make_tensors(run);
}

static bool is_busy(const clv_workspace *workspace)
{
    const core_flight *flight = core_flight_of(workspace->ctx);
    bool busy = false;
    core_flight_lock(workspace->ctx);
    for (const clv_run *run = flight->first; run; run = run->next)
        busy |= run->workspace == workspace;
    core_flight_unlock(workspace->ctx);
    return busy;
}

clv_status clv_run_create(clv_exec *exec, clv_workspace *workspace,
                          clv_run **out)
{
    *out = NULL;
    if (!exec)
        return clv_error(CLV_ERR_INVALID, "run: the exec is NULL");
    const clv_plan *plan = exec->plan;
    workspace = workspace ? workspace : exec->workspace;
    if (workspace->ctx != plan->ctx)
        return clv_error(CLV_ERR_INVALID,
                         "run: the workspace is another context's");
    if (is_busy(workspace))
        return clv_error(CLV_ERR_INVALID,
                         "run: others are in flight in the workspace; wait for "
                         "them first");
    clv_run *run = calloc(1, sizeof *run);
    if (!run)
        return core_no_memory("for a run");
    run->exec = exec;
    run->workspace = workspace;
    run->queues = calloc(plan->n_queues, sizeof *run->queues);
    run->steps = calloc(plan->n_steps, sizeof *run->steps);
    run->tensors = calloc(plan->graph->n_tensors, sizeof *run->tensors);
    run->symbols = calloc(CLV_MAX_SYMBOLS, sizeof *run->symbols);
    run->sibling = exec->runs;
    exec->runs = run;
    const clv_status status = fill(run);
    if (status) {
        clv_run_destroy(run);
        return status;
    }
    *out = run;
    return CLV_OK;
}

/* ------------------------------------------------------------------------ */

static void free_steps(clv_run *run)
{
    for (uint32_t s = 0; run->steps && s < run->exec->plan->n_steps; s++) {
        free(run->steps[s].commands);
        free(run->steps[s].copies);
        free(run->steps[s].bindings);
        free(run->steps[s].waits);
    }
    free(run->steps);
}

void clv_run_destroy(clv_run *run)
{
    if (!run)
        return;
    const clv_plan *plan = run->exec->plan;
    clv_run **link = &run->exec->runs;
    if (clv_run_in_flight(run)) {
        clv_run_cancel(run);
        clv_run_wait(run);
    }
    core_flight_leave(run);
    while (*link != run)
        link = &(*link)->sibling;
    *link = run->sibling;
    free_steps(run);
    if (run->queues && core_run_free_timelines(run))
        core_unreleased_add(run->symbols);
    else
        free(run->symbols);
    for (uint32_t v = 0; run->tensors && v < plan->graph->n_tensors; v++)
        clv_tensor_destroy(run->tensors[v]);
    free(run->tensors);
    free(run->queues);
    free(run->flushes);
    free(run->holds);
    free(run->needs);
    free(run);
}

clv_tensor *clv_run_tensor(clv_run *run, clv_value value)
{
    const clv_tensor_desc *desc =
        clv_graph_value_desc(run->exec->plan->source, value);
    return desc ? run->tensors[value] : NULL;
}
