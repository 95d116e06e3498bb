/*
 * A call of a device's slots that may never return. It is made on a thread of
 * its own, so that the caller can go on without the device.
 */
#pragma once

#include "exec.h"

/*
 * Calls fn(job) for that step of the plan. If it does not return in
 * exec->limit_ns, in which the process is idle, the device is abandoned, slot
 * is named in the error CLV_ERR_TIMEOUT, and job, which may still be used, is
 * the guard's: it stays until the process ends. Else job stays the caller's.
 * blamed: for a crash meanwhile, or NULL.
 */
clv_status core_exec_guard(clv_exec *exec, uint32_t step, const char *slot,
                           const core_plugin *blamed,
                           clv_status (*fn)(void *job), void *job);
