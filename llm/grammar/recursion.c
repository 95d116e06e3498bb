/* Left recursion: a cycle of rules each of which can begin with the next one,
 * found as strongly connected components (Tarjan). A rule that is the last
 * element leaves nothing to return to, so a cycle of those alone does no harm.
 */
#include "grammar.h"

#include "../base/str.h"

#include <stdlib.h>

/* A walk over the rules that a rule can begin with. */
typedef struct walk {
    uint32_t rule, alternative, element;
} walk;

typedef struct search {
    const llm_grammar *g;
    bool *empty;         /* [rules]: matches the empty text */
    uint32_t *seen;      /* [rules]: when it was entered, from 1; 0: not yet */
    uint32_t *lowest;    /* [rules]: the earliest one reached on the stack */
    uint32_t *component; /* [rules], from 1; 0: not known yet */
    uint32_t *stack;     /* [rules] */
    walk *path;          /* [rules] */
    uint32_t n_stack, n_path, n_seen, n_components;
} search;

static walk begin_walk(const llm_grammar *g, uint32_t rule)
{
    const uint32_t first = g->rules.items[rule].first;
    return (walk){rule, first, g->alternatives.items[first]};
}

/* The next rule that the walk's rule can begin with; false: no more. */
static bool next_first(const search *s, walk *w, uint32_t *to, bool *is_last)
{
    const llm_grammar *g = s->g;
    const llm_rule *r = &g->rules.items[w->rule];
    while (w->alternative < r->first + r->n) {
        const llm_element *e = &g->elements.items[w->element];
        if (e->kind != LLM_ELEMENT_RULE) {
            if (++w->alternative < r->first + r->n)
                w->element = g->alternatives.items[w->alternative];
            continue;
        }
        *to = e->value;
        *is_last = e[1].kind == LLM_ELEMENT_END;
        /* What does not match the empty text hides what is behind it. */
        if (s->empty[e->value])
            w->element++;
        else if (++w->alternative < r->first + r->n)
            w->element = g->alternatives.items[w->alternative];
        return true;
    }
    return false;
}

static bool is_empty(const search *s, uint32_t rule)
{
    const llm_grammar *g = s->g;
    const llm_rule *r = &g->rules.items[rule];
    for (uint32_t i = 0; i < r->n; i++) {
        const llm_element *e =
            &g->elements.items[g->alternatives.items[r->first + i]];
        while (e->kind == LLM_ELEMENT_RULE && s->empty[e->value])
            e++;
        if (e->kind == LLM_ELEMENT_END)
            return true;
    }
    return false;
}

/* Forwards and backwards in turn: rules mostly use later ones. */
static void find_empty(search *s)
{
    const uint32_t n = (uint32_t)s->g->rules.n;
    bool changed = true;
    for (uint32_t pass = 0; changed; pass++) {
        changed = false;
        for (uint32_t i = 0; i < n; i++) {
            const uint32_t rule = pass % 2 ? i : n - 1 - i;
            if (!s->empty[rule] && is_empty(s, rule))
                changed = s->empty[rule] = true;
        }
    }
}

static void enter(search *s, uint32_t rule)
{
    s->seen[rule] = s->lowest[rule] = ++s->n_seen;
    s->stack[s->n_stack++] = rule;
    s->path[s->n_path++] = begin_walk(s->g, rule);
}

static void leave(search *s)
{
    const uint32_t rule = s->path[--s->n_path].rule;
    if (s->n_path) {
        const uint32_t above = s->path[s->n_path - 1].rule;
        if (s->lowest[rule] < s->lowest[above])
            s->lowest[above] = s->lowest[rule];
    }
    if (s->lowest[rule] != s->seen[rule])
        return;
    s->n_components++;
    uint32_t top;
    do {
        top = s->stack[--s->n_stack];
        s->component[top] = s->n_components;
    } while (top != rule);
}

static void find_components(search *s)
{
    for (uint32_t i = 0; i < s->g->rules.n; i++) {
        if (!s->seen[i])
            enter(s, i);
        while (s->n_path) {
            uint32_t to;
            bool is_last;
            walk *w = &s->path[s->n_path - 1];
            if (!next_first(s, w, &to, &is_last))
                leave(s);
            else if (!s->seen[to])
                enter(s, to);
            else if (!s->component[to] && s->seen[to] < s->lowest[w->rule])
                s->lowest[w->rule] = s->seen[to];
        }
    }
}

static clv_status check(search *s)
{
    find_empty(s);
    find_components(s);
    for (uint32_t i = 0; i < s->g->rules.n; i++) {
        uint32_t to;
        bool is_last;
        for (walk w = begin_walk(s->g, i); next_first(s, &w, &to, &is_last);)
            if (!is_last && s->component[to] == s->component[i])
                return clv_error(
                    CLV_ERR_INVALID,
                    "grammar: rule '%s' can begin with itself (left "
                    "recursion); let the repeated part come first, or use '*'",
                    s->g->names.items[s->g->rules.items[i].name]);
    }
    return CLV_OK;
}

clv_status llm_grammar_check_recursion(const llm_grammar *g)
{
    const size_t n = g->rules.n;
    search s = {.g = g,
                .empty = calloc(n, sizeof *s.empty),
                .seen = calloc(n, sizeof *s.seen),
                .lowest = calloc(n, sizeof *s.lowest),
                .component = calloc(n, sizeof *s.component),
                .stack = calloc(n, sizeof *s.stack),
                .path = calloc(n, sizeof *s.path)};
    clv_status status = CLV_OK;
    if (s.empty && s.seen && s.lowest && s.component && s.stack && s.path)
        status = check(&s);
    else
        status = llm_no_memory("a grammar");
    free(s.empty);
    free(s.seen);
    free(s.lowest);
    free(s.component);
    free(s.stack);
    free(s.path);
    return status;
}
