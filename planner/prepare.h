/*
 * What it takes to make a plan's programs ready before its first run: each
 * distinct one once, those that the device or the cache has already for what it
 * takes to have them again.
 */
#pragma once

#include "../core/exec/exec.h"
#include "candidates/candidates.h"
#include "profile/profile.h"

/* ns, by the device's clock. */
clv_status planner_prepare_predict(const clv_plan *plan,
                                   const planner_profile *profile, double *ns);
/* The same as a part of each run (core.expected_runs). */
double planner_prepare_share(const clv_plan *plan);
/* Spreads this over the pieces of candidates, for the search: what a program of
 * a piece would take, by nodes of its class, as they share programs, and so
 * that the options of a plan count as much together as the plan's programs do.
 */
void planner_prepare_prices(const clv_plan *plan, const uint32_t *options,
                            const planner_profile *profile,
                            planner_candidates *candidates);
/* Takes over what making the exec's programs took. */
clv_status planner_prepare_learn(const clv_exec *exec,
                                 planner_profile *profile);
