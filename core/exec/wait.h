/*
 * A run fails because of a device when a timeline of it fails, for
 * any reason but cancellation, when it takes no work, or when nothing happens
 * on it for exec->limit_ns while it waits for nobody else. Then the device is
 * lost to the context; one that ran past the limit is also abandoned. Devices
 * whose work failed only because they waited for it are not blamed.
 */
#pragma once

#include "run.h"

/* Until the device's timeline has value; polls for spin_ns, then blocks. */
clv_status core_run_wait_for(clv_run *run, uint32_t device, uint64_t value,
                             uint64_t spin_ns);
/* Puts the step before the thread's message. */
clv_status core_exec_name_step(const clv_exec *exec, uint32_t step,
                               clv_status status);
/* The device failed in a step, for the reason in the thread's message. */
clv_status core_exec_blame(clv_exec *exec, uint32_t device, uint32_t step,
                           clv_status status);
/* After a failure, whose message stays the thread's: nothing of this run is
 * with a device when it returns, but with those that are now abandoned. */
clv_status core_run_drain(clv_run *run, clv_status status);
/* Devices that are to blame are lost; the thread's message stays. */
void core_exec_lose(const clv_exec *exec);
/* Destroys the timelines, but for those that an abandoned device may watch.
 * Whether there is such a device. */
bool core_run_free_timelines(clv_run *run);
