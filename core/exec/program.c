/*
 * From a step of the plan to a compiled program with bound memory: takes the
 * step's nodes out of the graph, with the tensors they use and no others.
 */
#include "program.h"
#include "weights.h"
#include "copy.h"
#include "guard.h"
#include "wait.h"
#include "../base/error.h"
#include "../base/grow.h"
#include "../base/unreleased.h"
#include "../device/loss.h"
#include "../device/memory.h"
#include "../device/program_cache.h"
#include "../device/subgraph.h"

#include <stdlib.h>
#include <string.h>

typedef struct extract {
    const clv_plan *plan;
    uint32_t step;
    clv_tensor_desc *tensors;
    clv_value *values; /* graph value of each tensor */
    clv_node *nodes;
    uint32_t *index; /* [graph->n_tensors] 1 + tensor, 0: not yet taken */
    uint32_t n_tensors, n_nodes;
} extract;

static uint32_t take_tensor(extract *e, clv_value value)
{
    if (value == CLV_NO_TENSOR)
        return CLV_NO_TENSOR;
    if (!e->index[value]) {
        uint32_t at = e->n_tensors++;
        e->index[value] = 1 + at;
        e->tensors[at] = e->plan->graph->tensors[value];
        e->tensors[at].usage = core_plan_usage(e->plan, e->step, value);
        e->values[at] = value;
        if (e->tensors[at].quant_scales)
            e->tensors[at].quant_scales =
                1 + take_tensor(e, e->tensors[at].quant_scales - 1);
    }
    return e->index[value] - 1;
}

static void take_nodes(extract *e)
{
    const core_step *step = &e->plan->steps[e->step];
    for (uint32_t i = 0; i < step->n_parts; i++) {
        if (core_part_copies(e->plan, step->first_part + i))
            continue;
        clv_node *node = &e->nodes[e->n_nodes++];
        *node =
            e->plan->graph->nodes[e->plan->parts[step->first_part + i].node];
        for (uint32_t j = 0; j < node->n_inputs; j++)
            node->inputs[j] = take_tensor(e, node->inputs[j]);
        for (uint32_t j = 0; j < node->n_outputs; j++)
            node->outputs[j] = take_tensor(e, node->outputs[j]);
    }
}

static clv_status extract_step(const clv_plan *plan, uint32_t step, extract *e)
{
    size_t n_nodes = plan->steps[step].n_parts;
    size_t n_tensors = plan->graph->n_tensors;
    *e = (extract){.plan = plan,
                   .step = step,
                   .tensors = calloc(n_tensors, sizeof *e->tensors),
                   .values = calloc(n_tensors, sizeof *e->values),
                   .nodes = calloc(n_nodes, sizeof *e->nodes),
                   .index = calloc(n_tensors, sizeof *e->index)};
    if (!e->tensors || !e->values || !e->nodes || !e->index)
        return core_no_memory("to compile a program");
    take_nodes(e);
    return CLV_OK;
}

static void extract_finish(extract *e)
{
    free(e->tensors);
    free(e->values);
    free(e->nodes);
    free(e->index);
}

/* ------------------------------------------------------------------------ */

/* The copy is of the view alone, or of the whole tensor. */
static clv_status weight_binding(const clv_plan *plan, const core_load *load,
                                 core_binding *binding)
{
    bool whole = load->holding != CORE_HOLD_COPY || load->whole;
    const core_object *object;
    CLV_TRY(core_exec_weight(plan, load, &object));
    binding->buffer = object->buffer;
    binding->offset = object->offset +
                      (whole ? core_view_offset(plan->graph, load->weight) : 0);
    binding->size = load->bytes;
    return CLV_OK;
}

/* loads[weight * n_devices + device]: its index in plan->loads. */
static clv_status bind_weights(const clv_exec *exec, const extract *e,
                               const uint32_t *loads, core_binding *bindings,
                               uint32_t *n)
{
    const clv_plan *plan = exec->plan;
    uint32_t device = plan->steps[e->step].device;
    *n = 0;
    for (uint32_t i = 0; i < e->n_tensors; i++) {
        clv_value value = e->values[i];
        if (e->tensors[i].usage != CLV_USAGE_WEIGHT)
            continue;
        core_binding *binding = &bindings[(*n)++];
        binding->tensor = i;
        CLV_TRY(weight_binding(
            plan, &plan->loads[loads[(size_t)value * plan->n_devices + device]],
            binding));
    }
    return CLV_OK;
}

/* The device took these nodes, and now does not compile them. What is lacking
 * may be had once the caller has ended other programs, or be the host's. */
