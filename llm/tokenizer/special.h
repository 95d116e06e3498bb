/*
 * Tokens that are recognised in a text before it is split. The leftmost one is
 * taken; of several that start there, the longest.
 */
#pragma once

#include "../base/array.h"

typedef struct llm_special {
    llm_str text;
    int32_t id;
    bool control;        /* only if the caller asks for special tokens */
    bool lstrip, rstrip; /* includes the white space beside it */
    bool single_word;    /* not inside a word */
} llm_special;

typedef struct llm_specials {
    llm_special *items; /* [n], sorted by text once sealed */
    uint64_t n, capacity;
    uint32_t first[257]; /* items[first[b]..first[b + 1]) start with byte b */
} llm_specials;

/* The text must outlive the set; an empty one is left out. */
clv_status llm_specials_add(llm_specials *specials, llm_special special);
/* To be called when all are added. */
void llm_specials_seal(llm_specials *specials);
void llm_specials_finish(llm_specials *specials);

/* Which of them are recognised. */
typedef struct llm_specials_wanted {
    bool control; /* those that are control too */
    /* But not where they touch these parts of the text that begins at base. */
    const clv_text_range *plain;
    uint64_t n_plain;
    const char *base;
} llm_specials_wanted;

/* Whether a part of that text touches such a part. */
bool llm_specials_is_plain(const llm_specials_wanted *wanted, const char *begin,
                           uint64_t size);

/* The next one at or after `from`; *taken is the part of the text that it
 * replaces. False if there is none. */
bool llm_specials_next(const llm_specials *specials, const char *text,
                       uint64_t n, uint64_t from,
                       const llm_specials_wanted *wanted, llm_span *taken,
                       int32_t *id);
