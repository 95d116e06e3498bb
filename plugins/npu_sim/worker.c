/*
 * The thread of a queue: takes jobs in order, waits for what they wait for,
 * computes their results and signals the timelines.
 */
#include "job.h"
#include "run.h"

#include <stdio.h>
#include <string.h>

/* Between looks at a foreign flag word. */
#define POLL_MIN_NS 20000u
#define POLL_MAX_NS 200000u

static clv_status say(char *message, clv_status status, const char *text)
{
    snprintf(message, NPU_MESSAGE_SIZE, "npu_sim: %s", text);
    return status;
}

/* What a job that has not begun waits for. */
typedef enum gate { GATE_OPEN, GATE_OURS, GATE_FOREIGN, GATE_FAILED } gate;

static gate look(const npu_job *job)
{
    gate found = job->sim.release == NPU_NEVER ? GATE_OURS : GATE_OPEN;
    for (uint32_t i = 0; i < job->n_waits; i++) {
        const clv_timeline_point *w = &job->waits[i];
        if (w->timeline) {
            if (w->timeline->status)
                return GATE_FAILED;
            if (w->timeline->computed < w->value)
                found = GATE_OURS;
            continue;
        }
        uint64_t word = __atomic_load_n(w->flag, __ATOMIC_ACQUIRE);
        if (word & CLV_FLAG_FAILED)
            return GATE_FAILED;
        if (word < w->value && found == GATE_OPEN)
            found = GATE_FOREIGN;
    }
    return found;
}

/* Whether the queue's thread will go on by itself, and by whose work. */
static bool is_pending(const npu_queue *q, bool *foreign)
{
    const gate g =
        q->first && q->activity != NPU_WORKING ? look(q->first) : GATE_OPEN;
    *foreign = g == GATE_FOREIGN;
    return q->activity == NPU_WORKING ||
           (q->first && g != GATE_OURS && q->has_thread);
}

bool npu_work_pending(const clv_plugin_instance *inst, bool *foreign)
{
    bool pending = false, waits;
    *foreign = true;
    for (const clv_plugin_device *d = inst->devices; d; d = d->next)
        for (uint32_t i = 0; i < d->n_queues; i++) {
            if (!is_pending(&d->queues[i], &waits))
                continue;
            pending = true;
            *foreign = *foreign && waits;
        }
    return pending;
}

bool npu_workers_compute(const clv_plugin_device *dev)
{
    for (uint32_t i = 0; i < dev->n_queues; i++)
        if (dev->queues[i].activity == NPU_WORKING)
            return true;
    return false;
}

bool npu_workers_done(const clv_plugin_device *dev)
{
    for (uint32_t i = 0; i < dev->n_queues; i++)
        if (dev->queues[i].first)
            return false;
    return true;
}

/* Why what is waited for failed; of others' work only that it did is known. */
static clv_status explain(const npu_job *job, char *message)
{
    for (uint32_t i = 0; i < job->n_waits; i++) {
        const clv_plugin_timeline *tl = job->waits[i].timeline;
        if (!tl || !tl->status)
            continue;
        memcpy(message, tl->message, NPU_MESSAGE_SIZE);
        return tl->status;
    }
    return say(message, CLV_ERR_CANCELLED, "work of another device failed");
}

/* Work is not begun if all timelines that it would signal have failed: the host
 * knows that it came to nothing, and may have freed what it was bound to. */
static const clv_plugin_timeline *given_up(const npu_job *job)
{
    for (uint32_t i = 0; i < job->n_signals; i++)
        if (!job->signals[i].timeline->status)
            return NULL;
    return job->n_signals ? job->signals[0].timeline : NULL;
}

/* Waits until the first job may begin. The lock is held. */
static clv_status await(npu_queue *queue, const npu_job *job, char *message)
{
    clv_plugin_device *dev = queue->dev;
    uint64_t sleep = POLL_MIN_NS;
    for (;;) {
        if (dev->lost)
            return say(message, CLV_ERR_DEVICE_LOST, "the device was lost");
        if (dev->stop)
            return say(message, CLV_ERR_CANCELLED, "the device was closed");
        gate g = look(job);
        const clv_plugin_timeline *failed = given_up(job);
        if (failed) {
            memcpy(message, failed->message, NPU_MESSAGE_SIZE);
            return failed->status;
        }
        if (g == GATE_OPEN && !dev->ending)
            return CLV_OK;
        if (g == GATE_FAILED)
            return explain(job, message);
        queue->activity = g == GATE_FOREIGN ? NPU_FOREIGN : NPU_IDLE;
        npu_await_change(dev->inst, g == GATE_FOREIGN ? npu_real_ns() + sleep
                                                      : UINT64_MAX);
        sleep = sleep < POLL_MAX_NS ? sleep * 3 / 2 : POLL_MAX_NS;
    }
}

