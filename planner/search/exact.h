/* The search through all combinations of options of a small problem. */
#pragma once

#include "schedule.h"

/* Whether there are few enough. */
bool planner_exact_possible(const planner_tables *tables);
/* options: [n_nodes] within kinds: a choice that is there already, replaced by
 * the best one. */
clv_status planner_exact_search(const planner_schedule *s, uint32_t *options);
