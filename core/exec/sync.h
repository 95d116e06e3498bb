/* Waits that go by what is predicted. */
#pragma once

#include "run.h"

clv_status core_exec_sync_begin(clv_exec *exec);
void core_exec_sync_finish(core_exec_sync *sync);
/* As core_run_wait_for(), but sleeps and polls as the plan predicts for this
 * point, an index into sync.points. */
clv_status core_run_await(clv_run *run, uint32_t device, uint64_t value,
                          uint32_t point);
