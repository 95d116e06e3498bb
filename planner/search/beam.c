#include "beam.h"
#include "../../core/base/error.h"
#include "../../core/base/hash.h"

#include "evaluate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Weight of the mean of the devices' times, beside the latest one. */
#define MEAN_WEIGHT 0.1
/* Where devices work together, times the time of the most even division. */
#define EVEN 1.1
/* A schedule that might be kept. */
typedef struct child {
    double score;
    uint32_t parent, option;
} child;

typedef struct kept {
    planner_state *state;
    double price;
    uint64_t signature; /* equal: may be compared */
} kept;

typedef struct step {
    uint32_t parent, option;
} step;

typedef struct beam {
    const planner_schedule *s;
    const planner_beam_params *params;
    kept *now, *next; /* [width] */
    char *states;     /* of both, and one more */
    planner_state *trial;
    child *children; /* a heap, the best first */
    uint32_t n_now, n_next, n_children, max_children;
    step *steps;   /* [n_nodes * width] */
    double *ahead; /* [n_nodes * n_devices] time of the work ahead of a node,
                      whole on the device; INFINITY: it does not take it */
} beam;

/* ------------------------------------------------------------------------ */
/* Comparing                                                                 */

/* Of everything but times: schedules of one signature can be compared. */
static uint64_t signature_of(const planner_schedule *s,
                             const planner_state *state)
{
    const planner_tables *t = s->tables;
    const planner_live *live = planner_state_live(s, state);
    uint64_t hash = core_hash_mix(1, state->open);
    for (uint32_t i = 0; i < state->n_live; i++)
        hash = core_hash_mix(
            hash,
            t->layouts[t->nodes[live[i].node].first_layout + live[i].option]);
    for (uint32_t i = 0; i < state->n_slots; i++) {
        const planner_slot *slot = planner_state_slot(s, state, i);
        uint32_t bits =
            slot->step == planner_state_steps(s, state)[slot->device];
        for (uint32_t d = 0; d < s->n_devices; d++)
            bits |= (uint32_t)planner_state_covered(s, state, d, slot)
                    << (16 + d);
        hash = core_hash_mix(hash, (uint64_t)slot->memories << 32 | bits);
    }
    return hash;
}

static double later(double a, double b)
{
    return a > b ? a : b;
}

static double host_end(const planner_state *state)
{
    return state->n_busy ? state->busy[state->n_busy - 1].end : 0;
}

/* When half of each ring is free, and all of it. */
static bool rings_no_later(const planner_schedule *s, const planner_state *x,
                           const planner_state *y)
{
    for (uint32_t d = 0; d < s->n_devices; d++) {
        const double all = (double)s->tables->problem->devices[d].ring;
        for (double bytes = all; bytes > all / 4; bytes /= 2)
            if (planner_state_ring_free(s, x, d, bytes) >
                planner_state_ring_free(s, y, d, bytes))
                return false;
    }
    return true;
}

/* Whether a is later than b in nothing. Their signatures are equal. */
static bool no_later(const planner_schedule *s, const kept *a, const kept *b)
{
    const planner_state *x = a->state, *y = b->state;
    if (a->price > b->price || host_end(x) > host_end(y))
        return false;
    for (uint32_t d = 0; d < s->n_devices; d++)
        if (planner_state_free(s, x)[d] > planner_state_free(s, y)[d] ||
            planner_state_sent(s, x)[d] > planner_state_sent(s, y)[d])
            return false;
    for (uint32_t i = 0; i < x->n_slots; i++)
        if (planner_state_slot(s, x, i)->at > planner_state_slot(s, y, i)->at)
            return false;
    return !s->rings || rings_no_later(s, x, y);
}

/* When all devices are done if they divide the work ahead freely, each at the
 * speed at which it does the whole of it. */
static double filled(const planner_schedule *s, const planner_state *state,
                     const double *ahead)
{
    double begin[PLANNER_SOLVE_DEVICES], level = 0, rate = 0, done = 0;
    bool in[PLANNER_SOLVE_DEVICES] = {false};
    for (uint32_t d = 0; d < s->n_devices; d++)
        begin[d] = planner_state_free(s, state)[d];
    /* Devices join in the order in which they are free, while they are free
     * before the others are done. */
    for (;;) {
        uint32_t next = s->n_devices;
        for (uint32_t d = 0; d < s->n_devices; d++)
            if (!in[d] && isfinite(ahead[d]) &&
                (next == s->n_devices || begin[d] < begin[next]))
                next = d;
        if (next == s->n_devices || (rate > 0 && begin[next] >= level))
            return level;
        in[next] = true;
        if (ahead[next] <= 0)
            return begin[next];
        rate += 1 / ahead[next];
        done += begin[next] / ahead[next];
        level = (1 + done) / rate;
    }
}

