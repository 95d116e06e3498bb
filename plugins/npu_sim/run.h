/* Results of a program: the arithmetic that the simulated device would do. */
#pragma once

#include "program.h"

/* data: [n_tensors] of the program. Fails for lack of memory only. */
clv_status npu_run(const clv_plugin_program *prog, char *const *data,
                   const int64_t *symbols);
