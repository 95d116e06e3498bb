#include "improve.h"

#include <math.h>

typedef struct improver {
    planner_trials *trials;
    const planner_improve_params *params;
    uint32_t *options; /* the best choice so far */
    planner_totals totals;
    double price;
    planner_value value;
} improver;

static const planner_tables *tables_of(const improver *m)
{
    return m->trials->s->tables;
}

static uint32_t n_options(const planner_tables *t, uint32_t node)
{
    return t->classes[t->nodes[node].class].n_options;
}

static planner_value value_of(const improver *m, const planner_totals *totals,
                              double ns, double price)
{
    planner_value value = {.ns = ns};
    if (m->params->constrained)
        value = planner_value_of(tables_of(m)->problem, totals, ns);
    value.priced = ns + price;
    return value;
}

static double price_of(const improver *m, uint32_t node, uint32_t option)
{
    return planner_price(tables_of(m), m->params->prices, node, option);
}

static planner_value value_with(const improver *m, uint32_t node,
                                uint32_t option, double ns)
{
    const planner_tables *t = tables_of(m);
    planner_totals totals = m->totals;
    planner_totals_add(t, &totals, node, m->options[node], -1);
    planner_totals_add(t, &totals, node, option, 1);
    return value_of(m, &totals, ns,
                    m->price - price_of(m, node, m->options[node]) +
                        price_of(m, node, option));
}

/* Of the options, with which the makespan is this. */
static void set_value(improver *m, double ns)
{
    const planner_tables *t = tables_of(m);
    m->totals = planner_totals_of(t, m->options);
    m->price = 0;
    for (uint32_t i = 0; i < t->problem->n_nodes; i++)
        m->price += price_of(m, i, m->options[i]);
    m->value = value_of(m, &m->totals, ns, m->price);
}

/* Takes the option if it is better; what trying it said may have been off. */
static bool take_option(improver *m, uint32_t node, uint32_t option)
{
    const uint32_t old = m->options[node];
    const planner_value value = m->value;
    const double ns = planner_trials_exact(m->trials, node, option);
    m->options[node] = option;
    set_value(m, ns);
    if (planner_value_better(m->value, value)) {
        planner_trials_set(m->trials, m->options);
        return true;
    }
    m->options[node] = old;
    set_value(m, value.ns);
    return false;
}

/* Bytes over what devices may hold with that other option for which they are
 * least: none that takes more is the best one. */
static double least_memory(const improver *m, uint32_t node)
{
    double least = INFINITY;
    for (uint32_t o = 0; o < n_options(tables_of(m), node); o++)
        if (o != m->options[node])
            least = fmin(least, value_with(m, node, o, m->value.ns).memory);
    return least;
}

/* The best other option becomes the node's alternative, or is taken. */
static bool improve_node(improver *m, uint32_t node, bool take,
                         planner_alternative *alternative)
{
    planner_value best = {0};
    const double memory = least_memory(m, node);
    *alternative = (planner_alternative){.option = UINT32_MAX};
    for (uint32_t o = 0; o < n_options(tables_of(m), node); o++) {
        if (o == m->options[node])
            continue;
        const bool any = alternative->option != UINT32_MAX;
        if (value_with(m, node, o, m->value.ns).memory > memory)
            continue;
        const double ns = planner_trials_ns(m->trials, node, o);
        const planner_value value = value_with(m, node, o, ns);
        if (any && !planner_value_better(value, best))
            continue;
        best = value;
        *alternative = (planner_alternative){o, ns};
    }
    return take && alternative->option != UINT32_MAX &&
           planner_value_better(best, m->value) &&
           take_option(m, node, alternative->option);
}

/* Whether all around the node, as far as a period goes, is as one period
 * before: then nothing else will come of it. */
static bool as_before(const planner_block *s, const uint32_t *options,
                      uint32_t node)
{
    uint32_t p = s->period;
    if (!p || node < s->begin + 2 * p || node + p >= s->begin + s->copies * p)
        return false;
    for (uint32_t i = node - p; i <= node + p; i++)
        if (options[i] != options[i - p])
            return false;
    return true;
}

void planner_improve(planner_trials *trials,
                     const planner_improve_params *params, uint32_t *options,
                     planner_alternative *alternatives, planner_value *value)
{
    const uint32_t first = params->n ? params->first : 0;
    const uint32_t n =
        params->n ? params->n : trials->s->tables->problem->n_nodes;
    improver m = {.trials = trials, .params = params, .options = options};
    planner_trials_set(trials, options);
    set_value(&m, trials->ns);
    /* Done when all nodes in a row, the first after the last, stay. */
    uint32_t unchanged = 0, rounds = 0;
    for (uint32_t at = 0; unchanged < n; at = (at + 1) % n) {
        planner_alternative alternative;
        uint32_t i = first + at;
        rounds += !at;
        bool known = alternatives && at >= params->block.period &&
                     as_before(&params->block, options, i);
        bool changed =
            !known &&
            improve_node(&m, i, rounds <= params->max_rounds, &alternative);
        if (known)
            alternative = alternatives[i - params->block.period];
        unchanged = changed ? 0 : unchanged + 1;
        if (alternatives)
            alternatives[i] = alternative;
    }
    *value = m.value;
}

/* Options of the nodes of one copy of the block. */
static uint32_t n_block_options(const planner_tables *t,
                                const planner_block *block)
{
    uint32_t sum = 0;
    for (uint32_t i = 0; i < block->period; i++)
        sum += n_options(t, block->begin + i);
    return sum;
}

void planner_improve_all(planner_trials *trials, const planner_block *block,
                         const uint32_t *options, double *ns)
{
    const planner_tables *t = trials->s->tables;
    const uint32_t back = n_block_options(t, block);
    planner_trials_set(trials, options);
    for (uint32_t i = 0; i < t->problem->n_nodes; i++) {
        const bool known = as_before(block, options, i);
        for (uint32_t o = 0; o < n_options(t, i); o++, ns++)
            *ns =
                known ? ns[-(ptrdiff_t)back] : planner_trials_ns(trials, i, o);
    }
}
