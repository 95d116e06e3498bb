/*
 * When devices worked and when runs were under way, of runs that were traced;
 * behind clv_trace_devices().
 */
#pragma once

#include "context.h"

/* By the device's clock, as in the trace. */
void core_device_use_add(clv_context *ctx, const clv_device *dev,
                         uint64_t begin_ns, uint64_t end_ns);
/* clock: clv_clock of the run's devices. */
void core_device_use_add_run(clv_context *ctx, uint32_t clock,
                             uint64_t begin_ns, uint64_t end_ns);
void core_device_use_finish(core_device_use *use);
