/*
 * cleave/plugin_queue.h - in-order queues and timelines for backend plugins
 *
 * For devices that have none of their own: a thread takes one submit after the
 * other, waits for what it waits for, has the plugin run it, and signals. Copy
 * queues have a thread each, on the same timelines. Not part of the ABI:
 * functions that a plugin compiles into itself, or does without. They need
 * POSIX threads and GNU C: compile with -std=gnu11 or later, or define
 * _GNU_SOURCE.
 *
 * clv_device_close, clv_queue_submit, clv_fault_inject, clv_trace_read and
 * clv_timeline_create, _destroy, _query, _signal, _fail and _wait are slots as
 * they stand. The
 * plugin's struct clv_plugin_device begins with a clv_device_base, which
 * clv_queue_create() fills. Nothing here calls the host with a lock held.
 */
#ifndef CLEAVE_PLUGIN_QUEUE_H_
#define CLEAVE_PLUGIN_QUEUE_H_

#include <cleave/plugin_submit.h>

#include <pthread.h>
#include <sched.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif
#include <time.h>

#ifndef CLOCK_MONOTONIC
#error "cleave/plugin_queue.h: compile with -std=gnu11, or define _GNU_SOURCE"
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define CLV_MESSAGE_SIZE 128
#define CLV_MAX_RECORDS 16384u /* that nobody reads; then the oldest go */
/* For clv_fifo_take_soon(): a token is chosen meanwhile. */
#define CLV_SOON_NS 500000u

/* The monotonic clock; not the host's, so that it can be read under a lock. */
static inline uint64_t clv_queue_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* What threads that poll for one device know of their cores. A core that other
 * work wants is lost for a whole time slice by one that polls on it, or offers
 * it while it could do something; a thread that blocks gets it back sooner. */
typedef struct clv_spin_state {
    uint64_t busy_until; /* other work wants the cores; 0: never did */
    uint64_t busy_ns;    /* how long that was believed, the last time */
} clv_spin_state;

/* Polling: pause instructions first, then the core is offered to other threads
 * between two looks. */
typedef struct clv_spin {
    uint64_t begin; /* 0: not started */
    uint32_t rounds;
} clv_spin;

/* The cores are wanted from now on. It is believed twice as long as the last
 * time if that has just ended: to find out costs a time slice. */
static inline void clv_spin_busy(clv_spin_state *state, uint64_t now)
{
    const uint64_t least = 10000000, most = 640000000;
    uint64_t until = __atomic_load_n(&state->busy_until, __ATOMIC_RELAXED);
    uint64_t ns = __atomic_load_n(&state->busy_ns, __ATOMIC_RELAXED);
    if (now < until)
        return;
    ns = now - until > 2 * ns + least ? least : ns < most ? 2 * ns : most;
    __atomic_store_n(&state->busy_ns, ns, __ATOMIC_RELAXED);
    __atomic_store_n(&state->busy_until, now + ns, __ATOMIC_RELAXED);
}

