/* Commands, on the queue's thread. */
#pragma once

#include "queue.h"

/* What commands run with; the regions grow as programs need. */
typedef struct cpu_runner {
    const clv_host_api *host;
    const cpu_kernels *kernels;
    cpu_pool *pool;
    cpu_trace *trace;
    void *regions[CPU_REGION_COUNT];
    uint64_t sizes[CPU_REGION_COUNT];
} cpu_runner;

/* message: of a failure. */
clv_status cpu_run_job(cpu_runner *runner, const cpu_job *job, char *message,
                       size_t size);
void cpu_runner_finish(cpu_runner *runner);
