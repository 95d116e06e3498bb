/*
 * Timelines: a flag word for pollers, and a condition for those who block.
 *
 * The word is the state: the value, and CLV_FLAG_FAILED once failed. It changes
 * under the lock only. Submits in flight hold references, so the host may
 * destroy a timeline as soon as it has seen the value it waited for.
 */
#pragma once

#include <cleave/plugin.h>

#include <stdbool.h>

clv_status cpu_timeline_create(clv_plugin_device *dev, uint64_t value,
                               clv_plugin_timeline **out);
void cpu_timeline_destroy(clv_plugin_timeline *tl);
clv_status cpu_timeline_query(clv_plugin_timeline *tl, clv_timeline_info *out);
clv_status cpu_timeline_signal(clv_plugin_timeline *tl, uint64_t value);
clv_status cpu_timeline_fail(clv_plugin_timeline *tl, clv_status status,
                             const char *message);
clv_status cpu_timeline_wait(clv_plugin_timeline *tl, uint64_t value,
                             uint64_t spin_ns, uint64_t timeout_ns);

void cpu_timeline_ref(clv_plugin_timeline *tl);
/* Raises the value; no effect where it is already there, or failed. */
void cpu_timeline_reach(clv_plugin_timeline *tl, uint64_t value);
bool cpu_timeline_failed(clv_plugin_timeline *tl);
/* As wait, but sets no error for a timeout. message: size 128, of a failure. */
clv_status cpu_timeline_await(clv_plugin_timeline *tl, uint64_t value,
                              uint64_t spin_ns, uint64_t timeout_ns,
                              char *message);
