/*
 * Subgraphs compiled for a device.
 */
#pragma once

#include "buffer.h"

typedef struct core_binding {
    uint32_t tensor; /* index in the subgraph */
    core_buffer *buffer;
    uint64_t offset, size; /* bytes */
} core_binding;

typedef struct core_compile {
    const clv_subgraph *graph;
    const core_binding *weights; /* every CLV_USAGE_WEIGHT tensor */
    uint32_t n_weights;
    uint32_t flags;                             /* CLV_COMPILE_* */
    uint64_t repack_size;                       /* as clv_compile */
    const char *options;                        /* plugin-specific, or NULL */
    int (*progress)(void *ctx, float fraction); /* non-zero cancels */
    void *progress_ctx;
} core_compile;

typedef struct core_program {
    clv_device *dev;
    clv_plugin_program *handle;
    clv_program_info info;
    /* Copies of the subgraph's, to check submits against. */
    clv_tensor_desc *tensors;
    clv_symbol_range *symbols;
    uint32_t n_tensors, n_symbols;
    uint8_t *binds;   /* [n_tensors] whether a run binds it */
    uint32_t n_bound; /* those */
    /* By core_program_get(): what making it took, by the device's clock, and
     * whether the cache had it, or has it now. */
    double ready_ns;
    bool was_cached, is_cached;
} core_program;

clv_status core_program_compile(clv_device *dev, const core_compile *compile,
                                core_program **out);
void core_program_destroy(core_program *prog); /* NULL is legal */

/* Whether its programs can be serialised and loaded. The rest is only for
 * devices where this is so. */
bool core_device_serialises(const clv_device *dev);
/* write answers CLV_OK or the status to give up with. */
clv_status core_program_serialize(
    core_program *prog,
    clv_status (*write)(void *ctx, const void *data, uint64_t size), void *ctx);
/* *out is NULL where the plugin finds the blob not as good as a new program. */
clv_status core_program_load(clv_device *dev, const core_compile *compile,
                             const clv_blob *blob, core_program **out);
/* The plugin's part of a cache key. */
clv_status core_program_key(clv_device *dev, const core_compile *compile,
                            uint8_t key[32]);
