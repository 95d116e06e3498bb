/*
 * Writing tensors to a GGUF file in another dtype. They are converted in
 * pieces, so that memory does not grow with their size.
 */
#pragma once

#include "gguf_write.h"

#include <cleave/plugin_format.h>

typedef struct llm_recode {
    llm_gguf_writer *writer;
    clv_progress_fn progress; /* may be NULL */
    void *progress_ctx;
    const char *what;     /* for progress */
    uint64_t done, total; /* elements */
    float *values;        /* a piece, as floats */
    uint8_t *encoded;     /* and as written */
    uint8_t *gathered;    /* and as read, where rows move */
} llm_recode;

typedef struct llm_recode_tensor {
    llm_str name;      /* for messages */
    uint32_t from, to; /* clv_dtype */
    const void *data;
    uint64_t rows, columns;
    /* 0: rows stay. Else rows come in heads of so many, each head's first half
     * and second half: they are written alternating, as GGUF's Llama has them.
     */
    uint32_t interleave;
} llm_recode_tensor;

/* total: elements of all tensors together. */
clv_status llm_recode_init(llm_recode *r, llm_gguf_writer *writer,
                           const char *what, uint64_t total,
                           clv_progress_fn progress, void *progress_ctx);
void llm_recode_finish(llm_recode *r); /* of zeroes is legal */

/* Writes one tensor. CLV_ERR_CANCELLED when progress says so. */
clv_status llm_recode_write(llm_recode *r, const llm_recode_tensor *t);

/*
 * The dtype of a tensor in a file of `dtype`, which may be any float or block
 * type. Vectors are F32. Matrices are of `dtype`, or F16 where their rows are
 * not whole blocks. In a file of blocks of fewer than 8 bits the output matrix,
 * or the embedding that replaces it (tied), is Q8_0: errors there have the
 * largest effect.
 */
uint32_t llm_recode_target(llm_str name, uint32_t rank, int64_t columns,
                           uint32_t dtype, bool tied);
/* CLV_ERR_UNSUPPORTED unless files can be made of dtype. */
clv_status llm_recode_check(uint32_t dtype);
