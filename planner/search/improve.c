#include "improve.h"
#include "../../core/base/error.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Times closer than this are equal, ns. */
#define EQUAL_NS 1e-3

/* Where copies of weights run on at their own pace, two schedules may never run
 * on alike. Then the rest is told from how late its two parts are at the next
 * point behind the change: the devices with all that is there, and the queues
 * of copies. The makespan is the larger of what follows from each, as nothing
 * but waiting for the later of two things joins them. */
#define STRIDE 64 /* nodes between points */
typedef struct point {
    double work;   /* makespan if no queue of copies delayed what follows, */
    double copies; /* and if nothing else did */
} point;

typedef struct improver {
    const planner_schedule *s;
    const planner_improve_params *params;
    char *states; /* before each node, and after the last */
    planner_state *trial;
    point *points; /* at each multiple of STRIDE; NULL: there are no rings */
    uint32_t *options; /* the best choice so far */
    planner_totals totals;
    double price;
    planner_value value;
} improver;

static planner_state *state_at(const improver *m, uint32_t node)
{
    return (planner_state *)(m->states + node * m->s->state_size);
}

/* ------------------------------------------------------------------------ */
/* Where two schedules run on alike                                          */

static bool same_time(double a, double b, double shift)
{
    return fabs(a - b - shift) < EQUAL_NS;
}

/* Nothing that is added later begins before this, as it needs some result, and
 * what the host did before this delays no submit of it. */
static double horizon(const planner_schedule *s, const planner_state *state,
                      uint32_t node)
{
    const planner_solve_device *devices = s->tables->problem->devices;
    double first = INFINITY;
    if (!s->tables->nodes[node].rooted)
        return -INFINITY;
    for (uint32_t i = 0; i < state->n_slots; i++)
        first = fmin(first, planner_state_slot(s, state, i)->at);
    for (uint32_t d = 0; d < s->n_devices; d++)
        first -= fmax(devices[d].submit_ns, devices[d].submit_idle_ns);
    return first;
}

typedef struct pair {
    const planner_state *a, *b;
    double shift; /* of a against b */
    double a_horizon, b_horizon;
} pair;

/* The same, or both before all that may come. */
static bool same_end(const pair *p, double a, double b)
{
    return (a <= p->a_horizon && b <= p->b_horizon) ||
           same_time(a, b, p->shift);
}

static bool same_host(const pair *p)
{
    uint32_t i = p->a->n_busy, j = p->b->n_busy;
    while (i && j) {
        const planner_busy *x = &p->a->busy[--i], *y = &p->b->busy[--j];
        if (!same_end(p, x->end, y->end))
            return false;
        if (x->end <= p->a_horizon)
            return true;
        if (!same_end(p, x->begin, y->begin))
            return false;
    }
    return (!i || p->a->busy[i - 1].end <= p->a_horizon) &&
           (!j || p->b->busy[j - 1].end <= p->b_horizon);
}

static bool same_devices(const planner_schedule *s, const pair *p)
{
    if (p->a->open != p->b->open)
        return false;
    for (uint32_t d = 0; d < s->n_devices; d++)
        if (!same_end(p, planner_state_free(s, p->a)[d],
                      planner_state_free(s, p->b)[d]) ||
            !same_end(p, planner_state_sent(s, p->a)[d],
                      planner_state_sent(s, p->b)[d]))
            return false;
    return true;
}

static bool same_rings(const planner_schedule *s, const pair *p)
{
    for (uint32_t d = 0; d < s->n_devices && s->rings; d++) {
        const planner_ring *a = planner_state_ring(s, p->a, d);
        const planner_ring *b = planner_state_ring(s, p->b, d);
        if (a->n != b->n)
            return false;
        for (uint32_t i = 0; i < a->n; i++)
            if (fabs(a->bytes[i] - b->bytes[i]) > 0 ||
                !same_end(p, a->end[i], b->end[i]))
                return false;
    }
    return true;
}

