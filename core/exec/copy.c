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

static const core_plan_device *planned_device(const clv_run *run, uint32_t s)
{
    return &run->exec->plan->devices[run->exec->plan->steps[s].device];
}

/* From memory that the host sees to where the weight is in the ring. */
static clv_status place_stream(clv_run *run, core_run_copy *copy)
{
    const clv_plan *plan = run->exec->plan;
    const core_place *ring = core_plan_base(plan, copy->local);
    const core_load *load = plan->loads;
    const core_object *object;
    while (!load->streamed || load->weight != copy->shared ||
           load->device != ring->memory - 1)
        load++;
    CLV_TRY(core_exec_weight(plan, load, &object));
    copy->buffer = run->queues[ring->memory - 1].own->arena;
    copy->offset = plan->places[copy->local].offset;
    copy->host_buffer = object->buffer;
    copy->host_offset = object->offset;
    return CLV_OK;
}

/* Where the sides of a copy lie that are in arenas. */
static clv_status place_copy(clv_run *run, uint32_t s, core_run_copy *copy)
{
    const clv_plan *plan = run->exec->plan;
    const core_place *own = core_plan_base(plan, copy->local);
    const core_place *host = core_plan_base(plan, copy->shared);
    const core_object *arena;
    if (own->home == CORE_HOME_ARENA) {
        copy->buffer = run->queues[own->memory - 1].own->arena;
        copy->offset = own->offset;
    }
    if (host->home != CORE_HOME_ARENA)
        return CLV_OK;
    clv_tensor *shared = core_workspace_shared(run->workspace, plan);
    copy->host = (char *)shared->memory->data + host->offset;
    if (copy->planned->staged)
        return CLV_OK;
    CLV_TRY(core_tensor_object(shared, planned_device(run, s)->dev, plan->align,
                               CORE_HOLD_IMPORT, NULL, &arena));
    copy->host_buffer = arena->buffer;
    copy->host_offset = arena->offset + host->offset;
    return CLV_OK;
}

/* The first of the step's copies in plan->copies. */
static uint32_t first_copy(const clv_plan *plan, uint32_t s)
{
    uint32_t at = 0;
    while (at < plan->n_copies &&
           plan->copies[at].part < plan->steps[s].first_part)
        at++;
    return at;
}

void core_exec_count_copies(clv_exec *exec, uint32_t s)
{
    const clv_plan *plan = exec->plan;
    const core_step *planned = &plan->steps[s];
    core_exec_step *step = &exec->steps[s];
    const uint32_t end = planned->first_part + planned->n_parts;
    for (uint32_t at = first_copy(plan, s);
         at < plan->n_copies && plan->copies[at].part < end; at++) {
        /* What a step copies before its program stands before its nodes. */
        step->n_before +=
            plan->copies[at].part - planned->first_part == step->n_copies;
        step->n_copies++;
    }
}

clv_status core_run_make_copies(clv_run *run, uint32_t s)
{
    const clv_plan *plan = run->exec->plan;
    const core_copy *first = plan->copies + first_copy(plan, s);
    const uint32_t n = run->exec->steps[s].n_copies;
    core_run_step *step = &run->steps[s];
    uint64_t n_commands = 1;
    step->copies = calloc(n + 1u, sizeof *step->copies);
    if (!step->copies)
        return core_no_memory("for a run");
    for (uint32_t i = 0; i < n; i++) {
        const core_copy *c = &first[i];
        step->copies[i] = (core_run_copy){.planned = c,
                                          .local = c->out ? c->from : c->to,
                                          .shared = c->out ? c->to : c->from};
        n_commands += c->n_runs;
    }
    step->commands = calloc(n_commands, sizeof *step->commands);
    return step->commands ? CLV_OK : core_no_memory("for a run");
}

clv_status core_run_place_copies(clv_run *run, uint32_t s)
{
    for (uint32_t i = 0; i < run->exec->steps[s].n_copies; i++) {
        core_run_copy *copy = &run->steps[s].copies[i];
        CLV_TRY(copy->planned->streams ? place_stream(run, copy)
                                       : place_copy(run, s, copy));
    }
    return CLV_OK;
}

/* ------------------------------------------------------------------------ */
/* Tensors                                                                   */

