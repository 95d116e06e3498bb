/*
 * A pool of host threads for parallel loops. Several threads may run loops at
 * once. Each works on its own loop, so that it ends even without other threads.
 */
#pragma once

#include <cleave/cleave.h>

typedef struct core_workers core_workers;

/* Processors this process may use, at least 1. */
uint32_t core_processor_count(void);
/* n: threads that work on a loop, the caller's included. Fewer where the system
 * gives no more. */
clv_status core_workers_create(uint32_t n, core_workers **out);
/* No loop is running. NULL is legal. */
void core_workers_destroy(core_workers *workers);
/* Calls fn(ctx, i) for i in 0..n-1; returns when all are done. */
void core_workers_run(core_workers *workers, uint32_t n,
                      void (*fn)(void *ctx, uint32_t i), void *ctx);
