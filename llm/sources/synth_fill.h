/* The weights of made-up models. */
#pragma once

#include "synth_spec.h"

typedef struct llm_synth_tensor {
    char name[LLM_TENSOR_NAME];
    llm_target type;
    uint32_t rank;
    int64_t dims[3];
    float value;           /* of all elements of a vector */
    uint64_t offset, size; /* in the memory */
    uint64_t scales;       /* their offset, where the type has scales */
    uint64_t n_scales;
    float input_scale; /* as llm_source_tensor */
    uint32_t outliers; /* 1 + the tensor of their weights; 0: it has none */
    uint32_t outlier_bound;
} llm_synth_tensor;

/* Fills zeroed memory on all processors; the same bytes each time. */
clv_status llm_synth_fill(uint8_t *memory, const llm_synth_tensor *tensors,
                          uint32_t n_tensors, clv_progress_fn progress,
                          void *progress_ctx);
