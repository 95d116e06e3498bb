/* What holds the weights that devices use in mapped files: the host's memory,
 * and the file for the rest. */
#pragma once

#include "../../core/plan/plan.h"

/* Bytes of the host's memory for them: core.host_memory. The same for all plans
 * of a context, so that they keep the same weights. UINT64_MAX: it does not
 * matter, as in virtual time, where nothing is read. */
uint64_t planner_file_room(const clv_plan *plan);
/* Bytes a ns at which the plan's files are read: core.file_speed, or what was
 * measured, now at most. 0: not known. */
double planner_file_speed(const clv_plan *plan);
