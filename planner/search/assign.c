#include "assign.h"
#include "../../core/base/error.h"
#include "improve.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Sums of bytes that are kept apart. */
#define SUMS 1024
/* Times that a device's memory is assigned. */
#define MAX_ROUNDS 3
/* Options of a node that are looked at. */
#define MAX_OPTIONS 64

/* The best choice of the nodes so far among those with about equal bytes. */
typedef struct sum {
    double bytes, ns; /* ns: INFINITY: none */
} sum;

typedef struct step {
    uint16_t from;   /* the sum before the node */
    uint16_t option; /* of it */
} step;

typedef struct option {
    double bytes, ns;
    uint32_t index; /* within the node's */
} option;

typedef struct assigner {
    const planner_schedule *s;
    planner_trials *trials;
    planner_block block; /* that repeats; period 0: none does */
    const uint32_t *options;
    double *ns; /* makespan with each option of each node, node by node */
    uint32_t device;
    double limit; /* bytes for the nodes that are looked at */
    sum *sums, *next;
    step *steps;     /* [n][SUMS] */
    uint32_t *nodes; /* [n] that have options with other bytes */
    uint32_t n;
} assigner;

static bool is_limited(const planner_schedule *s, uint32_t device)
{
    return s->tables->problem->devices[device].memory != UINT64_MAX;
}

static double bytes_of(const planner_schedule *s, uint32_t node, uint32_t index,
                       uint32_t device)
{
    const planner_parts *parts = planner_tables_parts(s->tables, node, index);
    double bytes = 0;
    for (uint32_t i = 0; i < parts->n; i++) {
        const planner_part_need *part = &s->tables->parts[parts->first + i];
        if (part->device == device)
            bytes += part->weight_bytes;
    }
    return bytes;
}

/* Whether it takes no more of the other devices' memory than the node's own. */
static bool spares_others(const assigner *a, uint32_t node, uint32_t index)
{
    for (uint32_t d = 0; d < a->s->n_devices; d++)
        if (d != a->device && is_limited(a->s, d) &&
            bytes_of(a->s, node, index, d) >
                bytes_of(a->s, node, a->options[node], d))
            return false;
    return true;
}

/* Adds an option to those of which none is better in bytes and time. */
static uint32_t add_option(option *list, uint32_t n, option new)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < n; i++)
        if (list[i].bytes <= new.bytes && list[i].ns <= new.ns)
            return n;
    for (uint32_t i = 0; i < n; i++)
        if (list[i].bytes < new.bytes || list[i].ns < new.ns)
            list[kept++] = list[i];
    if (kept < MAX_OPTIONS)
        list[kept++] = new;
    return kept;
}

static uint32_t list_options(const assigner *a, uint32_t node, const double *ns,
                             option list[MAX_OPTIONS])
{
    const planner_tables *t = a->s->tables;
    uint32_t n = 0, own = a->options[node];
    for (uint32_t o = 0; o < t->classes[t->nodes[node].class].n_options; o++)
        if (o == own || spares_others(a, node, o))
            n = add_option(list, n,
                           (option){bytes_of(a->s, node, o, a->device),
                                    ns[o] - ns[own], o});
    return n;
}

/* ------------------------------------------------------------------------ */
/* The knapsack                                                              */

static void add_sum(assigner *a, uint32_t from, const option *o)
{
    sum new = {a->sums[from].bytes + o->bytes, a->sums[from].ns + o->ns};
    if (new.bytes > a->limit)
        return;
    uint32_t at =
        a->limit > 0 ? (uint32_t)(new.bytes / a->limit *(SUMS - 1)) : 0;
    sum *to = &a->next[at];
    if (to->ns < new.ns || (to->ns == new.ns && to->bytes <= new.bytes))
        return;
    *to = new;
    a->steps[(size_t)(a->n - 1) * SUMS + at] =
        (step){(uint16_t)from, (uint16_t)o->index};
}

