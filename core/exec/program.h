/* Programs of steps, and the memory that they are bound to. */
#pragma once

#include "exec.h"

/* Compiles the program of a step and prepares its bindings. */
clv_status core_exec_prepare_step(clv_exec *exec, uint32_t step,
                                  const uint32_t *loads);
/* Points the bindings of a value on every device to the tensor's memory. */
clv_status core_exec_set_tensor(clv_exec *exec, clv_value value,
                                clv_tensor *tensor);
