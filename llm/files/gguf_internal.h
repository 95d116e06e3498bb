/*
 * The inside of an open GGUF file, for the parser and the getters.
 */
#pragma once

#include "gguf_kv.h"
#include "gguf_types.h"

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
