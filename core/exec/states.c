/*
 * Where the newest contents of states are, which other execs may have written.
 */
#include "states.h"

bool core_exec_has_state(const clv_plan *plan, clv_value state)
{
    for (uint32_t v = 0; v < plan->graph->n_tensors; v++)
        if (plan->places[v].home == CORE_HOME_BOUND &&
            plan->places[v].original == state &&
            plan->graph->values[v].base == v)
            return true;
    return false;
}

/* The state's object in a memory of the plan; NULL: the host's. */
static clv_status object_in(const clv_exec *exec, clv_value state,
                            uint32_t memory, const core_object **out)
{
    const clv_plan *plan = exec->plan;
    const core_form form = core_form_of(&plan->graph->tensors[state]);
    *out = NULL;
    return memory ? core_tensor_local(exec->states[state],
                                      plan->devices[memory - 1].dev, &form, out)
                  : CLV_OK;
}

/* Memories of the plan as bits of the tensor. */
static clv_status bits_of(const clv_exec *exec, clv_value state,
                          uint64_t memories, uint64_t *out)
{
    *out = 0;
    for (uint32_t m = 0; m <= exec->plan->n_devices; m++) {
        const core_object *object;
        if (!(memories >> m & 1))
            continue;
        CLV_TRY(object_in(exec, state, m, &object));
        *out |= (uint64_t)1 << (object ? object->memory : 0);
    }
    return CLV_OK;
}

static clv_status state_failed(const clv_exec *exec, clv_value state,
                               clv_status status)
{
    return status ? clv_error_prefix(status, "state '%s'",
                                     exec->plan->graph->values[state].name)
                  : CLV_OK;
}

static clv_status bring_all_to_host(clv_tensor *tensor)
{
    const core_bounds all = core_bounds_whole(tensor->rank, tensor->dims);
    CLV_TRY(core_tensor_bring(tensor, NULL, &all));
    return core_tensor_wrote(tensor, &all, 1);
}

/* All devices use the host's memory, so the states must be there. */
static clv_status bring_to_host(clv_exec *exec)
{
    const clv_plan *plan = exec->plan;
    for (uint32_t v = 0; v < plan->graph->n_tensors; v++) {
        clv_tensor *tensor = exec->states[v];
        if (plan->places[v].home == CORE_HOME_BOUND && tensor &&
            tensor->n_local)
            CLV_TRY(state_failed(exec, v, bring_all_to_host(tensor)));
    }
    return CLV_OK;
}

static clv_status note_end(clv_exec *exec, const core_state_end *end,
                           uint64_t memories)
{
    uint64_t bits;
    CLV_TRY(bits_of(exec, end->state, memories, &bits));
    return core_tensor_wrote(exec->states[end->state], &end->box, bits);
}

static clv_status note_written(clv_exec *exec, bool done)
{
    const clv_plan *plan = exec->plan;
    for (uint32_t i = 0; i < plan->n_state_ends; i++) {
        const core_state_end *end = &plan->state_ends[i];
        const uint64_t memories =
            done ? end->memories : (uint64_t)1 << end->writer;
        CLV_TRY(state_failed(exec, end->state, note_end(exec, end, memories)));
    }
    return CLV_OK;
}

static clv_status bring(clv_exec *exec, const core_state_use *use)
{
    const core_object *object;
    CLV_TRY(object_in(exec, use->state, use->memory, &object));
    return core_tensor_bring(exec->states[use->state], object, &use->box);
}

static bool is_there(const clv_exec *exec, const core_state_use *use)
{
    const core_object *object;
    return !object_in(exec, use->state, use->memory, &object) &&
           core_tensor_is_there(exec->states[use->state], object, &use->box);
}

bool core_exec_states_there(const clv_exec *exec)
{
    const clv_plan *plan = exec->plan;
    for (uint32_t i = 0; i < plan->n_state_uses; i++)
        if (!is_there(exec, &plan->state_uses[i]))
            return false;
    for (uint32_t v = 0; v < plan->graph->n_tensors && !plan->n_state_uses;
         v++) {
        clv_tensor *tensor = exec->states[v];
        if (plan->places[v].home != CORE_HOME_BOUND || !tensor)
            continue;
        const core_bounds all = core_bounds_whole(tensor->rank, tensor->dims);
        if (!core_tensor_is_there(tensor, NULL, &all))
            return false;
    }
    return true;
}

static clv_status bring_all(clv_exec *exec)
{
    const clv_plan *plan = exec->plan;
    if (!plan->n_state_uses)
        return bring_to_host(exec);
    for (uint32_t i = 0; i < plan->n_state_uses; i++) {
        const core_state_use *use = &plan->state_uses[i];
        CLV_TRY(state_failed(exec, use->state, bring(exec, use)));
    }
    return note_written(exec, false);
}

static uint64_t count_moves(const clv_exec *exec)
{
    return 1 + atomic_load(&exec->plan->ctx->state_moves);
}

clv_status core_exec_bring_states(clv_exec *exec)
{
    const uint64_t moves = count_moves(exec);
    if (exec->settled_moves == moves)
        return CLV_OK;
    CLV_TRY(bring_all(exec));
    exec->settled_moves = 0;
    exec->start_moves = count_moves(exec) == moves ? moves : 0;
    return CLV_OK;
}

clv_status core_exec_leave_states(clv_exec *exec)
{
    const uint64_t moves = count_moves(exec);
    if (exec->settled_moves == moves)
        return CLV_OK;
    CLV_TRY(note_written(exec, true));
    exec->settled_moves =
        exec->start_moves == moves && count_moves(exec) == moves ? moves : 0;
    return CLV_OK;
}
