/*
 * The tensors of a Llama model: what they are called in GGUF and in Hugging
 * Face files, and their shapes.
 */
#pragma once

#include "../sources/source.h"

enum { LLM_TENSOR_NAME = 128 };

typedef enum llm_tensor_need {
    LLM_TENSOR_REQUIRED,
    LLM_TENSOR_OPTIONAL,
    LLM_TENSOR_OUTPUT, /* required unless tied to the embedding, then ignored */
} llm_tensor_need;

/* One tensor of a model. */
typedef struct llm_llama_tensor {
    char gguf[LLM_TENSOR_NAME]; /* "blk.0.attn_q.weight" */
    char hf[LLM_TENSOR_NAME];   /* "model.layers.0.self_attn.q_proj.weight"; of
                                   several parts with a '#' for the number */
    uint32_t need;              /* llm_tensor_need */
    bool rotary;                /* rows are rotated in pairs, head by head */
    uint32_t rank;
    int64_t dims[3];  /* [out, in] or [n]; [experts, out, in] */
    uint32_t n_parts; /* in Hugging Face files: tensors [out, in], one
                         for each expert; else 1 */
} llm_llama_tensor;

/* Tensors a model of these settings can have, in the order of GGUF files. */
uint64_t llm_llama_tensor_count(const llm_hparams *h);
/* index < count */
void llm_llama_tensor_at(const llm_hparams *h, uint64_t index,
                         llm_llama_tensor *out);
/* The name of a part in Hugging Face files. */
void llm_llama_part_name(const llm_llama_tensor *tensor, uint32_t part,
                         char name[LLM_TENSOR_NAME]);
