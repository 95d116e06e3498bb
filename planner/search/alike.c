#include "alike.h"

#include <math.h>

/* Times closer than this are equal, ns. */
#define EQUAL_NS 1e-3

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

bool planner_states_alike(const planner_schedule *s, uint32_t node,
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
