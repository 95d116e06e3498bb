/* How a run begins and ends; under the lock of its flight. */
#pragma once

#include "run.h"

/* Notes what it has to wait for before it begins, and its steps' needs. Older:
 * runs of the flight. */
clv_status core_run_look_back(clv_run *run, clv_run *first);
bool core_run_can_begin(clv_run *run);
/* States come to where it needs them. */
clv_status core_run_begin(clv_run *run, clv_run *first);
/* What is kept of the latest run. */
void core_exec_forget_latest(clv_exec *exec);
/* All its steps are done. */
clv_status core_run_complete(clv_run *run);