static double score_of(const beam *b, const planner_state *state, uint32_t node,
                       double price)
{
    const planner_schedule *s = b->s;
    double last = 0, sum = 0;
    if (!b->params->look_ahead)
        return price + planner_state_makespan(s, state);
    for (uint32_t d = 0; d < s->n_devices; d++) {
        double at = planner_state_free(s, state)[d];
        last = later(last, at);
        sum += at;
    }
    last =
        later(last, filled(s, state, b->ahead + (size_t)node * s->n_devices));
    return price + last + MEAN_WEIGHT * sum / s->n_devices;
}

/* ------------------------------------------------------------------------ */
/* The heap of children                                                      */

/* Equal ones in the order in which they were made. */
static bool before(const child *a, const child *b)
{
    if (a->score < b->score || b->score < a->score)
        return a->score < b->score;
    return a->parent < b->parent ||
           (a->parent == b->parent && a->option < b->option);
}

static void sift_down(child *heap, uint32_t n, uint32_t at)
{
    child moved = heap[at];
    for (;;) {
        uint32_t below = 2 * at + 1;
        if (below >= n)
            break;
        if (below + 1 < n && before(&heap[below + 1], &heap[below]))
            below++;
        if (!before(&heap[below], &moved))
            break;
        heap[at] = heap[below];
        at = below;
    }
    heap[at] = moved;
}

static child pop(beam *b)
{
    child best = b->children[0];
    b->children[0] = b->children[--b->n_children];
    if (b->n_children)
        sift_down(b->children, b->n_children, 0);
    return best;
}

/* ------------------------------------------------------------------------ */
/* A generation                                                              */

static double price_of(const beam *b, uint32_t node, uint32_t option)
{
    return planner_price(b->s->tables, b->params->prices, node, option);
}

/* The parent with the node, in b->trial. */
static void extend(beam *b, uint32_t node, const child *c)
{
    const planner_state *parent = b->now[c->parent].state;
    memcpy(b->trial, parent, planner_state_used(b->s, parent));
    planner_state_add(b->s, b->trial, node, c->option, NULL, NULL);
}

static clv_status note_child(beam *b, const child *c)
{
    if (b->n_children == b->max_children) {
        uint32_t max = b->max_children ? b->max_children * 2 : 1024;
        child *grown = reallocarray(b->children, max, sizeof *grown);
        if (!grown)
            return core_no_memory("to search for a plan");
        b->children = grown;
        b->max_children = max;
    }
    b->children[b->n_children++] = *c;
    return CLV_OK;
}

static clv_status try_option(beam *b, uint32_t node, uint32_t parent,
                             uint32_t option)
{
    child c = {.parent = parent, .option = option};
    extend(b, node, &c);
    c.score = score_of(b, b->trial, node,
                       b->now[parent].price + price_of(b, node, option));
    return note_child(b, &c);
}

/* Of options with several devices the shortest; INFINITY: there is none. */
static double shortest_shared(const planner_tables *t, uint32_t node)
{
    const planner_class *class = &t->classes[t->nodes[node].class];
    double ns = INFINITY;
    for (uint32_t o = 0; o < class->n_options; o++) {
        const planner_parts *parts = planner_tables_parts(t, node, o);
        if (parts->shared && parts->longest_ns < ns)
            ns = parts->longest_ns;
    }
    return ns;
}

static clv_status make_children(beam *b, uint32_t node)
{
    const planner_tables *t = b->s->tables;
    const planner_class *class = &t->classes[t->nodes[node].class];
    const double shortest =
        b->params->together ? shortest_shared(t, node) : INFINITY;
    b->n_children = 0;
    for (uint32_t i = 0; i < b->n_now; i++)
        for (uint32_t o = 0; o < class->n_options; o++) {
            const planner_parts *parts = planner_tables_parts(t, node, o);
            if (isfinite(shortest)
                    ? parts->shared && parts->longest_ns <= EVEN * shortest
                    : b->params->replicas || !parts->replicated)
                CLV_TRY(try_option(b, node, i, o));
        }
    return CLV_OK;
}

