/* Copies of steps between a device's own memory and the host's. */
#pragma once

#include "exec.h"

clv_status core_exec_prepare_copies(clv_exec *exec, uint32_t step);
clv_status core_exec_set_copies(clv_exec *exec, uint32_t step, clv_value value,
                                clv_tensor *tensor, bool commit);
/* Writes the step's commands of a run, and moves staged bytes that the step
 * reads. So what the step waits for must be done. */
clv_status core_exec_put_commands(clv_exec *exec, uint32_t step,
                                  const int64_t *symbols);
/* Takes the staged results of steps to the host's memory, of those that the
 * device's timeline has reached with this value. */
clv_status core_exec_fetch(clv_exec *exec, uint32_t device, uint64_t value);
