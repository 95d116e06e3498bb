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
    bool whole = load->whole || load->holding == CORE_HOLD_IMPORT;
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
        exec->short_device = exec->plan->devices[device].dev;
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

/* Second copies of weights: the room for them is divided among the device's
 * steps, by the bytes of the weights that each binds and might copy. */
static void limit_copies(const clv_plan *plan, uint32_t step,
                         core_compile *compile)
{
    const uint32_t device = plan->steps[step].device;
    uint64_t weights, bound = 0;
    uint32_t type;
    if (!(plan->devices[device].dev->info.flags & CLV_DEVICE_REPACKS) ||
        !core_device_has_local(plan->devices[device].dev, &type))
        return;
    const uint64_t room = core_plan_room_for_copies(plan, device, &weights);
    if (room == UINT64_MAX)
        return;
    for (uint32_t i = 0; i < compile->n_weights; i++)
        if (!compile->graph->tensors[compile->weights[i].tensor].layout)
            bound += compile->weights[i].size;
    compile->flags |= CLV_COMPILE_SCARCE;
    compile->repack_size =
        bound < weights
            ? (uint64_t)((double)room * (double)bound / (double)weights)
            : room;
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
    clv_status status =
        bind_weights(exec, e, loads, job->weights, &job->request.n_weights);
    if (status) {
        core_exec_name_step(exec, e->step, status);
    } else {
        limit_copies(plan, e->step, &job->request);
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

/* The tensors that runs bind, in the order of the program's. */
static clv_status note_bindings(const extract *e, core_exec_step *step)
{
    step->values = calloc(e->n_tensors + 1u, sizeof *step->values);
    step->tensors = calloc(e->n_tensors + 1u, sizeof *step->tensors);
    if (!step->values || !step->tensors)
        return core_no_memory("to compile a program");
    for (uint32_t i = 0; i < e->n_tensors && step->program; i++) {
        if (!step->program->binds[i])
            continue;
        step->values[step->n_bindings] = e->values[i];
        step->tensors[step->n_bindings++] = i;
    }
    return CLV_OK;
}

clv_status core_exec_prepare_step(clv_exec *exec, uint32_t index,
                                  const uint32_t *loads)
{
    core_exec_step *step = &exec->steps[index];
    extract e;
    clv_status status = extract_step(exec->plan, index, &e);
    if (!status && e.n_nodes)
        status = compile(exec, &e, loads, &step->program);
    if (!status)
        status = note_bindings(&e, step);
    core_exec_count_copies(exec, index);
    extract_finish(&e);
    return status;
}