static clv_status refused(clv_exec *exec, uint32_t step, clv_status status)
{
    const uint32_t device = exec->plan->steps[step].device;
    const bool full = status == CLV_ERR_NO_MEMORY || status == CLV_ERR_LIMIT;
    if (full)
        exec->short_device = exec->devices[device].dev;
    if (full || status == CLV_ERR_INVALID || status == CLV_ERR_CANCELLED)
        return core_exec_name_step(exec, step, status);
    return core_exec_blame(exec, device, step, status);
}

/* All that the call reads, since it may outlast the exec. */
typedef struct compile_job {
    clv_device *dev;
    core_compile request;
    clv_subgraph graph;
    clv_symbol_range symbols[CLV_MAX_SYMBOLS];
    core_program *program;
    core_binding weights[];
} compile_job;

static clv_status call_compile(void *arg)
{
    compile_job *job = arg;
    return core_program_get(job->dev, &job->request, &job->program);
}

/* Whether a second copy of all weights might not fit beside the first. */
static bool is_scarce(const clv_plan *plan, const clv_device *dev)
{
    uint32_t type;
    return dev->info.flags & CLV_DEVICE_REPACKS &&
           core_device_has_local(dev, &type) &&
           2 * core_graph_weight_bytes(plan->source) > dev->info.memory_size;
}

static clv_status compile(clv_exec *exec, extract *e, const uint32_t *loads,
                          core_program **out)
{
    const clv_plan *plan = exec->plan;
    compile_job *job =
        calloc(1, sizeof *job + e->n_tensors * sizeof *job->weights);
    if (!job)
        return core_no_memory("to compile a program");
    job->dev = plan->devices[plan->steps[e->step].device].dev;
    job->graph = core_graph_view(plan->graph);
    for (uint32_t i = 0; i < job->graph.n_symbols; i++)
        job->symbols[i] = job->graph.symbols[i];
    job->graph.symbols = job->symbols;
    job->graph.tensors = e->tensors;
    job->graph.n_tensors = e->n_tensors;
    job->graph.nodes = e->nodes;
    job->graph.n_nodes = e->n_nodes;
    job->request =
        (core_compile){.graph = &job->graph, .weights = job->weights};
    if (is_scarce(plan, job->dev))
        job->request.flags = CLV_COMPILE_SCARCE;
    clv_status status =
        bind_weights(exec, e, loads, job->weights, &job->request.n_weights);
    if (status) {
        core_exec_name_step(exec, e->step, status);
    } else {
        status = core_exec_guard(exec, e->step, "program_compile",
                                 job->dev->plugin, call_compile, job);
        if (status)
            status = refused(exec, e->step, status);
    }
    if (core_device_abandoned(job->dev)) {
        /* With the arrays of the graph. */
        e->tensors = NULL;
        e->nodes = NULL;
        core_unreleased_add(job);
        return status;
    }
    *out = job->program;
    free(job);
    return status;
}

/* Bindings in the order of the tensors; their memory is set below and by
 * core_exec_set_tensor(). */
static clv_status bind_arena(clv_exec *exec, const extract *e,
                             core_exec_step *step)
{
    const clv_plan *plan = exec->plan;
    clv_device *dev = plan->devices[plan->steps[e->step].device].dev;
    uint32_t n = 0;
    for (uint32_t i = 0; i < e->n_tensors; i++) {
        const core_place *place = &plan->places[e->values[i]];
        const core_object *arena;
        if (e->tensors[i].usage == CLV_USAGE_WEIGHT)
            continue;
        step->values[n] = e->values[i];
        step->bindings[n] = (core_binding){.tensor = i, .size = place->size};
        if (place->home == CORE_HOME_ARENA && place->memory) {
            step->bindings[n].buffer = exec->devices[place->memory - 1].arena;
            step->bindings[n].offset = place->offset;
        } else if (place->home == CORE_HOME_ARENA) {
            CLV_TRY(core_tensor_object(exec->arena, dev, plan->align,
                                       CORE_HOLD_IMPORT, NULL, &arena));
            step->bindings[n].buffer = arena->buffer;
            step->bindings[n].offset = arena->offset + place->offset;
        }
        n++;
    }
    step->command.n_bindings = n;
    return CLV_OK;
}

/* The submit, but for what changes from run to run: timeline values, symbols
 * and the correlation. */
