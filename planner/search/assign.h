/*
 * Which nodes use the memory of a device that cannot hold what all of them
 * would: a knapsack. Prices on bytes leave the last bytes to chance, as one
 * price is too low for a set of nodes and the next one too high.
 *
 * What each option of each node would save is computed with all other nodes as
 * they are. Then one option of each node is chosen so that the sum of what they
 * save is greatest and their bytes fit, by dynamic programming. What the choice
 * takes in fact is computed again before it is taken.
 */
#pragma once

#include "evaluate.h"
#include "trials.h"

/* options: [n_nodes] a choice that keeps to the constraints, and its value;
 * both become those of a better choice, if one is found. trials: of any choice.
 */
clv_status planner_assign(planner_trials *trials, uint32_t *options,
                          planner_value *value);
