/*
 * What the steps of a run are bound to: places in its workspace, and the
 * memory of inputs, outputs and states.
 */
#include "run.h"
#include "copy.h"
#include "../base/error.h"
#include "../base/grow.h"

#include <stdlib.h>
#include <string.h>

static clv_status bind_workspace(clv_run *run, uint32_t s)
{
    const clv_plan *plan = run->exec->plan;
    const core_exec_step *made = &run->exec->steps[s];
    clv_device *dev = core_exec_device_of(run->exec, s);
    for (uint32_t i = 0; i < made->n_bindings; i++) {
        const core_place *place = &plan->places[made->values[i]];
        core_binding *binding = &run->steps[s].bindings[i];
        const core_object *arena;
        binding->tensor = made->tensors[i];
        binding->size = place->size;
        if (place->home != CORE_HOME_ARENA)
            continue;
        if (place->memory) {
            binding->buffer = run->queues[place->memory - 1].own->arena;
            binding->offset = place->offset;
        } else {
            CLV_TRY(core_tensor_object(
                core_workspace_shared(run->workspace, plan), dev, plan->align,
                CORE_HOLD_IMPORT, NULL, &arena));
            binding->buffer = arena->buffer;
            binding->offset = arena->offset + place->offset;
        }
    }
    return core_run_place_copies(run, s);
}

clv_status core_run_settle(clv_run *run)
{
    if (run->serial == run->workspace->serial)
        return CLV_OK;
    for (uint32_t s = 0; s < run->exec->plan->n_steps; s++)
        CLV_TRY(bind_workspace(run, s));
    run->serial = run->workspace->serial;
    return CLV_OK;
}

/* ------------------------------------------------------------------------ */

/* Notes what to flush and invalidate for the value on a device, replacing an
 * earlier note. */
static clv_status note_flush(clv_run *run, clv_value value,
                             const core_object *object)
{
    clv_device *dev = object->buffer->dev;
    uint32_t usage = run->exec->plan->graph->tensors[value].usage, i = 0;
    if (dev->mem_types[object->buffer->mem_type].flags & CLV_MEM_COHERENT)
        return CLV_OK;
    while (i < run->n_flushes && (run->flushes[i].value != value ||
                                  run->flushes[i].buffer->dev != dev))
        i++;
    if (!core_grow(&run->flushes, &run->flushes_capacity, i + 1ull,
                   sizeof *run->flushes))
        return core_no_memory("to compile a program");
    run->flushes[i] = (core_run_flush){.value = value,
                                       .buffer = object->buffer,
                                       .offset = object->offset,
                                       .size = object->size,
                                       .before = usage != CLV_USAGE_OUTPUT,
                                       .after = usage != CLV_USAGE_INPUT};
    run->n_flushes += i == run->n_flushes;
    return CLV_OK;
}

/* Whether a value is a tensor, or a mirror of it, or a view of either. A
 * device's programs see one memory of a tensor; the mirror of an input or an
 * output is in the arena. */
static bool belongs(const clv_plan *plan, clv_value value, clv_value tensor)
{
    const core_place *base = core_plan_base(plan, value);
    return base->original == tensor && base->home != CORE_HOME_ARENA;
}

/* Points the step's bindings of a tensor, and of its views, to an object. */
static void bind_step(clv_run *run, uint32_t s, clv_value value,
                      const core_object *object)
{
    const clv_plan *plan = run->exec->plan;
    const core_exec_step *made = &run->exec->steps[s];
    for (uint32_t i = 0; i < made->n_bindings; i++) {
        clv_value bound = made->values[i];
        if (!belongs(plan, bound, value))
            continue;
        run->steps[s].bindings[i].buffer = object->buffer;
        run->steps[s].bindings[i].offset =
            object->offset + core_view_offset(plan->graph, bound);
    }
}

static bool step_uses(const clv_exec *exec, uint32_t s, clv_value value)
{
    const core_exec_step *made = &exec->steps[s];
    for (uint32_t i = 0; i < made->n_bindings; i++)
        if (belongs(exec->plan, made->values[i], value))
            return true;
    return false;
}

static clv_status set_bindings(clv_run *run, uint32_t s, clv_value value,
                               clv_tensor *tensor, bool commit)
{
    const clv_plan *plan = run->exec->plan;
    const core_plan_device *device = &plan->devices[plan->steps[s].device];
    const core_form form = core_form_of(&plan->graph->tensors[value]);
    const core_object *object;
    if (!step_uses(run->exec, s, value))
        return CLV_OK;
    clv_status status =
        device->local || form.layout
            ? core_tensor_local(tensor, device->dev, &form, &object)
            : core_tensor_object(tensor, device->dev, plan->pointer_align,
                                 CORE_HOLD_IMPORT, NULL, &object);
    if (!status && !commit && !device->local)
        status = note_flush(run, value, object);
    if (!status && commit)
        bind_step(run, s, value, object);
    return status;
}

clv_status core_run_set_tensor(clv_run *run, clv_value value,
                               clv_tensor *tensor)
{
    /* Twice, so that a failure changes no binding. */
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t s = 0; s < run->exec->plan->n_steps; s++) {
            CLV_TRY(set_bindings(run, s, value, tensor, pass));
            CLV_TRY(core_run_set_copies(run, s, value, tensor, pass));
        }
    return CLV_OK;
}