/* Whether the steps of the results before slot i stand in the same order to
 * that of slot i: waits begin with the latest step. */
static bool same_order(const planner_schedule *s, const pair *p, uint32_t i)
{
    uint32_t a = planner_state_slot(s, p->a, i)->order;
    uint32_t b = planner_state_slot(s, p->b, i)->order;
    for (uint32_t j = 0; j < i; j++)
        if ((planner_state_slot(s, p->a, j)->order < a) !=
            (planner_state_slot(s, p->b, j)->order < b))
            return false;
    return true;
}

/* Whether two clocks cover the same of what lives. */
static bool same_clock(const planner_schedule *s, const planner_state *a,
                       const uint32_t *a_clock, const planner_state *b,
                       const uint32_t *b_clock)
{
    for (uint32_t i = 0; i < a->n_slots; i++) {
        const planner_slot *x = planner_state_slot(s, a, i);
        const planner_slot *y = planner_state_slot(s, b, i);
        if ((a_clock[x->device] >= x->step) != (b_clock[y->device] >= y->step))
            return false;
    }
    return true;
}

static bool same_slots(const planner_schedule *s, const pair *p)
{
    const planner_state *a = p->a, *b = p->b;
    for (uint32_t i = 0; i < a->n_live; i++)
        if (planner_state_live(s, a)[i].option !=
            planner_state_live(s, b)[i].option)
            return false;
    for (uint32_t i = 0; i < a->n_slots; i++) {
        const planner_slot *x = planner_state_slot(s, a, i);
        const planner_slot *y = planner_state_slot(s, b, i);
        if (!same_time(x->at, y->at, p->shift) || x->memories != y->memories ||
            (x->step == planner_state_steps(s, a)[x->device]) !=
                (y->step == planner_state_steps(s, b)[y->device]) ||
            !same_clock(s, a, x->clock, b, y->clock) || !same_order(s, p, i))
            return false;
    }
    for (uint32_t d = 0; d < s->n_devices; d++)
        if (!same_clock(s, a, planner_state_clock(s, a, d), b,
                        planner_state_clock(s, b, d)))
            return false;
    return true;
}

/* Whether a and b, before the same node, differ in nothing that matters but by
 * a time. */
static bool same_from_here(const planner_schedule *s, uint32_t node,
                           const planner_state *a, const planner_state *b,
                           double *shift)
{
    pair p = {.a = a, .b = b};
    if (a->n_live != b->n_live || a->n_slots != b->n_slots || !a->n_slots)
        return false;
    p.shift = *shift = planner_state_slot(s, a, a->n_slots - 1)->at -
                       planner_state_slot(s, b, b->n_slots - 1)->at;
    p.a_horizon = horizon(s, a, node);
    p.b_horizon = horizon(s, b, node);
    return same_devices(s, &p) && same_host(&p) && same_rings(s, &p) &&
           same_slots(s, &p);
}

/* ------------------------------------------------------------------------ */
/* Trying                                                                    */

static uint32_t n_options(const planner_tables *t, uint32_t node)
{
    return t->classes[t->nodes[node].class].n_options;
}

static bool copies_weights(const planner_schedule *s, uint32_t device)
{
    return s->tables->problem->devices[device].ring != 0;
}

/* Makes the work or the queues of copies that much earlier. */
static void advance(const planner_schedule *s, planner_state *state,
                    bool copies, double ns)
{
    for (uint32_t d = 0; d < s->n_devices; d++) {
        planner_ring *ring = planner_state_ring(s, state, d);
        if (copies_weights(s, d) == copies)
            planner_state_free(s, state)[d] -= ns;
        for (uint32_t i = 0; i < ring->n && !copies; i++)
            ring->end[i] -= ns;
    }
    for (uint32_t i = 0; i < state->n_slots && !copies; i++)
        planner_state_slot(s, state, i)->at -= ns;
}

