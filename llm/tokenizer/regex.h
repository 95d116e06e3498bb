/*
 * Regular expressions of tokenizers. They are written for Oniguruma or Rust's
 * regex crate; here they are translated to PCRE2 where the two differ, and
 * refused, with a message, where that cannot be done.
 */
#pragma once

#include "../base/array.h"

/* Compiled; does not change, so threads may share it. */
typedef struct llm_regex llm_regex;
/* What one thread needs to match. Starts as zeroes. */
typedef struct llm_matcher {
    void *match_data, *context, *stack; /* PCRE2's; made on first use */
} llm_matcher;

/* literal: the pattern stands for itself. */
clv_status llm_regex_create(llm_str pattern, bool literal, llm_regex **out);
void llm_regex_destroy(llm_regex *regex); /* NULL is legal */

void llm_matcher_finish(llm_matcher *matcher);
/* Replaces *out with all matches in text, which is valid UTF-8, from left to
 * right; empty ones are reported unless they touch the one before.
 * CLV_ERR_LIMIT if the pattern needs too many steps. */
clv_status llm_regex_all(const llm_regex *regex, llm_matcher *matcher,
                         const char *text, uint64_t n, llm_spans *out);

/* The PCRE2 form of a pattern, appended to *out; tests look at it. */
clv_status llm_regex_translate(llm_str pattern, llm_bytes *out);
