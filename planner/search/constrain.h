/*
 * Choices that keep to the devices' memory and shares: prices on bytes and on
 * working time, raised until the best choice keeps to them (Lagrange's
 * multipliers), and a mixture of the two choices on either side of the limit,
 * as layers are all alike and a price moves all of them at once.
 */
#pragma once

#include "find.h"

/* found: the choice without constraints, replaced. It may still break them,
 * where prices alone find none that does not. */
clv_status planner_constrain(const planner_schedule *s, uint32_t width,
                             planner_finding *found);
