/*
 * Parts of made-up models: the formats their weights can have
 * (synth_spec.c), and what fills the weights (synth_fill.c). synth.c makes a
 * source of them. Their shapes are the published ones of the architectures.
 */
#pragma once

#include "../models/arch.h"

/* How numbers are stored: a dtype, and for integers a clv_quant. */
typedef struct llm_synth_type {
    uint32_t dtype, quant;
} llm_synth_type;

typedef struct llm_synth_format {
    const char *name;
    llm_synth_type matrix, table; /* table: token_embd, if it is nothing
                                     else */
} llm_synth_format;

/* What "NAME[:FORMAT][:zero]" asks for. */
typedef struct llm_synth_spec {
    const llm_arch *arch;
    const llm_published *model;
    const llm_synth_format *format;
    bool zero; /* all weights are 0 */
} llm_synth_spec;
clv_status llm_synth_parse(const char *text, llm_synth_spec *out);

typedef struct llm_synth_tensor {
    char name[LLM_TENSOR_NAME];
    llm_synth_type type;
    uint32_t rank;
    int64_t dims[3];
    float value;           /* of all elements of a vector */
    uint64_t offset, size; /* in the memory */
    uint64_t scales;       /* their offset, where the type has scales */
    uint64_t n_scales;
} llm_synth_tensor;

/* Fills zeroed memory on all processors; the same bytes each time. */
clv_status llm_synth_fill(uint8_t *memory, const llm_synth_tensor *tensors,
                          uint32_t n_tensors, clv_progress_fn progress,
                          void *progress_ctx);
