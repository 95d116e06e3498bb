/*
 * Grammars in GBNF, as data. A rule is one of several alternatives, each a run
 * of elements that ends with LLM_ELEMENT_END. Groups and repetitions are rules
 * of their own.
 */
#pragma once

#include <cleave/llm.h>

typedef enum llm_element_kind {
    LLM_ELEMENT_END = 0,
    LLM_ELEMENT_CHAR,   /* the code point `value` */
    LLM_ELEMENT_CLASS,  /* one in the `count` ranges from `value` on */
    LLM_ELEMENT_EXCEPT, /* one in none of them */
    LLM_ELEMENT_RULE,   /* the rule `value` */
} llm_element_kind;

typedef struct llm_element {
    uint32_t kind, value, count;
} llm_element;

typedef struct llm_range {
    uint32_t low, high; /* code points, both included */
} llm_range;

typedef struct llm_rule {
    uint32_t first, n; /* alternatives */
    uint32_t name;     /* the rule of the text that it stems from */
} llm_rule;

typedef struct llm_grammar {
    struct {
        llm_element *items;
        uint64_t n, capacity;
    } elements;
    struct {
        uint32_t *items; /* where each begins in elements */
        uint64_t n, capacity;
    } alternatives;
    struct {
        llm_rule *items;
        uint64_t n, capacity;
    } rules;
    struct {
        llm_range *items;
        uint64_t n, capacity;
    } ranges;
    struct {
        char **items; /* of the rules in the text */
        uint64_t n, capacity;
    } names;
    uint32_t root;
} llm_grammar;

/* Messages name rule, line and column. Refused: rules that are not there or
 * occur twice, no rule "root", left recursion, and what exceeds the limits. */
clv_status llm_grammar_parse(const char *text, uint64_t size,
                             llm_grammar **out);
void llm_grammar_destroy(llm_grammar *g);

/* CLV_ERR_INVALID if a rule can begin with itself before any character, other
 * than as its last element: matching would not end. */
clv_status llm_grammar_check_recursion(const llm_grammar *g);
