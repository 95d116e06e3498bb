/*
 * What submits, dispatches, waits and copies of a run took beside what the
 * profile has: an observed run says when each step was submitted, began and
 * ended.
 */
#pragma once

#include "../core/exec/exec.h"
#include "profile/profile.h"

/* Takes over what was off by more than a tenth, and more than what it differs
 * by from one time to the next. scale: of times while devices record, which
 * takes time itself. *any: whether something was. */
clv_status planner_overheads_learn(const clv_exec *exec,
                                   planner_profile *profile, double scale,
                                   bool *any);
