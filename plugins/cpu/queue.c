#include "queue.h"
#include "host.h"
#include "run.h"
#include "spin.h"
#include "thread.h"

#include <pthread.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define MESSAGE_SIZE 128
#define STOP_CHECK_NS                                                          \
    20000000u               /* how often a blocked wait looks for a stop       \
                             */
#define SLEEP_MIN_NS 20000u /* between looks at a foreign flag word */
#define SLEEP_MAX_NS 200000u

struct cpu_queue {
    cpu_runner runner;
    uint64_t poll_ns;
    pthread_t thread;
    _Atomic uint32_t length; /* jobs listed */
    _Atomic bool stop, lost, hangs;
    pthread_mutex_t lock;
    pthread_cond_t pushed;
    cpu_job *first, *last; /* under the lock */
};

void cpu_job_free(const clv_host_api *host, cpu_job *job)
{
    for (uint32_t i = 0; i < job->n_waits; i++)
        cpu_timeline_destroy(job->waits[i].timeline);
    for (uint32_t i = 0; i < job->n_signals; i++)
        cpu_timeline_destroy(job->signals[i].timeline);
    cpu_free(host, job);
}

void cpu_queue_push(cpu_queue *queue, cpu_job *job)
{
    job->next = NULL;
    job->hangs = atomic_load(&queue->hangs);
    pthread_mutex_lock(&queue->lock);
    if (queue->first)
        queue->last->next = job;
    else
        queue->first = job;
    queue->last = job;
    atomic_fetch_add(&queue->length, 1);
    pthread_cond_signal(&queue->pushed);
    pthread_mutex_unlock(&queue->lock);
}

/* The next job; NULL when the queue stops and none is left. */
static cpu_job *pop(cpu_queue *queue)
{
    cpu_spin spin = {0};
    while (!atomic_load(&queue->length) && !atomic_load(&queue->stop))
        if (!cpu_spin_once(&spin, queue->poll_ns))
            break;
    pthread_mutex_lock(&queue->lock);
    while (!queue->first && !atomic_load(&queue->stop))
        pthread_cond_wait(&queue->pushed, &queue->lock);
    cpu_job *job = queue->first;
    if (job) {
        queue->first = job->next;
        atomic_fetch_sub(&queue->length, 1);
    }
    pthread_mutex_unlock(&queue->lock);
    return job;
}

void cpu_queue_inject(cpu_queue *queue, uint32_t fault)
{
    atomic_store(fault == CLV_FAULT_LOST ? &queue->lost : &queue->hangs, true);
}

bool cpu_queue_lost(cpu_queue *queue)
{
    return atomic_load(&queue->lost);
}

/* Why the queue has to give a job up; CLV_OK: it has not. */
static clv_status ended(cpu_queue *queue, char *message)
{
    if (atomic_load(&queue->lost)) {
        snprintf(message, MESSAGE_SIZE,
                 "cpu: the device is lost, by a fault "
                 "that was injected");
        return CLV_ERR_DEVICE_LOST;
    }
    if (!atomic_load(&queue->stop))
        return CLV_OK;
    snprintf(message, MESSAGE_SIZE,
             "cpu: cancelled, the device was stopped before the work began");
    return CLV_ERR_CANCELLED;
}

static clv_status await_timeline(cpu_queue *queue,
                                 const clv_timeline_point *point, char *message)
{
    uint64_t spin = queue->poll_ns;
    clv_status status, end;
    while ((status = cpu_timeline_await(point->timeline, point->value, spin,
                                        spin + STOP_CHECK_NS, message)) ==
           CLV_ERR_TIMEOUT) {
        if (cpu_timeline_failed(point->timeline))
            break;
        if ((end = ended(queue, message)))
            return end;
        spin = 0;
    }
    return status;
}

/* Another device's word: nothing tells when it changes, so look, less often the
 * longer it takes. */