static inline void clv_spin_pause(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* One round; 0 once polling has lasted limit_ns, or a few microseconds if other
 * work wants the core. */
static inline int clv_spin_once(clv_spin *spin, clv_spin_state *state,
                                uint64_t limit_ns)
{
    const uint32_t pauses = 256, busy_pauses = 96; /* some microseconds */
    const uint64_t slice_ns = 500000; /* gone for so long: another's slice */
    if (++spin->rounds < pauses && spin->rounds % 32) {
        clv_spin_pause();
        return 1;
    }
    uint64_t now = clv_queue_now();
    if (!spin->begin)
        spin->begin = now;
    if (now - spin->begin >= limit_ns)
        return 0;
    if (spin->rounds >= busy_pauses &&
        now < __atomic_load_n(&state->busy_until, __ATOMIC_RELAXED))
        return 0;
    if (spin->rounds < pauses)
        return 1;
    sched_yield();
    uint64_t back = clv_queue_now();
    if (back - now >= slice_ns)
        clv_spin_busy(state, back);
    return 1;
}

/* Once, on a thread that waits: on Linux sleeps end up to 50 us late unless the
 * thread asks for less. */
static inline void clv_thread_wakes_in_time(void)
{
#ifdef __linux__
    prctl(PR_SET_TIMERSLACK, 1000UL);
#endif
}

/* Between two looks at something that can wake nobody: a sleep of a 32nd of the
 * time since then, so that the end is seen late by little more than that. */
static inline void clv_sleep_since(uint64_t begin)
{
    const uint64_t least = 10000, most = 1000000;
    uint64_t ns = (clv_queue_now() - begin) / 32;
    ns = ns < least ? least : ns < most ? ns : most;
    struct timespec part = {0, (long)ns};
    nanosleep(&part, NULL);
}

/* The same where polling pays first, as for an event whose driver polls: a
 * round of it, and a sleep once that ends. */
static inline void clv_spin_or_sleep(clv_spin *spin, clv_spin_state *state,
                                     uint64_t limit_ns)
{
    if (!clv_spin_once(spin, state, limit_ns))
        clv_sleep_since(spin->begin);
}

typedef struct clv_queue clv_queue; /* those of a device */

/* What the queue asks of the plugin; ctx is the queue's. */
typedef struct clv_queue_fns {
    /* In submit, for each command, with its program if it is a RUN: whether it
     * can be run. What is refused there does not have to be an error later. */
    clv_status (*check)(void *ctx, const clv_command *command);
    /* On the thread of the submit's queue, for each command in order, once all
     * waits are over: command i of the submit. Both are copies, with their
     * bindings and symbols; programs and buffers are the host's. A failure says
     * why in message, ends the submit and fails its signals. */
    clv_status (*run)(void *ctx, const clv_submit *submit, uint32_t i,
                      char message[CLV_MESSAGE_SIZE]);
} clv_queue_fns;

/* One of the device's queues: submits in their order, and the thread that takes
 * them. */
typedef struct clv_fifo {
    clv_queue *queue;
    uint32_t index; /* clv_submit.queue */
    int started;    /* the thread is to be joined */
    pthread_t thread;
    /* By the lock: */
    clv_queue_job *first, *last; /* the first one is running */
    int taken; /* a thread has the first one: clv_fifo_take() */
    uint32_t n_jobs;
    uint64_t n_pushed; /* jobs so far */
} clv_fifo;

struct clv_queue {
    const clv_host_api *host;
    const clv_queue_fns *fns;
    void *ctx;
    uint32_t depth;     /* of each */
    uint32_t n_copying; /* clv_device_info.copy_queues */
    clv_fifo *fifos;    /* [1 + n_copying] in one block with this */
    uint64_t poll_ns;   /* how long a thread polls before it blocks */
    /* Whether the device, by what was handed to it, brings the timeline there
     * before it begins the submit, which is handed to it next; so nobody waits.
     * Of a flag, timeline NULL: whether the device waits for it without the
     * host. With the lock held. NULL: it never does. */
    int (*is_ahead)(void *ctx, const clv_submit *submit,
                    const clv_timeline_point *point);
    clv_spin_state spin;
    pthread_mutex_t lock;      /* of what follows, and of the timelines */
    pthread_cond_t changed;    /* any of that */
    clv_trace_record *records; /* [CLV_MAX_RECORDS] a ring, or NULL */
    uint32_t first_record, n_records;
    int stop;
    int hung;        /* nothing is begun until the queue stops */
    clv_status lost; /* clv_queue_lose(): nothing is begun */
    char reason[CLV_MESSAGE_SIZE];
};

struct clv_plugin_timeline {
    uint64_t word __attribute__((aligned(64))); /* the flag word, on a line */
    clv_queue *queue __attribute__((aligned(64)));
    uint32_t refs; /* the host's, and one for each point of a job */
    clv_status status;
    char message[CLV_MESSAGE_SIZE];
    void (*release)(clv_plugin_timeline *tl); /* its memory; NULL: clv_free() */
};

/* With the lock held, given up meanwhile: until something has changed, or the
 * moment has come. */
static inline void clv_queue_pause(clv_queue *queue, uint64_t until)
{
    struct timespec end;
    end.tv_sec = (time_t)(until / 1000000000u);
    end.tv_nsec = (long)(until % 1000000000u);
    pthread_cond_timedwait(&queue->changed, &queue->lock, &end);
}

static inline uint64_t clv_timeline_word(const uint64_t *flag)
{
    return __atomic_load_n(flag, __ATOMIC_ACQUIRE);
}

/* With the lock held, given up meanwhile: until the word has the value, for at
 * most limit_ns. */
static inline void clv_queue_poll(clv_queue *queue, const uint64_t *word,
                                  uint64_t value, uint64_t limit_ns)
{
    clv_spin spin = {0, 0};
    if (!limit_ns)
        return;
    pthread_mutex_unlock(&queue->lock);
    while (clv_timeline_word(word) < value &&
           !__atomic_load_n(&queue->stop, __ATOMIC_RELAXED) &&
           !__atomic_load_n(&queue->lost, __ATOMIC_RELAXED) &&
           clv_spin_once(&spin, &queue->spin, limit_ns))
        continue;
    pthread_mutex_lock(&queue->lock);
}

/* With the lock held. The device is lost: work in flight fails with this
 * reason, and so do later calls. */
static inline void clv_queue_lose(clv_queue *queue, const char *reason)
{
    if (queue->lost)
        return;
    snprintf(queue->reason, sizeof queue->reason, "%s", reason);
    __atomic_store_n(&queue->lost, CLV_ERR_DEVICE_LOST, __ATOMIC_RELEASE);
    pthread_cond_broadcast(&queue->changed);
}

/* The same without the lock. */
static inline void clv_queue_is_lost(clv_queue *queue, const char *reason)
{
    pthread_mutex_lock(&queue->lock);
    clv_queue_lose(queue, reason);
    pthread_mutex_unlock(&queue->lock);
}

/* The error of a device that is lost, or CLV_OK. */
static inline clv_status clv_queue_usable(const clv_plugin_device *dev)
{
    const clv_queue *queue = clv_base(dev)->queue;
    clv_status lost = __atomic_load_n(&queue->lost, __ATOMIC_ACQUIRE);
    return lost ? clv_fail(queue->host, lost, "%s", queue->reason) : CLV_OK;
}

static inline clv_status clv_fault_inject(clv_plugin_device *dev,
                                          uint32_t fault)
{
    clv_queue *queue = clv_base(dev)->queue;
    if (fault != CLV_FAULT_LOST && fault != CLV_FAULT_HANG)
        return clv_fail(queue->host, CLV_ERR_UNSUPPORTED,
                        "fault %u is not known, 1 and 2 are", (unsigned)fault);
    pthread_mutex_lock(&queue->lock);
    if (fault == CLV_FAULT_LOST)
        clv_queue_lose(queue, "the device is lost, by a fault that a test "
                              "injected; close it");
    else
        queue->hung = 1;
    pthread_cond_broadcast(&queue->changed);
    pthread_mutex_unlock(&queue->lock);
    return CLV_OK;
}

/* With the lock held. Raises the value, or fails; a failure is final. */
static inline void clv_timeline_move(clv_plugin_timeline *tl, uint64_t value,
                                     clv_status status, const char *message)
{
    if (tl->status || (!status && value <= tl->word))
        return;
    tl->status = status;
    snprintf(tl->message, sizeof tl->message, "%s", message ? message : "");
    __atomic_store_n(&tl->word, status ? tl->word | CLV_FLAG_FAILED : value,
                     __ATOMIC_RELEASE);
    pthread_cond_broadcast(&tl->queue->changed);
}

/* In memory of the plugin's own, which is all zeros. release: called once
 * nobody uses it, but not after a failure. */
static inline clv_status clv_timeline_create_in(
    clv_plugin_device *dev, uint64_t value, clv_plugin_timeline *tl,
    void (*release)(clv_plugin_timeline *tl), clv_plugin_timeline **out)
{
    clv_queue *queue = clv_base(dev)->queue;
    CLV_TRY(clv_queue_usable(dev));
    if (value & CLV_FLAG_FAILED)
        return clv_fail(queue->host, CLV_ERR_INVALID,
                        "a timeline cannot begin at %#llx; stay below 2^63",
                        (unsigned long long)value);
    tl->word = value;
    tl->queue = queue;
    tl->refs = 1;
    tl->release = release;
    *out = tl;
    return CLV_OK;
}

static inline clv_status clv_timeline_create(clv_plugin_device *dev,
                                             uint64_t value,
                                             clv_plugin_timeline **out)
{
    const clv_host_api *host = clv_base(dev)->queue->host;
    clv_plugin_timeline *tl = (clv_plugin_timeline *)clv_new(host, sizeof *tl);
    if (!tl)
        return CLV_ERR_NO_MEMORY;
    const clv_status status = clv_timeline_create_in(dev, value, tl, NULL, out);
    if (status)
        clv_free(host, tl);
    return status;
}

/* The memory stays until the last job that names it has ended. */
static inline void clv_timeline_destroy(clv_plugin_timeline *tl)
{
    if (!tl)
        return;
    clv_queue *queue = tl->queue;
    pthread_mutex_lock(&queue->lock);
    uint32_t refs = --tl->refs;
    pthread_mutex_unlock(&queue->lock);
    if (refs)
        return;
    if (tl->release)
        tl->release(tl);
    else
        clv_free(queue->host, tl);
}

static inline clv_status clv_timeline_query(clv_plugin_timeline *tl,
                                            clv_timeline_info *out)
{
    clv_timeline_info info;
    memset(&info, 0, sizeof info);
    pthread_mutex_lock(&tl->queue->lock);
    info.flag = &tl->word;
    info.value = tl->word & ~CLV_FLAG_FAILED;
    info.status = tl->status;
    memcpy(info.message, tl->message, sizeof info.message);
    pthread_mutex_unlock(&tl->queue->lock);
    clv_write(out, &info, sizeof info);
    return CLV_OK;
}

static inline clv_status clv_timeline_signal(clv_plugin_timeline *tl,
                                             uint64_t value)
{
    const clv_host_api *host = tl->queue->host;
    pthread_mutex_lock(&tl->queue->lock);
    uint64_t word = tl->word;
    if (!(value & CLV_FLAG_FAILED))
        clv_timeline_move(tl, value, CLV_OK, NULL);
    pthread_mutex_unlock(&tl->queue->lock);
    if (word & CLV_FLAG_FAILED) /* what it says is final */
        return clv_fail(host, tl->status, "%s", tl->message);
    if (word < value && !(value & CLV_FLAG_FAILED))
        return CLV_OK;
    return clv_fail(host, CLV_ERR_INVALID,
                    "a timeline at %llu cannot be signalled %llu; use a higher "
                    "value below 2^63",
                    (unsigned long long)word, (unsigned long long)value);
}

static inline clv_status clv_timeline_fail(clv_plugin_timeline *tl,
                                           clv_status status,
                                           const char *message)
{
    if (status >= CLV_OK)
        return clv_fail(tl->queue->host, CLV_ERR_INVALID,
                        "a timeline cannot fail with status %d; give an error",
                        (int)status);
    pthread_mutex_lock(&tl->queue->lock);
    clv_timeline_move(tl, 0, status, message);
    pthread_mutex_unlock(&tl->queue->lock);
    return CLV_OK;
}

static inline clv_status clv_timeline_wait(clv_plugin_timeline *tl,
                                           uint64_t value, uint64_t spin_ns,
                                           uint64_t timeout_ns)
{
    clv_queue *queue = tl->queue;
    const uint64_t never = UINT64_MAX / 2;
    clv_spin spin = {0, 0};
    uint64_t word,
        end = timeout_ns < never ? clv_queue_now() + timeout_ns : never;
    if (spin_ns > timeout_ns)
        spin_ns = timeout_ns;
    while ((word = clv_timeline_word(&tl->word)) < value && spin_ns &&
           clv_spin_once(&spin, &queue->spin, spin_ns))
        continue;
    if (word < value) {
        pthread_mutex_lock(&queue->lock);
        while (tl->word < value && clv_queue_now() < end)
            clv_queue_pause(queue, end);
        word = tl->word;
        pthread_mutex_unlock(&queue->lock);
    }
    if (word & CLV_FLAG_FAILED) /* what it says is final */
        return clv_fail(queue->host, tl->status, "%s", tl->message);
    if (word >= value)
        return CLV_OK;
    return clv_fail(queue->host, CLV_ERR_TIMEOUT,
                    "the timeline is at %llu after %llu ns, not at %llu; wait "
                    "longer",
                    (unsigned long long)word, (unsigned long long)timeout_ns,
                    (unsigned long long)value);
}

static inline clv_status clv_queue_check_stop(const clv_queue *queue,
                                              char *message)
{
    if (queue->lost) {
        memcpy(message, queue->reason, CLV_MESSAGE_SIZE);
        return queue->lost;
    }
    if (!queue->stop)
        return CLV_OK;
    snprintf(message, CLV_MESSAGE_SIZE,
             "cancelled: the device was closed before the work began");
    return CLV_ERR_CANCELLED;
}

/* With the lock held, given up meanwhile: until something of this device may
 * have changed, or, where another device's flag word is waited for since then,
 * which wakes nobody, until it is to be looked at again. */
static inline void clv_queue_sleep(clv_queue *queue,
                                   const clv_timeline_point *point,
                                   uint64_t begin)
{
    if (point->timeline) {
        clv_queue_pause(queue, UINT64_MAX / 2);
        return;
    }
    pthread_mutex_unlock(&queue->lock);
    clv_sleep_since(begin);
    pthread_mutex_lock(&queue->lock);
}

/* With the lock held. Why the point, which has failed, has. */
static inline clv_status clv_queue_failed_wait(const clv_timeline_point *point,
                                               char *message)
{
    if (point->timeline) {
        memcpy(message, point->timeline->message, CLV_MESSAGE_SIZE);
        return point->timeline->status;
    }
    snprintf(message, CLV_MESSAGE_SIZE,
             "another device's work that was waited for has failed");
    return CLV_ERR_CANCELLED;
}

/* With the lock held. */
static inline clv_status clv_queue_await(clv_queue *queue,
                                         const clv_submit *submit,
                                         const clv_timeline_point *point,
                                         char *message)
{
    const uint64_t begin = clv_queue_now();
    const uint64_t *flag =
        point->timeline ? &point->timeline->word : point->flag;
    uint64_t word;
    clv_queue_poll(queue, flag, point->value, queue->poll_ns);
    while ((word = clv_timeline_word(flag)) < point->value && !queue->stop &&
           !queue->lost) {
        if (queue->is_ahead && queue->is_ahead(queue->ctx, submit, point))
            return CLV_OK;
        clv_queue_sleep(queue, point, begin);
    }
    if (word < point->value)
        return clv_queue_check_stop(queue, message);
    return word & CLV_FLAG_FAILED ? clv_queue_failed_wait(point, message)
                                  : CLV_OK;
}

/* With the lock held, once the submit's waits are over, with that status:
 * whether its work may begin. It may not if all timelines that it would signal
 * have failed: what it was bound to may be gone. */
static inline clv_status clv_queue_may_begin(clv_queue *queue,
                                             const clv_submit *submit,
                                             clv_status status, char *message)
{
    uint32_t failed = 0;
    while (!status && queue->hung && !queue->stop && !queue->lost)
        clv_queue_pause(queue, UINT64_MAX / 2);
    while (failed < submit->n_signals &&
           submit->signals[failed].timeline->status)
        failed++;
    if (!status && failed && failed == submit->n_signals) {
        memcpy(message, submit->signals[0].timeline->message, CLV_MESSAGE_SIZE);
        status = submit->signals[0].timeline->status;
    }
    return status ? status : clv_queue_check_stop(queue, message);
}

/* With the lock held: waits for what the submit waits for. */
static inline clv_status
clv_queue_begin(clv_queue *queue, const clv_submit *submit, char *message)
{
    clv_status status = CLV_OK;
    for (uint32_t i = 0; i < submit->n_waits && !status; i++)
        status = clv_queue_await(queue, submit, &submit->waits[i], message);
    return clv_queue_may_begin(queue, submit, status, message);
}

/* With the lock held, given up meanwhile: for a submit that the device has
 * done, until what is_ahead() said has shown, which may have failed. */
static inline clv_status
clv_queue_settle(clv_queue *queue, const clv_submit *submit, char *message)
{
    const uint64_t begin = clv_queue_now();
    for (uint32_t i = 0; i < submit->n_waits; i++) {
        const clv_timeline_point *point = &submit->waits[i];
        const uint64_t *flag =
            point->timeline ? &point->timeline->word : point->flag;
        uint64_t word;
        while ((word = clv_timeline_word(flag)) < point->value && !queue->lost)
            clv_queue_sleep(queue, point, begin);
        if (word & CLV_FLAG_FAILED && (word & ~CLV_FLAG_FAILED) < point->value)
            return clv_queue_failed_wait(point, message);
    }
    return CLV_OK;
}

/* With the lock held. */
static inline void clv_queue_end(const clv_submit *submit, clv_status status,
                                 const char *message)
{
    for (uint32_t i = 0; i < submit->n_signals; i++)
        clv_timeline_move(submit->signals[i].timeline, submit->signals[i].value,
                          status, message);
}

static inline void clv_queue_job_free(clv_queue *queue, clv_queue_job *job)
{
    for (uint32_t i = 0; i < job->submit.n_waits; i++)
        clv_timeline_destroy(job->submit.waits[i].timeline);
    for (uint32_t i = 0; i < job->submit.n_signals; i++)
        clv_timeline_destroy(job->submit.signals[i].timeline);
    clv_free(queue->host, job);
}

/* The thread of a queue; its argument is the clv_fifo. */
static inline void *clv_queue_main(void *arg)
{
    clv_fifo *fifo = (clv_fifo *)arg;
    clv_queue *queue = fifo->queue;
    clv_thread_wakes_in_time();
    pthread_mutex_lock(&queue->lock);
    for (uint64_t n = 1;; n++) {
        if (!fifo->first)
            clv_queue_poll(queue, &fifo->n_pushed, n, queue->poll_ns);
        while (!fifo->first && !queue->stop)
            pthread_cond_wait(&queue->changed, &queue->lock);
        clv_queue_job *job = fifo->first;
        if (!job)
            break;
        char message[CLV_MESSAGE_SIZE] = "";
        clv_status status = clv_queue_begin(queue, &job->submit, message);
        if (!status) {
            pthread_mutex_unlock(&queue->lock);
            for (uint32_t i = 0; i < job->submit.n_commands && !status; i++)
                status = queue->fns->run(queue->ctx, &job->submit, i, message);
            pthread_mutex_lock(&queue->lock);
            if (!status && queue->lost)
                status = clv_queue_check_stop(queue, message);
        }
        fifo->first = job->next;
        fifo->n_jobs--;
        clv_queue_end(&job->submit, status, message);
        pthread_mutex_unlock(&queue->lock);
        clv_queue_job_free(queue, job);
        pthread_mutex_lock(&queue->lock);
    }
    pthread_mutex_unlock(&queue->lock);
    return NULL;
}

/* For devices that work while their threads do something else: any thread that
 * is awake may hand the first job to the device, one at a time. With the lock
 * held, given up meanwhile: until there is a job that no other thread has. It
 * is the caller's until clv_fifo_pass(). NULL: there is none, and the queue
 * stops. */
static inline clv_queue_job *clv_fifo_take(clv_fifo *fifo)
{
    clv_queue *queue = fifo->queue;
    while (fifo->taken || (!fifo->first && !queue->stop))
        pthread_cond_wait(&queue->changed, &queue->lock);
    fifo->taken = fifo->first != NULL;
    return fifo->first;
}

/* With the lock held: whether nothing is to be waited for. */
static inline int clv_queue_is_due(const clv_submit *submit)
{
    for (uint32_t i = 0; i < submit->n_waits; i++) {
        const clv_timeline_point *point = &submit->waits[i];
        if (clv_timeline_word(point->timeline ? &point->timeline->word
                                              : point->flag) < point->value)
            return 0;
    }
    return 1;
}

/* clv_fifo_take() for a thread that has just ended a job. Where that was the
 * last one, the next is often some microseconds away, and to wake another
 * thread for it takes longer. So it polls, for at most limit_ns. NULL: there is
 * none by then, or it waits for something, or another thread has it. */
static inline clv_queue_job *clv_fifo_take_soon(clv_fifo *fifo,
                                                uint64_t limit_ns)
{
    if (fifo->n_jobs)
        return NULL;
    clv_queue_poll(fifo->queue, &fifo->n_pushed, fifo->n_pushed + 1, limit_ns);
    if (fifo->taken || !fifo->first || !clv_queue_is_due(&fifo->first->submit))
        return NULL;
    fifo->taken = 1;
    return fifo->first;
}

/* With the lock held: the caller's job is no longer in the fifo. */
static inline void clv_fifo_pass(clv_fifo *fifo)
{
    fifo->first = fifo->first->next;
    fifo->taken = 0;
    pthread_cond_broadcast(&fifo->queue->changed);
}

static inline clv_status clv_thread_start(const clv_host_api *host,
                                          void *(*fn)(void *ctx), void *ctx,
                                          pthread_t *out)
{
    const int error = pthread_create(out, NULL, fn, ctx);
    return error ? clv_fail(host, CLV_ERR_LIMIT,
                            "cannot start a thread: %s; end other programs or "
                            "raise the limit of processes",
                            strerror(error))
                 : CLV_OK;
}

/* Queues without their threads, and fills base; clv_queue_create() explains the
 * rest. n_copying: how many there are beside queue 0. */
static inline clv_status clv_queue_new(const clv_host_api *host, uint32_t depth,
                                       uint32_t n_copying,
                                       const clv_queue_fns *fns, void *ctx,
                                       clv_device_base *base)
{
    const uint32_t n = 1 + n_copying;
    clv_queue *queue =
        (clv_queue *)clv_new(host, sizeof *queue + n * sizeof(clv_fifo));
    if (!queue)
        return CLV_ERR_NO_MEMORY;
    queue->host = host;
    queue->fns = fns;
    queue->ctx = ctx;
    queue->depth = depth;
    queue->n_copying = n_copying;
    queue->fifos = (clv_fifo *)(void *)(queue + 1);
    for (uint32_t i = 0; i < n; i++) {
        queue->fifos[i].queue = queue;
        queue->fifos[i].index = i;
    }
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&queue->changed, &attr);
    pthread_condattr_destroy(&attr);
    pthread_mutex_init(&queue->lock, NULL);
    base->host = host;
    base->queue = queue;
    return CLV_OK;
}

