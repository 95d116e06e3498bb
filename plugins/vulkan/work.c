#include "commands.h"
#include "flight.h"
#include "memory.h"
#include "program.h"
#include "trace.h"

/* --- the feeder ----------------------------------------------------------- */

/* With the lock held. Whether a flight ahead will bring the timeline there. */
static int is_ahead(void *ctx, const clv_submit *waiting,
                    const clv_timeline_point *point)
{
    const clv_plugin_device *dev = ctx;
    const vk_work *work = dev->work;
    (void)waiting;
    for (uint64_t f = work->finished; f < work->fed; f++) {
        const vk_flight *flight = &work->flights[f % VK_FLIGHTS];
        const clv_submit *submit = &flight->job->submit;
        for (uint32_t i = 0; i < submit->n_signals && !flight->status; i++)
            if (submit->signals[i].timeline == point->timeline &&
                submit->signals[i].value >= point->value)
                return 1;
    }
    return 0;
}

/* With the lock held, given up meanwhile. */
static void feed(clv_plugin_device *dev, clv_fifo *fifo)
{
    vk_work *work = dev->work;
    clv_queue *queue = fifo->queue;
    clv_queue_job *job = fifo->first;
    char message[CLV_MESSAGE_SIZE] = "";
    while (work->fed - work->finished == VK_FLIGHTS)
        clv_queue_pause(queue, UINT64_MAX / 2);
    clv_status status = clv_queue_begin(queue, &job->submit, message);
    vk_flight *flight = &work->flights[work->fed % VK_FLIGHTS];
    flight->job = job;
    flight->status = status;
    flight->value = 0;
    memcpy(flight->message, message, sizeof message);
    fifo->first = job->next;
    if (!status) {
        pthread_mutex_unlock(&queue->lock);
        vk_flight_launch(dev, flight);
        pthread_mutex_lock(&queue->lock);
    }
    work->fed++;
    pthread_cond_broadcast(&queue->changed);
}

static void *feeder_main(void *arg)
{
    clv_fifo *fifo = arg;
    clv_queue *queue = fifo->queue;
    clv_plugin_device *dev = queue->ctx;
    pthread_mutex_lock(&queue->lock);
    for (;;) {
        while (!fifo->first && !queue->stop)
            pthread_cond_wait(&queue->changed, &queue->lock);
        if (!fifo->first)
            break;
        feed(dev, fifo);
    }
    dev->work->ended = true;
    pthread_cond_broadcast(&queue->changed);
    pthread_mutex_unlock(&queue->lock);
    return NULL;
}

/* --- the finisher --------------------------------------------------------- */

/* With the lock held. The status to end with: a wait that was left to the
 * order of flights may have failed by the host meanwhile. */
static clv_status judge(clv_plugin_device *dev, vk_flight *flight)
{
    const clv_submit *submit = &flight->job->submit;
    if (!flight->status && dev->base.queue->lost)
        flight->status = clv_queue_check_stop(dev->base.queue, flight->message);
    for (uint32_t i = 0; i < submit->n_waits && !flight->status; i++) {
        const clv_plugin_timeline *tl = submit->waits[i].timeline;
        if (!tl || !tl->status)
            continue;
        flight->status = tl->status;
        memcpy(flight->message, tl->message, sizeof flight->message);
    }
    return flight->status;
}

static void *finisher_main(void *arg)
{
    clv_plugin_device *dev = arg;
    vk_work *work = dev->work;
    clv_queue *queue = dev->base.queue;
    pthread_mutex_lock(&queue->lock);
    for (;;) {
        while (work->finished == work->fed && !work->ended)
            pthread_cond_wait(&queue->changed, &queue->lock);
        if (work->finished == work->fed)
            break;
        vk_flight *flight = &work->flights[work->finished % VK_FLIGHTS];
        pthread_mutex_unlock(&queue->lock);
        char message[CLV_MESSAGE_SIZE];
        clv_status status = vk_flight_wait(dev, flight, message);
        pthread_mutex_lock(&queue->lock);
        clv_queue_job *job = flight->job;
        if (status) {
            flight->status = status;
            memcpy(flight->message, message, sizeof message);
        }
        status = judge(dev, flight);
        work->finished++;
        queue->fifos[job->submit.queue].n_jobs--;
        clv_queue_end(&job->submit, status, flight->message);
        pthread_cond_broadcast(&queue->changed);
        pthread_mutex_unlock(&queue->lock);
        clv_queue_job_free(queue, job);
        pthread_mutex_lock(&queue->lock);
    }
    pthread_mutex_unlock(&queue->lock);
    return NULL;
}

/* --- start and stop ------------------------------------------------------- */

static clv_status check(void *ctx, const clv_command *c)
{
    const clv_plugin_device *dev = ctx;
    return c->kind == CLV_COMMAND_RUN ? vk_program_check(c)
                                      : clv_buffer_check(dev->base.host, c);
}

const clv_queue_fns vk_queue_fns = {check, NULL};

clv_status vk_work_start(clv_plugin_device *dev)
{
    const clv_host_api *host = dev->base.host;
    clv_queue *queue = dev->base.queue;
    vk_work *work = dev->work = clv_new(host, sizeof *work);
    if (!work)
        return CLV_ERR_NO_MEMORY;
    VkResult result = vk_make_semaphore(dev, &work->semaphore);
    if (result)
        return vk_fail(dev, result, "vkCreateSemaphore");
    CLV_TRY(vk_block_create(dev, 0, 256, NULL, &work->scratch));
    for (uint32_t i = 0; i < VK_FLIGHTS; i++)
        CLV_TRY(vk_flight_init(dev, &work->flights[i]));
    CLV_TRY(vk_trace_init(dev));
    queue->is_ahead = is_ahead;
    CLV_TRY(clv_queue_start(queue, feeder_main));
    CLV_TRY(clv_thread_start(host, finisher_main, dev, &work->finisher));
    work->finishes = true;
    return CLV_OK;
}

void vk_work_stop(clv_plugin_device *dev)
{
    vk_work *work = dev->work;
    if (!work)
        return;
    clv_queue_stop(dev->base.queue);
    if (work->finishes)
        pthread_join(work->finisher, NULL);
    for (uint32_t i = 0; i < VK_FLIGHTS; i++)
        vk_flight_finish(dev, &work->flights[i]);
    vk_trace_finish(dev);
    if (work->scratch)
        vk_block_destroy(dev, work->scratch);
    dev->api.DestroySemaphore(dev->device, work->semaphore, NULL);
    clv_free(dev->base.host, work);
}

clv_status vk_submit(clv_plugin_device *dev, const clv_submit *submit)
{
    CLV_TRY(vk_validated(dev->inst));
    if (submit->correlation)
        CLV_TRY(clv_trace_reserve(dev->base.queue));
    return clv_queue_submit(dev, submit);
}
