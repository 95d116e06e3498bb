/* What copies take: a part of planner_overheads. */
#pragma once

#include "measure.h"

/* n times, at most 15; noisy: times are random. */
clv_status planner_measure_copies(clv_device *dev, uint32_t n, bool noisy,
                                  planner_overheads *out);
