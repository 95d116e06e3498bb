#include "flight.h"
#include "memory.h"
#include "program.h"
#include "trace.h"

/* --- the feeder ----------------------------------------------------------- */

/* With the lock held. Whether a flight ahead will bring the timeline there. */
static bool is_ahead(const vk_work *work, const clv_timeline_point *point)
{
    for (uint64_t f = work->finished; f < work->fed; f++) {
        const vk_flight *flight = &work->flights[f % VK_FLIGHTS];
        const clv_submit *submit = &flight->job->submit;
        for (uint32_t i = 0; i < submit->n_signals && !flight->status; i++)
            if (submit->signals[i].timeline == point->timeline &&
                submit->signals[i].value >= point->value)
                return true;
    }
    return false;
}

static clv_status stopped(clv_plugin_device *dev, char *message)
{
    if (atomic_load(&dev->lost)) {
        snprintf(message, CLV_MESSAGE_SIZE, "vulkan:%.40s: the device is lost",
                 dev->phys->id);
        return CLV_ERR_DEVICE_LOST;
    }
    return clv_queue_check_stop(&dev->work->queue, message);
}

/* With the lock held. Another device's flag word wakes nobody, so it is looked
 * at again and again. */
static clv_status await(clv_plugin_device *dev, const clv_timeline_point *point,
                        char *message)
{
    const uint64_t look_ns = 50000;
    vk_work *work = dev->work;
    const uint64_t *flag =
        point->timeline ? &point->timeline->word : point->flag;
    while (clv_timeline_word(flag) < point->value && !work->queue.stop &&
           !atomic_load(&dev->lost)) {
        if (point->timeline && is_ahead(work, point))
            return CLV_OK;
        clv_queue_pause(&work->queue, point->timeline
                                          ? UINT64_MAX / 2
                                          : clv_queue_now() + look_ns);
    }
    if (clv_timeline_word(flag) < point->value)
        return stopped(dev, message);
    return clv_queue_await(&work->queue, point, message);
}

/* With the lock held. Work is not begun if all timelines that it would signal
 * have failed: what it was bound to may be gone. */
static clv_status begin(clv_plugin_device *dev, const clv_submit *submit,
                        char *message)
{
    vk_work *work = dev->work;
    clv_status status = CLV_OK;
    for (uint32_t i = 0; i < submit->n_waits && !status; i++)
        status = await(dev, &submit->waits[i], message);
    while (!status && work->fed - work->finished == VK_FLIGHTS)
        clv_queue_pause(&work->queue, UINT64_MAX / 2);
    while (!status && work->hang && !work->queue.stop &&
           !atomic_load(&dev->lost))
        clv_queue_pause(&work->queue, UINT64_MAX / 2);
    uint32_t failed = 0;
    while (failed < submit->n_signals &&
           submit->signals[failed].timeline->status)
        failed++;
    if (!status && failed && failed == submit->n_signals) {
        memcpy(message, submit->signals[0].timeline->message, CLV_MESSAGE_SIZE);
        status = submit->signals[0].timeline->status;
    }
    return status ? status : stopped(dev, message);
}

/* With the lock held, given up meanwhile. */
static void feed(clv_plugin_device *dev, clv_queue_job *job)
{
    vk_work *work = dev->work;
    char message[CLV_MESSAGE_SIZE] = "";
    clv_status status = begin(dev, &job->submit, message);
    while (work->fed - work->finished == VK_FLIGHTS)
        clv_queue_pause(&work->queue, UINT64_MAX / 2);
    vk_flight *flight = &work->flights[work->fed % VK_FLIGHTS];
    flight->job = job;
    flight->status = status;
    flight->value = 0;
    memcpy(flight->message, message, sizeof message);
    work->queue.first = job->next;
    if (!status) {
        pthread_mutex_unlock(&work->queue.lock);
        vk_flight_launch(dev, flight);
        pthread_mutex_lock(&work->queue.lock);
    }
    work->fed++;
    pthread_cond_broadcast(&work->queue.changed);
}

static void *feeder_main(void *arg)
{
    clv_plugin_device *dev = arg;
    vk_work *work = dev->work;
    clv_queue *queue = &work->queue;
    pthread_mutex_lock(&queue->lock);
    for (;;) {
        while (!queue->first && !queue->stop)
            pthread_cond_wait(&queue->changed, &queue->lock);
        if (!queue->first)
            break;
        feed(dev, queue->first);
    }
    work->ended = true;
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
    if (!flight->status && atomic_load(&dev->lost))
        flight->status = stopped(dev, flight->message);
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
    clv_queue *queue = &work->queue;
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
        queue->n_jobs--;
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
    clv_plugin_device *dev = ctx;
    if (c->kind == CLV_COMMAND_RUN)
        return vk_program_check(c);
    if (vk_buffer_has(c->dst, c->dst_offset, c->size, CLV_ACCESS_WRITE) &&
        (c->kind == CLV_COMMAND_FILL ||
         vk_buffer_has(c->src, c->src_offset, c->size, CLV_ACCESS_READ)))
        return CLV_OK;
    return clv_fail(dev->base.host, CLV_ERR_INVALID,
                    "vulkan:%s: %llu bytes from %llu to %llu are outside the "
                    "buffers, or in memory that may not be written",
                    dev->phys->id, (unsigned long long)c->size,
                    (unsigned long long)c->src_offset,
                    (unsigned long long)c->dst_offset);
}

