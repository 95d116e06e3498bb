/* What copies take: a part of planner_overheads. */
#pragma once

#include "trial.h"

/* Behind the block, of at least 1 KiB of operands, n times; values: [n]. */
clv_status planner_measure_copies(core_trial *block, uint32_t n, bool noisy,
                                  double *values, planner_overheads *out);
