/*
 * Worker threads that divide one task at a time.
 *
 * A task is n chunks. Threads claim the next chunk until none is left, so an
 * uneven or busy core takes fewer. The owner (the queue's thread) is worker 0;
 * it returns from cpu_pool_run() when all chunks are done. A worker that is off
 * its core delays nothing: it is not waited for unless it holds a chunk.
 *
 * Between tasks workers poll for a while, then block.
 */
#pragma once

#include "setup.h"

#include <cleave/plugin_queue.h>

typedef struct cpu_pool cpu_pool;

/* worker < the pool's threads; no two run with the same one at once. */
typedef void (*cpu_task_fn)(void *ctx, uint32_t chunk, uint32_t worker);

/* setup and spin outlive the pool. */
clv_status cpu_pool_create(const clv_host_api *host, const cpu_setup *setup,
                           clv_spin_state *spin, cpu_pool **out);
/* Joins the threads. NULL is legal. */
void cpu_pool_destroy(cpu_pool *pool);

uint32_t cpu_pool_threads(const cpu_pool *pool);
/* CPU_SCRATCH_SIZE bytes of the worker's own. */
void *cpu_pool_scratch(const cpu_pool *pool, uint32_t worker);

/* Only from the owner. One chunk wakes nobody. */
void cpu_pool_run(cpu_pool *pool, uint32_t chunks, cpu_task_fn fn, void *ctx);