static void init_queue(clv_plugin_device *dev, clv_queue *queue)
{
    static const clv_queue_fns fns = {.check = check};
    pthread_condattr_t attr;
    queue->host = dev->base.host;
    queue->fns = &fns;
    queue->ctx = dev;
    queue->depth = dev->inst->queue_depth;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&queue->changed, &attr);
    pthread_condattr_destroy(&attr);
    pthread_mutex_init(&queue->lock, NULL);
    dev->base.queue = queue;
}

static clv_status start_threads(clv_plugin_device *dev)
{
    vk_work *work = dev->work;
    int error = pthread_create(&work->feeder, NULL, feeder_main, dev);
    if (!error) {
        work->threads = 1;
        error = pthread_create(&work->finisher, NULL, finisher_main, dev);
    }
    if (error)
        return clv_fail(dev->base.host, CLV_ERR_LIMIT,
                        "vulkan:%s: cannot start a thread: %s; end other "
                        "programs or raise the limit of processes",
                        dev->phys->id, strerror(error));
    work->threads = 2;
    return CLV_OK;
}

clv_status vk_work_start(clv_plugin_device *dev)
{
    const VkSemaphoreTypeCreateInfo type = {
        .sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
        .semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE};
    const VkSemaphoreCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO, .pNext = &type};
    vk_work *work = dev->work = clv_new(dev->base.host, sizeof *work);
    if (!work)
        return CLV_ERR_NO_MEMORY;
    init_queue(dev, &work->queue);
    VkResult result =
        dev->api.CreateSemaphore(dev->device, &info, NULL, &work->semaphore);
    if (result) {
        work->semaphore = VK_NULL_HANDLE;
        return vk_fail(dev, result, "vkCreateSemaphore");
    }
    CLV_TRY(vk_block_create(dev, 0, 256, NULL, &work->scratch));
    for (uint32_t i = 0; i < VK_FLIGHTS; i++)
        CLV_TRY(vk_flight_init(dev, &work->flights[i]));
    CLV_TRY(vk_trace_init(dev));
    return start_threads(dev);
}

static void join(vk_work *work)
{
    pthread_mutex_lock(&work->queue.lock);
    work->queue.stop = 1;
    work->ended = !work->threads;
    pthread_cond_broadcast(&work->queue.changed);
    pthread_mutex_unlock(&work->queue.lock);
    if (work->threads > 0)
        pthread_join(work->feeder, NULL);
    if (work->threads > 1)
        pthread_join(work->finisher, NULL);
}

void vk_work_stop(clv_plugin_device *dev)
{
    vk_work *work = dev->work;
    if (!work)
        return;
    join(work);
    for (uint32_t i = 0; i < VK_FLIGHTS; i++)
        vk_flight_finish(dev, &work->flights[i]);
    vk_trace_finish(dev);
    if (work->scratch)
        vk_block_destroy(dev, work->scratch);
    dev->api.DestroySemaphore(dev->device, work->semaphore, NULL);
    pthread_mutex_destroy(&work->queue.lock);
    pthread_cond_destroy(&work->queue.changed);
    clv_free(dev->base.host, work);
}

/* --- slots ---------------------------------------------------------------- */

clv_status vk_submit(clv_plugin_device *dev, const clv_submit *submit)
{
    clv_status status = vk_alive(dev);
    if (!status)
        status = vk_validated(dev->inst);
    return status ? status : clv_queue_submit(dev, submit);
}

clv_status vk_timeline_create(clv_plugin_device *dev, uint64_t value,
                              clv_plugin_timeline **out)
{
    clv_status status = vk_alive(dev);
    return status ? status : clv_timeline_create(dev, value, out);
}

clv_status vk_fault_inject(clv_plugin_device *dev, uint32_t fault)
{
    vk_work *work = dev->work;
    if (fault != CLV_FAULT_LOST && fault != CLV_FAULT_HANG)
        return clv_fail(dev->base.host, CLV_ERR_UNSUPPORTED,
                        "vulkan:%s: fault %u is not known", dev->phys->id,
                        (unsigned)fault);
    pthread_mutex_lock(&work->queue.lock);
    if (fault == CLV_FAULT_LOST)
        atomic_store(&dev->lost, true);
    else
        work->hang = true;
    pthread_cond_broadcast(&work->queue.changed);
    pthread_mutex_unlock(&work->queue.lock);
    return CLV_OK;
}
