#include "constrain.h"

#include <stdlib.h>
#include <string.h>

/* Prices tried. */
#define MAX_TRIES 9
/* A first price: with it the excess costs this part of the makespan. */
#define FIRST_PRICE 0.1
/* The next one, until one is high enough. */
#define RAISE 4

/* Of a byte or of a ns on a device. */
typedef struct price {
    double low, high, now; /* high 0: none that is enough is known */
    double scale;          /* of a first one */
} price;

typedef struct constrainer {
    const planner_schedule *s;
    planner_find_params params;
    double *prices; /* [tables->n_options] */
    planner_finding trial;
    price bytes[PLANNER_SOLVE_DEVICES], ns[PLANNER_SOLVE_DEVICES];
    uint32_t *options; /* [n_nodes] of a mixture */
    uint32_t *over;    /* [n_nodes] best choice past the limit */
    planner_state *state;
    planner_finding *best;
    core_value value, over_value; /* of best and over */
} constrainer;

static void set_prices(constrainer *c)
{
    const planner_tables *t = c->s->tables;
    for (uint32_t o = 0; o < t->n_options; o++) {
        const planner_parts *parts = &t->options[o];
        c->prices[o] = 0;
        for (uint32_t i = 0; i < parts->n; i++) {
            const planner_part_need *part = &t->parts[parts->first + i];
            c->prices[o] += c->bytes[part->device].now * part->weight_bytes +
                            c->ns[part->device].now * part->ns;
        }
    }
}

static void move_price(price *p, bool over)
{
    if (over)
        p->low = p->now;
    else if (p->now > 0)
        p->high = p->now;
    else
        return;
    if (p->high > 0)
        p->now = (p->low + p->high) / 2;
    else
        p->now = p->low > 0 ? p->low * RAISE : p->scale;
}

/* By what the choice takes of each device. */
static void move_prices(constrainer *c, const uint32_t *options, double ns)
{
    const planner_solve_problem *p = c->s->tables->problem;
    planner_totals totals = planner_totals_of(c->s->tables, options);
    for (uint32_t d = 0; d < p->n_devices; d++) {
        const planner_solve_device *dev = &p->devices[d];
        bool full =
            dev->memory != UINT64_MAX && totals.bytes[d] > (double)dev->memory;
        bool busy = dev->max_share < 1 && totals.ns[d] > dev->max_share * ns;
        if (!c->bytes[d].scale && full)
            c->bytes[d].scale = FIRST_PRICE * ns / totals.bytes[d];
        if (!c->ns[d].scale && busy)
            c->ns[d].scale = FIRST_PRICE * ns / totals.ns[d];
        move_price(&c->bytes[d], full);
        move_price(&c->ns[d], busy);
    }
}

static core_value value_of(constrainer *c, const uint32_t *options)
{
    const planner_tables *t = c->s->tables;
    planner_totals totals = planner_totals_of(t, options);
    return planner_value_of(
        t->problem, &totals,
        planner_evaluate(c->s, options, c->state, NULL, NULL));
}

/* Sorts the choice to its side of the limit. */
static void consider(constrainer *c, const uint32_t *options)
{
    size_t size = c->s->tables->problem->n_nodes * sizeof *options;
    core_value value = value_of(c, options);
    if (!planner_value_legal(value) && value.ns < c->over_value.ns) {
        c->over_value = value;
        memcpy(c->over, options, size);
    }
    if (planner_value_better(value, c->value)) {
        c->value = value;
        memcpy(c->best->options, options, size);
        c->best->ns = value.ns;
    }
}

/* The first nodes as in the choice past the limit, the others as in the one
 * that keeps to it: as many as there may be. */
static void mix(constrainer *c, const uint32_t *legal)
{
    uint32_t n = c->s->tables->problem->n_nodes, low = 0, high = n;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        for (uint32_t i = 0; i < n; i++)
            c->options[i] = i < middle ? c->over[i] : legal[i];
        consider(c, c->options);
        if (planner_value_legal(value_of(c, c->options)))
            low = middle;
        else
            high = middle;
    }
}

static clv_status constrain(constrainer *c)
{
    size_t size = c->s->tables->problem->n_nodes * sizeof *c->over;
    clv_status status = CLV_OK;
    c->value = c->over_value = value_of(c, c->best->options);
    memcpy(c->over, c->best->options, size);
    move_prices(c, c->best->options, c->best->ns);
    for (int i = 0; i < MAX_TRIES && !status; i++) {
        set_prices(c);
        status = planner_find(c->s->tables->problem, &c->params, &c->trial);
        if (status)
            break;
        consider(c, c->trial.options);
        move_prices(c, c->trial.options, c->trial.ns);
    }
    if (!status && planner_value_legal(c->value)) {
        memcpy(c->trial.options, c->best->options, size);
        mix(c, c->trial.options);
    }
    return status;
}

clv_status planner_constrain(const planner_schedule *s, uint32_t width,
                             planner_finding *found)
{
    size_t n = s->tables->problem->n_nodes;
    constrainer c = {
        .s = s, .params = {.width = width / 2, .quick = true}, .best = found};
    c.prices = calloc(s->tables->n_options, sizeof *c.prices);
    c.params.prices = c.prices;
    c.trial.options = calloc(3 * n, sizeof *c.trial.options);
    c.trial.alternatives = calloc(n, sizeof *c.trial.alternatives);
    c.options = c.trial.options + n;
    c.over = c.options + n;
    c.state = calloc(1, s->state_size);
    clv_status status = CLV_OK;
    if (c.prices && c.trial.options && c.trial.alternatives && c.state)
        status = constrain(&c);
    else
        status = clv_error(CLV_ERR_NO_MEMORY, "no memory to search for a plan");
    free(c.prices);
    free(c.trial.options);
    free(c.trial.alternatives);
    free(c.state);
    return status;
}
