#include "exec.h"
#include "file_reader.h"
#include "flight.h"
#include "life.h"
#include "order.h"
#include "program.h"
#include "states.h"
#include "sync.h"
#include "wait.h"
#include "weights.h"
#include "../base/error.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------------ */
/* Creation                                                                  */

static clv_status make_steps(clv_exec *exec)
{
    const clv_plan *plan = exec->plan;
    uint32_t *loads =
        calloc((size_t)plan->graph->n_tensors * plan->n_devices, sizeof *loads);
    if (!loads)
        return core_no_memory("for an exec");
    for (uint32_t i = 0; i < plan->n_loads; i++)
        if (!plan->loads[i].streamed)
            loads[(size_t)plan->loads[i].weight * plan->n_devices +
                  plan->loads[i].device] = i;
    clv_status status = CLV_OK;
    for (uint32_t s = 0; s < plan->n_steps && !status; s++) {
        core_plan_node_text(plan, plan->parts[plan->steps[s].first_part].node,
                            exec->steps[s].label, sizeof exec->steps[s].label);
        status = core_exec_prepare_step(exec, s, loads);
    }
    free(loads);
    return status;
}

static void count_unbound(clv_exec *exec)
{
    const clv_plan *plan = exec->plan;
    for (uint32_t v = 0; v < plan->graph->n_tensors; v++)
        if (plan->graph->values[v].base == v &&
            plan->graph->tensors[v].usage == CLV_USAGE_STATE &&
            plan->places[v].original == v)
            exec->n_unbound += core_exec_has_state(plan, v);
}

/* What lacks memory shows before weights are copied. */
static clv_status fill(clv_exec *exec)
{
    const clv_plan *plan = exec->plan;
    if (!exec->steps || !exec->states || !exec->blamed || !exec->weights ||
        !core_flight_of(plan->ctx))
        return core_no_memory("for an exec");
    if (exec->owns_workspace)
        CLV_TRY(clv_workspace_create(plan->ctx, &exec->workspace));
    CLV_TRY(core_exec_use_weights(exec));
    CLV_TRY(core_workspace_fit(exec->workspace, plan));
    CLV_TRY(core_exec_sync_begin(exec));
    CLV_TRY(core_exec_load_weights(exec));
    CLV_TRY(make_steps(exec));
    CLV_TRY(core_order_begin(exec));
    CLV_TRY(core_file_reader_create(exec, &exec->reader));
    core_exec_tell_file(exec);
    count_unbound(exec);
    return clv_run_create(exec, NULL, &exec->own);
}

/* So many were made. */
static atomic_uint_fast64_t n_execs;

clv_status clv_exec_create(clv_plan *plan, clv_exec **out)
{
    return clv_exec_create_in(plan, NULL, out);
}

clv_status clv_exec_create_in(clv_plan *plan, clv_workspace *workspace,
                              clv_exec **out)
{
    *out = NULL;
    if (!plan)
        return clv_error(CLV_ERR_INVALID, "exec: the plan is NULL");
    clv_exec *exec = calloc(1, sizeof *exec);
    if (!exec)
        return core_no_memory("for an exec");
    exec->plan = plan;
    exec->serial = atomic_fetch_add(&n_execs, 1) + 1;
    exec->workspace = workspace;
    exec->owns_workspace = !workspace;
    exec->limit_ns = core_context_wait_ns(plan->ctx);
    exec->steps = calloc(plan->n_steps, sizeof *exec->steps);
    exec->states = calloc(plan->graph->n_tensors, sizeof *exec->states);
    exec->weights = calloc(plan->n_loads + 1u, sizeof *exec->weights);
    exec->blamed = calloc(plan->n_queues, sizeof *exec->blamed);
    exec->use = core_use_begin(plan->ctx);
    clv_status status = fill(exec);
    core_use_end(exec->use);
    exec->use = NULL;
    if (status) {
        if (exec->blamed)
            core_exec_lose(exec);
        plan->short_device = exec->short_device;
        clv_exec_destroy(exec);
        return status;
    }
    *out = exec;
    return CLV_OK;
}

/* Programs after the runs, of which none is with a device then. */
void clv_exec_destroy(clv_exec *exec)
{
    if (!exec)
        return;
    while (exec->runs)
        clv_run_destroy(exec->runs);
    core_file_reader_destroy(exec->reader);
    for (uint32_t s = 0; exec->steps && s < exec->plan->n_steps; s++) {
        core_program_destroy(exec->steps[s].program);
        free(exec->steps[s].values);
        free(exec->steps[s].tensors);
    }
    if (exec->owns_workspace)
        clv_workspace_destroy(exec->workspace);
    core_exec_leave_weights(exec);
    free(exec->steps);
    free(exec->states);
    free(exec->weights);
    free(exec->accesses);
    free(exec->blamed);
    core_exec_forget_latest(exec);
    core_exec_sync_finish(&exec->sync);
    free(exec);
}

/* ------------------------------------------------------------------------ */
/* Memory                                                                    */

static bool fits(const clv_tensor *tensor, const clv_tensor_desc *desc)
{
    return tensor->dtype == desc->dtype && tensor->rank == desc->rank &&
           !memcmp(tensor->dims, desc->dims, desc->rank * sizeof *desc->dims);
}

static clv_status check_state(const clv_exec *exec, clv_value state,
                              const clv_tensor *tensor)
{
    const clv_plan *plan = exec->plan;
    const clv_tensor_desc *desc = clv_graph_value_desc(plan->source, state);
    if (!desc || desc->usage != CLV_USAGE_STATE)
        return clv_error(CLV_ERR_INVALID, "bind: value %u is no state", state);
    const char *name = plan->graph->values[state].name;
    if (!tensor || !fits(tensor, desc)) {
        char text[CLV_SHAPE_TEXT];
        return clv_error(CLV_ERR_INVALID,
                         "bind: state '%s' needs a tensor of %s", name,
                         clv_shape_text(desc, text));
    }
    if (!(tensor->memory->access & CLV_ACCESS_WRITE))
        return clv_error(CLV_ERR_INVALID,
                         "bind: state '%s' cannot be read-only memory", name);
    for (uint32_t d = 0; d < plan->n_devices; d++) {
        uint32_t holding;
        clv_status status = CLV_OK;
        if (plan->devices[d].n_steps && !plan->devices[d].local)
            status = core_tensor_holding(tensor, plan->devices[d].dev,
                                         plan->pointer_align, false, &holding);
        if (status)
            return clv_error_prefix(status, "bind: state '%s'", name);
    }
    return CLV_OK;
}

clv_status clv_exec_bind(clv_exec *exec, clv_value state, clv_tensor *tensor)
{
    CLV_TRY(check_state(exec, state, tensor));
    for (clv_run *run = exec->runs; run; run = run->sibling)
        CLV_TRY(core_run_set_tensor(run, state, tensor));
    if (!exec->states[state] && core_exec_has_state(exec->plan, state))
        exec->n_unbound--;
    exec->states[state] = tensor;
    exec->settled_moves = exec->start_moves = 0;
    return CLV_OK;
}

clv_run *clv_exec_own_run(clv_exec *exec)
{
    return exec->own;
}

clv_tensor *clv_exec_tensor(clv_exec *exec, clv_value value)
{
    return clv_run_tensor(exec->own, value);
}

clv_status clv_exec_run(clv_exec *exec, const int64_t *symbols,
                        uint32_t n_symbols)
{
    CLV_TRY(clv_run_submit(exec->own, symbols, n_symbols));
    return clv_run_wait(exec->own);
}
