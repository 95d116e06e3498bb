#include "job.h"
#include "memory.h"
#include "noise.h"

#include <inttypes.h>
#include <string.h>

#define BURST 64u /* bytes that memory gives at once */

void npu_job_free(npu_job *job)
{
    if (!job)
        return;
    const clv_host_api *host = job->dev->base.host;
    clv_free(host, job->copy);
    clv_free(host, job->sim_waits);
    clv_free(host, job->sim_signals);
    clv_free(host, job->phases);
    clv_free(host, job);
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

void npu_job_fail(const npu_job *job, clv_status status, const char *message)
{
    for (uint32_t i = 0; i < job->n_signals; i++)
        npu_timeline_failed(job->signals[i].timeline, status, message);
}

/* ------------------------------------------------------------------------ */
/* Commands                                                                 */

static clv_status check_command(const clv_plugin_device *dev,
                                const clv_command *c)
{
    if (c->kind != CLV_COMMAND_RUN)
        return clv_buffer_check(dev->base.host, c);
    if (c->program->dev != dev)
        return clv_fail(dev->base.host, CLV_ERR_INVALID,
                        "npu_sim: a run of another device's program");
    return clv_program_check(c);
}

/* ------------------------------------------------------------------------ */
/* Phases                                                                   */

static uint32_t count_phases(const npu_job *job)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < job->n_commands; i++)
        n += job->commands[i].kind == CLV_COMMAND_RUN
                 ? 1 + job->commands[i].program->graph->n_nodes
                 : 1;
    return n;
}

/* Each row of several is moved in whole bursts. */
static uint64_t moved_bytes(const clv_command *c)
{
    const uint64_t rows = clv_copy_rows(c);
    return rows > 1 ? rows * ((c->size + BURST - 1) / BURST * BURST) : c->size;
}

/* One for the start of a program and one for each node; one for a move. */
static npu_phase *add_phases(const npu_job *job, uint32_t index, npu_phase *at)
{
    const npu_settings *s = job->dev->settings;
    const clv_command *c = &job->commands[index];
    at->command = index;
    at->node = CLV_NO_TENSOR;
    if (c->kind != CLV_COMMAND_RUN) {
        const bool copy = c->kind == CLV_COMMAND_COPY;
        const bool from = copy && c->src->allocated == NPU_MEMORY_OWN;
        const bool to = copy && c->dst->allocated == NPU_MEMORY_OWN;
        npu_move_cost(s, moved_bytes(c), copy,
                      from == to ? NPU_LINK_NONE
                      : to       ? NPU_LINK_IN
                                 : NPU_LINK_OUT,
                      at);
        return at + 1;
    }
    at++->fixed_ns = (uint64_t)s->dispatch_ns;
    const clv_plugin_program *prog = c->program;
    for (uint32_t i = 0; i < prog->graph->n_nodes; i++, at++) {
        if (prog->phases)
            *at = prog->phases[i];
        else
            npu_node_cost(s, prog->graph, i, prog->paths[i], c->symbols, at);
        at->command = index;
        at->node = i;
        at->op = prog->graph->nodes[i].op;
    }
    return at;
}

static clv_status make_phases(npu_job *job)
{
    job->n_phases = count_phases(job);
    job->phases =
        clv_new(job->dev->base.host, job->n_phases * sizeof *job->phases);
    if (!job->phases)
        return CLV_ERR_NO_MEMORY;
    npu_phase *at = job->phases;
    for (uint32_t i = 0; i < job->n_commands; i++)
        at = add_phases(job, i, at);
    return CLV_OK;
}

/* ------------------------------------------------------------------------ */

static clv_status new_job(clv_plugin_device *dev, const clv_submit *s,
                          npu_job **out)
{
    const clv_host_api *host = dev->base.host;
    npu_job *job = clv_new(host, sizeof *job);
    if (!job)
        return CLV_ERR_NO_MEMORY;
    job->dev = dev;
    job->queue = &dev->queues[s->queue];
    job->correlation = s->correlation;
    job->n_commands = s->n_commands;
    job->n_waits = s->n_waits;
    job->n_signals = s->n_signals;
    job->copy = clv_new(host, clv_queue_copy_submit(NULL, s));
    job->sim_waits = clv_new(host, s->n_waits * sizeof *job->sim_waits);
    job->sim_signals = clv_new(host, s->n_signals * sizeof *job->sim_signals);
    *out = job;
    if (!job->copy || !job->sim_waits || !job->sim_signals)
        return CLV_ERR_NO_MEMORY;
    clv_queue_copy_submit((char *)job->copy, s);
    job->commands = job->copy->submit.commands;
    job->waits = (clv_timeline_point *)(uintptr_t)job->copy->submit.waits;
    job->signals = job->copy->submit.signals;
    return CLV_OK;
}

