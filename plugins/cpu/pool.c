#include "pool.h"
#include "kernels.h"
#include "thread.h"

#include <stdalign.h>
#include <stdatomic.h>

typedef struct member {
    cpu_pool *pool;
    uint32_t index;
    pthread_t thread;
    clv_spin_state spin; /* its own: if other work wants one of the cores, the
                            workers on the others need not block for it */
} member;

struct cpu_pool {
    const clv_host_api *host;
    const cpu_setup *setup; /* its threads count the owner */
    uint32_t started;       /* workers that run */
    char *scratch;          /* [threads] of CPU_SCRATCH_SIZE */
    member *workers;        /* [threads]; 0 is not used */
    clv_spin_state *spin;   /* the queue's, for the owner */

    /* The task. Written by the owner while unfinished is 0, and read only by
     * holders of a chunk. */
    cpu_task_fn fn;
    void *ctx;
    uint32_t chunks;

    alignas(64) _Atomic uint32_t unclaimed;  /* chunks left to claim */
    alignas(64) _Atomic uint32_t unfinished; /* chunks not done */
    alignas(64) _Atomic uint32_t sleepers;   /* workers that block, or will */
    _Atomic bool owner_sleeps;
    _Atomic bool stop;
    pthread_mutex_t lock; /* only for sleeping and waking */
    pthread_cond_t wake, done;
};

static bool claim(cpu_pool *pool, uint32_t *chunk)
{
    uint32_t left =
        atomic_load_explicit(&pool->unclaimed, memory_order_relaxed);
    while (left)
        if (atomic_compare_exchange_weak_explicit(
                &pool->unclaimed, &left, left - 1, memory_order_acq_rel,
                memory_order_relaxed)) {
            *chunk = pool->chunks - left;
            return true;
        }
    return false;
}

/* Runs chunks until none is left; they are all of one task, which cannot end
 * before the last line. */
static void work(cpu_pool *pool, uint32_t index)
{
    uint32_t chunk, n = 0;
    while (claim(pool, &chunk)) {
        pool->fn(pool->ctx, chunk, index);
        n++;
    }
    if (!n || atomic_fetch_sub(&pool->unfinished, n) != n ||
        !atomic_load(&pool->owner_sleeps))
        return;
    pthread_mutex_lock(&pool->lock);
    pthread_cond_signal(&pool->done);
    pthread_mutex_unlock(&pool->lock);
}

static void sleep_for_work(cpu_pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    atomic_fetch_add(&pool->sleepers, 1);
    while (!atomic_load(&pool->unclaimed) && !atomic_load(&pool->stop))
        pthread_cond_wait(&pool->wake, &pool->lock);
    atomic_fetch_sub(&pool->sleepers, 1);
    pthread_mutex_unlock(&pool->lock);
}

static void *worker_main(void *ctx)
{
    member *self = ctx;
    cpu_pool *pool = self->pool;
    clv_spin spin = {0};
    while (!atomic_load_explicit(&pool->stop, memory_order_relaxed)) {
        if (atomic_load_explicit(&pool->unclaimed, memory_order_relaxed)) {
            work(pool, self->index);
            spin = (clv_spin){0};
        } else if (!clv_spin_once(&spin, &self->spin, pool->setup->poll_ns)) {
            sleep_for_work(pool);
            spin = (clv_spin){0};
        }
    }
    return NULL;
}

static void await_done(cpu_pool *pool)
{
    clv_spin spin = {0};
    while (atomic_load_explicit(&pool->unfinished, memory_order_acquire))
        if (!clv_spin_once(&spin, pool->spin, pool->setup->poll_ns))
            break;
    if (!atomic_load(&pool->unfinished))
        return;
    pthread_mutex_lock(&pool->lock);
    atomic_store(&pool->owner_sleeps, true);
    while (atomic_load(&pool->unfinished))
        pthread_cond_wait(&pool->done, &pool->lock);
    atomic_store(&pool->owner_sleeps, false);
    pthread_mutex_unlock(&pool->lock);
}

void cpu_pool_run(cpu_pool *pool, uint32_t chunks, cpu_task_fn fn, void *ctx)
{
    if (chunks <= 1 || pool->setup->threads == 1) {
        for (uint32_t i = 0; i < chunks; i++)
            fn(ctx, i, 0);
        return;
    }
    pool->fn = fn;
    pool->ctx = ctx;
    pool->chunks = chunks;
    atomic_store_explicit(&pool->unfinished, chunks, memory_order_relaxed);
    atomic_store(&pool->unclaimed, chunks);
    if (atomic_load(&pool->sleepers)) {
        pthread_mutex_lock(&pool->lock);
        pthread_cond_broadcast(&pool->wake);
        pthread_mutex_unlock(&pool->lock);
    }
    work(pool, 0);
    await_done(pool);
}

static clv_status start_workers(cpu_pool *pool)
{
    for (uint32_t i = 1; i < pool->setup->threads; i++) {
        pool->workers[i] = (member){.pool = pool, .index = i};
        CLV_TRY(cpu_thread_start(pool->host, pool->setup, i, worker_main,
                                 &pool->workers[i], &pool->workers[i].thread));
        pool->started++;
    }
    return CLV_OK;
}

clv_status cpu_pool_create(const clv_host_api *host, const cpu_setup *setup,
                           clv_spin_state *spin, cpu_pool **out)
{
    cpu_pool *pool = clv_new(host, sizeof *pool);
    if (!pool)
        return CLV_ERR_NO_MEMORY;
    pool->host = host;
    pool->setup = setup;
    pool->spin = spin;
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->wake, NULL);
    pthread_cond_init(&pool->done, NULL);

    uint64_t size = (uint64_t)setup->threads * CPU_SCRATCH_SIZE;
    pool->scratch = host->alloc(host->host, size, 64);
    pool->workers = clv_new(host, setup->threads * sizeof *pool->workers);
    clv_status status = !pool->scratch   ? clv_no_memory(host, size)
                        : !pool->workers ? CLV_ERR_NO_MEMORY
                                         : start_workers(pool);
    if (status) {
        cpu_pool_destroy(pool);
        return status;
    }
    *out = pool;
    return CLV_OK;
}

void cpu_pool_destroy(cpu_pool *pool)
{
    if (!pool)
        return;
    pthread_mutex_lock(&pool->lock);
    atomic_store(&pool->stop, true);
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->lock);
    for (uint32_t i = 1; i <= pool->started; i++)
        pthread_join(pool->workers[i].thread, NULL);
    pthread_cond_destroy(&pool->done);
    pthread_cond_destroy(&pool->wake);
    pthread_mutex_destroy(&pool->lock);
    const clv_host_api *host = pool->host;
    clv_free(host, pool->workers);
    clv_free(host, pool->scratch);
    clv_free(host, pool);
}

uint32_t cpu_pool_threads(const cpu_pool *pool)
{
    return pool->setup->threads;
}

void *cpu_pool_scratch(const cpu_pool *pool, uint32_t worker)
{
    return pool->scratch + (size_t)worker * CPU_SCRATCH_SIZE;
}
