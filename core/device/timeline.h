/*
 * Counters that work signals and hosts wait for.
 */
#pragma once

#include "device.h"

typedef struct core_timeline {
    clv_device *dev;
    clv_plugin_timeline *handle;
    const uint64_t *flag; /* its flag word */
} core_timeline;

clv_status core_timeline_create(clv_device *dev, uint64_t value,
                                core_timeline **out);
void core_timeline_destroy(core_timeline *tl); /* NULL is legal */
clv_status core_timeline_fail(core_timeline *tl, clv_status status,
                              const char *message);
/* The value reached, by the flag word: no slot is called. */
uint64_t core_timeline_reached(const core_timeline *tl);
/* Whether it failed, likewise. */
bool core_timeline_failed(const core_timeline *tl);
/* Whether it has the value, by the device's clock: a simulated device is asked
 * for its time, in which the host waits for so long at most. */
bool core_timeline_done(core_timeline *tl, uint64_t value, uint64_t virtual_ns);
/* Polls for spin_ns, then blocks; calls progress() where the device needs it.
 * CLV_ERR_TIMEOUT after timeout_ns (UINT64_MAX: never). A failed timeline
 * answers its status, with its message. What the plugin says is checked: an OK
 * that neither flag word nor query confirms is CLV_ERR_INTERNAL, and after a
 * timeout that comes too early it waits on. */
clv_status core_timeline_wait(core_timeline *tl, uint64_t value,
                              uint64_t spin_ns, uint64_t timeout_ns);
