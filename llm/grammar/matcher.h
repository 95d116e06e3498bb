/*
 * Whether bytes go on with a text of a grammar. Bytes move an automaton whose
 * states, a set of stacks and perhaps the beginning of a UTF-8 sequence, are
 * made when they are reached first. So a vocabulary is tried by following
 * tables.
 */
#pragma once

#include "grammar.h"

typedef struct llm_matcher llm_matcher;

/* The grammar must outlive it. */
clv_status llm_matcher_create(const llm_grammar *g, llm_matcher **out);
void llm_matcher_destroy(llm_matcher *m);
void llm_matcher_restart(llm_matcher *m);
/* Whether n more bytes are the beginning of what can follow. They may end
 * inside a character. */
bool llm_matcher_accepts(llm_matcher *m, const char *bytes, uint32_t n);
/* Goes on behind n bytes. What is not accepted leaves nothing to follow. */
void llm_matcher_advance(llm_matcher *m, const char *bytes, uint32_t n);
/* Whether the text may end here. */
bool llm_matcher_is_complete(const llm_matcher *m);
/* CLV_ERR_LIMIT, since the last restart, if memory for an answer exceeded its
 * limit: the answer was no then. */
clv_status llm_matcher_status(const llm_matcher *m);
