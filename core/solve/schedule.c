#include "schedule.h"

#include <string.h>

/* What a piece needs. */
typedef struct needs {
    uint32_t slots[CORE_SOLVE_DEPS * CORE_SOLVE_PIECES + CORE_SOLVE_PIECES];
    uint32_t n;   /* of other devices, not yet waited for */
    bool renamed; /* part of what the device's open step made */
} needs;

static size_t round_up(size_t size)
{
    return (size + 7) / 8 * 8;
}

void core_schedule_init(core_schedule *s, const core_tables *tables)
{
    uint32_t n = tables->problem->n_devices;
    *s = (core_schedule){.tables = tables, .n_devices = n};
    s->free_at = round_up(sizeof(core_state));
    s->steps_at = s->free_at + n * sizeof(double);
    s->order_at = s->steps_at + n * sizeof(uint32_t);
    s->last_at = s->order_at + n * sizeof(uint32_t);
    s->clock_at = s->last_at + n * sizeof(uint32_t);
    s->live_at = s->clock_at + (size_t)n * n * sizeof(uint32_t);
    s->slots_at =
        round_up(s->live_at + tables->most_live * sizeof(core_live));
    s->slot_size = round_up(sizeof(core_slot) + n * sizeof(uint32_t));
    s->state_size = s->slots_at + tables->most_slots * s->slot_size;
}

void core_state_begin(const core_schedule *s, core_state *state)
{
    memset(state, 0, s->slots_at);
    for (uint32_t d = 0; d < s->n_devices; d++)
        core_state_last(s, state)[d] = CORE_NO_SLOT;
}

/* ------------------------------------------------------------------------ */
/* Needs                                                                     */

/* A piece on the device needs something of the slot; false: it was assumed that
 * no other device does. */
static bool need_slot(const core_schedule *s, core_state *state,
                      uint32_t device, uint32_t index, bool exact, needs *out)
{
    core_slot *slot = core_state_slot(s, state, index);
    uint32_t bit = 1u << slot->device;
    bool filling = (state->open & bit) &&
                   slot->step == core_state_steps(s, state)[slot->device];
    if (slot->device == device) {
        out->renamed |= filling && !exact;
        return true;
    }
    if (slot->flags & CORE_SLOT_JOINED)
        return false;
    slot->flags |= CORE_SLOT_USED;
    if (filling)
        state->open &= ~bit;
    if (!core_state_covered(s, state, device, slot))
        out->slots[out->n++] = index;
    return true;
}

static bool find_needs(const core_schedule *s, core_state *state,
                       const core_step_node *node, const core_part_need *part,
                       needs *out)
{
    const core_live *live = core_state_live(s, state);
    out->n = 0;
    out->renamed = false;
    for (uint32_t k = 0; k < node->n_deps; k++) {
        core_live dep = live[node->live[k]];
        core_overlap o = core_tables_overlap(node, part, k, dep.option);
        for (; o.some; o.some &= o.some - 1) {
            uint32_t i = (uint32_t)__builtin_ctz(o.some);
            if (!need_slot(s, state, part->device, dep.first_slot + i,
                           o.exact >> i & 1, out))
                return false;
        }
    }
    return true;
}

/* first: slot of the option's first piece. */
static bool find_partial(const core_schedule *s, core_state *state,
                         const core_part_need *parts, uint32_t joining,
                         uint32_t first, needs *out)
{
    for (uint32_t i = 0; i < joining; i++)
        if (parts[i].partial &&
            !need_slot(s, state, parts[joining].device, first + i, true, out))
            return false;
    return true;
}

/* ------------------------------------------------------------------------ */
/* Steps                                                                     */

static void join_clock(const core_schedule *s, uint32_t *clock,
                       const core_slot *slot)
{
    for (uint32_t d = 0; d < s->n_devices; d++)
        if (slot->clock[d] > clock[d])
            clock[d] = slot->clock[d];
    if (slot->step > clock[slot->device])
        clock[slot->device] = slot->step;
}

/* Waits from the latest step back, as a plan lists them; answers when the
 * device has seen all that it waits for by itself. */
static double wait_for(const core_schedule *s, core_state *state,
                       uint32_t device, needs *n)
{
    const core_solve_device *devices = s->tables->problem->devices;
    uint32_t *clock = core_state_clock(s, state, device);
    double ready = 0;
    while (n->n) {
        uint32_t latest = 0;
        for (uint32_t i = 1; i < n->n; i++)
            if (core_state_slot(s, state, n->slots[i])->order >
                core_state_slot(s, state, n->slots[latest])->order)
                latest = i;
        const core_slot *slot = core_state_slot(s, state, n->slots[latest]);
        n->slots[latest] = n->slots[--n->n];
        if (clock[slot->device] >= slot->step)
            continue;
        join_clock(s, clock, slot);
        if (!devices[device].host_waits)
            ready = slot->at > ready ? slot->at : ready;
        else if (slot->at > state->host)
            state->host = slot->at + devices[slot->device].wait_ns;
    }
    return ready;
}

