#include "improve.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Times closer than this are equal, ns. */
#define EQUAL_NS 1e-3

typedef struct improver {
    const core_schedule *s;
    const core_improve_params *params;
    char *states;      /* before each node, and after the last */
    core_state *trial;
    uint32_t *options; /* the best choice so far */
    uint32_t *ends;    /* its steps' ends */
    core_totals totals;
    double price;
    core_value value;
} improver;

static core_state *state_at(const improver *m, uint32_t node)
{
    return (core_state *)(m->states + node * m->s->state_size);
}

/* ------------------------------------------------------------------------ */
/* Where two schedules run on alike                                          */

static bool same_time(double a, double b, double shift)
{
    return fabs(a - b - shift) < EQUAL_NS;
}

/* The same, or both over before the host goes on. */
static bool same_end(double a, double a_host, double b, double b_host,
                     double shift)
{
    return (a <= a_host && b <= b_host) || same_time(a, b, shift);
}

static bool same_devices(const core_schedule *s, const core_state *a,
                         const core_state *b, double shift)
{
    if (a->open != b->open)
        return false;
    for (uint32_t d = 0; d < s->n_devices; d++) {
        double x = core_state_free(s, a)[d], y = core_state_free(s, b)[d];
        if (!core_state_steps(s, a)[d] != !core_state_steps(s, b)[d])
            return false;
        if (a->open >> d & 1 ? !same_time(x, y, shift)
                             : !same_end(x, a->host, y, b->host, shift))
            return false;
    }
    return true;
}

/* Whether two clocks cover the same of what lives. */
static bool same_clock(const core_schedule *s, const core_state *a,
                       const uint32_t *a_clock, const core_state *b,
                       const uint32_t *b_clock)
{
    for (uint32_t i = 0; i < a->n_slots; i++) {
        const core_slot *x = core_state_slot(s, a, i);
        const core_slot *y = core_state_slot(s, b, i);
        if ((a_clock[x->device] >= x->step) != (b_clock[y->device] >= y->step))
            return false;
    }
    return true;
}

static bool same_slots(const core_schedule *s, const core_state *a,
                       const core_state *b, double shift)
{
    for (uint32_t i = 0; i < a->n_live; i++)
        if (core_state_live(s, a)[i].option != core_state_live(s, b)[i].option)
            return false;
    for (uint32_t i = 0; i < a->n_slots; i++) {
        const core_slot *x = core_state_slot(s, a, i);
        const core_slot *y = core_state_slot(s, b, i);
        if (!same_end(x->at, a->host, y->at, b->host, shift) ||
            (x->step == core_state_steps(s, a)[x->device]) !=
                (y->step == core_state_steps(s, b)[y->device]) ||
            !same_clock(s, a, x->clock, b, y->clock))
            return false;
    }
    for (uint32_t d = 0; d < s->n_devices; d++)
        if (!same_clock(s, a, core_state_clock(s, a, d), b,
                        core_state_clock(s, b, d)))
            return false;
    return true;
}

/* Whether a and b, before the same node, differ in nothing that matters but by
 * a time. */
static bool same_from_here(const core_schedule *s, const core_state *a,
                           const core_state *b, double *shift)
{
    *shift = a->host - b->host;
    return a->n_live == b->n_live && a->n_slots == b->n_slots &&
           same_devices(s, a, b, *shift) && same_slots(s, a, b, *shift);
}

/* ------------------------------------------------------------------------ */
/* Trying                                                                    */

/* Sets the ends of the node and its deps; answers the first node whose steps
 * are others now, at most the node itself. */
static uint32_t set_ends(improver *m, uint32_t node)
{
    const core_step_node *n = &m->s->tables->nodes[node];
    uint32_t first = node;
    for (uint32_t k = 0; k < n->n_deps; k++) {
        uint32_t dep = n->deps[k];
        uint32_t ends = core_tables_ends_of(m->s->tables, m->options, dep);
        if (ends != m->ends[dep] && dep < first)
            first = dep;
        m->ends[dep] = ends;
    }
    m->ends[node] = core_tables_ends_of(m->s->tables, m->options, node);
    return first;
}

/* The makespan with m's options, which differ from those of its states from
 * first on, up to and with node. */
static double run_from(improver *m, uint32_t first, uint32_t node)
{
    const core_schedule *s = m->s;
    uint32_t n = s->tables->problem->n_nodes;
    memcpy(m->trial, state_at(m, first), core_state_used(s, state_at(m, first)));
    for (uint32_t i = first; i < n; i++) {
        double shift;
        core_adding adding = {.ends = m->ends[i]};
        if (i > node && same_from_here(s, m->trial, state_at(m, i), &shift))
            return m->value.ns + shift;
        core_state_add(s, m->trial, i, m->options[i], &adding);
    }
    return core_state_makespan(s, m->trial);
}

