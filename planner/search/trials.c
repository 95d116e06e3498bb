#include "trials.h"
#include "../../core/base/error.h"
#include "alike.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Where copies of weights run on at their own pace, two schedules may never run
 * on alike. Then the rest is told from how late its two parts are at the next
 * point behind the change: the devices with all that is there, and the queues
 * of copies. The makespan is the larger of what follows from each, as nothing
 * but waiting for the later of two things joins them. */
#define STRIDE 64 /* nodes between points */
struct planner_point {
    bool known;
    double work;   /* makespan if no queue of copies delayed what follows, */
    double copies; /* and if nothing else did */
};

/* What came of trying an option. */
struct planner_outcome {
    uint32_t until; /* it depends on options before this node only; 0: it was
                       not tried */
    bool alike;     /* from there on, the schedules run on alike */
    double shift;   /* of what is there; after the last node: the makespan */
    double copies;  /* and of the queues of copies, if they are not alike */
};

static planner_state *state_at(const planner_trials *t, uint32_t node)
{
    return (planner_state *)(t->states + node * t->s->state_size);
}

static uint32_t count_nodes(const planner_trials *t)
{
    return t->s->tables->problem->n_nodes;
}

/* ------------------------------------------------------------------------ */
/* Points                                                                    */

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
static double rest_without(planner_trials *t, uint32_t node, bool copies)
{
    const planner_schedule *s = t->s;
    memcpy(t->rest, state_at(t, node),
           planner_state_used(s, state_at(t, node)));
    advance(s, t->rest, copies, t->ns);
    for (uint32_t i = node; i < count_nodes(t); i++)
        planner_state_add(s, t->rest, i, t->options[i], NULL, NULL);
    return planner_state_makespan(s, t->rest);
}

static const planner_point *point_at(planner_trials *t, uint32_t node)
{
    planner_point *at = &t->points[node / STRIDE];
    if (!at->known)
        *at = (planner_point){true, rest_without(t, node, true),
                              rest_without(t, node, false)};
    return at;
}

/* How much later the queues of copies are in the trial before the node. */
static double copies_later(const planner_trials *t, uint32_t node)
{
    const planner_schedule *s = t->s;
    double later = -INFINITY;
    for (uint32_t d = 0; d < s->n_devices; d++)
        if (copies_weights(s, d))
            later =
                fmax(later, planner_state_free(s, t->trial)[d] -
                                planner_state_free(s, state_at(t, node))[d]);
    return later;
}

/* ------------------------------------------------------------------------ */
/* Trying                                                                    */

static void begin_trial(planner_trials *t, uint32_t node, uint32_t option)
{
    memcpy(t->trial, state_at(t, node),
           planner_state_used(t->s, state_at(t, node)));
    planner_state_add(t->s, t->trial, node, option, NULL, NULL);
}

static planner_outcome try_option(planner_trials *t, uint32_t node,
                                  uint32_t option)
{
    const planner_schedule *s = t->s;
    const uint32_t n = count_nodes(t);
    begin_trial(t, node, option);
    for (uint32_t i = node + 1; i < n; i++) {
        double shift = INFINITY;
        if (planner_states_alike(s, i, t->trial, state_at(t, i), &shift))
            return (planner_outcome){i, true, shift, 0};
        if (t->points && i % STRIDE == 0 && i >= node + STRIDE &&
            isfinite(shift))
            return (planner_outcome){i, false, shift, copies_later(t, i)};
        planner_state_add(s, t->trial, i, t->options[i], NULL, NULL);
    }
    return (planner_outcome){n, false, planner_state_makespan(s, t->trial), 0};
}

static double makespan_of(planner_trials *t, const planner_outcome *outcome)
{
    if (outcome->alike)
        return t->ns + outcome->shift;
    if (outcome->until == count_nodes(t))
        return outcome->shift;
    const planner_point *at = point_at(t, outcome->until);
    return fmax(at->work + outcome->shift, at->copies + outcome->copies);
}

double planner_trials_ns(planner_trials *t, uint32_t node, uint32_t option)
{
    planner_outcome *outcome = &t->outcomes[t->first[node] + option];
    if (option == t->options[node])
        return t->ns;
    if (!outcome->until)
        *outcome = try_option(t, node, option);
    return makespan_of(t, outcome);
}

double planner_trials_exact(planner_trials *t, uint32_t node, uint32_t option)
{
    begin_trial(t, node, option);
    for (uint32_t i = node + 1; i < count_nodes(t); i++)
        planner_state_add(t->s, t->trial, i, t->options[i], NULL, NULL);
    return planner_state_makespan(t->s, t->trial);
}

/* ------------------------------------------------------------------------ */
/* The choice                                                                */

/* The node has another option. */
static void forget(planner_trials *t, uint32_t node)
{
    for (uint32_t i = 0; i < t->n_outcomes; i++)
        if (t->outcomes[i].until > node)
            t->outcomes[i].until = 0;
    for (uint32_t i = 0; t->points && i * STRIDE < count_nodes(t); i++)
        t->points[i].known = false;
}

void planner_trials_set(planner_trials *t, const uint32_t *options)
{
    const planner_schedule *s = t->s;
    const uint32_t n = count_nodes(t);
    uint32_t first = 0;
    while (t->ns >= 0 && first < n && t->options[first] == options[first])
        first++;
    if (first == n)
        return;
    forget(t, first);
    memcpy(t->options, options, n * sizeof *options);
    if (!first)
        planner_state_begin(s, state_at(t, 0));
    for (uint32_t i = first; i < n; i++) {
        memcpy(state_at(t, i + 1), state_at(t, i),
               planner_state_used(s, state_at(t, i)));
        planner_state_add(s, state_at(t, i + 1), i, options[i], NULL, NULL);
    }
    t->ns = planner_state_makespan(s, state_at(t, n));
}

clv_status planner_trials_make(const planner_schedule *s, planner_trials *out)
{
    const planner_tables *tables = s->tables;
    const uint32_t n = tables->problem->n_nodes;
    *out = (planner_trials){.s = s,
                            .ns = -1,
                            .options = calloc(n, sizeof *out->options),
                            .first = calloc(n, sizeof *out->first),
                            .states = calloc((size_t)n + 3, s->state_size)};
    for (uint32_t i = 0; i < n && out->first; i++) {
        out->first[i] = out->n_outcomes;
        out->n_outcomes += tables->classes[tables->nodes[i].class].n_options;
    }
    out->outcomes = calloc(out->n_outcomes + 1u, sizeof *out->outcomes);
    if (s->rings)
        out->points = calloc(n / STRIDE + 1, sizeof *out->points);
    if (!out->options || !out->first || !out->states || !out->outcomes ||
        (s->rings && !out->points))
        return core_no_memory("to search for a plan");
    out->trial = state_at(out, n + 1);
    out->rest = state_at(out, n + 2);
    return CLV_OK;
}

void planner_trials_finish(planner_trials *t)
{
    free(t->options);
    free(t->first);
    free(t->states);
    free(t->points);
    free(t->outcomes);
    *t = (planner_trials){0};
}
