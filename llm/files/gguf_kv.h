/* Settings of GGUF files: keys and values. */
#pragma once

#include "gguf.h"

typedef enum llm_gguf_type {
    LLM_GGUF_U8 = 0,
    LLM_GGUF_I8 = 1,
    LLM_GGUF_U16 = 2,
    LLM_GGUF_I16 = 3,
    LLM_GGUF_U32 = 4,
    LLM_GGUF_I32 = 5,
    LLM_GGUF_F32 = 6,
    LLM_GGUF_BOOL = 7,
    LLM_GGUF_STRING = 8,
    LLM_GGUF_ARRAY = 9,
    LLM_GGUF_U64 = 10,
    LLM_GGUF_I64 = 11,
    LLM_GGUF_F64 = 12,
    LLM_GGUF_TYPE_COUNT
} llm_gguf_type;

/* Bytes of a scalar type; 0 for strings, arrays and unknown types. */
uint32_t llm_gguf_scalar_size(uint32_t type);

/* One setting as it lies in the file. */
typedef struct llm_gguf_kv {
    llm_str key;
    uint32_t type;       /* llm_gguf_type */
    const uint8_t *data; /* the value, after its type; unaligned */
    uint64_t size;       /* bytes of it */
} llm_gguf_kv;

uint64_t llm_gguf_kv_count(const llm_gguf *gguf);
const llm_gguf_kv *llm_gguf_kv_at(const llm_gguf *gguf, uint64_t index);
bool llm_gguf_has(const llm_gguf *gguf, const char *key);

/*
 * A value by key. Integers of any width and sign are accepted as long as the
 * value fits, F64 where F32 is wanted. An absent key is CLV_ERR_NOT_FOUND,
 * another type or a value out of range CLV_ERR_FORMAT; both with a message
 * that names file and key. *out is set only on success: for an optional key,
 * put the default in *out and use llm_gguf_opt().
 */
clv_status llm_gguf_get_u32(const llm_gguf *gguf, const char *key,
                            uint32_t *out);
clv_status llm_gguf_get_i32(const llm_gguf *gguf, const char *key,
                            int32_t *out);
clv_status llm_gguf_get_f32(const llm_gguf *gguf, const char *key, float *out);
clv_status llm_gguf_get_bool(const llm_gguf *gguf, const char *key, bool *out);
clv_status llm_gguf_get_str(const llm_gguf *gguf, const char *key,
                            llm_str *out);

/* llm_gguf_opt(get_u32, gguf, key, &value): CLV_OK where the key is absent. */
#define llm_gguf_opt(getter, gguf, key, out)                                   \
    (llm_gguf_has(gguf, key) ? llm_gguf_##getter(gguf, key, out) : CLV_OK)

/* An array of numbers in the file. */
typedef struct llm_gguf_array {
    uint32_t type; /* llm_gguf_type of the items */
    uint64_t count;
    const uint8_t *data; /* unaligned: read with llm_gguf_item_*() */
} llm_gguf_array;

/* Arrays of any integer type, or of F32 or F64. Errors as above. */
clv_status llm_gguf_get_ints(const llm_gguf *gguf, const char *key,
                             llm_gguf_array *out);
clv_status llm_gguf_get_floats(const llm_gguf *gguf, const char *key,
                               llm_gguf_array *out);
/* An array of bools, a byte each. */
clv_status llm_gguf_get_bools(const llm_gguf *gguf, const char *key,
                              llm_gguf_array *out);
/* index < count */
int64_t llm_gguf_item_int(const llm_gguf_array *array, uint64_t index);
float llm_gguf_item_float(const llm_gguf_array *array, uint64_t index);

/* An array of strings: *out is an index of *count entries into the file, the
 * caller's, freed with free(); NULL if the array is empty. Errors as above. */
clv_status llm_gguf_get_strings(const llm_gguf *gguf, const char *key,
                                llm_str **out, uint64_t *count);