/* Cancels what has not begun, waits for what has, joins. */
static inline void clv_queue_stop(clv_queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    __atomic_store_n(&queue->stop, 1, __ATOMIC_RELAXED);
    pthread_cond_broadcast(&queue->changed);
    pthread_mutex_unlock(&queue->lock);
    for (uint32_t i = 0; i <= queue->n_copying; i++) {
        if (queue->fifos[i].started)
            pthread_join(queue->fifos[i].thread, NULL);
        queue->fifos[i].started = 0;
    }
}

/* Stops it. The timelines are gone. NULL is legal. */
static inline void clv_queue_destroy(clv_queue *queue)
{
    if (!queue)
        return;
    clv_queue_stop(queue);
    pthread_mutex_destroy(&queue->lock);
    pthread_cond_destroy(&queue->changed);
    clv_free(queue->host, queue->records);
    clv_free(queue->host, queue);
}

/* A thread for each queue, whose argument is its clv_fifo: clv_queue_main(), or
 * the plugin's own, for which that one shows what it has to do, with
 * clv_fifo_take() where the device works meanwhile. After a failure, too, the
 * queue is to be destroyed. */
static inline clv_status clv_queue_start(clv_queue *queue,
                                         void *(*thread)(void *fifo))
{
    for (uint32_t i = 0; i <= queue->n_copying; i++) {
        clv_fifo *fifo = &queue->fifos[i];
        CLV_TRY(clv_thread_start(queue->host, thread, fifo, &fifo->thread));
        fifo->started = 1;
    }
    return CLV_OK;
}

