/* What devices recorded. */
#pragma once

#include "exec.h"

/* Moves what the devices recorded to the context's trace. */
void core_exec_collect_trace(clv_exec *exec);
/* Of a step's submit in the present run. */
uint64_t core_exec_correlation(const clv_exec *exec, uint32_t step);
