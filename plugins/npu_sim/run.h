/* Results of a program: the arithmetic that the simulated device would do. */
#pragma once

#include "program.h"

/* data: [n_tensors] of the program. phases: [n_nodes], which get the time that
 * the experts take that are chosen, or NULL. Fails for lack of memory only. */
clv_status npu_run(const clv_plugin_program *prog, char *const *data,
                   const int64_t *symbols, npu_phase *phases);
