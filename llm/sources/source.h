/*
 * Where a model's weights and settings come from: a GGUF file, a Hugging Face
 * directory, or made-up weights (synth). All have the same interface, so that
 * the rest knows no file format.
 *
 * Tensors are named as in GGUF: "token_embd.weight", "blk.0.attn_q.weight",
 * "output_norm.weight", "output.weight" (absent: tied to token_embd).
 */
#pragma once

#include "../base/memory.h"
#include "../models/arch.h"

/* One tensor of a source. data is aligned to its elements (blocks: to their
 * scale) and stays valid until the source is destroyed. Integers have scales
 * too, as in clv_tensor_set_quant(). */
typedef struct llm_source_tensor {
    uint32_t dtype;  /* clv_dtype */
    uint32_t rank;   /* 1..4 */
    int64_t dims[4]; /* outermost first: weights [out, in] */
    const void *data;
    uint64_t size;      /* bytes, exactly what the shape needs */
    uint32_t quant;     /* clv_quant */
    uint32_t group;     /* elements, for CLV_QUANT_PER_GROUP */
    const void *scales; /* f32 [n_scales] */
    uint64_t n_scales;
    float input_scale; /* by which what it is multiplied with is rounded to
                          int8; 0: it is not */
    /* f16 [in, out]: what outliers are multiplied with; NULL: they are cut off.
     * Rows lie `outlier_row` elements apart. */
    const void *outliers;
    uint64_t outlier_row;
    uint32_t outlier_bound; /* of a row */
    const int32_t *hot;     /* [n_hot] channels that mostly are outliers */
    uint64_t n_hot;
} llm_source_tensor;

typedef struct llm_source llm_source;
struct llm_source {
    llm_hparams hparams; /* checked */
    /* CLV_ERR_NOT_FOUND, without a message, if there is no such tensor. */
    clv_status (*find)(llm_source *source, const char *name,
                       llm_source_tensor *out);
    /* Sets *out to a tokenizer, or NULL if the source has none. */
    clv_status (*tokenizer)(llm_source *source, clv_tokenizer **out);
    /* To be called when the model has found all its tensors. CLV_ERR_FORMAT if
     * there are others, with which it would be computed wrongly; NULL: there
     * are none. */
    clv_status (*check_all_used)(const llm_source *source);
    /* Calls visit with each file that is mapped, until it fails; NULL: there is
     * none. */
    clv_status (*each_map)(const llm_source *source, llm_map_fn visit);
    void (*destroy)(llm_source *source);
    _Atomic uint32_t holders; /* beside its owner */
};

/* By the form of path: see clv_model_load(). */
clv_status llm_source_open(const char *path, clv_progress_fn progress,
                           void *progress_ctx, llm_source **out);
/* Before a tensor is used: where params says so, copies its files into memory,
 * and locks them there. */
clv_status llm_source_hold_files(const llm_source *source,
                                 const clv_model_params *params);
/* To be called when the tensors have been read and before the results are used:
 * see clv_file_map_check(). Known damage goes before status, the outcome of
 * what has read them. */
clv_status llm_source_check(const llm_source *source, clv_status status);
/* A source is freed when its owner and all who hold it have destroyed it. From
 * any thread. */
void llm_source_hold(llm_source *source);
void llm_source_destroy(llm_source *source); /* NULL is legal */
