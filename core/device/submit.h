/* Work for a device. */
#pragma once

#include "program.h"
#include "timeline.h"

typedef struct core_command {
    uint32_t kind; /* clv_command_kind */
    /* RUN: bindings of every tensor but the weights, each once */
    core_program *program;
    const core_binding *bindings;
    uint32_t n_bindings;
    const int64_t *symbols; /* [program->n_symbols] */
    /* COPY, FILL */
    core_buffer *src, *dst;
    uint64_t src_offset, dst_offset, size;
    uint32_t pattern;
    uint64_t n_rows, src_pitch, dst_pitch; /* of size bytes; 0: one */
} core_command;

/* To wait for another device's timeline, the waiting one must have
 * CLV_DEVICE_FLAG_WAIT; signals are of the device itself. */
typedef struct core_point {
    core_timeline *timeline;
    uint64_t value;
} core_point;

typedef struct core_submit {
    const core_command *commands;
    uint32_t n_commands;
    const core_point *waits, *signals;
    uint32_t n_waits, n_signals;
    uint64_t correlation; /* copied to trace records; 0: do not record */
    uint32_t queue; /* 0; or 1 .. info.copy_queues, for COPY and FILL alone */
} core_submit;

/* Does not block. CLV_ERR_LIMIT: queue_depth submits are in flight in that
 * queue; wait for one and submit again. */
clv_status core_device_submit(clv_device *dev, const core_submit *submit);

/* Memory in which a device's submits are translated; grows, never shrinks. */
typedef struct core_submit_scratch core_submit_scratch;
void core_submit_scratch_destroy(core_submit_scratch *scratch);
