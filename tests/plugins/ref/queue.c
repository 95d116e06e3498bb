#include "ref.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define POLL_NS 20000

static void sleep_ns(uint64_t ns)
{
    struct timespec time = {.tv_sec = (time_t)(ns / 1000000000),
                            .tv_nsec = (long)(ns % 1000000000)};
    nanosleep(&time, NULL);
}

static clv_status say(char *message, clv_status status, const char *text)
{
    snprintf(message, REF_MESSAGE_SIZE, REF_NAME ": %s", text);
    return status;
}

/* Why work cannot go on by the state of the device; OK: it can. */
static clv_status interrupted(const clv_plugin_device *dev, char *message)
{
    if (atomic_load(&dev->lost))
        return say(message, CLV_ERR_DEVICE_LOST, "the device was lost");
    if (atomic_load(&dev->stop))
        return say(message, CLV_ERR_CANCELLED, "the device was closed");
    return CLV_OK;
}

static const uint64_t *flag_of(const clv_timeline_point *point)
{
    return point->timeline ? ref_timeline_flag(point->timeline) : point->flag;
}

/* Why what is waited for failed; of another device only that it did is known.
 */
static clv_status explain(const clv_timeline_point *point, char *message)
{
    if (point->timeline)
        return ref_timeline_failure(point->timeline, message);
    return say(message, CLV_ERR_CANCELLED, "work of another device failed");
}

/* 1: all waits are over, 0: not yet, else a status. */
static int look_at_waits(const ref_job *job, char *message)
{
    for (uint32_t i = 0; i < job->n_waits; i++) {
        uint64_t word =
            __atomic_load_n(flag_of(&job->waits[i]), __ATOMIC_ACQUIRE);
        if (word & CLV_FLAG_FAILED)
            return explain(&job->waits[i], message);
        if (word < job->waits[i].value)
            return 0;
    }
    return 1;
}

static clv_status await(const clv_plugin_device *dev, const ref_job *job,
                        char *message)
{
    clv_status status;
    while (!(status = interrupted(dev, message))) {
        int done = atomic_load(&dev->hung) ? 0 : look_at_waits(job, message);
        if (done)
            return done == 1 ? CLV_OK : done;
        sleep_ns(POLL_NS);
    }
    return status;
}

/* Gives a quantised operand its scales. */
static void add_scales(const ref_command *c, uint32_t tensor, ref_view *view,
                       ref_view *scales)
{
    const clv_tensor_desc *desc = &c->program->graph->tensors[tensor];
    if (!desc->quant)
        return;
    uint32_t at = desc->quant_scales - 1;
    ref_view_make(&c->program->graph->tensors[at], c->symbols, scales);
    scales->data = c->data[at];
    view->quant = desc->quant;
    view->quant_group = desc->quant_group;
    view->scales = scales;
}

/* As kernels that follow one another, of equal times. */
static void record_node(clv_plugin_device *dev, const ref_job *job,
                        uint32_t index, uint32_t node, uint64_t begin)
{
    const clv_subgraph *g = job->commands[index].program->graph;
    const uint64_t ticks = ref_ticks(dev) - begin;
    const uint32_t n = dev->settings->trace_nodes;
    for (uint32_t i = 0; i < n; i++)
        ref_record(dev, job, index, node, clv_op_name(g->nodes[node].op),
                   begin + ticks * i / n, begin + ticks * (i + 1) / n);
}

static void run_program(clv_plugin_device *dev, const ref_job *job,
                        uint32_t index)
{
    const ref_command *c = &job->commands[index];
    const clv_subgraph *g = c->program->graph;
    const uint32_t fused = dev->settings->trace_fused;
    uint64_t begin = 0;
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        const clv_node *node = &g->nodes[i];
        ref_view in[CLV_MAX_INPUTS], scales[CLV_MAX_INPUTS], out;
        memset(in, 0, sizeof in);
        memset(&out, 0, sizeof out);
        for (uint32_t j = 0; j < node->n_inputs; j++) {
            if (node->inputs[j] == CLV_NO_TENSOR)
                continue;
            ref_view_make(&g->tensors[node->inputs[j]], c->symbols, &in[j]);
            in[j].data = c->data[node->inputs[j]];
            add_scales(c, node->inputs[j], &in[j], &scales[j]);
        }
        if (node->n_outputs) {
            ref_view_make(&g->tensors[node->outputs[0]], c->symbols, &out);
            out.data = c->data[node->outputs[0]];
        }
        if (i % fused == 0)
            begin = ref_ticks(dev);
        ref_run_node(node, in, &out);
        if (i % fused == fused - 1 || i + 1 == g->n_nodes)
            record_node(dev, job, index, i - i % fused, begin);
    }
}

static void run_command(clv_plugin_device *dev, const ref_job *job,
                        uint32_t index)
{
    const ref_command *c = &job->commands[index];
    char name[16];
    uint64_t begin = ref_ticks(dev);
    switch (c->kind) {
    case CLV_COMMAND_RUN:
        run_program(dev, job, index);
        break;
    case CLV_COMMAND_COPY:
        memmove(c->dst, c->src, c->size);
        break;
    case CLV_COMMAND_FILL:
        for (uint64_t i = 0; i < c->size; i++)
            c->dst[i] = (uint8_t)(c->pattern >> i % 4 * 8);
        break;
    }
    snprintf(name, sizeof name, "%s \"%u\"",
             c->kind == CLV_COMMAND_RUN    ? "run"
             : c->kind == CLV_COMMAND_COPY ? "copy"
                                           : "fill",
             dev->index);
    ref_record(dev, job, index, CLV_NO_TENSOR, name, begin, ref_ticks(dev));
}

