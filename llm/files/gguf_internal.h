/*
 * Inside of an open GGUF file, shared by the parser and the getters.
 */
#pragma once

#include "gguf.h"

#include <cleave/plugin_format.h>

struct llm_gguf {
    char *path;
    clv_file_map map; /* zero when opened from memory */
    uint64_t n_kv, n_tensors;
    llm_gguf_kv *kv;
    llm_gguf_tensor *tensors; /* of this file, then of the parts */
    llm_name *keys;           /* of kv, sorted */
    llm_name *names;          /* of tensors, sorted */
    llm_gguf **parts;         /* of a split model: files 2..N */
    uint32_t n_parts;
};

/* Bytes of a scalar type; 0 for strings, arrays and unknown types. */
uint32_t llm_gguf_scalar_size(uint32_t type);

typedef struct llm_gguf_type_info {
    const char *name;
    uint32_t elements, bytes; /* of a block */
    uint32_t dtype;           /* clv_dtype; NONE: it cannot be loaded */
} llm_gguf_type_info;

/* False for a type that the format does not have. */
bool llm_gguf_type_find(uint32_t type, llm_gguf_type_info *out);
