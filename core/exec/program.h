/* Programs of steps. */
#pragma once

#include "exec.h"

/* Compiles the program of a step, and notes what runs bind to it. */
clv_status core_exec_prepare_step(clv_exec *exec, uint32_t step,
                                  const uint32_t *loads);
