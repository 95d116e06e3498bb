/* A node by itself, with memory to run it in: its weights as they are, all else
 * made up. */
#pragma once

#include "tune/context.h"

#define GPU_SAMPLE_TENSORS (2 * CLV_MAX_INPUTS + CLV_MAX_OUTPUTS)

typedef struct gpu_sample {
    clv_subgraph graph;
    clv_tensor_desc tensors[GPU_SAMPLE_TENSORS];
    clv_node node;
    clv_binding weights[GPU_SAMPLE_TENSORS], others[GPU_SAMPLE_TENSORS];
    clv_plugin_buffer *own[GPU_SAMPLE_TENSORS];
    uint32_t n_weights, n_others;
    uint64_t weight_bytes, out_bytes;
    uint32_t out; /* index among own */
} gpu_sample;

/* Node i of the graph, every symbol at its largest. After a failure, too, it is
 * to be freed. CLV_ERR_UNSUPPORTED, unsaid: it cannot be made. */
clv_status gpu_sample_make(const gpu_context *ctx, const clv_compile *compile,
                           uint32_t i, gpu_sample *s);
void gpu_sample_free(const gpu_context *ctx, gpu_sample *s);
