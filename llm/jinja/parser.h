/*
 * From tokens to a syntax tree, by the grammar of Jinja2.
 */
#pragma once

#include "lexer.h"
#include "node.h"

typedef struct llm_parser {
    const llm_lexeme *at;
    llm_jinja *j;     /* the nodes' memory */
    uint32_t depth;   /* of nesting */
    uint32_t loops;   /* around the statement */
    bool uses_caller; /* some expression named caller */
} llm_parser;

/* The statements of a whole template; NULL: it is empty. */
clv_status llm_parse(llm_parser *p, llm_node **out);

/* Expressions (expression.c). */
clv_status llm_parse_expression(llm_parser *p, llm_node **out);
/* Perhaps a tuple without parentheses; chooses: `a if b` may stand in it. */
clv_status llm_parse_tuple(llm_parser *p, bool chooses, llm_node **out);
/* What is assigned to: a name, a tuple of them, or NAME.NAME if fields is set.
 */
clv_status llm_parse_target(llm_parser *p, bool fields, llm_node **out);
/* NAME(...)|NAME..., the filters of a block: their innermost a is NULL. */
clv_status llm_parse_filters(llm_parser *p, llm_node **out);

/* Parts of expressions (primary.c): a literal, a name, or what is in brackets;
 * then what follows it: parts and calls, then filters and tests. */
clv_status llm_parse_primary(llm_parser *p, llm_node **out);
clv_status llm_parse_name(llm_parser *p, llm_node *node);
clv_status llm_parse_postfix(llm_parser *p, llm_node **node);
clv_status llm_parse_applied(llm_parser *p, llm_node **node);

/* What all use (parser.c). */
clv_status llm_parser_node(llm_parser *p, llm_node_kind kind, llm_node **out);
bool llm_parser_is(const llm_parser *p, llm_token_kind kind, const char *text);
bool llm_parser_skip(llm_parser *p, llm_token_kind kind, const char *text);
clv_status llm_parser_expect(llm_parser *p, llm_token_kind kind,
                             const char *text);
clv_status llm_parser_name(llm_parser *p, llm_str *out);
clv_status llm_parser_fail(const llm_parser *p);
clv_status llm_parser_enter(llm_parser *p);
/* A node around a and b that takes their place. */
clv_status llm_parser_wrap(llm_parser *p, llm_node_kind kind, llm_node *a,
                           llm_node *b, llm_node **out);
/* Adds to a list of nodes; *end: where the next one goes. */
void llm_parser_add(llm_node *list, llm_node *item, llm_node ***end);

static inline bool llm_parser_is_op(const llm_parser *p, const char *text)
{
    return llm_parser_is(p, LLM_T_OP, text);
}

static inline bool llm_parser_skip_op(llm_parser *p, const char *text)
{
    return llm_parser_skip(p, LLM_T_OP, text);
}

static inline bool llm_parser_is_word(const llm_parser *p, const char *text)
{
    return llm_parser_is(p, LLM_T_NAME, text);
}

static inline bool llm_parser_skip_word(llm_parser *p, const char *text)
{
    return llm_parser_skip(p, LLM_T_NAME, text);
}
