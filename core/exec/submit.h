/* Giving steps of a run to their devices. */
#pragma once

#include "run.h"

/* Submits the run's next step, all of whose waits by the host are over. */
clv_status core_run_submit_step(clv_run *run);
/* Now, by the clock of those who work: of the devices, if it is virtual. */
double core_run_moment(const clv_run *run);
