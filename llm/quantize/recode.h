/*
 * Writing tensors to a GGUF file in another type. They are converted in pieces
 * of rows, one a thread, so that memory does not grow with their size. The
 * bytes do not depend on the number of threads.
 */
#pragma once

#include "../files/gguf_write.h"
#include "mix.h"

enum { LLM_RECODE_THREADS = 64 }; /* at most */

typedef struct llm_recode_piece llm_recode_piece;

typedef struct llm_recode {
    llm_gguf_writer *writer;
    clv_progress_fn progress; /* may be NULL */
    void *progress_ctx;
    const char *what;     /* for progress */
    uint64_t done, total; /* elements */
    uint32_t n_threads;
    llm_recode_piece *pieces; /* [n_threads] */
} llm_recode;

typedef struct llm_recode_tensor {
    llm_str name;  /* for messages */
    uint32_t from; /* clv_dtype, no integers */
    llm_target to;
    const void *data;
    uint64_t rows, columns;
    /* 0: rows stay. Else rows come in heads of so many, each head's first half
     * and second half: they are written alternating, as GGUF's Llama has them.
     */
    uint32_t interleave;
    /* What rows are divided by and columns multiplied with; NULL: nothing. */
    const float *row_divisors, *column_factors;
} llm_recode_tensor;

/* How a tensor was written. */
typedef struct llm_recode_result {
    double error,
        power;     /* sums of squares: of the differences, of the values */
    float *scales; /* of integers, the caller's, free(); else NULL */
    uint64_t n_scales;
} llm_recode_result;

/* total: elements of all tensors together; n_threads: 0: all processors. */
clv_status llm_recode_init(llm_recode *r, llm_gguf_writer *writer,
                           const char *what, uint64_t total, uint32_t n_threads,
                           clv_progress_fn progress, void *progress_ctx);
void llm_recode_finish(llm_recode *r); /* of zeroes is legal */

/* Writes one tensor; result may be NULL where it has no scales.
 * CLV_ERR_CANCELLED when progress says so. */
clv_status llm_recode_write(llm_recode *r, const llm_recode_tensor *t,
                            llm_recode_result *result);

/* Row `row` of a tensor as it is written, in F32: [columns]. */
void llm_recode_row(const llm_recode_tensor *t, uint64_t row, float *out);

/* The scales that a tensor has: rank 0 for none; dims: [2]. */
uint32_t llm_recode_scales(const llm_target *to, uint64_t rows,
                           uint64_t columns, int64_t *dims);
