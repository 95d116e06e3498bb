/*
 * Copies between a device's own memory and the host's, as the plan lists them:
 * commands before and after the program of a step. Where the device cannot
 * reach the host's memory, the host moves the bytes to and from a buffer that
 * both see: before the step is submitted, or once it is done, before anything
 * that waits for it is submitted.
 */
#include "copy.h"
#include "weights.h"
#include "../base/error.h"

#include <stdlib.h>
#include <string.h>

static const core_plan_device *planned_device(const clv_exec *exec, uint32_t s)
{
    return &exec->plan->devices[exec->plan->steps[s].device];
}

/* From memory that the host sees to where the weight is in the ring. */
static clv_status place_stream(clv_exec *exec, core_exec_copy *copy)
{
    const clv_plan *plan = exec->plan;
    const core_place *ring = core_plan_base(plan, copy->local);
    const core_load *load = plan->loads;
    const core_object *object;
    while (!load->streamed || load->weight != copy->shared ||
           load->device != ring->memory - 1)
        load++;
    CLV_TRY(core_exec_weight(plan, load, &object));
    copy->buffer = exec->devices[ring->memory - 1].arena;
    copy->offset = plan->places[copy->local].offset;
    copy->host_buffer = object->buffer;
    copy->host_offset = object->offset;
    return CLV_OK;
}

/* Where the sides of a copy lie that are in arenas. */
static clv_status place_copy(clv_exec *exec, uint32_t s, core_exec_copy *copy)
{
    const clv_plan *plan = exec->plan;
    const core_place *own = core_plan_base(plan, copy->local);
    const core_place *host = core_plan_base(plan, copy->shared);
    const core_exec_device *d = &exec->devices[plan->steps[s].device];
    const core_object *arena;
    if (own->home == CORE_HOME_ARENA) {
        copy->buffer = d->arena;
        copy->offset = own->offset;
    }
    if (host->home != CORE_HOME_ARENA)
        return CLV_OK;
    copy->host = (char *)exec->arena->memory->data + host->offset;
    if (copy->planned->staged)
        return CLV_OK;
    if (exec->arena_buffer && exec->arena_buffer->dev == d->dev) {
        copy->host_buffer = exec->arena_buffer;
        copy->host_offset = exec->arena_at + host->offset;
        return CLV_OK;
    }
    CLV_TRY(core_tensor_object(exec->arena, d->dev, plan->align,
                               CORE_HOLD_IMPORT, NULL, &arena));
    copy->host_buffer = arena->buffer;
    copy->host_offset = arena->offset + host->offset;
    return CLV_OK;
}

clv_status core_exec_prepare_copies(clv_exec *exec, uint32_t s)
{
    const clv_plan *plan = exec->plan;
    const core_step *planned = &plan->steps[s];
    core_exec_step *step = &exec->steps[s];
    uint32_t end = planned->first_part + planned->n_parts, at = 0;
    uint64_t n_commands = 1;
    while (at < plan->n_copies && plan->copies[at].part < planned->first_part)
        at++;
    step->copies = calloc(planned->n_parts, sizeof *step->copies);
    if (!step->copies)
        return core_no_memory("for an exec");
    for (; at < plan->n_copies && plan->copies[at].part < end; at++) {
        const core_copy *c = &plan->copies[at];
        core_exec_copy *copy = &step->copies[step->n_copies++];
        *copy = (core_exec_copy){.planned = c,
                                 .local = c->out ? c->from : c->to,
                                 .shared = c->out ? c->to : c->from};
        /* What a step copies before its program stands before its nodes. */
        uint32_t nodes_before =
            c->part - planned->first_part - (step->n_copies - 1);
        step->n_before += !nodes_before;
        n_commands += c->n_runs;
        CLV_TRY(c->streams ? place_stream(exec, copy)
                           : place_copy(exec, s, copy));
    }
    step->commands = calloc(n_commands, sizeof *step->commands);
    return step->commands ? CLV_OK : core_no_memory("for an exec");
}

/* ------------------------------------------------------------------------ */
/* Tensors                                                                   */

clv_status core_exec_set_copies(clv_exec *exec, uint32_t s, clv_value value,
                                clv_tensor *tensor, bool commit)
{
    core_exec_step *step = &exec->steps[s];
    const core_plan_device *device = planned_device(exec, s);
    for (uint32_t i = 0; i < step->n_copies; i++) {
        core_exec_copy *copy = &step->copies[i];
        const clv_plan *plan = exec->plan;
        const core_form dense = {0}; /* of what lies in several memories */
        const core_object *own = NULL, *import = NULL;
        if (core_plan_base(plan, copy->shared)->original != value)
            continue;
        if (core_plan_base(plan, copy->local)->home == CORE_HOME_BOUND)
            CLV_TRY(core_tensor_local(tensor, device->dev, &dense, &own));
        if (!copy->planned->staged)
            CLV_TRY(core_tensor_object(tensor, device->dev, 1, CORE_HOLD_IMPORT,
                                       NULL, &import));
        if (!commit)
            continue;
        if (own) {
            copy->buffer = own->buffer;
            copy->offset = own->offset;
        }
        copy->host = tensor->memory->data;
        copy->host_buffer = import ? import->buffer : NULL;
        copy->host_offset = import ? import->offset : 0;
    }
    return CLV_OK;
}