/* Why it is too late to begin: all that the job would signal has failed. */
static clv_status pointless(const ref_job *job, char *message)
{
    clv_status status = CLV_OK;
    for (uint32_t i = 0; i < job->n_signals; i++)
        if (!(status = ref_timeline_failure(job->signals[i].timeline, message)))
            return CLV_OK;
    return status;
}

static clv_status run_commands(clv_plugin_device *dev, const ref_job *job,
                               char *message)
{
    clv_status status = pointless(job, message);
    if (status)
        return status;
    if (job->fails)
        return say(message, CLV_ERR_DEVICE_LOST, "it was told to fail");
    sleep_ns((uint64_t)dev->settings->delay_us * 1000);
    for (uint32_t i = 0; i < job->n_commands && !status; i++) {
        pthread_mutex_lock(&dev->running);
        if (!atomic_load(&dev->lost))
            run_command(dev, job, i);
        pthread_mutex_unlock(&dev->running);
        status = atomic_load(&dev->lost) ? interrupted(dev, message) : CLV_OK;
    }
    return status;
}

static void finish(ref_job *job, clv_status status, const char *message)
{
    for (uint32_t i = 0; i < job->n_signals; i++) {
        if (status)
            ref_timeline_fail(job->signals[i].timeline, status, message);
        else
            ref_timeline_reach(job->signals[i].timeline, job->signals[i].value);
    }
    ref_job_free(job);
}

/* Takes the first job off the queue, then signals: who sees the signal finds
 * space in the queue. */
static void complete(ref_queue *queue, ref_job *job, clv_status status,
                     const char *message)
{
    pthread_mutex_lock(&queue->dev->mutex);
    queue->first = job->next;
    if (!queue->first)
        queue->last = NULL;
    queue->n_jobs--;
    pthread_mutex_unlock(&queue->dev->mutex);
    finish(job, status, message);
}

static ref_job *next_job(ref_queue *queue, bool wait)
{
    clv_plugin_device *dev = queue->dev;
    pthread_mutex_lock(&dev->mutex);
    while (wait && !queue->first && !atomic_load(&dev->stop))
        pthread_cond_wait(&dev->pushed, &dev->mutex);
    ref_job *job = queue->first;
    pthread_mutex_unlock(&dev->mutex);
    return job;
}

static void *work(void *arg)
{
    ref_queue *queue = arg;
    for (ref_job *job; (job = next_job(queue, true));) {
        char message[REF_MESSAGE_SIZE] = "";
        clv_status status = await(queue->dev, job, message);
        if (!status)
            status = run_commands(queue->dev, job, message);
        complete(queue, job, status, message);
    }
    return NULL;
}

/* What the worker does, as far as it goes without waiting; how many jobs. */
static uint32_t advance(ref_queue *queue)
{
    clv_plugin_device *dev = queue->dev;
    uint32_t n = 0;
    for (ref_job *job; (job = next_job(queue, false)); n++) {
        char message[REF_MESSAGE_SIZE] = "";
        clv_status status = interrupted(dev, message);
        if (!status) {
            int done =
                atomic_load(&dev->hung) ? 0 : look_at_waits(job, message);
            if (!done)
                break;
            status = done == 1 ? run_commands(dev, job, message) : done;
        }
        complete(queue, job, status, message);
    }
    return n;
}

clv_status ref_progress(clv_plugin_device *dev)
{
    for (uint32_t n = 1; dev->settings->progress && n;) {
        n = 0;
        for (uint32_t i = 0; i <= dev->settings->copy_queues; i++)
            n += advance(&dev->queues[i]);
    }
    return ref_check_device(dev);
}

clv_status ref_queues_start(clv_plugin_device *dev)
{
    for (uint32_t i = 0; i < REF_MAX_QUEUES; i++)
        dev->queues[i].dev = dev;
    for (uint32_t i = 0; i <= dev->settings->copy_queues; i++) {
        ref_queue *queue = &dev->queues[i];
        if (dev->settings->progress)
            continue;
        int error = pthread_create(&queue->thread, NULL, work, queue);
        if (error)
            return clv_fail(dev->host, CLV_ERR_LIMIT,
                            REF_NAME ": no thread for device %u: %s",
                            (unsigned)dev->index, strerror(error));
        queue->has_thread = true;
    }
    return CLV_OK;
}

void ref_queues_stop(clv_plugin_device *dev)
{
    pthread_mutex_lock(&dev->mutex);
    atomic_store(&dev->stop, true);
    pthread_cond_broadcast(&dev->pushed);
    pthread_mutex_unlock(&dev->mutex);
    for (uint32_t i = 0; i < REF_MAX_QUEUES; i++) {
        ref_queue *queue = &dev->queues[i];
        if (queue->has_thread)
            pthread_join(queue->thread, NULL);
        for (ref_job *job; (job = next_job(queue, false));) {
            char message[REF_MESSAGE_SIZE] = "";
            complete(queue, job, interrupted(dev, message), message);
        }
    }
}

clv_status ref_queue_push(clv_plugin_device *dev, ref_job *job)
{
    ref_queue *queue = &dev->queues[job->queue];
    pthread_mutex_lock(&dev->mutex);
    bool full = queue->n_jobs >= dev->settings->queue_depth;
    if (!full) {
        if (queue->last)
            queue->last->next = job;
        else
            queue->first = job;
        queue->last = job;
        queue->n_jobs++;
        pthread_cond_broadcast(&dev->pushed);
    }
    pthread_mutex_unlock(&dev->mutex);
    return full ? clv_fail(dev->host, CLV_ERR_LIMIT,
                           REF_NAME ": %u submits are in flight; wait for one",
                           dev->settings->queue_depth)
                : CLV_OK;
}
