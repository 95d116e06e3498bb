/* Copies of steps between a device's own memory and the host's. */
#pragma once

#include "run.h"

/* How many copies the step has, and how many before its program. */
void core_exec_count_copies(clv_exec *exec, uint32_t step);
clv_status core_run_make_copies(clv_run *run, uint32_t step);
/* Sets what lies in the run's workspace, */
clv_status core_run_place_copies(clv_run *run, uint32_t step);
/* and what lies in a tensor. */
clv_status core_run_set_copies(clv_run *run, uint32_t step, clv_value value,
                               clv_tensor *tensor, bool commit);
/* Writes the step's commands, and moves staged bytes that the step reads. So
 * what the step waits for must be done. */
clv_status core_run_put_commands(clv_run *run, uint32_t step,
                                 const int64_t *symbols);
/* Takes the staged results of steps to the host's memory, of those that the
 * device's timeline has reached with this value. */
clv_status core_run_fetch(clv_run *run, uint32_t device, uint64_t value);
