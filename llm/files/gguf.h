/*
 * GGUF files: settings (key-value pairs) and tensors.
 *
 * A file is mapped, and checked as a whole when it is opened: every string,
 * array and tensor that is returned later is inside the mapping. Nothing is
 * copied; what is returned is valid until the llm_gguf is closed. A model split
 * over several files (NAME-00001-of-0000N.gguf) is opened by any of them, and
 * treated as one file.
 *
 * An open llm_gguf does not change, so threads may share it.
 */
#pragma once

#include "../base/memory.h"
#include "../base/str.h"

#include <cleave/llm.h>

typedef struct llm_gguf llm_gguf;

clv_status llm_gguf_open(const char *path, llm_gguf **out);
/* The same from memory, which must outlive it; name is for messages. A part of
 * a split model is refused. */
clv_status llm_gguf_open_memory(const void *data, uint64_t size,
                                const char *name, llm_gguf **out);
void llm_gguf_close(llm_gguf *gguf); /* NULL is legal */

/* Calls visit with each file that is mapped, until it fails. */
clv_status llm_gguf_each_map(const llm_gguf *gguf, llm_map_fn visit);
/* CLV_ERR_IO if a file was cut short while it was read: see
 * clv_file_map_check(). */
clv_status llm_gguf_check(const llm_gguf *gguf);

/* The path it was opened by, for messages. */
const char *llm_gguf_path(const llm_gguf *gguf);

typedef struct llm_gguf_tensor {
    llm_str name;
    uint32_t type;   /* GGUF's number */
    uint32_t dtype;  /* clv_dtype; NONE: a type that is not supported */
    uint32_t rank;   /* 1..4 */
    int64_t dims[4]; /* outermost first, unlike in the file */
    const uint8_t *data;
    uint64_t size; /* bytes, exactly what the shape needs */
} llm_gguf_tensor;

uint64_t llm_gguf_tensor_count(const llm_gguf *gguf);
const llm_gguf_tensor *llm_gguf_tensor_at(const llm_gguf *gguf, uint64_t index);
/* NULL if there is none. */
const llm_gguf_tensor *llm_gguf_find(const llm_gguf *gguf, const char *name);
