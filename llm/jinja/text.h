/*
 * Texts of the template language. Positions are bytes unless said otherwise;
 * lengths and indices that templates see count characters.
 *
 * New texts are made behind the one that is being made: begin, add parts, end.
 */
#pragma once

#include "value.h"

/* The template's own white space and that of Python's str.strip(). */
bool llm_text_is_space(uint32_t point);

uint64_t llm_text_length(llm_text text); /* characters */
/* The start of the character after the one at `at` < size. */
uint64_t llm_text_next(llm_text text, uint64_t at);
/* The byte where a character begins; index <= length. */
uint64_t llm_text_offset(llm_text text, uint64_t index);
llm_text llm_text_part(llm_text text, uint64_t begin, uint64_t end);
uint32_t llm_text_point(llm_text text, uint64_t at);
/* At or after from; UINT64_MAX: not there. */
uint64_t llm_text_find(llm_text text, llm_text part, uint64_t from);
/* The last one that ends at or before end. */
uint64_t llm_text_find_last(llm_text text, llm_text part, uint64_t end);
bool llm_text_starts(llm_text text, llm_text part);
bool llm_text_ends(llm_text text, llm_text part);
/* Without the characters of a set at its ends; set NULL: white space. */
llm_text llm_text_strip(llm_text text, const llm_text *set, bool left,
                        bool right);

uint64_t llm_text_begin(const llm_jinja *j);
clv_status llm_text_add(llm_jinja *j, llm_text part);
clv_status llm_text_add_word(llm_jinja *j, const char *word);
clv_status llm_text_add_point(llm_jinja *j, uint32_t point, bool marked);
/* Takes the text made since begin. */
clv_status llm_text_end(llm_jinja *j, uint64_t begin, llm_text *out);
/* The same as a value. */
clv_status llm_text_end_value(llm_jinja *j, uint64_t begin, llm_value *out);

typedef enum llm_text_case {
    LLM_CASE_UPPER,
    LLM_CASE_LOWER,
    LLM_CASE_TITLE,
} llm_text_case;

/* Adds a text with its letters changed. Characters whose other case is longer
 * or depends on their neighbours are refused. */
clv_status llm_text_add_case(llm_jinja *j, llm_text text, llm_text_case to);
/* Whether it is a letter that has another case, upper or lower. */
bool llm_text_is_cased(uint32_t point, bool *upper);
