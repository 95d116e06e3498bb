#include "commands.h"
#include "device_wait.h"
#include "flight.h"
#include "memory.h"
#include "program.h"
#include "timelines.h"
#include "trace.h"

#define HOLD_NS 100000u /* the feeder looks for the next flight to be due */

/* --- the feeder ----------------------------------------------------------- */

static const vk_flight *find(const vk_work *work,
                             const clv_timeline_point *point)
{
    for (uint64_t f = work->finished; f < work->fed; f++) {
        const vk_flight *flight = &work->flights[f % VK_FLIGHTS];
        const clv_submit *submit = &flight->job->submit;
        for (uint32_t i = 0; i < submit->n_signals && !flight->status; i++)
            if (submit->signals[i].timeline == point->timeline &&
                submit->signals[i].value >= point->value)
                return flight;
    }
    return NULL;
}

/* clv_queue.is_ahead: whether a flight ahead will bring the timeline there. In
 * the other queue it must be one that the driver has, and so must be what waits
 * for it: the next flight of its own queue. For another device's flag it may
 * wait itself. */
static int is_ahead(void *ctx, const clv_submit *waiting,
                    const clv_timeline_point *point)
{
    clv_plugin_device *dev = ctx;
    vk_work *own = dev->work[waiting->queue];
    vk_flight *next = &own->flights[own->fed % VK_FLIGHTS];
    if (!point->timeline)
        return next->waits && vk_device_wait_is_ahead(dev, point);
    for (uint32_t i = 0; i <= dev->base.queue->n_copying; i++) {
        const vk_flight *ahead = find(dev->work[i], point);
        if (!ahead)
            continue;
        if (i == waiting->queue)
            return 1;
        if (!waiting->n_commands || !ahead->value || !ahead->submitted)
            return 0;
        if (next->after.value < ahead->value)
            next->after = (vk_point){ahead->work->semaphore, ahead->value};
        return 1;
    }
    return 0;
}

/* With the lock held, given up meanwhile: the driver gets what is recorded. */
static void flush(vk_work *work)
{
    clv_queue *queue = work->dev->base.queue;
    const uint64_t first = work->submitted, end = work->fed;
    if (first == end)
        return;
    pthread_mutex_unlock(&queue->lock);
    vk_flights_submit(work, first, (uint32_t)(end - first));
    pthread_mutex_lock(&queue->lock);
    for (uint64_t f = first; f < end; f++)
        work->flights[f % VK_FLIGHTS].submitted = true;
    work->submitted = end;
    pthread_cond_broadcast(&queue->changed);
}

/* Looks for limit_ns whether the submit may be handed over as far as other
 * devices matter. The next of their flights is often some microseconds away,
 * and a sleep takes longer. */
static bool look_for_others(clv_plugin_device *dev, const clv_submit *submit,
                            uint64_t limit_ns)
{
    clv_queue *queue = dev->base.queue;
    clv_spin spin = {0, 0};
    bool may;
    while (!(may = vk_device_wait_may_begin(dev, submit)) &&
           !__atomic_load_n(&queue->stop, __ATOMIC_RELAXED) &&
           !__atomic_load_n(&queue->lost, __ATOMIC_RELAXED) &&
           clv_spin_once(&spin, &queue->spin, limit_ns))
        continue;
    return may;
}

/* With the lock held: whether the flight's own device brings its timelines as
 * far by what is ahead. */
static bool own_are_ahead(clv_plugin_device *dev, const clv_submit *submit)
{
    for (uint32_t i = 0; i < submit->n_waits; i++) {
        const clv_timeline_point *point = &submit->waits[i];
        if (point->timeline && point->timeline->word < point->value &&
            !is_ahead(dev, submit, point))
            return false;
    }
    return true;
}

/* With the lock held, given up meanwhile: what the flight waits for, as far as
 * looking helps. If the wait is longer than that, or the host's, the driver
 * gets what is recorded: other devices count on it. */
