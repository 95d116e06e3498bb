/*
 * Parts of made-up models: the published shapes and the formats their weights
 * can have (synth_shapes.c), and what fills the weights (synth_fill.c). synth.c
 * makes a source of them.
 */
#pragma once

#include <cleave/llm.h>

typedef struct llm_synth_shape {
    const char *name, *architecture;
    uint32_t n_layers, n_embd, n_ff, n_vocab, n_heads, n_kv_heads, head_dim;
    uint32_t n_ctx_train, sliding_window;
    float norm_eps, rope_base;
    bool tied;           /* token_embd is the output matrix too */
    float llama3_factor; /* rope scaling from 8192 positions; 0: none */
    bool qkv_bias;
    uint32_t n_experts, n_experts_used; /* 0: dense */
} llm_synth_shape;

/* How numbers are stored: a dtype, and for integers a clv_quant. */
typedef struct llm_synth_type {
    uint32_t dtype, quant;
} llm_synth_type;

typedef struct llm_synth_format {
    const char *name;
    llm_synth_type matrix, table; /* table: token_embd, if it is nothing
                                     else */
} llm_synth_format;

/* Takes "NAME[:FORMAT][:zero]" apart. */
clv_status llm_synth_parse(const char *spec, const llm_synth_shape **shape,
                           const llm_synth_format **format, bool *zero);

typedef struct llm_synth_tensor {
    char name[48];
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
