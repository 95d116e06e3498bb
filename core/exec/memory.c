/*
 * Memory of an exec: arenas, staging buffers, and where the newest contents of
 * states are, which other execs may have written.
 */

#include "memory.h"
#include <string.h>

/* What any device can import. */
#define ARENA_ALIGN 4096u

/* The host's arena in memory that a device sees, too. */
static clv_status make_seen(clv_exec *exec, clv_device *dev, int64_t bytes)
{
    uint32_t type = 0;
    void *mapped = NULL;
    const uint64_t size =
        ((uint64_t)bytes + ARENA_ALIGN - 1) & ~(uint64_t)(ARENA_ALIGN - 1);
    core_device_staging_type(dev, &type);
    CLV_TRY(
        core_buffer_alloc(dev, type, size + ARENA_ALIGN, &exec->arena_buffer));
    CLV_TRY(core_buffer_map(exec->arena_buffer,
                            CLV_ACCESS_READ | CLV_ACCESS_WRITE, &mapped));
    exec->arena_at = -(uintptr_t)mapped & (ARENA_ALIGN - 1);
    return clv_tensor_wrap(exec->plan->ctx, CLV_DTYPE_I8, 1, &bytes,
                           (char *)mapped + exec->arena_at, size,
                           CLV_ACCESS_READ | CLV_ACCESS_WRITE, NULL, NULL,
                           &exec->arena);
}

static clv_status make_shared(clv_exec *exec)
{
    const clv_plan *plan = exec->plan;
    int64_t bytes = (int64_t)plan->memory.size;
    if (!bytes)
        return CLV_OK;
    clv_status status =
        plan->arena_device
            ? make_seen(exec, plan->devices[plan->arena_device - 1].dev, bytes)
            : clv_tensor_create(plan->ctx, CLV_DTYPE_I8, 1, &bytes,
                                &exec->arena);
    return status ? clv_error_prefix(status, "intermediate values") : CLV_OK;
}

static clv_status make_staging(const core_plan_device *planned,
                               core_exec_device *d)
{
    uint32_t type = 0;
    void *mapped = NULL;
    core_device_staging_type(planned->dev, &type);
    clv_status status = core_buffer_alloc(planned->dev, type,
                                          planned->staging_size, &d->staging);
    if (!status)
        status = core_buffer_map(d->staging, CLV_ACCESS_READ | CLV_ACCESS_WRITE,
                                 &mapped);
    d->staged = mapped;
    return status ? clv_error_prefix(status,
                                     "device '%s': %llu bytes that copies "
                                     "pass through; use a smaller batch",
                                     planned->dev->id,
                                     (unsigned long long)planned->staging_size)
                  : CLV_OK;
}

clv_status core_exec_make_memory(clv_exec *exec)
{
    CLV_TRY(make_shared(exec));
    for (uint32_t i = 0; i < exec->plan->n_devices; i++) {
        const core_plan_device *planned = &exec->plan->devices[i];
        if (planned->memory.size)
            CLV_TRY(core_device_alloc_local(planned->dev, planned->memory.size,
                                            "intermediate values",
                                            &exec->devices[i].arena));
        if (planned->staging_size)
            CLV_TRY(make_staging(planned, &exec->devices[i]));
    }
    return CLV_OK;
}

void core_exec_free_memory(clv_exec *exec)
{
    for (uint32_t d = 0; exec->devices && d < exec->plan->n_devices; d++) {
        if (exec->devices[d].staged)
            core_buffer_unmap(exec->devices[d].staging);
        core_buffer_free(exec->devices[d].staging);
        core_buffer_free(exec->devices[d].arena);
    }
    clv_tensor_destroy(exec->arena);
    if (exec->arena && exec->arena_buffer)
        core_buffer_unmap(exec->arena_buffer);
    core_buffer_free(exec->arena_buffer);
}

/* ------------------------------------------------------------------------ */
/* States                                                                    */

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
    return memory ? core_tensor_local(exec->tensors[state],
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
        clv_tensor *tensor = exec->tensors[v];
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
    return core_tensor_wrote(exec->tensors[end->state], &end->box, bits);
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
    return core_tensor_bring(exec->tensors[use->state], object, &use->box);
}

clv_status core_exec_bring_states(clv_exec *exec)
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

clv_status core_exec_leave_states(clv_exec *exec)
{
    return note_written(exec, true);
}
