/*
 * The tokens of a template, with the white space around tags removed as
 * Jinja2's trim_blocks and lstrip_blocks remove it.
 */
#pragma once

#include "../base/array.h"

typedef enum llm_token_kind {
    LLM_T_DATA = 0, /* text between tags */
    LLM_T_PRINT,    /* {{ */
    LLM_T_PRINT_END,
    LLM_T_BLOCK, /* {% */
    LLM_T_BLOCK_END,
    LLM_T_NAME,
    LLM_T_STRING, /* escapes resolved */
    LLM_T_INT,
    LLM_T_FLOAT,
    LLM_T_OP, /* text: the operator */
    LLM_T_END,
} llm_token_kind;

typedef struct llm_lexeme {
    uint8_t kind; /* llm_token_kind */
    uint32_t line;
    llm_str text; /* in the template or in its scratch */
    int64_t whole;
    double real;
} llm_lexeme;

typedef struct llm_lexemes {
    llm_lexeme *items; /* the last one is LLM_T_END */
    uint64_t n, capacity;
    char *source;  /* the template with "\n" for line ends */
    char *strings; /* of literals; no larger than the source */
} llm_lexemes;

/* out starts as zeros and is finished by the caller, even on failure. */
clv_status llm_lex(llm_str source, llm_lexemes *out);
void llm_lexemes_finish(llm_lexemes *lexemes);
/* A message about a template that cannot be read. */
clv_status llm_lex_error(uint32_t line, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
