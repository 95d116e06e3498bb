#pragma once

#include "trial.h"

/* Of a device, o->copy and o->copy_byte; 0 where it cannot copy. block: a trial
 * on it; n repetitions, for which values has room. */
clv_status planner_measure_copies(core_trial *block, clv_device *dev,
                                  uint32_t n, double *values,
                                  planner_overheads *o);
