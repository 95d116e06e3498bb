/*
 * Programs: a graph's nodes in order, with their weights bound. Compiling takes
 * time that only the simulation sees, more the larger the graph; a graph that
 * was seen before takes less, as what was found out about it is known.
 */
#pragma once

#include "cost.h"
#include "device.h"

#include <cleave/plugin_program.h>

struct clv_plugin_program {
    clv_program_base base; /* tensors, symbols, and where the weights lie */
    clv_plugin_device *dev;
    clv_subgraph *graph;
    npu_path *paths;   /* [n_nodes] */
    npu_phase *phases; /* [n_nodes], of fixed shapes; else NULL */
    uint64_t maker;    /* npu_maker() when it was compiled */
    uint64_t memory_size, compile_ns;
    uint64_t taken; /* of the simulated memory */
};

clv_status npu_program_compile(clv_plugin_device *dev,
                               const clv_compile *compile,
                               clv_plugin_program **out);
/* quickly: all about the graph is known from a serialised program. */
clv_status npu_program_make(clv_plugin_device *dev, const clv_compile *compile,
                            bool quickly, clv_plugin_program **out);
clv_status npu_program_info(clv_plugin_program *prog, clv_program_info *out);
void npu_program_destroy(clv_plugin_program *prog);
clv_status npu_program_serialize(
    clv_plugin_program *prog,
    clv_status (*write)(void *ctx, const void *data, uint64_t size), void *ctx);
clv_status npu_program_validate(clv_plugin_device *dev,
                                const clv_compile *compile,
                                const clv_blob *blob, uint32_t *verdict);
clv_status npu_program_load(clv_plugin_device *dev, const clv_compile *compile,
                            const clv_blob *blob, clv_plugin_program **out);
clv_status npu_program_key(clv_plugin_device *dev, const clv_compile *compile,
                           uint8_t key[32]);
/* Of build, device and options. */
uint64_t npu_maker(const clv_plugin_device *dev, const char *options);
