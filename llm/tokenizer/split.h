/*
 * Splits a text into pieces that are tokenized separately: a list of steps,
 * each applied to every piece that the step before it made.
 */
#pragma once

#include "normalize.h"
#include "vocab.h"

/* What becomes of a match. */
typedef enum llm_split_mode {
    LLM_SPLIT_ISOLATED, /* a piece of its own */
    LLM_SPLIT_REMOVED,
    LLM_SPLIT_CONTIGUOUS, /* with the matches next to it */
    LLM_SPLIT_WITH_PREVIOUS,
    LLM_SPLIT_WITH_NEXT,
} llm_split_mode;

typedef enum llm_step_kind {
    LLM_STEP_SPLIT,
    LLM_STEP_PREPEND, /* content in front of each piece without it */
    LLM_STEP_REPLACE, /* content replaces each match */
} llm_step_kind;

typedef struct llm_step {
    llm_step_kind kind;
    llm_regex *pattern; /* owned */
    llm_split_mode mode;
    bool invert;     /* the text between matches counts as the match */
    bool spelled;    /* match on the text in GPT-2's alphabet of bytes */
    bool first_only; /* PREPEND: only at the start of the whole text */
    llm_str content; /* belongs to the vocabulary */
} llm_step;

typedef struct llm_splitter {
    llm_step *items;
    uint64_t n, capacity;
} llm_splitter;

/* The pattern belongs to the splitter, also on failure. */
clv_status llm_splitter_add(llm_splitter *splitter, llm_step step);
/* A SPLIT, ISOLATED step; pattern is NUL-terminated. */
clv_status llm_splitter_add_pattern(llm_splitter *splitter,
                                    const char *pattern);
void llm_splitter_finish(llm_splitter *splitter);

/* Buffers of one thread. They start as zeros. */
typedef struct llm_splitting {
    llm_bytes buffers[2], valid, spelled;
    llm_spans pieces, next, matches;
    const char *text; /* that the pieces are parts of */
} llm_splitting;
void llm_splitting_finish(llm_splitting *work);

/* Sets work->pieces to the pieces of a text of at most INT32_MAX bytes. */
clv_status llm_split(const llm_splitter *splitter, llm_splitting *work,
                     llm_matcher *matcher, llm_str text, bool at_start);
