#include "job.h"
#include "memory.h"
#include "tensor.h"

#include <inttypes.h>
#include <string.h>

void npu_job_free(npu_job *job)
{
    if (!job)
        return;
    const clv_host_api *host = job->dev->host;
    for (uint32_t i = 0; job->commands && i < job->n_commands; i++)
        npu_free(host, job->commands[i].data);
    npu_free(host, job->commands);
    npu_free(host, job->waits);
    npu_free(host, job->signals);
    npu_free(host, job->sim_waits);
    npu_free(host, job->sim_signals);
    npu_free(host, job->phases);
    npu_free(host, job);
}

void npu_job_drop(npu_job *job)
{
    clv_plugin_instance *inst = job->dev->inst;
    if (--job->refs)
        return;
    for (uint32_t i = 0; i < job->n_waits; i++)
        if (job->waits[i].timeline)
            npu_timeline_drop(job->waits[i].timeline);
    for (uint32_t i = 0; i < job->n_signals; i++)
        npu_timeline_drop(job->signals[i].timeline);
    job->next = inst->dead_jobs;
    inst->dead_jobs = job;
}

/* ------------------------------------------------------------------------ */
/* Commands                                                                 */

static clv_status check_counts(const clv_host_api *host, const clv_submit *s)
{
    if ((s->n_commands && !s->commands) || (s->n_waits && !s->waits) ||
        (s->n_signals && !s->signals))
        return npu_error(host, CLV_ERR_INVALID,
                         "npu_sim: a submit whose arrays are NULL");
    for (uint32_t i = 0; i < s->n_waits; i++)
        if (!s->waits[i].timeline && !s->waits[i].flag)
            return npu_error(host, CLV_ERR_INVALID,
                             "npu_sim: wait %" PRIu32 " is for nothing", i);
    for (uint32_t i = 0; i < s->n_signals; i++)
        if (!s->signals[i].timeline || s->signals[i].value & CLV_FLAG_FAILED)
            return npu_error(host, CLV_ERR_INVALID,
                             "npu_sim: signal %" PRIu32 " has no timeline, or "
                             "a value of 2^63 or more",
                             i);
    return CLV_OK;
}

static clv_status set_symbols(const clv_host_api *host, const clv_command *c,
                              npu_command *out)
{
    const npu_graph *g = &c->program->graph;
    if (c->n_symbols != g->n_symbols || (c->n_symbols && !c->symbols))
        return npu_error(host, CLV_ERR_INVALID,
                         "npu_sim: %" PRIu32
                         " symbols for a program of %" PRIu32,
                         c->n_symbols, g->n_symbols);
    for (uint32_t i = 0; i < g->n_symbols; i++) {
        out->symbols[i] = c->symbols[i];
        if (c->symbols[i] < g->symbols[i].min ||
            c->symbols[i] > g->symbols[i].max)
            return npu_error(host, CLV_ERR_INVALID,
                             "npu_sim: symbol %" PRIu32 " is %" PRId64
                             ", the program is for %" PRId64 " to %" PRId64,
                             i, c->symbols[i], g->symbols[i].min,
                             g->symbols[i].max);
    }
    return CLV_OK;
}

static clv_status bind(clv_plugin_device *dev, const clv_binding *b,
                       npu_command *out)
{
    const clv_plugin_program *prog = out->program;
    npu_view view;
    if (b->tensor >= prog->graph.n_tensors ||
        prog->graph.tensors[b->tensor].usage == CLV_USAGE_WEIGHT)
        return npu_error(dev->host, CLV_ERR_INVALID,
                         "npu_sim: a run binds tensor %" PRIu32
                         ", which is none or a weight",
                         b->tensor);
    if (out->data[b->tensor])
        return npu_error(dev->host, CLV_ERR_INVALID,
                         "npu_sim: a run binds tensor %" PRIu32 " twice",
                         b->tensor);
    const clv_tensor_desc *desc = &prog->graph.tensors[b->tensor];
    if (!npu_view_make(desc, out->symbols, &view))
        return npu_error(dev->host, CLV_ERR_INVALID,
                         "npu_sim: tensor %" PRIu32 " has no size", b->tensor);
    return npu_bind(dev, b, npu_view_extent(&view),
                    npu_dtype_align(desc->dtype), prog->written[b->tensor],
                    &out->data[b->tensor]);
}

