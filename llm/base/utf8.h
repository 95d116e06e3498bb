/*
 * UTF-8, strictly: no overlong forms, surrogates or code points past U+10FFFF.
 */
#pragma once

#include "array.h"

/* Bytes of the sequence at s, of which n >= 1 are there; 0 if it is none. */
uint32_t llm_utf8_size(const char *s, uint64_t n);
/* The code point of a valid sequence. */
uint32_t llm_utf8_decode(const char *s, uint32_t size);
/* Writes up to 4 bytes; returns their number. */
uint32_t llm_utf8_encode(uint32_t point, char out[4]);
/* White_Space, as in regular expressions. */
bool llm_utf8_is_space(uint32_t point);
/* text itself where it is valid, or a copy of the same size in scratch, with a
 * control character (SUB) for every byte that is part of no sequence; NULL if
 * there is no memory. */
const char *llm_utf8_valid(const char *text, uint64_t n, llm_bytes *scratch);

/* A stream of bytes that is cut into whole sequences: tokens of byte-level
 * vocabularies may end inside a character. Starts as zeros. */
typedef struct llm_utf8 {
    char pending[4]; /* a sequence that began but has not ended */
    uint32_t n_pending;
    llm_bytes text; /* the latest answer */
} llm_utf8;

/* Takes n bytes and sets *text to the sequences they complete, *length bytes
 * and a NUL, valid until the next call. Bytes that are not UTF-8 become U+FFFD.
 */
clv_status llm_utf8_feed(llm_utf8 *utf8, const char *bytes, uint32_t n,
                         const char **text, uint32_t *length);
/* The same for what is left at the end of the stream: U+FFFD or nothing. */
clv_status llm_utf8_end(llm_utf8 *utf8, const char **text, uint32_t *length);
void llm_utf8_finish(llm_utf8 *utf8);