static void prepare_submit(clv_exec *exec, uint32_t index)
{
    const core_step *planned = &exec->plan->steps[index];
    core_exec_step *step = &exec->steps[index];
    step->command.kind = CLV_COMMAND_RUN;
    step->command.program = step->program;
    step->command.bindings = step->bindings;
    step->signal.timeline = exec->devices[planned->device].timeline;
    step->submit = (core_submit){.commands = &step->command,
                                 .n_commands = 1,
                                 .waits = step->waits,
                                 .signals = &step->signal,
                                 .n_signals = 1};
    for (uint32_t i = 0; i < planned->n_waits; i++) {
        const core_wait *wait = &exec->plan->waits[planned->first_wait + i];
        if (!wait->by_host)
            step->waits[step->submit.n_waits++].timeline =
                exec->devices[wait->device].timeline;
    }
}

clv_status core_exec_prepare_step(clv_exec *exec, uint32_t index,
                                  const uint32_t *loads)
{
    core_exec_step *step = &exec->steps[index];
    extract e;
    clv_status status = extract_step(exec->plan, index, &e);
    if (status)
        goto done;
    step->bindings = calloc(e.n_tensors + 1u, sizeof *step->bindings);
    step->values = calloc(e.n_tensors + 1u, sizeof *step->values);
    step->waits = calloc((size_t)exec->plan->steps[index].n_waits + 1,
                         sizeof *step->waits);
    if (!step->bindings || !step->values || !step->waits) {
        status = core_no_memory("to compile a program");
        goto done;
    }
    if (e.n_nodes)
        status = compile(exec, &e, loads, &step->program);
    if (!status)
        status = core_exec_prepare_copies(exec, index);
    if (!status)
        status = bind_arena(exec, &e, step);
    if (!status)
        prepare_submit(exec, index);
done:
    extract_finish(&e);
    return status;
}

/* ------------------------------------------------------------------------ */

/* Notes what to flush and invalidate for the value on a device, replacing an
 * earlier note. */
static clv_status note_flush(clv_exec *exec, clv_value value,
                             const core_object *object)
{
    clv_device *dev = object->buffer->dev;
    uint32_t usage = exec->plan->graph->tensors[value].usage, i = 0;
    if (dev->mem_types[object->buffer->mem_type].flags & CLV_MEM_COHERENT)
        return CLV_OK;
    while (i < exec->n_flushes && (exec->flushes[i].value != value ||
                                   exec->flushes[i].buffer->dev != dev))
        i++;
    if (!core_grow(&exec->flushes, &exec->flushes_capacity, i + 1ull,
                   sizeof *exec->flushes))
        return core_no_memory("to compile a program");
    exec->flushes[i] = (core_exec_flush){.value = value,
                                         .buffer = object->buffer,
                                         .offset = object->offset,
                                         .size = object->size,
                                         .before = usage != CLV_USAGE_OUTPUT,
                                         .after = usage != CLV_USAGE_INPUT};
    exec->n_flushes += i == exec->n_flushes;
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
static void bind_step(const clv_plan *plan, core_exec_step *step,
                      clv_value value, const core_object *object)
{
    for (uint32_t i = 0; i < step->command.n_bindings; i++) {
        clv_value bound = step->values[i];
        if (!belongs(plan, bound, value))
            continue;
        step->bindings[i].buffer = object->buffer;
        step->bindings[i].offset =
            object->offset + core_view_offset(plan->graph, bound);
    }
}

static bool step_uses(const clv_plan *plan, const core_exec_step *step,
                      clv_value value)
{
    for (uint32_t i = 0; i < step->command.n_bindings; i++)
        if (belongs(plan, step->values[i], value))
            return true;
    return false;
}

static clv_status set_bindings(clv_exec *exec, uint32_t s, clv_value value,
                               clv_tensor *tensor, bool commit)
{
    const clv_plan *plan = exec->plan;
    const core_plan_device *device = &plan->devices[plan->steps[s].device];
    const core_form form = core_form_of(&plan->graph->tensors[value]);
    const core_object *object;
    if (!step_uses(plan, &exec->steps[s], value))
        return CLV_OK;
    clv_status status =
        device->local || form.layout
            ? core_tensor_local(tensor, device->dev, &form, &object)
            : core_tensor_object(tensor, device->dev, plan->pointer_align,
                                 CORE_HOLD_IMPORT, NULL, &object);
    if (!status && !commit && !device->local)
        status = note_flush(exec, value, object);
    if (!status && commit)
        bind_step(plan, &exec->steps[s], value, object);
    return status;
}

clv_status core_exec_set_tensor(clv_exec *exec, clv_value value,
                                clv_tensor *tensor)
{
    /* Twice, so that a failure changes no binding. */
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t s = 0; s < exec->plan->n_steps; s++) {
            CLV_TRY(set_bindings(exec, s, value, tensor, pass));
            CLV_TRY(core_exec_set_copies(exec, s, value, tensor, pass));
        }
    return CLV_OK;
}
