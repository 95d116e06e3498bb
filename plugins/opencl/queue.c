#include "queue.h"
#include "memory.h"
#include "pieces.h"
#include "program.h"
#include "wait.h"

#include <string.h>

static ocl_job *job_of(const clv_submit *submit)
{
    return (ocl_job *)(uintptr_t)submit->header.next;
}

static void release_events(clv_plugin_device *dev, ocl_job *job)
{
    for (uint32_t i = 0; i < job->n_after; i++)
        dev->cl->ReleaseEvent(job->after[i]);
    for (uint32_t i = 0; i < job->n_spans; i++)
        if (job->spans[i].event)
            dev->cl->ReleaseEvent(job->spans[i].event);
    if (job->last)
        dev->cl->ReleaseEvent(job->last);
}

/* ------------------------------------------------------------------------ */
/* Enqueueing                                                               */

cl_event *ocl_span_begin(ocl_job *job, uint32_t command, uint32_t node,
                         const char *name)
{
    if (!job || !job->spans || job->n_spans == job->max_spans)
        return NULL;
    ocl_span *span = &job->spans[job->n_spans++];
    span->command = command;
    span->node = node;
    snprintf(span->name, sizeof span->name, "%s", name);
    return &span->event;
}

void ocl_end_with(clv_plugin_device *dev, ocl_job *job, cl_event event)
{
    if (!dev->cl->RetainEvent(event))
        job->last = event;
}

static clv_status enqueue_command(ocl_queue *q, ocl_job *job, uint32_t i)
{
    clv_plugin_device *dev = q->dev;
    const clv_command *c = &job->job->submit.commands[i];
    if (c->kind == CLV_COMMAND_RUN)
        return ocl_program_enqueue(c->program, job->queue, job, i, c);
    cl_int error = c->kind == CLV_COMMAND_COPY ? ocl_copy(q, job, i, c)
                                               : ocl_fill(dev, job, i, c);
    if (error)
        snprintf(job->message, sizeof job->message,
                 "opencl: %s of %llu bytes: %s (%d)",
                 c->kind == CLV_COMMAND_COPY ? "a copy" : "a fill",
                 (unsigned long long)c->size, ocl_error_name(error),
                 (int)error);
    return ocl_status(error);
}

/* Recording has a queue of its own, since times cost a little; it is rarely
 * turned on or off, so that it does no harm to wait then. */
static cl_int switch_queue(ocl_queue *q, ocl_job *job)
{
    cl_int error = CL_SUCCESS;
    job->queue = job->spans ? q->timed : q->plain;
    if (job->queue != q->now)
        error = q->dev->cl->Finish(q->now);
    q->now = job->queue;
    return error;
}

/* Of jobs of queue 0, for which other queues make way. */
static void count_uploads(ocl_queue *q, ocl_job *job)
{
    const clv_submit *s = &job->job->submit;
    for (uint32_t i = 0; i < s->n_commands && !s->queue; i++)
        job->uploads |= ocl_is_upload(&s->commands[i]);
    if (job->uploads)
        __atomic_add_fetch(&q->dev->n_uploads, 1, __ATOMIC_RELAXED);
}

/* On the thread that has the job. What was enqueued before something failed
 * runs all the same, so that its end is to be waited for. */
static void enqueue(ocl_queue *q, ocl_job *job)
{
    const clv_submit *s = &job->job->submit;
    const ocl_api *cl = q->dev->cl;
    if (!s->n_commands)
        return;
    count_uploads(q, job);
    cl_int error = switch_queue(q, job);
    if (!error && job->n_after)
        error = cl->EnqueueBarrierWithWaitList(job->queue, job->n_after,
                                               job->after, NULL);
    for (uint32_t i = 0; i < s->n_commands && !job->status && !error; i++)
        job->status = enqueue_command(q, job, i);
    if (!error && !job->last)
        error = cl->EnqueueMarkerWithWaitList(job->queue, 0, NULL, &job->last);
    if (!error)
        error = cl->Flush(job->queue);
    if (error && !job->status) {
        job->status = ocl_status(error);
        snprintf(job->message, sizeof job->message,
                 "opencl: the queue: %s (%d)", ocl_error_name(error),
                 (int)error);
    }
    ocl_noticed(q->dev, job->status);
}

/* Whether the job, which flies, will bring the timeline there. */
static bool brings(const ocl_job *job, const clv_timeline_point *point)
{
    const clv_submit *s = &job->job->submit;
    for (uint32_t i = 0; i < s->n_signals && !job->status; i++)
        if (s->signals[i].timeline == point->timeline &&
            s->signals[i].value >= point->value)
            return true;
    return false;
}

/* clv_queue.is_ahead: of another queue there must be an event to wait for, and
 * something that waits. */
static int is_ahead(void *ctx, const clv_submit *waiting,
                    const clv_timeline_point *point)
{
    clv_plugin_device *dev = ctx;
    ocl_job *self = job_of(waiting);
    for (uint32_t i = 0; i <= dev->base.queue->n_copying; i++) {
        const ocl_job *job = dev->queues[i].flying;
        while (job && !brings(job, point))
            job = job->next;
        if (!job)
            continue;
        if (i == waiting->queue)
            return 1;
        if (!waiting->n_commands || !job->last ||
            dev->cl->RetainEvent(job->last))
            return 0;
        self->after[self->n_after++] = job->last;
        return 1;
    }
    return 0;
}

