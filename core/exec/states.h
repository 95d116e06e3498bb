/* Where the contents of states are. */
#pragma once

#include "exec.h"

/* Whether the plan uses the state in any memory. */
bool core_exec_has_state(const clv_plan *plan, clv_value state);
/* Whether no state has to move for a run. */
bool core_exec_states_there(const clv_exec *exec);
/* Before a run: brings states to where the run needs them, and notes them as
 * written where it writes them. After it: notes where else they are now. Of
 * runs that follow one another with nothing moved in between this takes no
 * time. */
clv_status core_exec_bring_states(clv_exec *exec);
clv_status core_exec_leave_states(clv_exec *exec);
