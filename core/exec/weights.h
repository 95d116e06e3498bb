/* Weights in the memory of devices. */
#pragma once

#include "exec.h"

/* Copies what devices do not use in place. */
clv_status core_exec_load_weights(clv_exec *exec);
/* Where a device holds a weight, or a view of one. */
clv_status core_exec_weight(const clv_plan *plan, const core_load *load,
                            const core_object **out);