static clv_status make_run(clv_plugin_device *dev, const clv_command *c,
                           npu_command *out)
{
    const clv_host_api *host = dev->host;
    const clv_plugin_program *prog = c->program;
    if (!prog || prog->dev != dev || (c->n_bindings && !c->bindings))
        return npu_error(host, CLV_ERR_INVALID,
                         "npu_sim: a run without a program of this device, or "
                         "without bindings");
    uint32_t n = prog->graph.n_tensors;
    out->program = c->program;
    out->data = npu_alloc(host, n, sizeof *out->data);
    if (!out->data)
        return npu_no_memory(host, "a run");
    memcpy(out->data, prog->weights, n * sizeof *out->data);
    clv_status status = set_symbols(host, c, out);
    for (uint32_t i = 0; i < c->n_bindings && !status; i++)
        status = bind(dev, &c->bindings[i], out);
    for (uint32_t i = 0; i < n && !status; i++)
        if (!out->data[i])
            status = npu_error(host, CLV_ERR_INVALID,
                               "npu_sim: tensor %" PRIu32 " is not bound", i);
    return status;
}

static clv_status make_move(const clv_host_api *host, const clv_command *c,
                            npu_command *out)
{
    bool copy = c->kind == CLV_COMMAND_COPY;
    if (!c->dst || !npu_buffer_has(c->dst, c->dst_offset, c->size) ||
        (copy && (!c->src || !npu_buffer_has(c->src, c->src_offset, c->size))))
        return npu_error(host, CLV_ERR_INVALID,
                         "npu_sim: a copy or fill past the end of a buffer, or "
                         "without one");
    if (!(c->dst->access & CLV_ACCESS_WRITE))
        return npu_error(host, CLV_ERR_INVALID,
                         "npu_sim: a copy or fill of memory that was imported "
                         "read-only");
    out->dst = c->dst->data + c->dst_offset;
    out->src = copy ? c->src->data + c->src_offset : NULL;
    out->size = c->size;
    out->pattern = c->pattern;
    return CLV_OK;
}

static clv_status make_commands(clv_plugin_device *dev, const clv_submit *s,
                                npu_job *job)
{
    clv_status status = CLV_OK;
    for (uint32_t i = 0; i < s->n_commands && !status; i++) {
        clv_command c;
        npu_read(&c, sizeof c,
                 (const char *)s->commands + (size_t)i * s->command_stride);
        status = npu_check_chain(dev->host, &c.header);
        if (status)
            return status;
        job->commands[i].kind = c.kind;
        if (c.kind == CLV_COMMAND_RUN)
            status = make_run(dev, &c, &job->commands[i]);
        else if (c.kind == CLV_COMMAND_COPY || c.kind == CLV_COMMAND_FILL)
            status = make_move(dev->host, &c, &job->commands[i]);
        else
            status = npu_error(
                dev->host, CLV_ERR_UNSUPPORTED,
                "npu_sim: commands of kind %" PRIu32 " are not known", c.kind);
    }
    return status;
}

/* ------------------------------------------------------------------------ */
/* Phases                                                                   */

static uint32_t count_phases(const npu_job *job)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < job->n_commands; i++)
        n += job->commands[i].kind == CLV_COMMAND_RUN
                 ? 1 + job->commands[i].program->graph.n_nodes
                 : 1;
    return n;
}

/* One for the start of a program and one for each node; one for a move. */
static npu_phase *add_phases(const npu_job *job, uint32_t index, npu_phase *at)
{
    const npu_settings *s = job->dev->settings;
    const npu_command *c = &job->commands[index];
    at->command = index;
    at->node = CLV_NO_TENSOR;
    if (c->kind != CLV_COMMAND_RUN) {
        npu_move_cost(s, c->size, c->kind == CLV_COMMAND_COPY, at);
        return at + 1;
    }
    at++->fixed_ns = (uint64_t)s->dispatch_ns;
    const clv_plugin_program *prog = c->program;
    for (uint32_t i = 0; i < prog->graph.n_nodes; i++, at++) {
        if (prog->phases)
            *at = prog->phases[i];
        else
            npu_node_cost(s, &prog->graph, i, prog->paths[i], c->symbols, at);
        at->command = index;
        at->node = i;
        at->op = prog->graph.nodes[i].op;
    }
    return at;
}

static clv_status make_phases(npu_job *job)
{
    job->n_phases = count_phases(job);
    job->phases = npu_alloc(job->dev->host, job->n_phases, sizeof *job->phases);
    if (!job->phases)
        return npu_no_memory(job->dev->host, "a submit");
    npu_phase *at = job->phases;
    for (uint32_t i = 0; i < job->n_commands; i++)
        at = add_phases(job, i, at);
    return CLV_OK;
}