/* From the node on, if one of the two were done long before. */
static double rest_without(improver *m, uint32_t node, bool copies)
{
    const planner_schedule *s = m->s;
    memcpy(m->trial, state_at(m, node),
           planner_state_used(s, state_at(m, node)));
    advance(s, m->trial, copies, m->value.ns);
    for (uint32_t i = node; i < s->tables->problem->n_nodes; i++)
        planner_state_add(s, m->trial, i, m->options[i], NULL, NULL);
    return planner_state_makespan(s, m->trial);
}

static void set_points(improver *m)
{
    const uint32_t n = m->s->tables->problem->n_nodes;
    for (uint32_t i = 0; m->points && i * STRIDE < n; i++)
        m->points[i] = (point){rest_without(m, i * STRIDE, true),
                               rest_without(m, i * STRIDE, false)};
}

/* By the state of the trial before the node, at a point. shift: of what is
 * there, against the best choice so far. */
static double makespan_from(const improver *m, uint32_t node, double shift)
{
    const planner_schedule *s = m->s;
    const point *at = &m->points[node / STRIDE];
    double later = -INFINITY;
    for (uint32_t d = 0; d < s->n_devices; d++)
        if (copies_weights(s, d))
            later =
                fmax(later, planner_state_free(s, m->trial)[d] -
                                planner_state_free(s, state_at(m, node))[d]);
    return fmax(at->work + shift, at->copies + later);
}

/* The makespan with another option of a node. */
static double try_option(improver *m, uint32_t node, uint32_t option)
{
    const planner_schedule *s = m->s;
    uint32_t n = s->tables->problem->n_nodes;
    memcpy(m->trial, state_at(m, node),
           planner_state_used(s, state_at(m, node)));
    planner_state_add(s, m->trial, node, option, NULL, NULL);
    for (uint32_t i = node + 1; i < n; i++) {
        double shift = INFINITY;
        if (same_from_here(s, i, m->trial, state_at(m, i), &shift))
            return m->value.ns + shift;
        if (m->points && i % STRIDE == 0 && i >= node + STRIDE &&
            isfinite(shift))
            return makespan_from(m, i, shift);
        planner_state_add(s, m->trial, i, m->options[i], NULL, NULL);
    }
    return planner_state_makespan(s, m->trial);
}

static planner_value value_of(const improver *m, const planner_totals *totals,
                              double ns, double price)
{
    planner_value value = {.ns = ns};
    if (m->params->constrained)
        value = planner_value_of(m->s->tables->problem, totals, ns);
    value.priced = ns + price;
    return value;
}

static double price_of(const improver *m, uint32_t node, uint32_t option)
{
    return planner_price(m->s->tables, m->params->prices, node, option);
}

static planner_value value_with(const improver *m, uint32_t node,
                                uint32_t option, double ns)
{
    const planner_tables *t = m->s->tables;
    planner_totals totals = m->totals;
    planner_totals_add(t, &totals, node, m->options[node], -1);
    planner_totals_add(t, &totals, node, option, 1);
    return value_of(m, &totals, ns,
                    m->price - price_of(m, node, m->options[node]) +
                        price_of(m, node, option));
}

/* Computes the states again from node `first` on. */
static void set_states(improver *m, uint32_t first)
{
    const planner_schedule *s = m->s;
    const planner_tables *t = s->tables;
    uint32_t n = t->problem->n_nodes;
    if (!first)
        planner_state_begin(s, state_at(m, 0));
    for (uint32_t i = first; i < n; i++) {
        memcpy(state_at(m, i + 1), state_at(m, i),
               planner_state_used(s, state_at(m, i)));
        planner_state_add(s, state_at(m, i + 1), i, m->options[i], NULL, NULL);
    }
    m->totals = planner_totals_of(t, m->options);
    m->price = 0;
    for (uint32_t i = 0; i < n; i++)
        m->price += price_of(m, i, m->options[i]);
    m->value = value_of(m, &m->totals,
                        planner_state_makespan(s, state_at(m, n)), m->price);
}

