/*
 * Rewrites a text before it is split: a list of steps, in order.
 */
#pragma once

#include "regex.h"

typedef enum llm_rewrite_kind {
    LLM_REWRITE_NFC,
    LLM_REWRITE_NFD,
    LLM_REWRITE_NFKC,
    LLM_REWRITE_NFKD,
    LLM_REWRITE_PREPEND, /* content in front, unless the text is empty */
    LLM_REWRITE_REPLACE, /* content replaces each match */
    LLM_REWRITE_STRIP,   /* white space at the ends */
} llm_rewrite_kind;

typedef struct llm_rewrite {
    llm_rewrite_kind kind;
    llm_regex *pattern; /* owned */
    llm_str content;    /* belongs to the vocabulary */
    bool left, right;   /* the ends to strip */
} llm_rewrite;

typedef struct llm_normalizer {
    llm_rewrite *items;
    uint64_t n, capacity;
} llm_normalizer;

/* The pattern belongs to the normalizer, also on failure. */
clv_status llm_normalizer_add(llm_normalizer *normalizer, llm_rewrite rewrite);
void llm_normalizer_finish(llm_normalizer *normalizer);

/* Buffers of one thread. They start as zeros. */
typedef struct llm_rewriting {
    llm_bytes buffers[2], valid;
    llm_spans matches;
} llm_rewriting;
void llm_rewriting_finish(llm_rewriting *work);

/* *out is the text itself, or a part of work that is valid until its next use.
 * Bytes that are not UTF-8 do not change. */
clv_status llm_normalize(const llm_normalizer *normalizer, llm_rewriting *work,
                         llm_matcher *matcher, llm_str text, bool front,
                         llm_str *out);
/* Appends the text to *out, with content in place of each match. */
clv_status llm_replace(llm_str text, const llm_spans *matches, llm_str content,
                       llm_bytes *out);
