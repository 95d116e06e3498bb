/* What the queue asks of the device: to check commands, and to run them. */
#pragma once

#include "op.h"

#include <cleave/plugin_queue.h>

/* Memory that the steps of programs share; it grows as programs need it. The
 * queue's thread's. */
typedef struct cpu_scratch {
    void *blocks[CPU_REGION_COUNT];
    uint64_t sizes[CPU_REGION_COUNT];
} cpu_scratch;

extern const clv_queue_fns cpu_queue_fns; /* their ctx is the device */

void cpu_scratch_free(const clv_host_api *host, cpu_scratch *scratch);
