/* Memory of an exec, and where the contents of states are. */
#pragma once

#include "exec.h"

clv_status core_exec_make_memory(clv_exec *exec);
void core_exec_free_memory(clv_exec *exec);
/* Whether the plan uses the state in any memory. */
bool core_exec_has_state(const clv_plan *plan, clv_value state);
/* Before a run: brings states to where the run needs them, and notes them as
 * written where it writes them. After it: notes where else they are now. */
clv_status core_exec_bring_states(clv_exec *exec);
clv_status core_exec_leave_states(clv_exec *exec);