static void prepare_waits(vk_work *work, vk_flight *flight)
{
    clv_queue *queue = work->dev->base.queue;
    const clv_submit *submit = &flight->job->submit;
    bool may = false;
    pthread_mutex_unlock(&queue->lock);
    flight->waits = vk_device_wait_takes(work->dev, submit);
    if (flight->waits)
        may = look_for_others(work->dev, submit, HOLD_NS);
    pthread_mutex_lock(&queue->lock);
    if (may && own_are_ahead(work->dev, submit))
        return;
    flush(work);
    if (!flight->waits)
        return;
    pthread_mutex_unlock(&queue->lock);
    look_for_others(work->dev, submit, CLV_SOON_NS);
    pthread_mutex_lock(&queue->lock);
}

/* Whether more flights may come into the submit: no more than the driver has
 * meanwhile. */
static bool may_hold(const vk_work *work, const vk_flight *last)
{
    const uint64_t held = work->fed - work->submitted;
    return last->waits && !last->status && last->job->next &&
           held < VK_TOGETHER && held < work->submitted - work->finished;
}

/* With the lock held, given up meanwhile: a place for the next flight. */
static vk_flight *next_flight(vk_work *work, clv_queue_job *job)
{
    clv_queue *queue = work->dev->base.queue;
    if (work->fed - work->finished == VK_FLIGHTS)
        flush(work);
    while (work->fed - work->finished == VK_FLIGHTS)
        clv_queue_pause(queue, UINT64_MAX / 2);
    vk_flight *flight = &work->flights[work->fed % VK_FLIGHTS];
    flight->job = job;
    flight->lead = NULL;
    flight->value = 0;
    flight->signals = 0;
    flight->submitted = false;
    flight->after = (vk_point){VK_NULL_HANDLE, 0};
    flight->message[0] = 0;
    return flight;
}

/* With the lock held, given up meanwhile: the job that the caller has taken. */
static void feed(vk_work *work, clv_fifo *fifo)
{
    clv_queue *queue = fifo->queue;
    clv_queue_job *job = fifo->first;
    vk_flight *flight = next_flight(work, job);
    prepare_waits(work, flight);
    flight->status = clv_queue_begin(queue, &job->submit, flight->message);
    if (flight->status || flight->after.value)
        flush(work);
    if (!flight->status) {
        vk_flight *lead = &work->flights[work->submitted % VK_FLIGHTS];
        pthread_mutex_unlock(&queue->lock);
        vk_flight_record(flight, lead);
        pthread_mutex_lock(&queue->lock);
    }
    work->fed++;
    if (!may_hold(work, flight))
        flush(work);
    clv_fifo_pass(fifo);
}

static void *feeder_main(void *arg)
{
    clv_fifo *fifo = arg;
    clv_queue *queue = fifo->queue;
    const clv_plugin_device *dev = queue->ctx;
    vk_work *work = dev->work[fifo->index];
    clv_thread_wakes_in_time();
    pthread_mutex_lock(&queue->lock);
    while (clv_fifo_take(fifo))
        feed(work, fifo);
    work->ended = true;
    pthread_cond_broadcast(&queue->changed);
    pthread_mutex_unlock(&queue->lock);
    return NULL;
}

/* --- the finisher --------------------------------------------------------- */

/* With the lock held. The status to end with: a wait that was left to the
 * order of flights may have failed by the host meanwhile. */
static clv_status judge(clv_queue *queue, vk_flight *flight)
{
    if (!flight->status && queue->lost)
        flight->status = clv_queue_check_stop(queue, flight->message);
    if (!flight->status)
        flight->status =
            clv_queue_settle(queue, &flight->job->submit, flight->message);
    return flight->status;
}

/* With the lock held, given up meanwhile: the first flight. */
static void finish(vk_work *work)
{
    clv_queue *queue = work->dev->base.queue;
    vk_flight *flight = &work->flights[work->finished % VK_FLIGHTS];
    clv_queue_job *job = flight->job;
    char message[CLV_MESSAGE_SIZE];
    pthread_mutex_unlock(&queue->lock);
    clv_status status = vk_flight_wait(flight, message);
    pthread_mutex_lock(&queue->lock);
    if (status) {
        flight->status = status;
        memcpy(flight->message, message, sizeof message);
    }
    status = judge(queue, flight);
    work->finished++;
    queue->fifos[job->submit.queue].n_jobs--;
    if (status)
        vk_timelines_failed(work->dev->inst, &job->submit);
    clv_queue_end(&job->submit, status, flight->message);
    pthread_cond_broadcast(&queue->changed);
    pthread_mutex_unlock(&queue->lock);
    clv_queue_job_free(queue, job);
    pthread_mutex_lock(&queue->lock);
}

