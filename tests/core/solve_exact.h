/* The oracle of the search: all combinations of options of a small problem,
 * with those left out that cannot become the best. */
#pragma once

#include "../../planner/search/evaluate.h"

#include "test.h"

#include <stdlib.h>
#include <string.h>

#define EXACT_COMBINATIONS (1 << 20)
#define EXACT_NODES 64

typedef struct exact_walk {
    const planner_schedule *s;
    planner_state *states[EXACT_NODES + 1]; /* before each node */
    planner_totals totals[EXACT_NODES + 1];
    double rest[EXACT_NODES + 1]; /* least work of this node and later ones */
    uint32_t options[EXACT_NODES];
    uint32_t *best;
    planner_value value; /* of best */
} exact_walk;

/* Whether there are few enough. */
static inline bool exact_possible(const planner_tables *t)
{
    uint64_t n = 1;
    if (t->problem->n_nodes > EXACT_NODES)
        return false;
    for (uint32_t i = 0; i < t->problem->n_nodes; i++) {
        n *= t->classes[t->nodes[i].class].n_options;
        if (n > EXACT_COMBINATIONS)
            return false;
    }
    return true;
}

static inline double exact_work(const planner_tables *t, uint32_t node,
                                uint32_t option)
{
    const planner_parts *parts = planner_tables_parts(t, node, option);
    double ns = 0;
    for (uint32_t i = 0; i < parts->n; i++)
        ns += t->parts[parts->first + i].ns;
    return ns;
}

static inline double exact_least(const planner_tables *t, uint32_t node)
{
    double least = exact_work(t, node, 0);
    for (uint32_t o = 1; o < t->classes[t->nodes[node].class].n_options; o++) {
        double ns = exact_work(t, node, o);
        least = ns < least ? ns : least;
    }
    return least;
}

/* No choice for the nodes that follow makes the best of it. */
static inline bool exact_hopeless(const exact_walk *w, uint32_t node)
{
    const planner_solve_problem *p = w->s->tables->problem;
    const planner_state *state = w->states[node];
    double bound = 0, sum = 0;
    if (w->value.memory <= 0 &&
        planner_value_of(p, &w->totals[node], 0).memory > 0)
        return true;
    for (uint32_t d = 0; d < p->n_devices; d++) {
        double at = planner_state_free(w->s, state)[d];
        bound = at > bound ? at : bound;
        sum += at;
    }
    sum = (sum + w->rest[node]) / p->n_devices;
    bound = sum > bound ? sum : bound;
    return planner_value_legal(w->value) && bound >= w->value.ns;
}

static inline void exact_visit(exact_walk *w, uint32_t node);

static inline void exact_try(exact_walk *w, uint32_t node, uint32_t option)
{
    const planner_tables *t = w->s->tables;
    const planner_state *from = w->states[node];
    planner_state *to = w->states[node + 1];
    w->options[node] = option;
    w->totals[node + 1] = w->totals[node];
    planner_totals_add(t, &w->totals[node + 1], node, option, 1);
    memcpy(to, from, planner_state_used(w->s, from));
    planner_state_add(w->s, to, node, option, NULL, NULL);
    exact_visit(w, node + 1);
}

/* At most EXACT_NODES deep. */
static inline void exact_visit(exact_walk *w, uint32_t node)
{
    const planner_tables *t = w->s->tables;
    const planner_solve_problem *p = t->problem;
    if (exact_hopeless(w, node))
        return;
    if (node < p->n_nodes) {
        for (uint32_t o = 0; o < t->classes[t->nodes[node].class].n_options;
             o++)
            exact_try(w, node, o);
        return;
    }
    planner_value value = planner_value_of(
        p, &w->totals[node], planner_state_makespan(w->s, w->states[node]));
    if (!planner_value_better(value, w->value))
        return;
    w->value = value;
    memcpy(w->best, w->options, p->n_nodes * sizeof *w->best);
}

/* options: [n_nodes] a choice that is there already, replaced by the best
 * one. */
static inline planner_value exact_search(const planner_schedule *s,
                                         uint32_t *options)
{
    const planner_tables *t = s->tables;
    uint32_t n = t->problem->n_nodes;
    exact_walk w = {.s = s, .best = options};
    char *states = calloc(n + 1, s->state_size);
    assert_non_null(states);
    for (uint32_t i = 0; i <= n; i++)
        w.states[i] = (planner_state *)(states + i * s->state_size);
    for (uint32_t i = n; i-- > 0;)
        w.rest[i] = w.rest[i + 1] + exact_least(t, i);
    planner_totals totals = planner_totals_of(t, options);
    w.value =
        planner_value_of(t->problem, &totals,
                         planner_evaluate(s, options, w.states[0], NULL, NULL));
    planner_state_begin(s, w.states[0]);
    exact_visit(&w, 0);
    free(states);
    return w.value;
}
