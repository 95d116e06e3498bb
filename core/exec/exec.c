#include "exec.h"
#include "trace.h"
#include "sync.h"
#include "guard.h"
#include "wait.h"
#include "memory.h"
#include "weights.h"
#include "copy.h"
#include "program.h"
#include "../base/error.h"
#include "../base/unreleased.h"
#include "../context/trace.h"
#include "../device/loss.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Other users of a device may fill its queue: how long to wait for room. */
#define QUEUE_PAUSE_NS 50000u

/* ------------------------------------------------------------------------ */
/* Creation                                                                  */

static clv_status make_timelines(clv_exec *exec)
{
    for (uint32_t d = 0; d < exec->plan->n_devices; d++) {
        const core_plan_device *device = &exec->plan->devices[d];
        exec->devices[d].dev = device->dev;
        if (!device->n_steps)
            continue;
        CLV_TRY(
            core_timeline_create(device->dev, 0, &exec->devices[d].timeline));
    }
    return CLV_OK;
}

static clv_status make_steps(clv_exec *exec)
{
    const clv_plan *plan = exec->plan;
    uint32_t *loads =
        calloc((size_t)plan->graph->n_tensors * plan->n_devices, sizeof *loads);
    if (!loads)
        return core_no_memory("for an exec");
    for (uint32_t i = 0; i < plan->n_loads; i++)
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

/* Inputs and outputs; states wait for clv_exec_bind(). */
static clv_status make_tensors(clv_exec *exec)
{
    const clv_plan *plan = exec->plan;
    clv_status status = CLV_OK;
    for (uint32_t v = 0; v < plan->graph->n_tensors && !status; v++) {
        const clv_tensor_desc *desc = &plan->graph->tensors[v];
        if (plan->graph->values[v].base != v)
            continue;
        if (desc->usage == CLV_USAGE_STATE && plan->places[v].original == v)
            exec->n_unbound += core_exec_has_state(plan, v);
        if (desc->usage != CLV_USAGE_INPUT && desc->usage != CLV_USAGE_OUTPUT)
            continue;
        status = clv_tensor_create(plan->ctx, desc->dtype, desc->rank,
                                   desc->dims, &exec->tensors[v]);
        if (!status)
            status = core_exec_set_tensor(exec, v, exec->tensors[v]);
        if (status)
            clv_error_prefix(status, "'%s'", plan->graph->values[v].name);
    }
    return status;
}

static clv_status fill(clv_exec *exec)
{
    if (!exec->devices || !exec->steps || !exec->tensors || !exec->symbols)
        return core_no_memory("for an exec");
    CLV_TRY(core_exec_make_memory(exec));
    CLV_TRY(make_timelines(exec));
    CLV_TRY(core_exec_sync_begin(exec));
    CLV_TRY(core_exec_load_weights(exec));
    CLV_TRY(make_steps(exec));
    return make_tensors(exec);
}

clv_status clv_exec_create(clv_plan *plan, clv_exec **out)
{
    *out = NULL;
    if (!plan)
        return clv_error(CLV_ERR_INVALID, "exec: the plan is NULL");
    clv_exec *exec = calloc(1, sizeof *exec);
    if (!exec)
        return core_no_memory("for an exec");
    exec->plan = plan;
    exec->limit_ns = core_context_wait_ns(plan->ctx);
    exec->devices = calloc(plan->n_devices, sizeof *exec->devices);
    exec->steps = calloc(plan->n_steps, sizeof *exec->steps);
    exec->tensors = calloc(plan->graph->n_tensors, sizeof *exec->tensors);
    exec->symbols = calloc(CLV_MAX_SYMBOLS, sizeof *exec->symbols);
    exec->use = core_use_begin(plan->ctx);
    clv_status status = fill(exec);
    core_use_end(exec->use);
    exec->use = NULL;
    if (status) {
        if (exec->devices)
            core_exec_lose(exec);
        plan->short_device = exec->short_device;
        clv_exec_destroy(exec);
        return status;
    }
    *out = exec;
    return CLV_OK;
}

static void forget_latest(core_exec_run *run)
{
    free(run->part_ns);
    free(run->steps);
    free(run->waits);
    free(run->copies);
    *run = (core_exec_run){.symbols = run->symbols};
}

void clv_exec_destroy(clv_exec *exec)
{
    if (!exec)
        return;
    const clv_plan *plan = exec->plan;
    for (uint32_t s = 0; exec->steps && s < plan->n_steps; s++) {
        core_program_destroy(exec->steps[s].program);
        free(exec->steps[s].commands);
        free(exec->steps[s].copies);
        free(exec->steps[s].bindings);
        free(exec->steps[s].values);
        free(exec->steps[s].waits);
    }
    if (exec->devices && core_exec_free_timelines(exec))
        core_unreleased_add(exec->symbols);
    else
        free(exec->symbols);
    for (uint32_t v = 0; exec->tensors && v < plan->graph->n_tensors; v++)
        if (plan->graph->tensors[v].usage != CLV_USAGE_STATE)
            clv_tensor_destroy(exec->tensors[v]);
    core_exec_free_memory(exec);
    free(exec->devices);
    free(exec->steps);
    free(exec->tensors);
    free(exec->flushes);
    forget_latest(&exec->latest);
    free(exec->latest.symbols);
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
    CLV_TRY(core_exec_set_tensor(exec, state, tensor));
    if (!exec->tensors[state] && core_exec_has_state(exec->plan, state))
        exec->n_unbound--;
    exec->tensors[state] = tensor;
    return CLV_OK;
}

clv_tensor *clv_exec_tensor(clv_exec *exec, clv_value value)
{
    const clv_tensor_desc *desc =
        clv_graph_value_desc(exec->plan->source, value);
    if (!desc || desc->usage == CLV_USAGE_STATE)
        return NULL;
    return exec->tensors[value];
}

/* ------------------------------------------------------------------------ */
/* Running                                                                   */

static clv_status check_run(const clv_exec *exec, const int64_t *symbols,
                            uint32_t n_symbols)
{
    const clv_graph *graph = exec->plan->graph;
    if (exec->lost)
        return clv_error(exec->lost, "%s", exec->message);
    if (n_symbols != graph->n_symbols || (n_symbols && !symbols))
        return clv_error(CLV_ERR_INVALID,
                         "run: %u symbols given, the graph has %u", n_symbols,
                         graph->n_symbols);
    for (uint32_t i = 0; i < n_symbols; i++)
        if (symbols[i] < graph->symbols[i].min ||
            symbols[i] > graph->symbols[i].max)
            return clv_error(CLV_ERR_INVALID,
                             "run: symbol '%s' is %lld, outside %lld..%lld",
                             graph->symbol_names[i], (long long)symbols[i],
                             (long long)graph->symbols[i].min,
                             (long long)graph->symbols[i].max);
    if (exec->n_unbound)
        for (uint32_t v = 0; v < graph->n_tensors; v++)
            if (exec->plan->places[v].home == CORE_HOME_BOUND &&
                graph->values[v].base == v &&
                !exec->tensors[exec->plan->places[v].original])
                return clv_error(CLV_ERR_INVALID,
                                 "run: state '%s' has no "
                                 "memory; give it some with clv_exec_bind()",
                                 graph->values[v].name);
    return CLV_OK;
}

/* By the clock of those who work: of the devices, if it is virtual. */
static double moment(const clv_exec *exec)
{
    double latest = 0;
    for (uint32_t d = 0; d < exec->plan->n_devices; d++) {
        clv_device *dev = exec->devices[d].dev;
        core_moment now;
        if (!exec->devices[d].timeline)
            continue;
        if (dev->info.clock != CLV_CLOCK_VIRTUAL)
            return (double)clv_now_ns();
        if (!core_device_now(dev, &now))
            latest = now.ns > latest ? now.ns : latest;
    }
    return latest;
}

static clv_status host_wait(clv_exec *exec, uint32_t device, uint64_t value,
                            uint32_t point)
{
    bool traced = clv_trace_enabled(exec->plan->ctx);
    uint64_t begin = traced ? clv_now_ns() : 0;
    core_span *span = exec->latest.part_ns ? &exec->latest.waits[point] : NULL;
    if (span)
        span->begin_ns = moment(exec);
    clv_status status = core_exec_await(exec, device, value, point);
    if (span)
        span->end_ns = moment(exec);
    if (traced)
        core_trace_add(exec->plan->ctx, CLV_CLOCK_REAL, core_trace_host_track(),
                       "wait", begin, clv_now_ns());
    return status ? status : core_exec_fetch(exec, device, value);
}

static clv_status wait_for_others(clv_exec *exec, uint32_t step)
{
    const core_step *planned = &exec->plan->steps[step];
    core_point *point = exec->steps[step].waits;
    for (uint32_t i = 0; i < planned->n_waits; i++) {
        uint32_t index = planned->first_wait + i;
        const core_wait *wait = &exec->plan->waits[index];
        uint64_t value = exec->devices[wait->device].base + wait->value;
        if (!wait->by_host) {
            (point++)->value = value;
            continue;
        }
        CLV_TRY(host_wait(exec, wait->device, value, index));
    }
    return CLV_OK;
}

/* Whose fault a crash is while work is under way; NULL: of several. */
static const core_plugin *only_plugin(const clv_exec *exec)
{
    const core_plugin *plugin = NULL;
    for (uint32_t d = 0; d < exec->plan->n_devices; d++) {
        const core_plugin *other = exec->devices[d].dev->plugin;
        if (exec->devices[d].timeline && plugin && plugin != other)
            return NULL;
        plugin = exec->devices[d].timeline ? other : plugin;
    }
    return plugin;
}

static void note_run(const clv_exec *exec)
{
    core_id_list ids = {.text = ""};
    for (uint32_t d = 0; d < exec->plan->n_devices; d++)
        if (exec->devices[d].timeline)
            core_id_list_add(&ids, exec->devices[d].dev->id);
    core_use_note(exec->use, only_plugin(exec), "the first run of a plan on %s",
                  ids.text);
}

typedef struct submit_job {
    clv_device *dev;
    const core_submit *submit;
} submit_job;

static clv_status call_submit(void *arg)
{
    const submit_job *job = arg;
    return core_device_submit(job->dev, job->submit);
}

/* That a slot may block for ever is not to be paid for in each run. */
static clv_status submit_once(clv_exec *exec, uint32_t step)
{
    const submit_job now = {exec->devices[exec->plan->steps[step].device].dev,
                            &exec->steps[step].submit};
    submit_job *job = exec->proven ? NULL : malloc(sizeof *job);
    if (!job)
        return core_device_submit(now.dev, now.submit);
    *job = now;
    clv_status status = core_exec_guard(exec, step, "submit", only_plugin(exec),
                                        call_submit, job);
    note_run(exec);
    if (!core_device_abandoned(now.dev))
        free(job);
    return status;
}

/* Room in the device's queue is made by waiting for an earlier step of this
 * run; where others filled it, by waiting a little. */
static clv_status submit_when_room(clv_exec *exec, uint32_t step)
{
    uint32_t device = exec->plan->steps[step].device;
    core_exec_device *d = &exec->devices[device];
    const struct timespec pause = {.tv_nsec = QUEUE_PAUSE_NS};
    uint64_t start = 0;
    for (;;) {
        clv_status status = submit_once(exec, step);
        if (status != CLV_ERR_LIMIT)
            return status;
        if (d->promised > d->base &&
            (status = core_exec_wait(exec, device, d->promised, 0)))
            return status;
        uint64_t now = clv_now_ns();
        start = start ? start : now;
        if (now - start >= exec->limit_ns)
            return clv_error(CLV_ERR_TIMEOUT,
                             "device '%s' took no work for "
                             "%g s (core.wait_timeout); its queue is full of "
                             "other work",
                             d->dev->id, (double)exec->limit_ns * 1e-9);
        nanosleep(&pause, NULL);
    }
}

/* Lack of memory may be the host's, and passes. */
static clv_status refused(clv_exec *exec, uint32_t index, clv_status status)
{
    return status == CLV_ERR_NO_MEMORY || status == CLV_ERR_INVALID
               ? core_exec_name_step(exec, index, status)
               : core_exec_blame(exec, exec->plan->steps[index].device, index,
                                 status);
}

static clv_status submit_step(clv_exec *exec, uint32_t index,
                              const int64_t *symbols)
{
    core_exec_step *step = &exec->steps[index];
    core_exec_device *d = &exec->devices[exec->plan->steps[index].device];
    CLV_TRY(wait_for_others(exec, index));
    bool traced = clv_trace_enabled(exec->plan->ctx);
    uint64_t begin = traced ? clv_now_ns() : 0;
    step->command.symbols = symbols;
    CLV_TRY(core_exec_put_commands(exec, index, symbols));
    step->signal.value = d->base + exec->plan->steps[index].signal;
    step->submit.correlation =
        core_exec_is_recorded(exec) ? core_exec_correlation(exec, index) : 0;
    core_exec_moments *moments =
        exec->latest.part_ns ? &exec->latest.steps[index] : NULL;
    if (moments)
        moments->submit = moment(exec);
    clv_status status = submit_when_room(exec, index);
    if (moments)
        moments->submitted = moment(exec);
    if (status)
        return exec->lost ? status : refused(exec, index, status);
    d->promised = step->signal.value;
    if (traced)
        core_trace_add(exec->plan->ctx, CLV_CLOCK_REAL, core_trace_host_track(),
                       "submit", begin, clv_now_ns());
    return CLV_OK;
}

static clv_status wait_all(clv_exec *exec)
{
    for (uint32_t d = 0; d < exec->plan->n_devices; d++)
        if (exec->devices[d].promised != exec->devices[d].base)
            CLV_TRY(host_wait(exec, d, exec->devices[d].promised,
                              exec->plan->n_waits + d));
    return CLV_OK;
}

static clv_status flush_memory(const clv_exec *exec, bool before)
{
    for (uint32_t i = 0; i < exec->n_flushes; i++) {
        const core_exec_flush *flush = &exec->flushes[i];
        if (before && flush->before)
            CLV_TRY(
                core_buffer_flush(flush->buffer, flush->offset, flush->size));
        else if (!before && flush->after)
            CLV_TRY(core_buffer_invalidate(flush->buffer, flush->offset,
                                           flush->size));
    }
    return CLV_OK;
}

/* Without memory the run is not observed. */
static void begin_latest(clv_exec *exec, const int64_t *symbols)
{
    core_exec_run *run = &exec->latest;
    const uint32_t n = exec->plan->graph->n_symbols;
    forget_latest(run);
    if (!run->symbols)
        run->symbols = calloc(n + 1u, sizeof *run->symbols);
    if (run->symbols && n)
        memcpy(run->symbols, symbols, n * sizeof *symbols);
    if (run->symbols && exec->observe) {
        const clv_plan *plan = exec->plan;
        run->steps = calloc(plan->n_steps, sizeof *run->steps);
        run->waits =
            calloc((size_t)plan->n_waits + plan->n_devices, sizeof *run->waits);
        if (run->steps && run->waits)
            run->part_ns = calloc(plan->n_parts + 1u, sizeof *run->part_ns);
    }
    exec->observe = false;
}

static clv_status run_steps(clv_exec *exec, const int64_t *symbols)
{
    clv_status status = CLV_OK;
    for (uint32_t s = 0; s < exec->plan->n_steps && !status; s++)
        status = submit_step(exec, s, symbols);
    return status ? status : wait_all(exec);
}

clv_status clv_exec_run(clv_exec *exec, const int64_t *symbols,
                        uint32_t n_symbols)
{
    CLV_TRY(check_run(exec, symbols, n_symbols));
    CLV_TRY(core_exec_bring_states(exec));
    CLV_TRY(flush_memory(exec, true));
    exec->run++;
    for (uint32_t i = 0; i < n_symbols; i++)
        exec->symbols[i] = symbols[i];
    for (uint32_t d = 0; d < exec->plan->n_devices; d++) {
        exec->devices[d].base = exec->devices[d].promised;
        exec->devices[d].fetched = 0;
    }
    begin_latest(exec, exec->symbols);
    if (!exec->proven)
        exec->use = core_use_begin(exec->plan->ctx);
    const double begin = moment(exec);
    clv_status status = run_steps(exec, exec->symbols);
    if (status)
        status = core_exec_drain(exec, status);
    core_use_end(exec->use);
    exec->use = NULL;
    CLV_TRY(status);
    exec->proven = true;
    exec->latest.ns = exec->latest.symbols ? moment(exec) - begin : 0;
    CLV_TRY(core_exec_leave_states(exec));
    if (core_exec_is_recorded(exec))
        core_exec_collect_records(exec);
    return flush_memory(exec, false);
}