/* Fills base, and starts the thread of a device without copy queues. depth:
 * submits in flight before the next answers CLV_ERR_LIMIT, as
 * clv_device_info.queue_depth; 0: no bound. fns and ctx outlive the queue. */
static inline clv_status clv_queue_create(const clv_host_api *host,
                                          uint32_t depth,
                                          const clv_queue_fns *fns, void *ctx,
                                          clv_device_base *base)
{
    CLV_TRY(clv_queue_new(host, depth, 0, fns, ctx, base));
    clv_status status = clv_queue_start(base->queue, clv_queue_main);
    if (status) {
        clv_queue_destroy(base->queue);
        base->queue = NULL;
    }
    return status;
}

/* For a device made by clv_new() that owns nothing else. */
static inline void clv_device_close(clv_plugin_device *dev)
{
    if (!dev)
        return;
    const clv_host_api *host = clv_base(dev)->host;
    clv_queue_destroy(clv_base(dev)->queue);
    clv_free(host, dev);
}

/* Of a submit that was read by clv_read(). */
static inline clv_status clv_queue_check(const clv_queue *queue,
                                         const clv_submit *submit)
{
    CLV_TRY(clv_check_submit(queue->host, submit, queue->n_copying));
    for (uint32_t i = 0; i < submit->n_commands; i++) {
        clv_command c;
        clv_read(&c, sizeof c,
                 clv_at(submit->commands, i, submit->command_stride));
        CLV_TRY(queue->fns->check(queue->ctx, &c));
    }
    return CLV_OK;
}