/* What runs on the host's processors wants them itself. */
static uint64_t soon_ns(const clv_plugin_device *dev)
{
    return dev->phys->info.flags & CLV_DEVICE_SOFTWARE ? CLV_SOON_NS / 10
                                                       : CLV_SOON_NS;
}

static void *finisher_main(void *arg)
{
    vk_work *work = arg;
    clv_queue *queue = work->dev->base.queue;
    clv_fifo *fifo = &queue->fifos[work->index];
    pthread_mutex_lock(&queue->lock);
    for (;;) {
        while (work->finished == work->submitted && !work->ended)
            pthread_cond_wait(&queue->changed, &queue->lock);
        if (work->finished == work->submitted)
            break;
        finish(work);
        if (clv_fifo_take_soon(fifo, soon_ns(work->dev)))
            feed(work, fifo);
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

static clv_status make_work(clv_plugin_device *dev, uint32_t index)
{
    vk_work *work = dev->work[index] = clv_new(dev->base.host, sizeof *work);
    if (!work)
        return CLV_ERR_NO_MEMORY;
    work->dev = dev;
    work->index = index;
    VkResult result = vk_make_semaphore(dev, &work->semaphore);
    if (result)
        return vk_fail(dev, result, "vkCreateSemaphore");
    CLV_TRY(vk_block_create(dev, 0, 256, NULL, &work->scratch));
    for (uint32_t i = 0; i < VK_FLIGHTS; i++)
        CLV_TRY(vk_flight_init(work, &work->flights[i]));
    return CLV_OK;
}

clv_status vk_work_start(clv_plugin_device *dev)
{
    clv_queue *queue = dev->base.queue;
    for (uint32_t i = 0; i <= queue->n_copying; i++)
        CLV_TRY(make_work(dev, i));
    CLV_TRY(vk_trace_init(dev));
    CLV_TRY(vk_device_wait_start(dev));
    queue->is_ahead = is_ahead;
    CLV_TRY(clv_queue_start(queue, feeder_main));
    for (uint32_t i = 0; i <= queue->n_copying; i++) {
        vk_work *work = dev->work[i];
        CLV_TRY(clv_thread_start(dev->base.host, finisher_main, work,
                                 &work->finisher));
        work->finishes = true;
    }
    return CLV_OK;
}

static void free_work(clv_plugin_device *dev, vk_work *work)
{
    for (uint32_t i = 0; i < VK_FLIGHTS; i++)
        vk_flight_finish(dev, &work->flights[i]);
    if (work->scratch)
        vk_block_destroy(dev, work->scratch);
    dev->api.DestroySemaphore(dev->device, work->semaphore, NULL);
    clv_free(dev->base.host, work);
}

void vk_work_stop(clv_plugin_device *dev)
{
    if (dev->base.queue)
        clv_queue_stop(dev->base.queue);
    for (uint32_t i = 0; i < VK_MAX_QUEUES; i++)
        if (dev->work[i] && dev->work[i]->finishes)
            pthread_join(dev->work[i]->finisher, NULL);
    vk_trace_finish(dev);
    vk_device_wait_stop(dev);
    for (uint32_t i = 0; i < VK_MAX_QUEUES; i++)
        if (dev->work[i])
            free_work(dev, dev->work[i]);
}

clv_status vk_submit(clv_plugin_device *dev, const clv_submit *submit)
{
    CLV_TRY(vk_validated(dev->inst));
    if (submit->correlation)
        CLV_TRY(clv_trace_reserve(dev->base.queue));
    return clv_queue_submit(dev, submit);
}