static clv_status await_flag(cpu_queue *queue, const clv_timeline_point *point,
                             char *message)
{
    cpu_spin spin = {0};
    long sleep = SLEEP_MIN_NS;
    for (;;) {
        uint64_t word = __atomic_load_n(point->flag, __ATOMIC_ACQUIRE);
        if (word & CLV_FLAG_FAILED) {
            snprintf(message, MESSAGE_SIZE,
                     "cpu: work of another device that was waited for failed");
            return CLV_ERR_CANCELLED;
        }
        if (word >= point->value)
            return CLV_OK;
        clv_status end = ended(queue, message);
        if (end)
            return end;
        if (cpu_spin_once(&spin, queue->poll_ns))
            continue;
        nanosleep(&(struct timespec){.tv_nsec = sleep}, NULL);
        sleep = sleep * 3 / 2 < (long)SLEEP_MAX_NS ? sleep * 3 / 2
                                                   : (long)SLEEP_MAX_NS;
    }
}

/* Work is not begun if all timelines that it would signal have failed: the host
 * knows that it came to nothing, and may have freed what it was bound to. */
static clv_status check_signals(const cpu_job *job, char *message)
{
    for (uint32_t i = 0; i < job->n_signals; i++)
        if (!cpu_timeline_failed(job->signals[i].timeline))
            return CLV_OK;
    return job->n_signals
               ? cpu_timeline_await(job->signals[0].timeline, 0, 0, 0, message)
               : CLV_OK;
}

static clv_status hang(cpu_queue *queue, char *message)
{
    clv_status status;
    while (!(status = ended(queue, message)))
        nanosleep(&(struct timespec){.tv_nsec = SLEEP_MAX_NS}, NULL);
    return status;
}

static clv_status await_all(cpu_queue *queue, const cpu_job *job, char *message)
{
    clv_status status = CLV_OK;
    for (uint32_t i = 0; !status && i < job->n_waits; i++)
        status = job->waits[i].timeline
                     ? await_timeline(queue, &job->waits[i], message)
                     : await_flag(queue, &job->waits[i], message);
    return status;
}

static void finish_job(cpu_queue *queue, cpu_job *job, clv_status status,
                       const char *message)
{
    for (uint32_t i = 0; i < job->n_signals; i++)
        if (status)
            cpu_timeline_fail(job->signals[i].timeline, status, message);
        else
            cpu_timeline_reach(job->signals[i].timeline, job->signals[i].value);
    cpu_job_free(queue->runner.host, job);
}

static void *queue_main(void *ctx)
{
    cpu_queue *queue = ctx;
    for (cpu_job *job; (job = pop(queue));) {
        char message[MESSAGE_SIZE] = "";
        clv_status status = ended(queue, message);
        if (!status)
            status = await_all(queue, job, message);
        if (!status)
            status = check_signals(job, message);
        if (!status && job->hangs)
            status = hang(queue, message);
        if (!status)
            status = cpu_run_job(&queue->runner, job, message, sizeof message);
        if (!status && atomic_load(&queue->lost))
            status = ended(queue, message);
        finish_job(queue, job, status, message);
    }
    return NULL;
}

clv_status cpu_queue_create(const clv_host_api *host,
                            const cpu_kernels *kernels, cpu_pool *pool,
                            cpu_trace *trace, const cpu_setup *setup,
                            cpu_queue **out)
{
    cpu_queue *queue = cpu_alloc(host, sizeof *queue, alignof(cpu_queue));
    if (!queue)
        return cpu_no_memory(host, "the queue", sizeof *queue);
    queue->runner = (cpu_runner){
        .host = host, .kernels = kernels, .pool = pool, .trace = trace};
    queue->poll_ns = setup->poll_ns;
    pthread_mutex_init(&queue->lock, NULL);
    pthread_cond_init(&queue->pushed, NULL);
    clv_status status =
        cpu_thread_start(host, setup, 0, queue_main, queue, &queue->thread);
    if (status) {
        pthread_cond_destroy(&queue->pushed);
        pthread_mutex_destroy(&queue->lock);
        cpu_free(host, queue);
        return status;
    }
    *out = queue;
    return CLV_OK;
}

void cpu_queue_destroy(cpu_queue *queue)
{
    if (!queue)
        return;
    pthread_mutex_lock(&queue->lock);
    atomic_store(&queue->stop, true);
    pthread_cond_signal(&queue->pushed);
    pthread_mutex_unlock(&queue->lock);
    pthread_join(queue->thread, NULL);
    pthread_cond_destroy(&queue->pushed);
    pthread_mutex_destroy(&queue->lock);
    cpu_runner_finish(&queue->runner);
    cpu_free(queue->runner.host, queue);
}