/* With the lock held, given up meanwhile: the job that the caller has taken. */
static void launch(ocl_queue *q, clv_fifo *fifo)
{
    clv_queue *queue = fifo->queue;
    ocl_job *job = job_of(&fifo->first->submit);
    job->status = clv_queue_begin(queue, &job->job->submit, job->message);
    if (!job->status) {
        pthread_mutex_unlock(&queue->lock);
        enqueue(q, job);
        pthread_mutex_lock(&queue->lock);
    }
    if (q->flying)
        q->last_flying->next = job;
    else
        q->flying = job;
    q->last_flying = job;
    clv_fifo_pass(fifo);
}

static void *enqueue_main(void *arg)
{
    clv_fifo *fifo = arg;
    clv_queue *queue = fifo->queue;
    clv_plugin_device *dev = queue->ctx;
    ocl_queue *q = &dev->queues[fifo->index];
    clv_thread_wakes_in_time();
    pthread_mutex_lock(&queue->lock);
    while (clv_fifo_take(fifo))
        launch(q, fifo);
    q->no_more = true;
    pthread_cond_broadcast(&queue->changed);
    pthread_mutex_unlock(&queue->lock);
    return NULL;
}

/* ------------------------------------------------------------------------ */
/* Ending                                                                   */

void ocl_read_times(clv_plugin_device *dev, ocl_job *job)
{
    for (uint32_t i = 0; i < job->n_spans; i++) {
        ocl_span *span = &job->spans[i];
        cl_ulong begin = 0, end = 0;
        if (!span->event)
            continue;
        if (!dev->cl->GetEventProfilingInfo(span->event,
                                            CL_PROFILING_COMMAND_START,
                                            sizeof begin, &begin, NULL) &&
            !dev->cl->GetEventProfilingInfo(span->event,
                                            CL_PROFILING_COMMAND_END,
                                            sizeof end, &end, NULL)) {
            span->begin = begin;
            span->end = end;
        }
        dev->cl->ReleaseEvent(span->event);
        span->event = NULL;
    }
}

/* Without the lock: until the device has done it. */
static void await(clv_plugin_device *dev, ocl_job *job)
{
    cl_int error = CL_SUCCESS;
    if (job->last)
        error = ocl_wait(dev, job->last);
    else if (job->status && job->queue)
        error = dev->cl->Finish(job->queue);
    if (error && !job->status) {
        job->status = ocl_status(error);
        snprintf(job->message, sizeof job->message,
                 "%.50s: running failed: %s (%d)", dev->label,
                 ocl_error_name(error), (int)error);
    }
    if (!job->status && job->spans)
        ocl_read_times(dev, job);
}

/* With the lock held: a record for each node's kernel, and one for the command
 * of them all. */
static void record(clv_queue *queue, const ocl_job *job)
{
    const clv_submit *s = &job->job->submit;
    for (uint32_t i = 0; i < job->n_spans;) {
        const uint32_t command = job->spans[i].command;
        uint64_t begin = 0, end = 0;
        for (; i < job->n_spans && job->spans[i].command == command; i++) {
            const ocl_span *span = &job->spans[i];
            if (!span->end)
                continue;
            begin = begin ? begin : span->begin;
            end = span->end;
            if (span->node != CLV_NO_TENSOR)
                clv_trace_add(queue, s, command, span->node, span->name,
                              span->begin, span->end);
        }
        if (end)
            clv_trace_add(queue, s, command, CLV_NO_TENSOR,
                          clv_command_name(s->commands[command].kind), begin,
                          end);
    }
}

/* With the lock held: signals. Who sees it finds the times. */
static void end(ocl_queue *q, ocl_job *job)
{
    clv_queue *queue = q->dev->base.queue;
    clv_submit *s = &job->job->submit;
    if (!job->status)
        job->status = clv_queue_settle(queue, s, job->message);
    if (job->status == CLV_ERR_DEVICE_LOST && job->last)
        clv_queue_lose(queue, job->message);
    if (job->uploads)
        __atomic_sub_fetch(&q->dev->n_uploads, 1, __ATOMIC_RELAXED);
    q->flying = job->next;
    queue->fifos[s->queue].n_jobs--;
    if (!job->status)
        record(queue, job);
    clv_queue_end(s, job->status, job->message);
    pthread_cond_broadcast(&queue->changed);
}

/* What runs on the host's processors wants them itself. */
static uint64_t soon_ns(const clv_plugin_device *dev)
{
    return dev->props->is_cpu ? CLV_SOON_NS / 10 : CLV_SOON_NS;
}

