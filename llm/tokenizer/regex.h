/*
 * Regular expressions of tokenizers. They are written for Oniguruma or Rust's
 * regex crate, and translated to PCRE2 here. Expressions that cannot be
 * translated are refused with a message.
 */
#pragma once

#include "../base/array.h"

/* Compiled. It does not change, so threads may share it. */
typedef struct llm_regex llm_regex;
/* The state of one thread that matches. It starts as zeros. */
typedef struct llm_matcher {
    void *match_data, *context, *stack; /* of PCRE2; created on first use */
} llm_matcher;

/* literal: the pattern is plain text. */
clv_status llm_regex_create(llm_str pattern, bool literal, llm_regex **out);
void llm_regex_destroy(llm_regex *regex); /* NULL is legal */

void llm_matcher_finish(llm_matcher *matcher);
/* Sets *out to all matches in text, from left to right. text is valid UTF-8. An
 * empty match is left out if it touches the one before it.
 * CLV_ERR_LIMIT if the pattern needs too many steps. */
clv_status llm_regex_all(const llm_regex *regex, llm_matcher *matcher,
                         const char *text, uint64_t n, llm_spans *out);
