/* What devices record of runs: for the trace, and for exec->latest. */
#pragma once

#include "run.h"

/* Whether devices record the present run. */
bool core_run_is_recorded(const clv_run *run);
/* Takes what the devices recorded of the run. What they recorded of others that
 * are in flight goes to the trace alone. */
void core_run_collect_records(clv_run *run);
/* Of a step's submit in the present run; never the same again. */
uint64_t core_run_correlation(const clv_run *run, uint32_t step);
