#include "stacks.h"

#include "../base/str.h"

#include <stdlib.h>
#include <string.h>

#define MAX_STACKS (1u << 16)
#define MAX_SETS (1u << 14)
#define MAX_ITEMS (1u << 17)
#define MAX_WORK (1u << 14) /* stacks of one set and on the way to it */

clv_status llm_stacks_init(llm_stacks *s, const llm_grammar *g)
{
    *s = (llm_stacks){.g = g,
                      .n_stacks = 1,
                      .n_sets = 1,
                      .by_stack = {.size = 2 * MAX_STACKS},
                      .by_set = {.size = 2 * MAX_SETS}};
    s->stacks = calloc(MAX_STACKS, sizeof *s->stacks);
    s->marks = calloc(MAX_STACKS, sizeof *s->marks);
    s->moved = calloc(MAX_STACKS, sizeof *s->moved);
    s->sets = calloc(MAX_SETS, sizeof *s->sets);
    s->items = calloc(MAX_ITEMS, sizeof *s->items);
    s->work = calloc(MAX_WORK, sizeof *s->work);
    s->by_stack.slots = calloc(s->by_stack.size, sizeof *s->by_stack.slots);
    s->by_set.slots = calloc(s->by_set.size, sizeof *s->by_set.slots);
    if (s->stacks && s->marks && s->moved && s->sets && s->items && s->work &&
        s->by_stack.slots && s->by_set.slots)
        return CLV_OK;
    llm_stacks_finish(s);
    return llm_no_memory("a grammar");
}

void llm_stacks_finish(llm_stacks *s)
{
    free(s->stacks);
    free(s->marks);
    free(s->moved);
    free(s->sets);
    free(s->items);
    free(s->work);
    free(s->by_stack.slots);
    free(s->by_set.slots);
    *s = (llm_stacks){0};
}

static uint32_t mix(uint32_t hash, uint32_t value)
{
    hash = (hash ^ value) * 0x9e3779b1u;
    return hash ^ hash >> 15;
}

/* ------------------------------------------------------------------------ */
/* Stacks                                                                   */

/* The number of a stack, 0 if it does not fit. */
static uint32_t number_of(llm_stacks *s, uint32_t element, uint32_t below)
{
    const uint32_t last = s->by_stack.size - 1;
    uint32_t at = mix(mix(0, element), below) & last;
    for (uint32_t i; (i = s->by_stack.slots[at]); at = (at + 1) & last)
        if (s->stacks[i].element == element && s->stacks[i].below == below)
            return i;
    if (s->n_stacks == MAX_STACKS) {
        s->full = true;
        return 0;
    }
    s->stacks[s->n_stacks] = (llm_stack){element, below};
    s->marks[s->n_stacks] = 0;
    return s->by_stack.slots[at] = s->n_stacks++;
}

static void add_work(llm_stacks *s, uint32_t stack)
{
    if (s->marks[stack] == s->mark)
        return;
    s->marks[stack] = s->mark;
    if (s->n_work == MAX_WORK)
        s->full = true;
    else
        s->work[s->n_work++] = stack;
}

static void enter_rule(llm_stacks *s, uint32_t rule, uint32_t below)
{
    const llm_rule *r = &s->g->rules.items[rule];
    for (uint32_t i = 0; i < r->n && !s->full; i++) {
        const uint32_t stack =
            number_of(s, s->g->alternatives.items[r->first + i], below);
        if (stack)
            add_work(s, stack);
    }
}

/* Follows rules and their ends from the stacks in `work` until only those are
 * left whose next element is a character. Nothing is behind stack 0. */
static void expand(llm_stacks *s, bool *complete)
{
    uint32_t kept = 0;
    *complete = false;
    for (uint32_t i = 0; i < s->n_work && !s->full; i++) {
        const uint32_t stack = s->work[i];
        if (!stack) {
            *complete = true;
            continue;
        }
        const llm_stack at = s->stacks[stack];
        const llm_element *e = &s->g->elements.items[at.element];
        if (e->kind == LLM_ELEMENT_END) {
            add_work(s, at.below);
        } else if (e->kind != LLM_ELEMENT_RULE) {
            s->work[kept++] = stack;
        } else if (e[1].kind == LLM_ELEMENT_END) {
            enter_rule(s, e->value, at.below);
        } else {
            const uint32_t below = number_of(s, at.element + 1, at.below);
            if (below)
                enter_rule(s, e->value, below);
        }
    }
    s->n_found = kept;
}

static void new_work(llm_stacks *s)
{
    s->n_work = 0;
    s->full = false;
    if (!++s->mark) {
        memset(s->marks, 0, s->n_stacks * sizeof *s->marks);
        s->mark = 1;
    }
}

/* ------------------------------------------------------------------------ */
/* Sets                                                                     */

