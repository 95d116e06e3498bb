/*
 * Where a model's weights and settings come from: a GGUF file, a Hugging Face
 * directory, or made up (synth). All of them answer in the same terms, so the
 * model graphs know no file format.
 *
 * Tensors are named as in GGUF: "token_embd.weight", "blk.0.attn_q.weight",
 * "output_norm.weight", "output.weight" (absent: tied to token_embd).
 */
#pragma once

#include <cleave/llm.h>

#define LLM_MAX_EXPERTS 512

typedef enum llm_rope_scaling {
    LLM_ROPE_NONE = 0,
    LLM_ROPE_LINEAR = 1, /* all frequencies divided by factor */
    LLM_ROPE_LLAMA3 = 2, /* by wavelength, between low and high factors */
} llm_rope_scaling;

/* Settings of a transformer; checked by the source: counts are in sane ranges,
 * n_heads is a multiple of n_kv_heads, head_dim is even, and of experts some
 * are used. */
typedef struct llm_hparams {
    char architecture[32]; /* GGUF's name: "llama" */
    char name[128];
    uint32_t n_layers, n_embd, n_ff, n_vocab;
    uint32_t n_heads, n_kv_heads, head_dim;
    uint32_t n_experts, n_experts_used; /* 0: dense; n_ff is an expert's */
    uint32_t n_ctx_train;
    uint32_t sliding_window; /* 0: none */
    float norm_eps;
    uint32_t rope_mode; /* clv_rope_mode of the q and k weights */
    uint32_t rope_dim;  /* channels rotated */
    float rope_base;
    uint32_t rope_scaling; /* llm_rope_scaling */
    float rope_factor, rope_low_freq_factor, rope_high_freq_factor;
    uint32_t rope_original_ctx;
    int32_t bos, eos; /* -1: none; for models without a tokenizer */
} llm_hparams;

/* One tensor of a source. data is aligned to its elements (blocks: to their
 * scale) and stays valid while the source lives. Of integers there are scales
 * too, as clv_tensor_set_quant() has them. */
typedef struct llm_source_tensor {
    uint32_t dtype;  /* clv_dtype */
    uint32_t rank;   /* 1..4 */
    int64_t dims[4]; /* outermost first: weights [out, in] */
    const void *data;
    uint64_t size;      /* bytes, exactly what the shape needs */
    uint32_t quant;     /* clv_quant; per tensor or per channel */
    const void *scales; /* f32 [n_scales] */
    uint64_t n_scales;
} llm_source_tensor;

typedef struct llm_source llm_source;
struct llm_source {
    llm_hparams hparams;
    /* CLV_ERR_NOT_FOUND, without a message, if there is no such tensor. */
    clv_status (*find)(llm_source *source, const char *name,
                       llm_source_tensor *out);
    /* Sets *out to a tokenizer, or NULL if the source has none. */
    clv_status (*tokenizer)(llm_source *source, clv_tokenizer **out);
    void (*destroy)(llm_source *source);
    _Atomic uint32_t holders; /* beside its owner */
};

/* By the form of path: see clv_model_load(). */
clv_status llm_source_open(const char *path, clv_progress_fn progress,
                           void *progress_ctx, llm_source **out);
clv_status llm_source_open_gguf(const char *path, llm_source **out);
clv_status llm_source_open_hf(const char *dir, llm_source **out);
/* spec: "NAME[:QUANT][:zero]", after "synth:". */
clv_status llm_source_open_synth(const char *spec, clv_progress_fn progress,
                                 void *progress_ctx, llm_source **out);
/* It goes once its owner and everyone who holds it have destroyed it. From any
 * thread. */
void llm_source_hold(llm_source *source);
void llm_source_destroy(llm_source *source); /* NULL is legal */