/* ------------------------------------------------------------------------ */
/* Runs                                                                      */

/* Between the host's bytes and the staging buffer's. */
static void move_staged(const core_exec_device *d, const core_exec_copy *copy,
                        const core_runs *runs)
{
    char *staged = d->staged + copy->planned->staging;
    char *host = copy->host + runs->offset;
    for (uint64_t i = 0; i < runs->n; i++) {
        char *there = host + i * runs->pitch, *here = staged + i * runs->bytes;
        memcpy(copy->planned->out ? there : here,
               copy->planned->out ? here : there, runs->bytes);
    }
}

static uint32_t put_copy(const clv_exec *exec, uint32_t s,
                         const core_exec_copy *copy, const core_runs *runs,
                         core_command *out)
{
    const core_exec_device *d = &exec->devices[exec->plan->steps[s].device];
    const bool staged = copy->planned->staged;
    core_buffer *host = staged ? d->staging : copy->host_buffer;
    for (uint64_t i = 0; i < runs->n; i++) {
        uint64_t own = copy->offset + runs->offset + i * runs->pitch;
        uint64_t there =
            staged ? copy->planned->staging + i * runs->bytes
                   : copy->host_offset + runs->offset + i * runs->pitch;
        bool is_out = copy->planned->out;
        out[i] = (core_command){.kind = CLV_COMMAND_COPY,
                                .src = is_out ? copy->buffer : host,
                                .src_offset = is_out ? own : there,
                                .dst = is_out ? host : copy->buffer,
                                .dst_offset = is_out ? there : own,
                                .size = runs->bytes};
    }
    return (uint32_t)runs->n;
}

clv_status core_exec_put_commands(clv_exec *exec, uint32_t s,
                                  const int64_t *symbols)
{
    core_exec_step *step = &exec->steps[s];
    core_exec_device *d = &exec->devices[exec->plan->steps[s].device];
    uint32_t n = 0;
    for (uint32_t i = 0; i <= step->n_copies; i++) {
        core_runs runs;
        if (i == step->n_before && step->program)
            step->commands[n++] = step->command;
        if (i == step->n_copies)
            break;
        core_exec_copy *copy = &step->copies[i];
        if (copy->planned->streams) {
            step->commands[n++] =
                (core_command){.kind = CLV_COMMAND_COPY,
                               .src = copy->host_buffer,
                               .src_offset = copy->host_offset,
                               .dst = copy->buffer,
                               .dst_offset = copy->offset,
                               .size = copy->planned->bytes};
            continue;
        }
        CLV_TRY(core_plan_copy_runs(exec->plan, copy->local, symbols, &runs));
        if (copy->planned->staged && !copy->planned->out) {
            move_staged(d, copy, &runs);
            CLV_TRY(core_buffer_flush(d->staging, copy->planned->staging,
                                      runs.bytes * runs.n));
        }
        n += put_copy(exec, s, copy, &runs, step->commands + n);
    }
    step->submit.commands = step->commands;
    step->submit.n_commands = n;
    return CLV_OK;
}

static clv_status fetch_step(clv_exec *exec, uint32_t s)
{
    const core_exec_step *step = &exec->steps[s];
    const core_exec_device *d = &exec->devices[exec->plan->steps[s].device];
    for (uint32_t i = 0; i < step->n_copies; i++) {
        const core_exec_copy *copy = &step->copies[i];
        core_runs runs;
        if (!copy->planned->out || !copy->planned->staged)
            continue;
        CLV_TRY(
            core_plan_copy_runs(exec->plan, copy->local, exec->symbols, &runs));
        CLV_TRY(core_buffer_invalidate(d->staging, copy->planned->staging,
                                       runs.bytes * runs.n));
        move_staged(d, copy, &runs);
    }
    return CLV_OK;
}

clv_status core_exec_fetch(clv_exec *exec, uint32_t device, uint64_t value)
{
    core_exec_device *d = &exec->devices[device];
    const clv_plan *plan = exec->plan;
    if (!d->staging)
        return CLV_OK;
    for (; d->fetched < plan->n_steps; d->fetched++) {
        const core_step *step = &plan->steps[d->fetched];
        if (step->device != device)
            continue;
        if (d->base + step->signal > value)
            break;
        CLV_TRY(fetch_step(exec, d->fetched));
    }
    return CLV_OK;
}
