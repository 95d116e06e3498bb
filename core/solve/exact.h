/* The search through all combinations of options of a small problem. */
#pragma once

#include "schedule.h"

/* Whether there are few enough. */
bool core_exact_possible(const core_tables *tables);
/* options: [n_nodes] within kinds: a choice that is there already, replaced by
 * the best one. */
clv_status core_exact_search(const core_schedule *s, uint32_t *options);
