/* Whole texts through a grammar. */
#pragma once

#include "check.h"
#include "grammar/matcher.h"

#include <string.h>

/* Whether the grammar has the text, in one piece and byte by byte. */
static inline bool has_text(const char *grammar, const char *text)
{
    llm_grammar *g;
    llm_matcher *m;
    const uint32_t n = (uint32_t)strlen(text);
    assert_ok(llm_grammar_parse(grammar, strlen(grammar), &g));
    assert_ok(llm_matcher_create(g, &m));
    const bool begins = llm_matcher_accepts(m, text, n < 1000 ? n : 1000);
    llm_matcher_advance(m, text, n);
    const bool whole = llm_matcher_is_complete(m);
    assert_true(begins || !whole);
    llm_matcher_restart(m);
    for (uint32_t i = 0; i < n; i++)
        llm_matcher_advance(m, text + i, 1);
    assert_int_equal(llm_matcher_is_complete(m), whole);
    assert_ok(llm_matcher_status(m));
    llm_matcher_destroy(m);
    llm_grammar_destroy(g);
    return whole;
}

#define HAS(grammar, ...)                                                      \
    do {                                                                       \
        const char *const texts_[] = {__VA_ARGS__};                            \
        for (size_t i_ = 0; i_ < sizeof texts_ / sizeof *texts_; i_++)         \
            if (!has_text(grammar, texts_[i_]))                                \
                fail_msg("\"%s\" is refused by %s", texts_[i_], grammar);      \
    } while (0)
#define HAS_NOT(grammar, ...)                                                  \
    do {                                                                       \
        const char *const texts_[] = {__VA_ARGS__};                            \
        for (size_t i_ = 0; i_ < sizeof texts_ / sizeof *texts_; i_++)         \
            if (has_text(grammar, texts_[i_]))                                 \
                fail_msg("\"%s\" is accepted by %s", texts_[i_], grammar);     \
    } while (0)
