#include "search.h"
#include "../../core/base/error.h"
#include "assign.h"
#include "blocks.h"
#include "find.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Rounds of improvement under constraints. */
#define MAX_ROUNDS 2

/* ------------------------------------------------------------------------ */
/* Constraints                                                               */

/* Prices tried. */
#define MAX_TRIES 9
/* A first price: with it the excess costs this part of the makespan. */
#define FIRST_PRICE 0.1
/* Between the first ones, until one is too low and one high enough. */
#define RAISE 4

/* Of a byte or of a ns on a device. */
typedef struct price {
    double low, high, now; /* 0: none that is too little, or enough, is known */
    double scale;          /* of a first one */
} price;

/* Prices on bytes and on working time (Lagrange multipliers) are raised until
 * the best choice keeps to the constraints. */
typedef struct constrainer {
    const planner_schedule *s;
    planner_find_params params;
    double *prices; /* [tables->n_options] */
    planner_finding trial;
    price bytes[PLANNER_SOLVE_DEVICES], ns[PLANNER_SOLVE_DEVICES];
    planner_finding *best;
    planner_value value; /* of best */
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
    if (!(p->now > 0))
        p->now = p->scale;
    else if (p->low > 0 && p->high > 0)
        p->now = sqrt(p->low * p->high);
    else
        p->now = p->high > 0 ? p->high / RAISE : p->low * RAISE;
}

/* By what the choice takes of each device. */
static void move_prices(constrainer *c, const planner_finding *found)
{
    const planner_solve_problem *p = c->s->tables->problem;
    planner_totals totals = planner_totals_of(c->s->tables, found->options);
    for (uint32_t d = 0; d < p->n_devices; d++) {
        const planner_solve_device *dev = &p->devices[d];
        bool full =
            dev->memory != UINT64_MAX && totals.bytes[d] > (double)dev->memory;
        bool busy =
            dev->max_share < 1 && totals.ns[d] > dev->max_share * found->ns;
        if (!c->bytes[d].scale && full)
            c->bytes[d].scale = FIRST_PRICE * found->ns / totals.bytes[d];
        if (!c->ns[d].scale && busy)
            c->ns[d].scale = FIRST_PRICE * found->ns / totals.ns[d];
        move_price(&c->bytes[d], full);
        move_price(&c->ns[d], busy);
    }
}

static planner_value value_of(const planner_schedule *s,
                              const planner_finding *found)
{
    planner_totals totals = planner_totals_of(s->tables, found->options);
    return planner_value_of(s->tables->problem, &totals, found->ns);
}

static clv_status try_prices(constrainer *c)
{
    size_t size = c->s->tables->problem->n_nodes * sizeof *c->best->options;
    move_prices(c, c->best);
    for (int i = 0; i < MAX_TRIES; i++) {
        set_prices(c);
        CLV_TRY(planner_find(c->s, &c->params, &c->trial));
        planner_value value = value_of(c->s, &c->trial);
        if (planner_value_better(value, c->value)) {
            c->value = value;
            memcpy(c->best->options, c->trial.options, size);
            c->best->ns = value.ns;
        }
        move_prices(c, &c->trial);
    }
    return CLV_OK;
}

/* Replaces a choice that breaks constraints by one that does not, or breaks
 * them less. */
static clv_status constrain(const planner_schedule *s, uint32_t without,
                            planner_finding *found)
{
    size_t n = s->tables->problem->n_nodes;
    constrainer c = {.s = s,
                     .params = {.quick = true, .without = without},
                     .best = found,
                     .value = value_of(s, found)};
    c.params.prices = c.prices = calloc(s->tables->n_options, sizeof *c.prices);
    c.trial.options = calloc(n, sizeof *c.trial.options);
    c.trial.alternatives = calloc(n, sizeof *c.trial.alternatives);
    clv_status status = c.prices && c.trial.options && c.trial.alternatives
                            ? try_prices(&c)
                            : core_no_memory("to search for a plan");
    free(c.prices);
    free(c.trial.options);
    free(c.trial.alternatives);
    return status;
}

/* ------------------------------------------------------------------------ */
/* Repair                                                                    */

/* Choices tried at most. */
#define MAX_REPAIRS 2000

/* Where no other option of one node brings a choice nearer to the constraints,
 * those of two nodes may. */
typedef struct repairer {
    const planner_schedule *s;
    planner_state *state;
    uint32_t *options; /* the best choice so far */
    planner_value value;
    uint32_t left; /* choices to evaluate */
} repairer;

/* Of nodes of one class with the same option the first stands for all. */
static bool stands_for_itself(const repairer *r, uint32_t node)
{
    const planner_step_node *nodes = r->s->tables->nodes;
    for (uint32_t i = 0; i < node; i++)
        if (nodes[i].class == nodes[node].class &&
            r->options[i] == r->options[node])
            return false;
    return true;
}

static uint32_t n_options(const repairer *r, uint32_t node)
{
    const planner_tables *t = r->s->tables;
    return t->classes[t->nodes[node].class].n_options;
}

/* Whether the choice as it is now is better; it becomes the best one. */
static bool accept(repairer *r)
{
    const planner_solve_problem *p = r->s->tables->problem;
    if (!r->left)
        return false;
    r->left--;
    planner_totals totals = planner_totals_of(r->s->tables, r->options);
    planner_value value = planner_value_of(p, &totals, r->value.ns);
    if (value.memory > r->value.memory)
        return false;
    value = planner_value_of(
        p, &totals, planner_evaluate(r->s, r->options, r->state, NULL, NULL));
    if (!planner_value_better(value, r->value))
        return false;
    r->value = value;
    return true;
}

