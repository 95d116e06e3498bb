/*
 * Programs: a graph's nodes in order, checked, with their weights bound. There
 * is no generated code, so that compiling takes microseconds and caching
 * programs on disk would gain nothing.
 */
#pragma once

#include "op.h"

#include <cleave/plugin_program.h>

struct clv_plugin_program {
    clv_program_base base; /* tensors, symbols, and where the weights lie */
    uint64_t scratch_size, compile_ns;
    char **data; /* [n_tensors] addresses in the run in progress; the queue's
                    thread's. Made here, as runs must not lack memory for it */
    uint32_t n_steps;
    cpu_step steps[];
};

clv_status cpu_program_compile(clv_plugin_device *dev,
                               const clv_compile *compile,
                               clv_plugin_program **out);
clv_status cpu_program_info(clv_plugin_program *prog, clv_program_info *out);

/* Bytes each shared region needs in a run. */
void cpu_program_regions(const clv_plugin_program *prog, const cpu_run *run,
                         uint64_t sizes[CPU_REGION_COUNT]);
