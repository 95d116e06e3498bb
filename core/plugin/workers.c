#include "workers.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

/* A loop; on its caller's stack. */
typedef struct job {
    void (*fn)(void *ctx, uint32_t i);
    void *ctx;
    uint32_t n;
    _Atomic uint32_t next; /* index to run next */
    /* under the pool's mutex */
    struct job *later;
    uint32_t n_helpers;  /* workers inside */
    pthread_cond_t left; /* n_helpers became 0 */
} job;

struct core_workers {
    pthread_mutex_t mutex;
    pthread_cond_t wake;
    job *jobs; /* with indices left, oldest first */
    bool stop;
    uint32_t n_threads;
    pthread_t threads[];
};

uint32_t core_processor_count(void)
{
    cpu_set_t set;
    if (!sched_getaffinity(0, sizeof set, &set))
        return (uint32_t)CPU_COUNT(&set);
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? (uint32_t)n : 1;
}

static void run_indices(job *j)
{
    for (;;) {
        uint32_t i = atomic_load_explicit(&j->next, memory_order_relaxed);
        do {
            if (i >= j->n)
                return;
        } while (!atomic_compare_exchange_weak_explicit(
            &j->next, &i, i + 1, memory_order_relaxed, memory_order_relaxed));
        j->fn(j->ctx, i);
    }
}

/* With the mutex held; the job may have been removed already. */
static void remove_job(core_workers *w, job *j)
{
    for (job **p = &w->jobs; *p; p = &(*p)->later) {
        if (*p == j) {
            *p = j->later;
            return;
        }
    }
}

static void *worker(void *arg)
{
    core_workers *w = arg;
    pthread_mutex_lock(&w->mutex);
    for (;;) {
        while (!w->jobs && !w->stop)
            pthread_cond_wait(&w->wake, &w->mutex);
        if (!w->jobs)
            break;
        job *j = w->jobs;
        j->n_helpers++;
        pthread_mutex_unlock(&w->mutex);
        run_indices(j);
        pthread_mutex_lock(&w->mutex);
        remove_job(w, j);
        if (--j->n_helpers == 0)
            pthread_cond_signal(&j->left);
    }
    pthread_mutex_unlock(&w->mutex);
    return NULL;
}

clv_status core_workers_create(uint32_t n, core_workers **out)
{
    uint32_t helpers = n ? n - 1 : 0;
    core_workers *w = calloc(1, sizeof *w + helpers * sizeof w->threads[0]);
    if (!w)
        return clv_error(CLV_ERR_NO_MEMORY, "no memory for %u host threads",
                         helpers);
    pthread_mutex_init(&w->mutex, NULL);
    pthread_cond_init(&w->wake, NULL);
    /* Signals are for the application's threads; SIGBUS comes where a damaged
     * file is read. */
    sigset_t all, old;
    sigfillset(&all);
    sigdelset(&all, SIGBUS);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    while (w->n_threads < helpers &&
           !pthread_create(&w->threads[w->n_threads], NULL, worker, w))
        w->n_threads++;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    *out = w;
    return CLV_OK;
}

void core_workers_destroy(core_workers *w)
{
    if (!w)
        return;
    pthread_mutex_lock(&w->mutex);
    w->stop = true;
    pthread_cond_broadcast(&w->wake);
    pthread_mutex_unlock(&w->mutex);
    for (uint32_t i = 0; i < w->n_threads; i++)
        pthread_join(w->threads[i], NULL);
    pthread_cond_destroy(&w->wake);
    pthread_mutex_destroy(&w->mutex);
    free(w);
}

static void add_job(core_workers *w, job *j)
{
    job **end = &w->jobs;
    while (*end)
        end = &(*end)->later;
    *end = j;
    pthread_cond_broadcast(&w->wake);
}

void core_workers_run(core_workers *w, uint32_t n,
                      void (*fn)(void *ctx, uint32_t i), void *ctx)
{
    job j = {.fn = fn, .ctx = ctx, .n = n};
    if (n < 2 || !w->n_threads) {
        run_indices(&j);
        return;
    }
    pthread_cond_init(&j.left, NULL);
    pthread_mutex_lock(&w->mutex);
    add_job(w, &j);
    pthread_mutex_unlock(&w->mutex);
    run_indices(&j);
    pthread_mutex_lock(&w->mutex);
    remove_job(w, &j);
    while (j.n_helpers)
        pthread_cond_wait(&j.left, &w->mutex);
    pthread_mutex_unlock(&w->mutex);
    pthread_cond_destroy(&j.left);
}
