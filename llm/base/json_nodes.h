/*
 * Values of a parsed document, as they lie in memory one behind the other: a
 * byte that says the form, then what the form has. Numbers are little-endian
 * and unaligned.
 */
#pragma once

#include "json.h"

struct llm_json {
    uint8_t form; /* llm_json_form */
};

typedef enum llm_json_form {
    LLM_JSON_IS_NULL,
    LLM_JSON_IS_FALSE,
    LLM_JSON_IS_TRUE,
    LLM_JSON_I8, /* the number, of so many bits */
    LLM_JSON_I16,
    LLM_JSON_I32,
    LLM_JSON_I64,
    LLM_JSON_F64,
    LLM_JSON_SHORT,         /* u8 size, bytes, NUL */
    LLM_JSON_LONG,          /* u32 size, bytes, NUL */
    LLM_JSON_SHORT_ITEMS,   /* u8 size in bytes, the values */
    LLM_JSON_ITEMS,         /* u32 size in bytes, the values */
    LLM_JSON_SHORT_MEMBERS, /* u8 size, a string and a value for each */
    LLM_JSON_MEMBERS,       /* u32 size, a string and a value for each */
} llm_json_form;
