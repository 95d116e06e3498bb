/*
 * Mixes: which tensor of a file gets which type. A mix has a type for its
 * matrices and rules for those that suffer more, as llama.cpp has them.
 */
#pragma once

#include "../base/str.h"

/* How a tensor is stored. */
typedef struct llm_target {
    uint32_t dtype; /* clv_dtype */
    uint32_t quant; /* clv_quant, of integers */
    uint32_t group; /* elements, for CLV_QUANT_PER_GROUP */
} llm_target;

typedef struct llm_mix_rule llm_mix_rule;

typedef struct llm_mix {
    const char *name;    /* "Q4_K_M" */
    const char *summary; /* for lists */
    uint32_t file_type;  /* general.file_type */
    llm_target base;
    const llm_mix_rule *rules; /* the first that fits; NULL: none */
    bool static_inputs; /* activations are rounded by scales of the file */
} llm_mix;

/* NULL after the last. */
const llm_mix *llm_mix_at(uint32_t i);
/* By name, in any case; the name of a type means its usual mix: "q4_k" is
 * Q4_K_M. CLV_ERR_UNSUPPORTED, with the names there are. */
clv_status llm_mix_find(const char *name, const llm_mix **out);
/* The usual mix of a clv_dtype; NULL: there is none. */
const llm_mix *llm_mix_of(uint32_t dtype);

/* What the rules ask of a model. Zeros where a file does not say. */
typedef struct llm_mix_model {
    uint32_t n_layers, n_heads, n_kv_heads, n_experts;
    bool tied; /* the embedding is the output matrix too */
} llm_mix_model;

/* The target, or where rows are not whole blocks or a type is not for tensors
 * of this rank, another of about as many bits. */
llm_target llm_target_fit(llm_target target, uint32_t rank, int64_t columns);

/* The target of a tensor [..., columns], which fits. Vectors, norms and routers
 * are F32. */
llm_target llm_mix_target(const llm_mix *mix, const llm_mix_model *model,
                          llm_str name, uint32_t rank, int64_t columns);
