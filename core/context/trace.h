/*
 * Spans of time on named tracks. Host time and the time of simulated devices
 * are kept apart: each clock domain is a process of its own in the file.
 *
 * Memory is bounded: past CORE_TRACE_MAX_SPANS the newest spans are dropped and
 * counted, and the file says how many.
 */
#pragma once

#include "context.h"

#define CORE_TRACE_MAX_SPANS (1u << 21)

clv_status core_trace_create(struct core_trace **out);
void core_trace_destroy(struct core_trace *trace); /* NULL is legal */

/* clock: clv_clock. Times in nanoseconds of that clock. Does nothing while
 * recording is off. */
void core_trace_add(clv_context *ctx, uint32_t clock, const char *track,
                    const char *name, uint64_t begin_ns, uint64_t end_ns);
/* The calling thread's track: "host <thread id>". */
const char *core_trace_host_track(void);
