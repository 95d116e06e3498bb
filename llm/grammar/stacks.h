/*
 * Places in a grammar. A stack says where a rule is and where to go on when it
 * ends; equal stacks are one, with one number. Stack 0 is the end of the text.
 * A set of stacks holds all places that a text can have led to; equal sets are
 * one as well.
 */
#pragma once

#include "grammar.h"

typedef struct llm_stack {
    uint32_t element; /* the next one */
    uint32_t below;   /* the stack to go on with behind the rule */
} llm_stack;

typedef struct llm_stack_set {
    uint32_t first, n; /* in items, ascending */
    bool complete;     /* the text may end here; 0 is not in items */
} llm_stack_set;

/* Numbers by hash, open addressing; 0: free. */
typedef struct llm_stack_table {
    uint32_t *slots;
    uint32_t size; /* a power of two */
} llm_stack_table;

typedef struct llm_stacks {
    const llm_grammar *g;
    llm_stack *stacks; /* [max] */
    uint32_t *marks;   /* [max]: the latest expansion that saw it */
    uint32_t *moved;   /* [max]: new numbers, while a compaction runs */
    uint32_t n_stacks, mark;
    llm_stack_set *sets; /* from 1 */
    uint32_t n_sets;
    uint32_t *items;
    uint32_t n_items;
    uint32_t *work; /* stacks to be expanded */
    uint32_t n_work, n_found;
    llm_stack_table by_stack, by_set;
    bool full; /* something did not fit: the latest answer is worth nothing */
} llm_stacks;

clv_status llm_stacks_init(llm_stacks *s, const llm_grammar *g);
void llm_stacks_finish(llm_stacks *s);
/* Where every text begins. Sets are numbered from 1; 0: none, the text is not
 * of the grammar, or `full`. */
uint32_t llm_stacks_begin(llm_stacks *s);
/* The set behind a code point. */
uint32_t llm_stacks_step(llm_stacks *s, uint32_t set, uint32_t point);
/* Whether a code point of low..high can be next. */
bool llm_stacks_can_step(const llm_stacks *s, uint32_t set, uint32_t low,
                         uint32_t high);
/* Forgets all but one set; returns its new number. */
uint32_t llm_stacks_compact(llm_stacks *s, uint32_t set);
/* Whether so much is used that a compaction is worth it. */
bool llm_stacks_are_many(const llm_stacks *s);