/* Takes the best children, until there are enough. */
static void select_children(beam *b, uint32_t node)
{
    b->n_next = 0;
    for (uint32_t i = b->n_children / 2; i-- > 0;)
        sift_down(b->children, b->n_children, i);
    while (b->n_children && b->n_next < b->params->width) {
        child c = pop(b);
        uint32_t i = 0;
        extend(b, node, &c);
        kept k = {.state = b->trial,
                  .price = b->now[c.parent].price + price_of(b, node, c.option),
                  .signature = signature_of(b->s, b->trial)};
        while (i < b->n_next && (b->next[i].signature != k.signature ||
                                 !no_later(b->s, &b->next[i], &k)))
            i++;
        if (i < b->n_next)
            continue;
        b->trial = b->next[i].state;
        b->next[i] = k;
        b->steps[(size_t)node * b->params->width + i] =
            (step){c.parent, c.option};
        b->n_next++;
    }
    kept *swap = b->now;
    b->now = b->next;
    b->next = swap;
    b->n_now = b->n_next;
}

/* ------------------------------------------------------------------------ */

static double whole_time(const planner_tables *t, uint32_t node,
                         uint32_t device)
{
    const planner_class *class = &t->classes[t->nodes[node].class];
    double ns = INFINITY;
    for (uint32_t o = 0; o < class->n_options; o++) {
        const planner_parts *parts = &t->options[class->first_parts + o];
        const planner_part_need *part = &t->parts[parts->first];
        if (parts->n == 1 && part->device == device && part->ns < ns)
            ns = part->ns;
    }
    return ns;
}

/* Nodes in a row that need nothing of each other are a group. The work ahead of
 * a node is that of the later nodes of its group. */
static void look_ahead(beam *b)
{
    const planner_tables *t = b->s->tables;
    uint32_t n = t->problem->n_nodes, n_devices = b->s->n_devices;
    for (uint32_t first = 0, end; first < n; first = end) {
        bool needs = false;
        for (end = first + 1; end < n && !needs; end += !needs)
            for (uint32_t k = 0; k < t->nodes[end].n_deps; k++)
                needs |= t->nodes[end].deps[k] >= first;
        for (uint32_t d = 0; d < n_devices; d++) {
            b->ahead[(size_t)(end - 1) * n_devices + d] = 0;
            for (uint32_t i = end - 1; i-- > first;)
                b->ahead[(size_t)i * n_devices + d] =
                    b->ahead[(size_t)(i + 1) * n_devices + d] +
                    whole_time(t, i + 1, d);
        }
    }
}

static clv_status make(beam *b)
{
    uint32_t width = b->params->width;
    size_t size = b->s->state_size;
    b->now = calloc(2 * (size_t)width, sizeof *b->now);
    b->states = calloc(2 * (size_t)width + 1, size);
    b->steps = calloc((size_t)b->s->tables->problem->n_nodes * width,
                      sizeof *b->steps);
    b->ahead = calloc((size_t)b->s->tables->problem->n_nodes * b->s->n_devices,
                      sizeof *b->ahead);
    if (!b->now || !b->states || !b->steps || !b->ahead)
        return core_no_memory("to search for a plan");
    for (uint32_t i = 0; i < 2 * width; i++)
        b->now[i].state = (planner_state *)(b->states + i * size);
    b->trial = (planner_state *)(b->states + 2 * width * size);
    b->next = b->now + width;
    planner_state_begin(b->s, b->now[0].state);
    look_ahead(b);
    b->n_now = 1;
    return CLV_OK;
}

static void trace_back(const beam *b, uint32_t *options)
{
    uint32_t best = 0;
    double value = 0;
    for (uint32_t i = 0; i < b->n_now; i++) {
        double v =
            b->now[i].price + planner_state_makespan(b->s, b->now[i].state);
        if (i && v >= value)
            continue;
        best = i;
        value = v;
    }
    for (uint32_t n = b->s->tables->problem->n_nodes; n-- > 0;) {
        const step *s = &b->steps[(size_t)n * b->params->width + best];
        options[n] = s->option;
        best = s->parent;
    }
}

clv_status planner_beam_search(const planner_schedule *s,
                               const planner_beam_params *params,
                               uint32_t *options)
{
    beam b = {.s = s, .params = params};
    clv_status status = make(&b);
    kept *first = b.now;
    for (uint32_t i = 0; i < s->tables->problem->n_nodes && !status; i++) {
        status = make_children(&b, i);
        if (!status)
            select_children(&b, i);
    }
    if (!status)
        trace_back(&b, options);
    free(b.ahead);
    free(b.steps);
    free(b.children);
    free(b.states);
    free(first);
    return status;
}
