/*
 * safetensors files: named tensors, mapped.
 *
 * The header is checked as a whole when a file is opened: afterwards every
 * tensor reported lies inside the mapping, has exactly the bytes its shape
 * needs, and is aligned to its elements. What is returned is valid until the
 * llm_safetensors is closed. An open one does not change, so threads may share
 * it.
 */
#pragma once

#include "../base/memory.h"

typedef struct llm_safetensors llm_safetensors;

#define LLM_SAFETENSORS_MAX_RANK 8

typedef struct llm_safetensors_tensor {
    const char *name;
    const char *type; /* as in the file: "F32", "I64" */
    uint32_t dtype;   /* clv_dtype; NONE: one that cleave.h does not have */
    uint32_t rank;    /* 0: a single value */
    int64_t dims[LLM_SAFETENSORS_MAX_RANK]; /* outermost first */
    const uint8_t *data;
    uint64_t size;  /* bytes */
    uint64_t count; /* elements */
    void *copy;     /* aligned, where the file's bytes are not; owned */
} llm_safetensors_tensor;

/* One file. */
clv_status llm_safetensors_open(const char *path, llm_safetensors **out);
/* A directory's model.safetensors, or the files that its
 * model.safetensors.index.json lists, as one. */
clv_status llm_safetensors_open_dir(const char *dir, llm_safetensors **out);
/* From memory, which must outlive it; name is for messages. */
clv_status llm_safetensors_open_memory(const void *data, uint64_t size,
                                       const char *name, llm_safetensors **out);
void llm_safetensors_close(llm_safetensors *st); /* NULL is legal */

/* Calls visit with each file that is mapped, until it fails. */
clv_status llm_safetensors_each_map(const llm_safetensors *st,
                                    llm_map_fn visit);
/* CLV_ERR_IO if a file was cut short while it was read: see
 * clv_file_map_check(). */
clv_status llm_safetensors_check(const llm_safetensors *st);

/* The path it was opened by, for messages. */
const char *llm_safetensors_path(const llm_safetensors *st);
uint64_t llm_safetensors_count(const llm_safetensors *st);
const llm_safetensors_tensor *llm_safetensors_at(const llm_safetensors *st,
                                                 uint64_t index);
/* NULL if there is none. */
const llm_safetensors_tensor *llm_safetensors_find(const llm_safetensors *st,
                                                   const char *name);