clv_status core_run_set_copies(clv_run *run, uint32_t s, clv_value value,
                               clv_tensor *tensor, bool commit)
{
    const core_plan_device *device = planned_device(run, s);
    for (uint32_t i = 0; i < run->exec->steps[s].n_copies; i++) {
        core_run_copy *copy = &run->steps[s].copies[i];
        const clv_plan *plan = run->exec->plan;
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

/* Where its copies pass through; NULL: the device reaches the host's memory. */
static const core_part_memory *staging_of(const clv_run *run, uint32_t device)
{
    return run->exec->plan->devices[device].staging_size
               ? run->queues[device].own
               : NULL;
}

/* Between the host's bytes and the staging buffer's. */
static void move_staged(const core_part_memory *d, const core_run_copy *copy,
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

/* All ranges by one command, where the device takes rows. */
static uint32_t put_copy(const clv_run *run, uint32_t s,
                         const core_run_copy *copy, const core_runs *runs,
                         core_command *out)
{
    const clv_device *dev = planned_device(run, s)->dev;
    const core_part_memory *d =
        staging_of(run, run->exec->plan->steps[s].device);
    const bool staged = copy->planned->staged, is_out = copy->planned->out;
    core_buffer *host = staged ? d->staging : copy->host_buffer;
    const uint64_t pitch = staged ? runs->bytes : runs->pitch;
    const uint64_t own = copy->offset + runs->offset;
    const uint64_t there =
        staged ? copy->planned->staging : copy->host_offset + runs->offset;
    const bool rows = dev->info.flags & CLV_DEVICE_COPIES_ROWS;
    const uint64_t n = rows && runs->n ? 1 : runs->n;
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t own_at = own + i * runs->pitch;
        const uint64_t there_at = there + i * pitch;
        out[i] = (core_command){.kind = CLV_COMMAND_COPY,
                                .src = is_out ? copy->buffer : host,
                                .src_offset = is_out ? own_at : there_at,
                                .dst = is_out ? host : copy->buffer,
                                .dst_offset = is_out ? there_at : own_at,
                                .size = runs->bytes,
                                .n_rows = rows ? runs->n : 1,
                                .src_pitch = is_out ? runs->pitch : pitch,
                                .dst_pitch = is_out ? pitch : runs->pitch};
    }
    return (uint32_t)n;
}

/* Whether what is copied to is there from the run before. */
static bool keeps(const clv_run *run, const core_run_copy *copy)
{
    return run->queues[core_plan_base(run->exec->plan, copy->local)->memory - 1]
        .keeps;
}

clv_status core_run_put_commands(clv_run *run, uint32_t s,
                                 const int64_t *symbols)
{
    const clv_plan *plan = run->exec->plan;
    const core_exec_step *made = &run->exec->steps[s];
    core_run_step *step = &run->steps[s];
    const core_part_memory *d = staging_of(run, plan->steps[s].device);
    uint32_t n = 0;
    for (uint32_t i = 0; i <= made->n_copies; i++) {
        core_runs runs;
        if (i == made->n_before && made->program)
            step->commands[n++] = step->command;
        if (i == made->n_copies)
            break;
        core_run_copy *copy = &step->copies[i];
        if (copy->planned->kept && keeps(run, copy))
            continue;
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
        CLV_TRY(core_plan_copy_runs(plan, copy->local, symbols, &runs));
        if (copy->planned->staged && !copy->planned->out) {
            move_staged(d, copy, &runs);
            CLV_TRY(core_buffer_flush(d->staging, copy->planned->staging,
                                      runs.bytes * runs.n));
        }
        n += put_copy(run, s, copy, &runs, step->commands + n);
    }
    step->submit.commands = step->commands;
    step->submit.n_commands = n;
    return CLV_OK;
}

static clv_status fetch_step(clv_run *run, uint32_t s)
{
    const clv_plan *plan = run->exec->plan;
    const core_part_memory *d = staging_of(run, plan->steps[s].device);
    for (uint32_t i = 0; i < run->exec->steps[s].n_copies; i++) {
        const core_run_copy *copy = &run->steps[s].copies[i];
        core_runs runs;
        if (!copy->planned->out || !copy->planned->staged)
            continue;
        CLV_TRY(core_plan_copy_runs(plan, copy->local, run->symbols, &runs));
        CLV_TRY(core_buffer_invalidate(d->staging, copy->planned->staging,
                                       runs.bytes * runs.n));
        move_staged(d, copy, &runs);
    }
    return CLV_OK;
}

clv_status core_run_fetch(clv_run *run, uint32_t device, uint64_t value)
{
    core_run_queue *d = &run->queues[device];
    const clv_plan *plan = run->exec->plan;
    if (!staging_of(run, device))
        return CLV_OK;
    for (; d->fetched < plan->n_steps; d->fetched++) {
        const core_step *step = &plan->steps[d->fetched];
        if (step->device != device)
            continue;
        if (d->base + step->signal > value)
            break;
        CLV_TRY(fetch_step(run, d->fetched));
    }
    return CLV_OK;
}