static clv_status run_program(const clv_command *c, npu_phase *phases)
{
    const clv_program_base *base = &c->program->base;
    char **data = clv_new(base->host, base->n_tensors * sizeof *data);
    if (!data)
        return CLV_ERR_NO_MEMORY;
    clv_program_resolve(c, data);
    clv_status status = npu_run(c->program, data, c->symbols, phases);
    clv_free(base->host, data);
    return status;
}

/* The phases of a program are one for its start and one for each node. */
static clv_status run_commands(clv_plugin_device *dev, const npu_job *job,
                               bool sees, char *message)
{
    clv_status status = CLV_OK;
    npu_phase *phase = job->phases;
    /* Without results nothing is copied: memory that is only written so takes
     * none of the host's. */
    if (!dev->inst->config.computes)
        return CLV_OK;
    for (uint32_t i = 0; i < job->n_commands && !status; i++) {
        const clv_command *c = &job->commands[i];
        phase++;
        if (c->kind != CLV_COMMAND_RUN) {
            clv_buffer_move(c);
            continue;
        }
        status = run_program(c, sees ? phase : NULL);
        phase += c->program->graph->n_nodes;
    }
    return status ? say(message, status, "no memory to work in") : CLV_OK;
}

/* Takes the job off and tells its end. The lock is held. */
static void finish(npu_queue *queue, npu_job *job, clv_status status,
                   const char *message)
{
    queue->first = job->next;
    if (!queue->first)
        queue->last = NULL;
    queue->activity = NPU_IDLE;
    if (status)
        npu_job_fail(job, status, message);
    for (uint32_t i = 0; i < job->n_signals && !status; i++)
        npu_timeline_computed(job->signals[i].timeline, job->signals[i].value);
    npu_job_drop(job);
    pthread_cond_broadcast(&queue->dev->inst->changed);
}

void npu_job_see(npu_job *job)
{
    clv_plugin_device *dev = job->dev;
    char message[NPU_MESSAGE_SIZE];
    bool foreign;
    while (job->queue->first || look(job) != GATE_OPEN) {
        if (!npu_work_pending(dev->inst, &foreign) || foreign)
            return;
        npu_await_change(dev->inst, UINT64_MAX);
    }
    npu_unlock(dev->inst);
    job->ran = !run_commands(dev, job, true, message);
    npu_lock(dev->inst);
}

static void *work(void *ctx)
{
    npu_queue *queue = ctx;
    clv_plugin_device *dev = queue->dev;
    clv_plugin_instance *inst = dev->inst;
    npu_lock(inst);
    for (;;) {
        npu_job *job = queue->first;
        if (!job && dev->stop)
            break;
        if (!job) {
            pthread_cond_wait(&queue->filled, &inst->mutex);
            continue;
        }
        char message[NPU_MESSAGE_SIZE] = "";
        clv_status status = await(queue, job, message);
        if (!status) {
            queue->activity = NPU_WORKING;
            npu_unlock(inst);
            if (!job->ran)
                status = run_commands(dev, job, false, message);
            npu_lock(inst);
            if (dev->lost)
                status =
                    say(message, CLV_ERR_DEVICE_LOST, "the device was lost");
        }
        finish(queue, job, status, message);
        npu_unlock(inst);
        npu_lock(inst);
    }
    npu_unlock(inst);
    return NULL;
}

clv_status npu_workers_start(clv_plugin_device *dev)
{
    for (uint32_t i = 0; i < dev->n_queues; i++) {
        npu_queue *queue = &dev->queues[i];
        int error = pthread_create(&queue->thread, NULL, work, queue);
        if (error)
            return clv_fail(dev->base.host, CLV_ERR_LIMIT,
                            "npu_sim: no thread for device '%s': %s",
                            dev->settings->name, strerror(error));
        queue->has_thread = true;
    }
    return CLV_OK;
}

void npu_workers_stop(clv_plugin_device *dev)
{
    npu_lock(dev->inst);
    dev->stop = true;
    for (uint32_t i = 0; i < dev->n_queues; i++)
        pthread_cond_signal(&dev->queues[i].filled);
    pthread_cond_broadcast(&dev->inst->changed);
    npu_unlock(dev->inst);
    for (uint32_t i = 0; i < dev->n_queues; i++) {
        if (dev->queues[i].has_thread)
            pthread_join(dev->queues[i].thread, NULL);
        dev->queues[i].has_thread = false;
    }
}
