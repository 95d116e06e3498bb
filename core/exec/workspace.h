/*
 * What plans work on while they run, in the host's memory and in that of
 * devices: intermediate values, rings of streamed weights, staging buffers. It
 * is as large as the largest of the plans whose runs use it. When it grows,
 * its contents are lost and its serial changes; runs then bind its new memory
 * before they begin.
 */
#pragma once

#include "exec.h"

typedef struct core_part_memory {
    core_buffer *arena;   /* in the device's own memory, or NULL */
    core_buffer *staging; /* NULL: nothing passes through it */
    char *staged;         /* its bytes for the host */
    uint64_t holder;      /* serial of the exec whose run was the last one to
                             work in the arena, and ended well; 0: none */
} core_part_memory;

struct clv_workspace {
    clv_context *ctx;
    /* [1 + ctx->n_devices], for all devices: in the host's own memory, and in
     * that of each device which the host sees. NULL: nothing needs it. */
    clv_tensor **shared;
    core_part_memory *parts; /* [ctx->n_devices] */
    uint64_t serial;
    uint32_t n_runs; /* that were made for it */
};

/* Makes room for the plan. Where there is not so much, no part of it is smaller
 * afterwards. No run in it may be in flight. */
clv_status core_workspace_fit(clv_workspace *workspace, const clv_plan *plan);
/* As plan->shared_device says. */
clv_tensor *core_workspace_shared(const clv_workspace *workspace,
                                  const clv_plan *plan);
/* As clv_tensor_create(), where plan->shared_device says. */
clv_status core_tensor_create_shared(const clv_plan *plan, uint32_t dtype,
                                     uint32_t rank, const int64_t *dims,
                                     clv_tensor **out);
core_part_memory *core_workspace_part(clv_workspace *workspace,
                                      const clv_device *dev);