/* Begins a step; answers when its first piece can. */
static double begin_step(const core_schedule *s, core_state *state,
                         uint32_t device, needs *n)
{
    const core_solve_device *dev = &s->tables->problem->devices[device];
    double ready = wait_for(s, state, device, n);
    double begin = core_state_free(s, state)[device];
    state->host += begin > state->host ? dev->submit_ns : dev->submit_idle_ns;
    core_state_steps(s, state)[device]++;
    core_state_order(s, state)[device] = ++state->n_steps;
    state->open |= 1u << device;
    begin = begin > state->host ? begin : state->host;
    return (begin > ready ? begin : ready) + dev->dispatch_ns;
}

/* Whether the piece joins the step that its device is filling. */
static bool joins_step(const core_schedule *s, core_state *state,
                       uint32_t device, const needs *n, core_adding *adding)
{
    if (!(state->open >> device & 1) || n->n || n->renamed)
        return false;
    uint32_t index = core_state_last(s, state)[device];
    if (index == CORE_NO_SLOT)
        return true;
    core_slot *last = core_state_slot(s, state, index);
    if (!(last->flags & CORE_SLOT_MAYBE))
        return true;
    bool end = adding->n_questions < 32 &&
               (adding->assumed >> adding->n_questions & 1);
    adding->n_questions++;
    last->flags |= end ? CORE_SLOT_ENDED : CORE_SLOT_JOINED;
    return !end;
}

static double place(const core_schedule *s, core_state *state,
                    const core_part_need *part, needs *n, core_adding *adding)
{
    uint32_t d = part->device;
    double *free_at = &core_state_free(s, state)[d];
    double begin = joins_step(s, state, d, n, adding)
                       ? *free_at
                       : begin_step(s, state, d, n);
    *free_at = begin + part->ns;
    return begin;
}

static void add_slot(const core_schedule *s, core_state *state,
                     const core_part_need *part, bool ends, bool maybe)
{
    uint32_t d = part->device, index = state->n_slots++;
    core_slot *slot = core_state_slot(s, state, index);
    slot->at = core_state_free(s, state)[d];
    slot->step = core_state_steps(s, state)[d];
    slot->order = core_state_order(s, state)[d];
    slot->device = d;
    slot->flags = maybe ? CORE_SLOT_MAYBE : 0;
    memcpy(slot->clock, core_state_clock(s, state, d),
           s->n_devices * sizeof *slot->clock);
    core_state_last(s, state)[d] = index;
    if (ends)
        state->open &= ~(1u << d);
}

/* ------------------------------------------------------------------------ */
/* Nodes                                                                     */

/* Forgets a live node. False if steps ended for the sake of nobody. */
static bool retire(const core_schedule *s, core_state *state, uint32_t live)
{
    core_live *lives = core_state_live(s, state);
    uint32_t first = lives[live].first_slot;
    uint32_t end = live + 1 < state->n_live ? lives[live + 1].first_slot
                                            : state->n_slots;
    for (uint32_t i = first; i < end; i++) {
        const core_slot *slot = core_state_slot(s, state, i);
        if ((slot->flags & (CORE_SLOT_ENDED | CORE_SLOT_USED)) ==
            CORE_SLOT_ENDED)
            return false;
    }
    for (uint32_t d = 0; d < s->n_devices; d++) {
        uint32_t *last = &core_state_last(s, state)[d];
        if (*last == CORE_NO_SLOT || *last < first)
            continue;
        *last = *last < end ? CORE_NO_SLOT : *last - (end - first);
    }
    char *slots = (char *)core_state_slot(s, state, 0);
    memmove(slots + first * s->slot_size, slots + end * s->slot_size,
            (state->n_slots - end) * s->slot_size);
    state->n_slots -= end - first;
    state->n_live--;
    for (uint32_t i = live; i < state->n_live; i++) {
        lives[i] = lives[i + 1];
        lives[i].first_slot -= (uint16_t)(end - first);
    }
    return true;
}

bool core_state_add(const core_schedule *s, core_state *state, uint32_t index,
                    uint32_t option, core_adding *adding)
{
    const core_tables *t = s->tables;
    const core_step_node *node = &t->nodes[index];
    const core_parts *parts = core_tables_parts(t, index, option);
    const core_part_need *part = t->parts + parts->first;
    uint32_t first = state->n_slots;
    needs n;
    adding->n_questions = 0;
    for (uint32_t i = 0; i < parts->n; i++) {
        if (!find_needs(s, state, node, &part[i], &n) ||
            (part[i].joins && !find_partial(s, state, part, i, first, &n)))
            return false;
        double begin = place(s, state, &part[i], &n, adding);
        add_slot(s, state, &part[i], adding->ends >> i & 1,
                 adding->maybe >> i & 1);
        if (adding->begin)
            adding->begin[i] = begin;
        if (adding->end)
            adding->end[i] = core_state_free(s, state)[part[i].device];
    }
    core_state_live(s, state)[state->n_live++] =
        (core_live){index, (uint16_t)option, (uint16_t)first};
    for (uint32_t r = 0; r < node->n_retired; r++)
        if (!retire(s, state, t->retired[node->first_retired + r]))
            return false;
    return true;
}

double core_state_makespan(const core_schedule *s, const core_state *state)
{
    const core_solve_device *devices = s->tables->problem->devices;
    double host = state->host;
    for (uint32_t d = 0; d < s->n_devices; d++) {
        double end = core_state_free(s, state)[d];
        if (core_state_steps(s, state)[d] && end > host)
            host = end + devices[d].wait_ns;
    }
    return host;
}
