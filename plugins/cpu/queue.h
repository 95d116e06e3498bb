/*
 * The device's in-order queue: one thread that takes a submit after the other,
 * waits for what it waits for, runs its commands with the pool (as worker 0),
 * and signals. Errors after submission go to the signalled timelines.
 *
 * A job is one block of memory, made by submit.c, and the queue's from
 * cpu_queue_push() on.
 */
#pragma once

#include "memory.h"
#include "program.h"
#include "timeline.h"
#include "trace.h"

typedef struct cpu_command {
    uint32_t kind; /* clv_command_kind */
    /* RUN */
    const clv_plugin_program *program;
    void **data; /* by tensor */
    int64_t *symbols;
    /* COPY, FILL */
    char *src, *dst;
    uint64_t size;
    uint32_t pattern;
} cpu_command;

typedef struct cpu_job {
    struct cpu_job *next;
    uint64_t correlation;
    bool hangs; /* an injected fault: never begins */
    uint32_t n_commands, n_waits, n_signals;
    cpu_command *commands;
    clv_timeline_point *waits, *signals; /* timelines are referenced */
} cpu_job;

typedef struct cpu_queue cpu_queue;

clv_status cpu_queue_create(const clv_host_api *host,
                            const cpu_kernels *kernels, cpu_pool *pool,
                            cpu_trace *trace, const cpu_setup *setup,
                            cpu_queue **out);
/* Cancels what has not begun, and joins. NULL is legal. */
void cpu_queue_destroy(cpu_queue *queue);
void cpu_queue_push(cpu_queue *queue, cpu_job *job);

/* fault: clv_fault. A loss fails all jobs that have not ended. From any
 * thread. */
void cpu_queue_inject(cpu_queue *queue, uint32_t fault);
bool cpu_queue_lost(cpu_queue *queue);

/* Drops the references; of a job that is not pushed, too. */
void cpu_job_free(const clv_host_api *host, cpu_job *job);
