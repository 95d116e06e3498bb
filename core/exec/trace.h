/* What devices record of runs: for the trace, and for exec->latest. */
#pragma once

#include "exec.h"

/* Whether devices record the present run. */
bool core_exec_is_recorded(const clv_exec *exec);
/* Takes what the devices recorded of the present run. */
void core_exec_collect_records(clv_exec *exec);
/* Of a step's submit in the present run. */
uint64_t core_exec_correlation(const clv_exec *exec, uint32_t step);
