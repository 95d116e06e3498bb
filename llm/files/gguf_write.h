/*
 * Writes GGUF files: first the settings and the list of tensors, then, after
 * llm_gguf_writer_open(), the bytes of every tensor in the order they were
 * added. The file, or the files of a split model, appear when they are
 * complete, or not at all.
 *
 * Settings and tensors are copied. llm_gguf_writer_open() returns their first
 * error, so callers need not check each one.
 */
#pragma once

#include "gguf_kv.h"
#include "gguf_types.h"

typedef struct llm_gguf_writer llm_gguf_writer;

clv_status llm_gguf_writer_create(llm_gguf_writer **out);
/* Removes a file that was not committed. NULL is legal. */
void llm_gguf_writer_destroy(llm_gguf_writer *writer);

void llm_gguf_writer_u32(llm_gguf_writer *w, const char *key, uint32_t value);
void llm_gguf_writer_f32(llm_gguf_writer *w, const char *key, float value);
void llm_gguf_writer_bool(llm_gguf_writer *w, const char *key, bool value);
void llm_gguf_writer_str(llm_gguf_writer *w, const char *key, llm_str value);
void llm_gguf_writer_i32s(llm_gguf_writer *w, const char *key,
                          const int32_t *values, uint64_t n);
void llm_gguf_writer_f32s(llm_gguf_writer *w, const char *key,
                          const float *values, uint64_t n);
/* values: 0 or 1 */
void llm_gguf_writer_bools(llm_gguf_writer *w, const char *key,
                           const uint8_t *values, uint64_t n);
void llm_gguf_writer_strings(llm_gguf_writer *w, const char *key,
                             const llm_str *values, uint64_t n);
/* A setting of another file, unchanged. */
void llm_gguf_writer_kv(llm_gguf_writer *w, const llm_gguf_kv *kv);

/* dims: rank 1..4, outermost first; dtype: one that GGUF has. */
void llm_gguf_writer_tensor(llm_gguf_writer *w, llm_str name, uint32_t dtype,
                            uint32_t rank, const int64_t *dims);

/* When a model is split over several files, NAME-00001-of-0000N.gguf. The first
 * has the settings. A tensor is never divided, so a file with one tensor may be
 * larger. */
typedef struct llm_gguf_split {
    uint64_t max_size;    /* bytes of a file; 0: any */
    uint64_t max_tensors; /* of a file; 0: any */
    /* Called for each file before anything is written; a failure is returned by
     * llm_gguf_writer_open(). NULL: nothing. */
    clv_status (*on_file)(void *ctx, const char *path);
    void *on_file_ctx;
} llm_gguf_split;

/* Creates the files and writes all that comes before the tensors. split: NULL
 * for one file. */
clv_status llm_gguf_writer_open(llm_gguf_writer *w, const char *path,
                                const llm_gguf_split *split);
/* The next bytes of the tensors, in any pieces that do not reach past the end
 * of a tensor. */
clv_status llm_gguf_writer_data(llm_gguf_writer *w, const void *data,
                                uint64_t size);
/* CLV_ERR_INVALID if bytes are missing. */
clv_status llm_gguf_writer_commit(llm_gguf_writer *w);