/* Takes the option if it is better; try_option() may have been wrong where it
 * stopped early. */
static bool take_option(improver *m, uint32_t node, uint32_t option)
{
    uint32_t old = m->options[node];
    planner_value value = m->value;
    m->options[node] = option;
    set_states(m, node);
    if (planner_value_better(m->value, value)) {
        set_points(m);
        return true;
    }
    m->options[node] = old;
    set_states(m, node);
    return false;
}

/* The best other option becomes the node's alternative, or is taken. */
static bool improve_node(improver *m, uint32_t node, bool take,
                         planner_alternative *alternative)
{
    const planner_tables *t = m->s->tables;
    planner_value best = {0};
    *alternative = (planner_alternative){.option = UINT32_MAX};
    for (uint32_t o = 0; o < n_options(t, node); o++) {
        if (o == m->options[node])
            continue;
        const bool any = alternative->option != UINT32_MAX;
        planner_value value = value_with(m, node, o, m->value.ns);
        if (any && value.memory > best.memory)
            continue;
        double ns = try_option(m, node, o);
        value = value_with(m, node, o, ns);
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
static bool as_before(const improver *m, uint32_t node)
{
    const planner_block *s = &m->params->block;
    uint32_t p = s->period;
    if (!p || node < s->begin + 2 * p || node + p >= s->begin + s->copies * p)
        return false;
    for (uint32_t i = node - p; i <= node + p; i++)
        if (m->options[i] != m->options[i - p])
            return false;
    return true;
}

static clv_status make(improver *m)
{
    const planner_schedule *s = m->s;
    uint32_t n = s->tables->problem->n_nodes;
    m->states = calloc((size_t)n + 2, s->state_size);
    if (!m->states)
        return core_no_memory("to search for a plan");
    m->trial = state_at(m, n + 1);
    if (s->rings && !(m->points = calloc(n / STRIDE + 1, sizeof *m->points)))
        return core_no_memory("to search for a plan");
    set_states(m, 0);
    set_points(m);
    return CLV_OK;
}

clv_status planner_improve(const planner_schedule *s,
                           const planner_improve_params *params,
                           uint32_t *options, planner_alternative *alternatives,
                           planner_value *value)
{
    uint32_t first = params->n ? params->first : 0;
    uint32_t n = params->n ? params->n : s->tables->problem->n_nodes;
    improver m = {.s = s, .params = params, .options = options};
    clv_status status = make(&m);
    /* Done when all nodes in a row, the first after the last, stay. */
    uint32_t unchanged = 0, rounds = 0;
    for (uint32_t at = 0; !status && unchanged < n; at = (at + 1) % n) {
        planner_alternative alternative;
        uint32_t i = first + at;
        rounds += !at;
        bool known =
            alternatives && at >= params->block.period && as_before(&m, i);
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
    free(m.points);
    free(m.states);
    return status;
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

clv_status planner_improve_all(const planner_schedule *s,
                               const planner_block *block,
                               const uint32_t *options, double *ns)
{
    const planner_improve_params params = {.block = *block};
    const planner_tables *t = s->tables;
    const uint32_t n = t->problem->n_nodes, back = n_block_options(t, block);
    uint32_t *own = calloc(n, sizeof *own);
    improver m = {.s = s, .params = &params, .options = own};
    if (!own)
        return core_no_memory("to search for a plan");
    memcpy(own, options, n * sizeof *own);
    clv_status status = make(&m);
    for (uint32_t i = 0; i < n && !status; i++) {
        const bool known = as_before(&m, i);
        for (uint32_t o = 0; o < n_options(t, i); o++, ns++)
            *ns = known         ? ns[-(ptrdiff_t)back]
                  : o == own[i] ? m.value.ns
                                : try_option(&m, i, o);
    }
    free(m.points);
    free(m.states);
    free(own);
    return status;
}
