/*
 * Which slots of devices have been called and have not returned. What a plugin
 * does there cannot be stopped from inside the process, but it can be named: a
 * thread of the context logs each call that takes CORE_CALL_BLOCKED_NS while
 * the process is idle, or CORE_CALL_LONG_NS.
 */
#pragma once

#include "device.h"

#define CORE_CALL_BLOCKED_NS 5000000000u
#define CORE_CALL_LONG_NS 30000000000u

/* Of a plan; no label: none. */
typedef struct core_call_step {
    const char *label;
    uint32_t index;
} core_call_step;

typedef struct core_call {
    struct core_call *next, **link;
    const clv_device *dev;
    const char *slot;
    core_call_step step;
    uint64_t due_ns; /* when it should have returned */
    bool told;
} core_call;

/* allowed_ns: that the slot may take by its contract. */
void core_call_begin(core_call *call, clv_device *dev, const char *slot,
                     uint64_t allowed_ns);
void core_call_end(core_call *call);
/* The step that calls of this thread are for from now on. */
void core_call_set_step(core_call_step step);

/* Starts the thread, if there can be one. Trials of plugins do without. */
void core_calls_watch(clv_context *ctx);
void core_calls_finish(clv_context *ctx);
