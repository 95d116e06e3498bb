/* Weights in the memory of devices. */
#pragma once

#include "exec.h"

/* Uses the copies that are there. Where others are missing, those on the device
 * that no exec uses are destroyed: they were of plans that are gone. */
clv_status core_exec_use_weights(clv_exec *exec);
/* Copies what devices do not use in place and do not have yet. */
clv_status core_exec_load_weights(clv_exec *exec);
/* Warns, once a context, that memory does not hold what runs use in files. */
void core_exec_tell_file(const clv_exec *exec);
void core_exec_leave_weights(clv_exec *exec);
/* Where a device holds a weight, or a view of one. */
clv_status core_exec_weight(const clv_plan *plan, const core_load *load,
                            const core_object **out);
