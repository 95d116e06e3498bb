/*
 * UTF-8, strictly: no overlong forms, surrogates or code points past U+10FFFF.
 */
#pragma once

#include "../base/array.h"

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