static bool repair_node(repairer *r, uint32_t node, uint32_t second)
{
    uint32_t old = r->options[node];
    for (uint32_t o = 0; o < n_options(r, node) && r->left; o++) {
        r->options[node] = o;
        if (o == old)
            continue;
        if (accept(r))
            return true;
        for (uint32_t j = second; j < r->s->tables->problem->n_nodes; j++)
            if (stands_for_itself(r, j) && repair_node(r, j, UINT32_MAX))
                return true;
    }
    r->options[node] = old;
    return false;
}

static clv_status repair(const planner_schedule *s, uint32_t *options,
                         planner_value *value)
{
    repairer r = {.s = s,
                  .state = calloc(1, s->state_size),
                  .options = options,
                  .value = *value,
                  .left = MAX_REPAIRS};
    if (!r.state)
        return core_no_memory("to search for a plan");
    for (uint32_t i = 0; i < s->tables->problem->n_nodes &&
                         !planner_value_legal(r.value) && r.left;)
        i = stands_for_itself(&r, i) && repair_node(&r, i, i + 1) ? 0 : i + 1;
    *value = r.value;
    free(r.state);
    return CLV_OK;
}

/* ------------------------------------------------------------------------ */

/* The choice under the problem's own constraints. A price moves all copies of a
 * block at once; improvement moves them one by one, up to the limit. */
static clv_status settle(planner_trials *trials, uint32_t without,
                         planner_finding *found)
{
    const planner_schedule *s = trials->s;
    planner_improve_params params = {.max_rounds = MAX_ROUNDS,
                                     .constrained = true};
    planner_value value = value_of(s, found);
    if (planner_value_legal(value))
        return CLV_OK;
    if (!(without & PLANNER_STAGE_PRICES))
        CLV_TRY(constrain(s, without, found));
    value = value_of(s, found);
    if (planner_value_legal(value))
        CLV_TRY(planner_assign(trials, found->options, &value));
    planner_block_find(s->tables->problem, 2, &params.block);
    for (int i = 0; i < 2 && (!i || !planner_value_legal(value)); i++) {
        if (i)
            CLV_TRY(repair(s, found->options, &value));
        planner_improve(trials, &params, found->options, found->alternatives,
                        &value);
    }
    found->ns = value.ns;
    return CLV_OK;
}

/* Goes on from the known choice if that is better than what was found. */
static clv_status consider_known(planner_trials *trials, planner_finding *found)
{
    const planner_schedule *s = trials->s;
    const planner_solve_problem *p = s->tables->problem;
    planner_improve_params params = {.max_rounds = MAX_ROUNDS,
                                     .constrained = true};
    planner_state *state = calloc(1, s->state_size);
    planner_finding known = {.options =
                                 calloc(p->n_nodes, sizeof *known.options)};
    if (!state || !known.options) {
        free(known.options);
        free(state);
        return core_no_memory("to search for a plan");
    }
    for (uint32_t i = 0; i < p->n_nodes; i++)
        known.options[i] = p->known[i] - p->nodes[i].first_option;
    known.ns = planner_evaluate(s, known.options, state, NULL, NULL);
    planner_value value = value_of(s, &known);
    if (planner_value_better(value, value_of(s, found))) {
        memcpy(found->options, known.options,
               p->n_nodes * sizeof *known.options);
        planner_block_find(p, 2, &params.block);
        planner_improve(trials, &params, found->options, found->alternatives,
                        &value);
        found->ns = value.ns;
    }
    free(known.options);
    free(state);
    return CLV_OK;
}

/* ------------------------------------------------------------------------ */

static void fill(const planner_solve_problem *p, const planner_finding *found,
                 planner_solution *out)
{
    out->makespan_ns = found->ns;
    for (uint32_t i = 0; i < p->n_nodes; i++) {
        uint32_t first = p->nodes[i].first_option;
        const planner_alternative *a = &found->alternatives[i];
        const planner_solve_option *option =
            &p->options[first + found->options[i]];
        out->choices[i] = (planner_solve_choice){
            .option = first + found->options[i],
            .alternative =
                a->option == UINT32_MAX ? a->option : first + a->option,
            .alternative_ns = a->option == UINT32_MAX ? 0 : a->ns,
        };
        for (uint32_t k = 0; k < option->n_pieces; k++)
            out->energy_nj += p->pieces[option->first_piece + k].energy_nj;
    }
}

clv_status planner_search(const planner_solve_problem *problem,
                          uint32_t without, planner_solution *out)
{
    const planner_find_params params = {.without = without};
    planner_tables tables;
    planner_schedule schedule;
    planner_trials trials = {0};
    planner_finding found = {0};
    *out = (planner_solution){0};
    CLV_TRY(planner_tables_make(problem, &tables));
    planner_schedule_init(&schedule, &tables);
    found.options = calloc(problem->n_nodes, sizeof *found.options);
    found.alternatives = calloc(problem->n_nodes, sizeof *found.alternatives);
    out->choices = calloc(problem->n_nodes, sizeof *out->choices);
    clv_status status = found.options && found.alternatives && out->choices
                            ? planner_find(&schedule, &params, &found)
                            : core_no_memory("to search for a plan");
    if (!status)
        status = planner_trials_make(&schedule, &trials);
    if (!status)
        status = settle(&trials, without, &found);
    if (!status && problem->known)
        status = consider_known(&trials, &found);
    if (!status)
        fill(problem, &found, out);
    else
        planner_solution_finish(out);
    free(found.options);
    free(found.alternatives);
    planner_trials_finish(&trials);
    planner_tables_finish(&tables);
    return status;
}

void planner_solution_finish(planner_solution *solution)
{
    free(solution->choices);
    *solution = (planner_solution){0};
}
