/* A text in GBNF while it is read. */
#pragma once

#include "grammar.h"

#include "../base/array.h"

#define LLM_GBNF_MAX_ELEMENTS (1u << 18)

/* A run of elements while it is read. */
typedef struct llm_gbnf_run {
    llm_element *items;
    uint64_t n, capacity;
} llm_gbnf_run;

typedef struct llm_gbnf_list {
    uint32_t *items;
    uint64_t n, capacity;
} llm_gbnf_list;

typedef struct llm_gbnf {
    llm_grammar *g;
    const char *text, *at, *end;
    uint32_t rule; /* the named one that is being read; UINT32_MAX: none */
    uint32_t nesting;
    /* Of each name, the place in the text of its first use, and its rule. */
    llm_gbnf_list used_at, rule_of;
} llm_gbnf;

clv_status llm_gbnf_fail_at(const llm_gbnf *p, const char *place,
                            clv_status status, const char *what);
clv_status llm_gbnf_fail(const llm_gbnf *p, const char *what);

static inline bool llm_gbnf_more(const llm_gbnf *p)
{
    return p->at < p->end;
}

static inline bool llm_gbnf_next_is(const llm_gbnf *p, char c)
{
    return llm_gbnf_more(p) && *p->at == c;
}

static inline bool llm_gbnf_is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c >= '0' && c <= '9') || c == '-' || c == '_';
}

/* Spaces and comments; with lines, ends of lines too. */
void llm_gbnf_skip(llm_gbnf *p, bool lines);
clv_status llm_gbnf_add(llm_gbnf *p, llm_gbnf_run *s, llm_element e);
/* Puts a run that was read behind the others, as an alternative. */
clv_status llm_gbnf_end(llm_gbnf *p, llm_gbnf_run *s, llm_gbnf_list *list);
clv_status llm_gbnf_rule(llm_gbnf *p, uint32_t *rule);
clv_status llm_gbnf_define(llm_gbnf *p, uint32_t rule,
                           const llm_gbnf_list *list);
/* The index of the name that is here. */
clv_status llm_gbnf_name(llm_gbnf *p, uint32_t *index);
/* What is on the right of a rule, or in a group. */
clv_status llm_gbnf_choices(llm_gbnf *p, uint32_t rule);