/* With the lock held. False: it is full. */
static inline int clv_queue_add(clv_queue *queue, clv_queue_job *job)
{
    clv_fifo *fifo = &queue->fifos[job->submit.queue];
    if (queue->depth && fifo->n_jobs >= queue->depth)
        return 0;
    for (uint32_t i = 0; i < job->submit.n_waits; i++)
        if (job->submit.waits[i].timeline)
            job->submit.waits[i].timeline->refs++;
    for (uint32_t i = 0; i < job->submit.n_signals; i++)
        job->submit.signals[i].timeline->refs++;
    if (fifo->first)
        fifo->last->next = job;
    else
        fifo->first = job;
    fifo->last = job;
    fifo->n_jobs++;
    __atomic_store_n(&fifo->n_pushed, fifo->n_pushed + 1, __ATOMIC_RELEASE);
    pthread_cond_broadcast(&queue->changed);
    return 1;
}

/* Memory for records, in submit, where they are wanted. */
static inline clv_status clv_trace_reserve(clv_queue *queue)
{
    if (queue->records)
        return CLV_OK;
    clv_trace_record *records = (clv_trace_record *)clv_new(
        queue->host, CLV_MAX_RECORDS * sizeof *records);
    pthread_mutex_lock(&queue->lock);
    queue->records = records;
    pthread_mutex_unlock(&queue->lock);
    return records ? CLV_OK : CLV_ERR_NO_MEMORY;
}