/* With the lock held, given up meanwhile: the first job that flies. */
static void complete(ocl_queue *q)
{
    clv_queue *queue = q->dev->base.queue;
    ocl_job *job = q->flying;
    pthread_mutex_unlock(&queue->lock);
    await(q->dev, job);
    pthread_mutex_lock(&queue->lock);
    end(q, job);
    pthread_mutex_unlock(&queue->lock);
    release_events(q->dev, job);
    clv_queue_job_free(queue, job->job);
    pthread_mutex_lock(&queue->lock);
}

static void *complete_main(void *arg)
{
    ocl_queue *q = arg;
    clv_queue *queue = q->dev->base.queue;
    clv_fifo *fifo = &queue->fifos[q - q->dev->queues];
    clv_thread_wakes_in_time();
    pthread_mutex_lock(&queue->lock);
    for (;;) {
        while (!q->flying && !q->no_more)
            pthread_cond_wait(&queue->changed, &queue->lock);
        if (!q->flying)
            break;
        complete(q);
        if (clv_fifo_take_soon(fifo, soon_ns(q->dev)))
            launch(q, fifo);
    }
    pthread_mutex_unlock(&queue->lock);
    return NULL;
}

/* ------------------------------------------------------------------------ */
/* Submitting                                                               */

static clv_status check(void *ctx, const clv_command *c)
{
    clv_plugin_device *dev = ctx;
    if (c->kind != CLV_COMMAND_RUN)
        return clv_buffer_check(dev->base.host, c);
    CLV_TRY(clv_program_check(c));
    for (uint32_t i = 0; i < c->n_bindings; i++)
        CLV_TRY(ocl_buffer_check_bound(c->bindings[i].buffer));
    return CLV_OK;
}

/* Commands that are timed one by one. */
static uint32_t count_spans(const clv_submit *s)
{
    uint32_t n = 0;
    for (uint32_t i = 0; s->correlation && i < s->n_commands; i++) {
        const clv_command *c = clv_at(s->commands, i, s->command_stride);
        n += c->kind == CLV_COMMAND_RUN ? c->program->code->n_dispatches
             : c->kind == CLV_COMMAND_COPY && c->size && s->queue > 0
                 ? ocl_count_pieces(c)
                 : 1;
    }
    return n;
}

static ocl_job *new_job(clv_plugin_device *dev, const clv_submit *submit)
{
    uint32_t n = count_spans(submit);
    uint64_t size = clv_queue_copy_submit(NULL, submit);
    uint64_t at = (size + 63) & ~(uint64_t)63;
    uint64_t spans = at + sizeof(ocl_job) + submit->n_waits * sizeof(cl_event);
    char *block = clv_new(dev->base.host, spans + n * sizeof(ocl_span));
    if (!block)
        return NULL;
    clv_queue_copy_submit(block, submit);
    ocl_job *job = (ocl_job *)(void *)(block + at);
    job->job = (clv_queue_job *)(void *)block;
    job->job->submit.header.next = job;
    job->after = (cl_event *)(void *)(job + 1);
    job->spans = n ? (ocl_span *)(void *)(block + spans) : NULL;
    job->max_spans = n;
    return job;
}

clv_status ocl_submit(clv_plugin_device *dev, const clv_submit *submit)
{
    clv_queue *queue = dev->base.queue;
    clv_submit own;
    clv_read(&own, sizeof own, submit);
    CLV_TRY(clv_queue_usable(dev));
    CLV_TRY(clv_queue_check(queue, &own));
    if (own.correlation)
        CLV_TRY(clv_trace_reserve(queue));
    ocl_job *job = new_job(dev, &own);
    if (!job)
        return CLV_ERR_NO_MEMORY;
    pthread_mutex_lock(&queue->lock);
    int added = clv_queue_add(queue, job->job);
    pthread_mutex_unlock(&queue->lock);
    if (added)
        return CLV_OK;
    clv_free(dev->base.host, job->job);
    return clv_fail(dev->base.host, CLV_ERR_LIMIT,
                    "opencl: %u submits are in flight, the queue holds no "
                    "more; wait for one",
                    (unsigned)queue->depth);
}

clv_status ocl_queue_open(clv_plugin_device *dev)
{
    static const clv_queue_fns fns = {check, NULL};
    const uint32_t n_copying = dev->props->info.copy_queues;
    CLV_TRY(clv_queue_new(dev->base.host, OCL_QUEUE_DEPTH, n_copying, &fns, dev,
                          &dev->base));
    dev->base.queue->is_ahead = is_ahead;
    clv_status status = clv_queue_start(dev->base.queue, enqueue_main);
    for (uint32_t i = 0; i <= n_copying && !status; i++) {
        ocl_queue *q = &dev->queues[i];
        status =
            clv_thread_start(dev->base.host, complete_main, q, &q->completer);
        q->completes = !status;
    }
    if (status)
        ocl_queue_close(dev);
    return status;
}

void ocl_queue_close(clv_plugin_device *dev)
{
    clv_queue_stop(dev->base.queue);
    for (uint32_t i = 0; i < OCL_MAX_QUEUES; i++) {
        if (dev->queues[i].completes)
            pthread_join(dev->queues[i].completer, NULL);
        ocl_pieces_finish(&dev->queues[i]);
    }
    clv_queue_destroy(dev->base.queue);
    dev->base.queue = NULL;
}
