/*
 * JSON that comes from outside, strictly: nothing behind the document, no name
 * twice in an object, valid UTF-8. The document must be an object.
 *
 * A document is parsed into one block of memory of at most 2.3 times the text,
 * usually less than the text. A value is a pointer into it; all are freed with
 * the document, by its root. Functions take NULL as a value that is absent.
 */
#pragma once

#include "str.h"

#include <cleave/llm.h>

typedef struct llm_json llm_json;

typedef enum llm_json_type {
    LLM_JSON_NONE, /* absent */
    LLM_JSON_NULL,
    LLM_JSON_BOOL,
    LLM_JSON_NUMBER,
    LLM_JSON_STRING,
    LLM_JSON_ARRAY,
    LLM_JSON_OBJECT,
} llm_json_type;

/* Parses size bytes; name is for messages. */
clv_status llm_json_parse(const void *data, uint64_t size, const char *name,
                          llm_json **out);
/* The same from a file. */
clv_status llm_json_load(const char *path, llm_json **out);
/* The same from DIR/FILE; *out is NULL if there is no such file. */
clv_status llm_json_load_in(const char *dir, const char *file, llm_json **out);
void llm_json_free(llm_json *root);

llm_json_type llm_json_type_of(const llm_json *value);
bool llm_json_is(const llm_json *value, llm_json_type type);
bool llm_json_is_true(const llm_json *value);
bool llm_json_is_false(const llm_json *value);
/* Each is false, with *out unchanged, for a value of another kind. A text may
 * hold NUL characters. */
bool llm_json_str(const llm_json *value, llm_str *out);
bool llm_json_number(const llm_json *value, double *out);
/* A number that is written without fraction and exponent. */
bool llm_json_int(const llm_json *value, int64_t *out);
/* A whole number in 0..2^53, however it is written. */
bool llm_json_u64(const llm_json *value, uint64_t *out);
/* NUL-terminated; NULL for other values and for texts that hold NUL. */
const char *llm_json_text(const llm_json *value);

/* The members of an object or the items of an array, in order:
 * for (llm_json_each e = llm_json_begin(value); llm_json_next(&e);) */
typedef struct llm_json_each {
    llm_str key; /* of an object's member; NUL-terminated */
    const llm_json *value;
    const uint8_t *at, *end;
    bool keyed;
} llm_json_each;
llm_json_each llm_json_begin(const llm_json *value);
bool llm_json_next(llm_json_each *each);
uint64_t llm_json_count(const llm_json *value);
/* The item of an array; NULL if there is none. */
const llm_json *llm_json_at(const llm_json *array, uint64_t index);

/* A member; llm_json_get() takes null for absent. */
const llm_json *llm_json_member(const llm_json *object, const char *key);
const llm_json *llm_json_get(const llm_json *object, const char *key);
/* A member that is a string without NUL; else NULL. */
const char *llm_json_string(const llm_json *object, const char *key);
/* A member that is true or false; else fallback. */
bool llm_json_flag(const llm_json *object, const char *key, bool fallback);
