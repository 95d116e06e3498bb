/* The choice among runs in flight: which one's next step is submitted. */
#pragma once

#include "flight.h"

/* One that can go on; NULL: none can. Sets the block of every run. */
clv_run *core_flight_choose(core_flight *flight);
/* The run begins or ends being in flight. */
clv_status core_flight_enter(core_flight *flight, clv_run *run);
void core_flight_exit(core_flight *flight, clv_run *run);
/* Its steps are being submitted from now on; they are not any longer. */
void core_flight_load(clv_run *run);
void core_flight_unload(clv_run *run);
/* The step was submitted. */
void core_flight_serve(clv_run *run, uint32_t step);
