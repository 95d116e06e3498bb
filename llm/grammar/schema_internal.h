/* Parts of the conversion of JSON schemas to GBNF. */
#pragma once

#include "../base/array.h"
#include <cjson/cJSON.h>

/* Text that is being written; the first failure stays. */
typedef struct llm_writer {
    llm_bytes text;
    clv_status status;
} llm_writer;

void llm_put(llm_writer *w, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* A code point in a class or, in quotes, as a literal. */
void llm_put_point(llm_writer *w, uint32_t point);
/* Any bytes, valid UTF-8, as a literal with quotes. */
void llm_put_literal(llm_writer *w, const char *text);

/* Integers in low..high; INT64_MIN and INT64_MAX: no bound. */
void llm_put_integers(llm_writer *w, int64_t low, int64_t high);
/* The characters of a JSON string that match a regular expression. NULL, or
 * what is not in the subset. */
const char *llm_put_pattern(llm_writer *w, const char *pattern);