static void add_node(assigner *a, uint32_t node, const option *list, uint32_t n)
{
    a->nodes[a->n++] = node;
    for (uint32_t i = 0; i < SUMS; i++)
        a->next[i].ns = INFINITY;
    for (uint32_t i = 0; i < SUMS; i++)
        for (uint32_t o = 0; o < n && isfinite(a->sums[i].ns); o++)
            add_sum(a, i, &list[o]);
    sum *old = a->sums;
    a->sums = a->next;
    a->next = old;
}

/* Chooses for the nodes whose bytes matter; new: [n_nodes]. */
static void fill(assigner *a, uint32_t *new)
{
    const planner_tables *t = a->s->tables;
    const uint32_t n_nodes = t->problem->n_nodes;
    planner_totals totals = planner_totals_of(t, a->options);
    const double *ns = a->ns;
    option list[MAX_OPTIONS];
    a->n = 0;
    a->limit =
        (double)t->problem->devices[a->device].memory - totals.bytes[a->device];
    for (uint32_t i = 0; i < SUMS; i++)
        a->sums[i] = (sum){0, i ? INFINITY : 0};
    for (uint32_t pass = 0; pass < 2; pass++, ns = a->ns)
        for (uint32_t i = 0; i < n_nodes; i++) {
            uint32_t n = list_options(a, i, ns, list);
            if (n > 1 && pass)
                add_node(a, i, list, n);
            else if (n > 1)
                a->limit += bytes_of(a->s, i, a->options[i], a->device);
            ns += t->classes[t->nodes[i].class].n_options;
        }
    uint32_t best = 0;
    for (uint32_t i = 1; i < SUMS; i++)
        if (a->sums[i].ns < a->sums[best].ns)
            best = i;
    memcpy(new, a->options, n_nodes * sizeof *new);
    for (uint32_t i = a->n; i-- && isfinite(a->sums[0].ns);) {
        const step *s = &a->steps[(size_t)i * SUMS + best];
        new[a->nodes[i]] = s->option;
        best = s->from;
    }
}

/* ------------------------------------------------------------------------ */

/* Another choice for one device's memory, if it is better. */
static bool assign_device(assigner *a, uint32_t *options, uint32_t *new,
                          planner_state *state, planner_value *value)
{
    const planner_tables *t = a->s->tables;
    planner_improve_all(a->trials, &a->block, options, a->ns);
    fill(a, new);
    planner_totals totals = planner_totals_of(t, new);
    planner_value found = planner_value_of(
        t->problem, &totals, planner_evaluate(a->s, new, state, NULL, NULL));
    if (!planner_value_better(found, *value))
        return false;
    *value = found;
    memcpy(options, new, t->problem->n_nodes * sizeof *new);
    return true;
}

clv_status planner_assign(planner_trials *trials, uint32_t *options,
                          planner_value *value)
{
    const planner_schedule *s = trials->s;
    const planner_tables *t = s->tables;
    const uint32_t n = t->problem->n_nodes;
    size_t n_options = 1;
    for (uint32_t i = 0; i < n; i++)
        n_options += t->classes[t->nodes[i].class].n_options;
    assigner a = {.s = s,
                  .trials = trials,
                  .options = options,
                  .ns = calloc(n_options, sizeof *a.ns),
                  .sums = calloc(SUMS, sizeof *a.sums),
                  .next = calloc(SUMS, sizeof *a.next),
                  .steps = calloc((size_t)n * SUMS, sizeof *a.steps),
                  .nodes = calloc(n, sizeof *a.nodes)};
    uint32_t *new = calloc(n, sizeof *new);
    planner_state *state = calloc(1, s->state_size);
    planner_block_find(t->problem, 2, &a.block);
    clv_status status =
        a.ns && a.sums && a.next && a.steps && a.nodes && new &&state
            ? CLV_OK
            : core_no_memory("to search for a plan");
    for (a.device = 0; a.device < s->n_devices && !status; a.device++) {
        bool better = is_limited(s, a.device);
        for (int i = 0; i < MAX_ROUNDS && better; i++)
            better = assign_device(&a, options, new, state, value);
    }
    free(a.ns);
    free(a.sums);
    free(a.next);
    free(a.steps);
    free(a.nodes);
    free(new);
    free(state);
    return status;
}
