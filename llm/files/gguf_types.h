/* Types of the tensors in GGUF files. */
#pragma once

#include <cleave/llm.h>
#include <cleave/plugin_format.h>

/* "Q4_K"; NULL for a number that no type has. */
const char *llm_gguf_type_name(uint32_t type);

/* "F32, F16, ...": the tensor types that can be loaded. */
typedef struct llm_gguf_types {
    char text[256];
} llm_gguf_types;
llm_gguf_types llm_gguf_supported_types(void);

typedef struct llm_gguf_type_info {
    const char *name;
    uint32_t elements, bytes; /* of a block */
    uint32_t dtype;           /* clv_dtype; NONE: it cannot be loaded */
} llm_gguf_type_info;

/* False for a type that the format does not have. */
bool llm_gguf_type_find(uint32_t type, llm_gguf_type_info *out);
