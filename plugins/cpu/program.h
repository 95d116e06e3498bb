/*
 * Programs: a graph's nodes in order, checked, with their weights bound. There
 * is no generated code, so compiling takes microseconds and nothing is gained
 * by keeping programs in files.
 */
#pragma once

#include "op.h"

struct clv_plugin_program {
    const clv_host_api *host;
    uint32_t n_tensors, n_symbols, n_steps;
    cpu_tensor *tensors;       /* rank 0: no step uses it */
    void **weights;            /* [n_tensors], NULL where bound at submit */
    bool *written;             /* [n_tensors] */
    clv_symbol_range *symbols; /* [n_symbols] */
    cpu_step *steps;
    uint64_t memory_size, scratch_size, compile_ns;
};

clv_status cpu_program_compile(clv_plugin_device *dev,
                               const clv_compile *compile,
                               clv_plugin_program **out);
clv_status cpu_program_info(clv_plugin_program *prog, clv_program_info *out);
void cpu_program_destroy(clv_plugin_program *prog);

/* Bytes each shared region needs in a run. */
void cpu_program_regions(const clv_plugin_program *prog, const cpu_run *run,
                         uint64_t sizes[CPU_REGION_COUNT]);

/* Where a bound tensor lies; fails if the binding breaks the contract. size is
 * what the tensor takes. */
clv_status cpu_bind(const clv_host_api *host, const clv_binding *binding,
                    uint64_t size, uint64_t align, bool write, void **out);