/* ------------------------------------------------------------------------ */

static clv_status new_job(clv_plugin_device *dev, const clv_submit *s,
                          npu_job **out)
{
    const clv_host_api *host = dev->host;
    npu_job *job = npu_alloc(host, 1, sizeof *job);
    if (!job)
        return npu_no_memory(host, "a submit");
    job->dev = dev;
    job->correlation = s->correlation;
    job->n_commands = s->n_commands;
    job->n_waits = s->n_waits;
    job->n_signals = s->n_signals;
    job->commands = npu_alloc(host, s->n_commands, sizeof *job->commands);
    job->waits = npu_alloc(host, s->n_waits, sizeof *job->waits);
    job->signals = npu_alloc(host, s->n_signals, sizeof *job->signals);
    job->sim_waits = npu_alloc(host, s->n_waits, sizeof *job->sim_waits);
    job->sim_signals = npu_alloc(host, s->n_signals, sizeof *job->sim_signals);
    *out = job;
    return job->commands && job->waits && job->signals && job->sim_waits &&
                   job->sim_signals
               ? CLV_OK
               : npu_no_memory(host, "a submit");
}

/* Points of this instance are held, whatever way they were named; others' flag
 * words stop the thread but not the simulation, which has no time for them. */
static void take_points(npu_job *job, const clv_submit *s)
{
    const clv_plugin_instance *inst = job->dev->inst;
    for (uint32_t i = 0; i < s->n_waits; i++) {
        clv_timeline_point *w = &job->waits[i];
        *w = s->waits[i];
        if (!w->timeline)
            w->timeline = npu_timeline_of(inst, w->flag);
        if (!w->timeline)
            continue;
        w->timeline->refs++;
        job->sim_waits[job->sim.n_waits++] =
            (npu_sim_point){&w->timeline->counter, w->value};
    }
    for (uint32_t i = 0; i < s->n_signals; i++) {
        job->signals[i] = s->signals[i];
        job->signals[i].timeline->refs++;
        job->sim_signals[i] = (npu_sim_point){&s->signals[i].timeline->counter,
                                              s->signals[i].value};
    }
    job->sim.waits = job->sim_waits;
    job->sim.signals = job->sim_signals;
    job->sim.n_signals = s->n_signals;
    job->sim.phases = job->phases;
    job->sim.n_phases = job->n_phases;
    job->sim.owner = job;
}

/* With the lock held; false if the queue is full. */
static bool push(npu_job *job, const clv_submit *s)
{
    clv_plugin_device *dev = job->dev;
    npu_sim *sim = &dev->inst->sim;
    npu_sim_catch_up(sim);
    if (dev->n_jobs >= dev->settings->queue_depth)
        return false;
    uint64_t cost =
        (uint64_t)(npu_sim_busy(&dev->sim) ? dev->settings->submit_ns
                                           : dev->settings->submit_empty_ns);
    if (!dev->inst->config.is_real)
        npu_sim_spend(sim, cost);
    take_points(job, s);
    job->sim.release = dev->inst->config.is_real ? sim->host + cost : sim->host;
    if (dev->hung)
        job->sim.release = NPU_NEVER;
    job->refs = 2;
    dev->n_jobs++;
    npu_sim_push(&dev->sim, &job->sim);
    if (dev->last)
        dev->last->next = job;
    else
        dev->first = job;
    dev->last = job;
    pthread_cond_broadcast(&dev->inst->changed);
    return true;
}

clv_status npu_submit(clv_plugin_device *dev, const clv_submit *submit)
{
    clv_submit s;
    npu_job *job = NULL;
    npu_read(&s, sizeof s, submit);
    clv_status status = npu_check_device(dev);
    if (!status)
        status = npu_check_chain(dev->host, &s.header);
    if (!status)
        status = check_counts(dev->host, &s);
    if (!status)
        status = new_job(dev, &s, &job);
    if (!status)
        status = make_commands(dev, &s, job);
    if (!status)
        status = make_phases(job);
    if (!status) {
        npu_lock(dev->inst);
        bool room = push(job, &s);
        npu_unlock(dev->inst);
        if (!room)
            status = npu_error(dev->host, CLV_ERR_LIMIT,
                               "npu_sim: device '%s': %" PRIu32 " submits are "
                               "in flight; wait for one",
                               dev->settings->name, dev->settings->queue_depth);
    }
    if (status)
        npu_job_free(job);
    return status;
}