/* Points of this instance are referenced, by timeline or flag word; others'
 * flag words stop the thread but not the simulation, which has no time for
 * them. */
static void take_points(npu_job *job, const clv_submit *s)
{
    const clv_plugin_instance *inst = job->dev->inst;
    for (uint32_t i = 0; i < s->n_waits; i++) {
        clv_timeline_point *w = &job->waits[i];
        if (!w->timeline)
            w->timeline = npu_timeline_of(inst, w->flag);
        if (!w->timeline)
            continue;
        w->timeline->refs++;
        job->sim_waits[job->sim.n_waits++] =
            (npu_sim_point){&w->timeline->counter, w->value};
    }
    for (uint32_t i = 0; i < s->n_signals; i++) {
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

static void add_noise(npu_job *job, uint64_t at_ns)
{
    clv_plugin_device *dev = job->dev;
    double factor =
        npu_noise(&dev->inst->config, dev->settings, dev->n_submits++, at_ns);
    for (uint32_t i = 0; i < job->n_phases; i++) {
        npu_phase *p = &job->phases[i];
        p->fixed_ns = (uint64_t)((double)p->fixed_ns * factor);
        p->work_ns = (uint64_t)((double)p->work_ns * factor);
    }
}

/* With the lock held; false if the queue is full. */
static bool push(npu_job *job, const clv_submit *s)
{
    clv_plugin_device *dev = job->dev;
    npu_queue *queue = job->queue;
    npu_sim *sim = &dev->inst->sim;
    npu_sim_catch_up(sim);
    if (queue->n_jobs >= dev->settings->queue_depth)
        return false;
    uint64_t cost =
        (uint64_t)(npu_sim_busy(&queue->sim) ? dev->settings->submit_ns
                                             : dev->settings->submit_empty_ns);
    if (!dev->inst->config.is_real)
        npu_sim_spend(sim, cost);
    take_points(job, s);
    if (dev->inst->config.sees)
        npu_job_see(job);
    add_noise(job, sim->host);
    job->sim.release = dev->inst->config.is_real ? sim->host + cost : sim->host;
    if (dev->hung)
        job->sim.release = NPU_NEVER;
    job->refs = 2;
    queue->n_jobs++;
    npu_sim_push(&queue->sim, &job->sim);
    if (queue->last)
        queue->last->next = job;
    else
        queue->first = job;
    queue->last = job;
    pthread_cond_signal(&queue->filled);
    pthread_cond_broadcast(&dev->inst->changed);
    return true;
}

static clv_status make_job(clv_plugin_device *dev, const clv_submit *s,
                           npu_job **out)
{
    CLV_TRY(new_job(dev, s, out));
    for (uint32_t i = 0; i < s->n_commands; i++)
        CLV_TRY(check_command(dev, &(*out)->commands[i]));
    return make_phases(*out);
}

clv_status npu_submit(clv_plugin_device *dev, const clv_submit *submit)
{
    clv_submit s;
    npu_job *job = NULL;
    clv_read(&s, sizeof s, submit);
    CLV_TRY(npu_check_device(dev));
    CLV_TRY(clv_check_submit(dev->base.host, &s, dev->n_queues - 1));
    clv_status status = make_job(dev, &s, &job);
    if (!status) {
        npu_lock(dev->inst);
        bool added = push(job, &s);
        npu_unlock(dev->inst);
        if (!added)
            status = clv_fail(dev->base.host, CLV_ERR_LIMIT,
                              "npu_sim: device '%s': %" PRIu32 " submits are "
                              "in flight; wait for one",
                              dev->settings->name, dev->settings->queue_depth);
    }
    if (status)
        npu_job_free(job);
    return status;
}