static int ascending(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* The number of the set of the first n stacks of `work`. */
static uint32_t set_of(llm_stacks *s, uint32_t n, bool complete)
{
    const uint32_t last = s->by_set.size - 1;
    uint32_t hash = complete;
    if (s->full || (!n && !complete))
        return 0;
    qsort(s->work, n, sizeof *s->work, ascending);
    for (uint32_t i = 0; i < n; i++)
        hash = mix(hash, s->work[i]);
    uint32_t at = mix(hash, n) & last;
    for (uint32_t i; (i = s->by_set.slots[at]); at = (at + 1) & last) {
        const llm_stack_set *set = &s->sets[i];
        if (set->n == n && set->complete == complete &&
            (!n ||
             !memcmp(s->items + set->first, s->work, n * sizeof *s->work)))
            return i;
    }
    if (s->n_sets == MAX_SETS || n > MAX_ITEMS - s->n_items) {
        s->full = true;
        return 0;
    }
    memcpy(s->items + s->n_items, s->work, n * sizeof *s->work);
    s->sets[s->n_sets] = (llm_stack_set){s->n_items, n, complete};
    s->n_items += n;
    return s->by_set.slots[at] = s->n_sets++;
}

uint32_t llm_stacks_begin(llm_stacks *s)
{
    bool complete;
    new_work(s);
    enter_rule(s, s->g->root, 0);
    expand(s, &complete);
    return set_of(s, s->n_found, complete);
}

static bool matches(const llm_grammar *g, const llm_element *e, uint32_t point)
{
    if (e->kind == LLM_ELEMENT_CHAR)
        return e->value == point;
    for (uint32_t i = 0; i < e->count; i++) {
        const llm_range *r = &g->ranges.items[e->value + i];
        if (point >= r->low && point <= r->high)
            return e->kind == LLM_ELEMENT_CLASS;
    }
    return e->kind == LLM_ELEMENT_EXCEPT;
}

uint32_t llm_stacks_step(llm_stacks *s, uint32_t set, uint32_t point)
{
    const llm_stack_set from = s->sets[set];
    bool complete;
    new_work(s);
    for (uint32_t i = 0; i < from.n && !s->full; i++) {
        const llm_stack at = s->stacks[s->items[from.first + i]];
        const llm_element *e = &s->g->elements.items[at.element];
        if (!matches(s->g, e, point))
            continue;
        const uint32_t next = e[1].kind == LLM_ELEMENT_END
                                  ? at.below
                                  : number_of(s, at.element + 1, at.below);
        if (!s->full)
            add_work(s, next);
    }
    expand(s, &complete);
    return set_of(s, s->n_found, complete);
}

/* Whether a code point of low..high is in none of the ranges. */
static bool leaves_any(const llm_grammar *g, const llm_element *e, uint32_t low,
                       uint32_t high)
{
    bool moved = true;
    while (moved && low <= high) {
        moved = false;
        for (uint32_t i = 0; i < e->count; i++) {
            const llm_range *r = &g->ranges.items[e->value + i];
            if (low >= r->low && low <= r->high) {
                low = r->high + 1;
                moved = true;
            }
        }
    }
    return low <= high;
}

static bool can_match(const llm_grammar *g, const llm_element *e, uint32_t low,
                      uint32_t high)
{
    if (e->kind == LLM_ELEMENT_EXCEPT)
        return leaves_any(g, e, low, high);
    if (e->kind == LLM_ELEMENT_CHAR)
        return e->value >= low && e->value <= high;
    for (uint32_t i = 0; i < e->count; i++) {
        const llm_range *r = &g->ranges.items[e->value + i];
        if (r->low <= high && r->high >= low)
            return true;
    }
    return false;
}

bool llm_stacks_can_step(const llm_stacks *s, uint32_t set, uint32_t low,
                         uint32_t high)
{
    const llm_stack_set *from = &s->sets[set];
    for (uint32_t i = 0; i < from->n; i++) {
        const llm_stack *at = &s->stacks[s->items[from->first + i]];
        if (can_match(s->g, &s->g->elements.items[at->element], low, high))
            return true;
    }
    return false;
}

/* ------------------------------------------------------------------------ */
/* Compaction                                                               */

bool llm_stacks_are_many(const llm_stacks *s)
{
    return s->n_stacks > MAX_STACKS / 2 || s->n_sets > MAX_SETS / 2 ||
           s->n_items > MAX_ITEMS / 2;
}

uint32_t llm_stacks_compact(llm_stacks *s, uint32_t set)
{
    const llm_stack_set kept = s->sets[set];
    const uint32_t n = s->n_stacks;
    uint32_t *moved = s->moved;
    memset(moved, 0, n * sizeof *moved);
    for (uint32_t i = 0; i < kept.n; i++)
        for (uint32_t at = s->items[kept.first + i]; at && !moved[at];
             at = s->stacks[at].below)
            moved[at] = 1;
    memset(s->by_stack.slots, 0, s->by_stack.size * sizeof *s->by_stack.slots);
    memset(s->by_set.slots, 0, s->by_set.size * sizeof *s->by_set.slots);
    new_work(s);
    s->n_stacks = s->n_sets = 1;
    /* What lies below has a lower number and was moved before. */
    for (uint32_t i = 1; i < n; i++)
        if (moved[i]) {
            const llm_stack old = s->stacks[i];
            moved[i] = number_of(s, old.element, moved[old.below]);
        }
    for (uint32_t i = 0; i < kept.n; i++)
        s->work[i] = moved[s->items[kept.first + i]];
    s->n_items = 0;
    return set_of(s, kept.n, kept.complete);
}