static double try_option(improver *m, uint32_t node, uint32_t option)
{
    uint32_t old = m->options[node];
    m->options[node] = option;
    double ns = run_from(m, set_ends(m, node), node);
    m->options[node] = old;
    set_ends(m, node);
    return ns;
}

static core_value value_of(const improver *m, const core_totals *totals,
                           double ns, double price)
{
    core_value value = core_value_of(m->s->tables->problem, totals, ns);
    value.priced = ns + price;
    return value;
}

static double price_of(const improver *m, uint32_t node, uint32_t option)
{
    return core_price(m->s->tables, m->params->prices, node, option);
}

static core_value value_with(const improver *m, uint32_t node, uint32_t option,
                             double ns)
{
    const core_tables *t = m->s->tables;
    core_totals totals = m->totals;
    core_totals_add(t, &totals, node, m->options[node], -1);
    core_totals_add(t, &totals, node, option, 1);
    return value_of(m, &totals, ns,
                    m->price - price_of(m, node, m->options[node]) +
                        price_of(m, node, option));
}

/* Makes the states anew from first on. */
static void set_states(improver *m, uint32_t first)
{
    const core_schedule *s = m->s;
    const core_tables *t = s->tables;
    uint32_t n = t->problem->n_nodes;
    if (!first)
        core_state_begin(s, state_at(m, 0));
    for (uint32_t i = first; i < n; i++) {
        core_adding adding = {.ends = m->ends[i]};
        memcpy(state_at(m, i + 1), state_at(m, i),
               core_state_used(s, state_at(m, i)));
        core_state_add(s, state_at(m, i + 1), i, m->options[i], &adding);
    }
    m->totals = core_totals_of(t, m->options);
    m->price = 0;
    for (uint32_t i = 0; i < n; i++)
        m->price += price_of(m, i, m->options[i]);
    m->value = value_of(m, &m->totals,
                        core_state_makespan(s, state_at(m, n)), m->price);
}

/* Takes the option, if it is better in truth. */
static bool take_option(improver *m, uint32_t node, uint32_t option)
{
    uint32_t old = m->options[node];
    core_value value = m->value;
    m->options[node] = option;
    set_states(m, set_ends(m, node));
    if (core_value_better(m->value, value))
        return true;
    m->options[node] = old;
    set_states(m, set_ends(m, node));
    return false;
}

static bool is_whole(const core_tables *t, uint32_t node, uint32_t option)
{
    return core_tables_parts(t, node, option)->n == 1;
}

/* The best other option becomes the node's alternative, or is taken. */
static bool improve_node(improver *m, uint32_t node, bool take,
                         core_alternative *alternative)
{
    const core_tables *t = m->s->tables;
    core_value best = {0};
    *alternative = (core_alternative){.option = UINT32_MAX};
    for (uint32_t o = 0; o < t->kinds[t->nodes[node].kind].n_options; o++) {
        if (o == m->options[node] || (m->params->whole && !is_whole(t, node, o)))
            continue;
        double ns = try_option(m, node, o);
        core_value value = value_with(m, node, o, ns);
        if (alternative->option != UINT32_MAX &&
            !core_value_better(value, best))
            continue;
        best = value;
        *alternative = (core_alternative){o, ns};
    }
    return take && alternative->option != UINT32_MAX &&
           core_value_better(best, m->value) &&
           take_option(m, node, alternative->option);
}

static clv_status make(improver *m)
{
    const core_schedule *s = m->s;
    uint32_t n = s->tables->problem->n_nodes;
    m->states = calloc((size_t)n + 2, s->state_size);
    m->ends = calloc(n, sizeof *m->ends);
    if (!m->states || !m->ends)
        return clv_error(CLV_ERR_NO_MEMORY, "no memory to search for a plan");
    m->trial = state_at(m, n + 1);
    core_tables_ends(s->tables, m->options, m->ends);
    set_states(m, 0);
    return CLV_OK;
}

clv_status core_improve(const core_schedule *s,
                        const core_improve_params *params, uint32_t *options,
                        core_alternative *alternatives, core_value *value)
{
    uint32_t n = s->tables->problem->n_nodes;
    improver m = {.s = s, .params = params, .options = options};
    clv_status status = make(&m);
    /* Done when all nodes in a row, the first after the last, stay. */
    uint32_t unchanged = 0, rounds = 0;
    for (uint32_t i = 0; !status && unchanged < n; i = (i + 1) % n) {
        core_alternative alternative;
        rounds += !i;
        bool changed =
            improve_node(&m, i, rounds <= params->max_rounds, &alternative);
        unchanged = changed ? 0 : unchanged + 1;
        if (alternatives)
            alternatives[i] = alternative;
    }
    *value = m.value;
    free(m.states);
    free(m.ends);
    return status;
}