/* With the lock held, of a submit for which memory was reserved: a node's time,
 * or a command's with node CLV_NO_TENSOR. */
static inline void clv_trace_add(clv_queue *queue, const clv_submit *submit,
                                 uint32_t command, uint32_t node,
                                 const char *name, uint64_t begin, uint64_t end)
{
    clv_trace_record *r =
        &queue->records[(queue->first_record + queue->n_records) %
                        CLV_MAX_RECORDS];
    memset(r, 0, sizeof *r);
    r->correlation = submit->correlation;
    r->begin = begin;
    r->end = end;
    r->node = node;
    r->command = command;
    snprintf(r->name, sizeof r->name, "%s", name);
    if (queue->n_records < CLV_MAX_RECORDS)
        queue->n_records++;
    else
        queue->first_record = (queue->first_record + 1) % CLV_MAX_RECORDS;
}

static inline clv_status clv_trace_read(clv_plugin_device *dev, uint32_t *count,
                                        clv_trace_record *out, uint32_t stride)
{
    clv_queue *queue = clv_base(dev)->queue;
    uint32_t n = 0;
    pthread_mutex_lock(&queue->lock);
    for (; n < *count && queue->n_records; n++, queue->n_records--) {
        clv_write(clv_at(out, n, stride), &queue->records[queue->first_record],
                  sizeof *out);
        queue->first_record = (queue->first_record + 1) % CLV_MAX_RECORDS;
    }
    pthread_mutex_unlock(&queue->lock);
    *count = n;
    return CLV_OK;
}

/* Does not block. */
static inline clv_status clv_queue_submit(clv_plugin_device *dev,
                                          const clv_submit *submit)
{
    clv_queue *queue = clv_base(dev)->queue;
    clv_submit own;
    clv_read(&own, sizeof own, submit);
    CLV_TRY(clv_queue_usable(dev));
    CLV_TRY(clv_queue_check(queue, &own));
    clv_queue_job *job = (clv_queue_job *)clv_new(
        queue->host, clv_queue_copy_submit(NULL, &own));
    if (!job)
        return CLV_ERR_NO_MEMORY;
    clv_queue_copy_submit((char *)job, &own);
    pthread_mutex_lock(&queue->lock);
    int added = clv_queue_add(queue, job);
    pthread_mutex_unlock(&queue->lock);
    if (added)
        return CLV_OK;
    clv_free(queue->host, job);
    return clv_fail(queue->host, CLV_ERR_LIMIT,
                    "%u submits are in flight, the queue holds no more; wait "
                    "for one",
                    (unsigned)queue->depth);
}

#ifdef __cplusplus
}
#endif

#endif /* CLEAVE_PLUGIN_QUEUE_H_ */
