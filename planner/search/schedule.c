#include "schedule.h"

#include <math.h>
#include <string.h>

/* What a piece needs. */
typedef struct needs {
    uint32_t slots[PLANNER_SOLVE_DEPS * PLANNER_SOLVE_PIECES +
                   PLANNER_SOLVE_PIECES + 1];
    uint32_t n;   /* of other devices, not yet waited for */
    bool renamed; /* part of what the device's open step made */
} needs;

static size_t round_up(size_t size)
{
    return (size + 7) / 8 * 8;
}

void planner_schedule_init(planner_schedule *s, const planner_tables *tables)
{
    uint32_t n = tables->problem->n_devices;
    *s = (planner_schedule){.tables = tables, .n_devices = n};
    s->free_at = round_up(sizeof(planner_state));
    s->sent_at = s->free_at + n * sizeof(double);
    for (uint32_t d = 0; d < n; d++)
        s->rings |= tables->problem->devices[d].ring != 0;
    s->rings_at = s->sent_at + n * sizeof(double);
    s->steps_at = s->rings_at + (s->rings ? n * sizeof(planner_ring) : 0);
    s->order_at = s->steps_at + n * sizeof(uint32_t);
    s->clock_at = s->order_at + n * sizeof(uint32_t);
    s->live_at = s->clock_at + (size_t)n * n * sizeof(uint32_t);
    s->slots_at =
        round_up(s->live_at + tables->most_live * sizeof(planner_live));
    s->slot_size = round_up(sizeof(planner_slot) + n * sizeof(uint32_t));
    s->state_size = s->slots_at + tables->most_slots * s->slot_size;
    for (uint32_t d = 0; d < n; d++)
        s->several |= tables->problem->devices[d].memory_index != 0;
}

void planner_state_begin(const planner_schedule *s, planner_state *state)
{
    memset(state, 0, s->slots_at);
}

/* ------------------------------------------------------------------------ */
/* Needs                                                                     */

/* The slot's step is its device's latest one, and goes on. */
static bool filling(const planner_schedule *s, const planner_state *state,
                    const planner_slot *slot)
{
    return (state->open >> slot->device & 1) &&
           slot->step == planner_state_steps(s, state)[slot->device];
}

/* A piece on the device needs something of the slot. */
static void need_slot(const planner_schedule *s, planner_state *state,
                      uint32_t device, uint32_t index, bool exact, needs *out)
{
    const planner_slot *slot = planner_state_slot(s, state, index);
    if (slot->device == device)
        out->renamed |= !exact && filling(s, state, slot);
    else if (!planner_state_covered(s, state, device, slot))
        out->slots[out->n++] = index;
}

static void find_needs(const planner_schedule *s, planner_state *state,
                       const planner_step_node *node,
                       const planner_part_need *part, needs *out)
{
    const planner_live *live = planner_state_live(s, state);
    out->n = 0;
    out->renamed = false;
    for (uint32_t k = 0; k < node->n_deps; k++) {
        planner_live dep = live[node->live[k]];
        const planner_overlap *o =
            planner_tables_overlap(node, part, k, dep.option);
        for (uint32_t some = o->some; some; some &= some - 1) {
            uint32_t i = (uint32_t)__builtin_ctz(some);
            need_slot(s, state, part->device, dep.first_slot + i,
                      o->exact >> i & 1, out);
        }
    }
}

/* first: slot of the option's first piece. */
static void find_partial(const planner_schedule *s, planner_state *state,
                         const planner_part_need *parts, uint32_t joining,
                         uint32_t first, needs *out)
{
    for (uint32_t i = 0; i < joining; i++)
        if (parts[i].partial)
            need_slot(s, state, parts[joining].device, first + i, true, out);
}

/* Ends the steps that the part's device waits for because of it. */
static void end_steps_for(const planner_schedule *s, planner_state *state,
                          const planner_step_node *node,
                          const planner_part_need *part)
{
    const planner_live *live = planner_state_live(s, state);
    for (uint32_t k = 0; k < node->n_deps; k++) {
        planner_live dep = live[node->live[k]];
        uint32_t some = planner_tables_overlap(node, part, k, dep.option)->some;
        for (; some; some &= some - 1) {
            const planner_slot *slot = planner_state_slot(
                s, state, dep.first_slot + (uint32_t)__builtin_ctz(some));
            if (slot->device != part->device && filling(s, state, slot) &&
                !planner_state_covered(s, state, part->device, slot))
                state->open &= ~(1u << slot->device);
        }
    }
}

/* Ends the steps that a device waits for because of these pieces. */
static void end_steps(const planner_schedule *s, planner_state *state,
                      const planner_step_node *node,
                      const planner_part_need *parts, uint32_t n_parts)
{
    for (uint32_t i = 0; i < n_parts; i++)
        if (state->open & ~(1u << parts[i].device))
            end_steps_for(s, state, node, &parts[i]);
}

/* ------------------------------------------------------------------------ */
/* The host                                                                  */

/* The first time from `from` on when the host has nothing to do for so long. */
static double host_free(const planner_state *state, double from, double ns)
{
    for (uint32_t i = 0; i < state->n_busy; i++) {
        if (state->busy[i].end <= from)
            continue;
        if (state->busy[i].begin >= from + ns)
            break;
        from = state->busy[i].end;
    }
    return from;
}

/* The earliest times are forgotten where there is no room. */
static void host_works(planner_state *state, double begin, double end)
{
    uint32_t at = state->n_busy;
    while (at && state->busy[at - 1].begin > begin)
        at--;
    if (at && state->busy[at - 1].end >= begin) {
        if (state->busy[at - 1].end < end)
            state->busy[at - 1].end = end;
        return;
    }
    if (state->n_busy == PLANNER_BUSY) {
        if (!at)
            return;
        at--;
        for (uint32_t i = 0; i < at; i++)
            state->busy[i] = state->busy[i + 1];
    } else {
        for (uint32_t i = state->n_busy++; i > at; i--)
            state->busy[i] = state->busy[i - 1];
    }
    state->busy[at] = (planner_busy){begin, end};
}

/* ------------------------------------------------------------------------ */
/* Steps                                                                     */

static void join_clock(const planner_schedule *s, uint32_t *clock,
                       const planner_slot *slot)
{
    for (uint32_t d = 0; d < s->n_devices; d++)
        if (slot->clock[d] > clock[d])
            clock[d] = slot->clock[d];
    if (slot->step > clock[slot->device])
        clock[slot->device] = slot->step;
}

/* Waits from the latest step back, as a plan lists them. *host: when the host
 * comes to the step, then when it is through with waiting; answers when the
 * device has seen all that it waits for by itself. */
static double wait_for(const planner_schedule *s, planner_state *state,
                       uint32_t device, needs *n, double *host)
{
    const planner_solve_device *devices = s->tables->problem->devices;
    uint32_t *clock = planner_state_clock(s, state, device);
    double ready = 0;
    while (n->n) {
        uint32_t latest = 0;
        for (uint32_t i = 1; i < n->n; i++)
            if (planner_state_slot(s, state, n->slots[i])->order >
                planner_state_slot(s, state, n->slots[latest])->order)
                latest = i;
        const planner_slot *slot =
            planner_state_slot(s, state, n->slots[latest]);
        n->slots[latest] = n->slots[--n->n];
        if (clock[slot->device] >= slot->step)
            continue;
        join_clock(s, clock, slot);
        if (!devices[device].host_waits)
            ready = slot->at > ready ? slot->at : ready;
        else if (slot->at > *host)
            *host = slot->at + devices[slot->device].wait_ns;
    }
    return ready;
}

/* Begins a step; answers when its first piece can. */
static double begin_step(const planner_schedule *s, planner_state *state,
                         uint32_t device, needs *n)
{
    const planner_solve_device *dev = &s->tables->problem->devices[device];
    double *sent = &planner_state_sent(s, state)[device];
    double host = host_free(state, *sent, dev->submit_ns);
    double ready = wait_for(s, state, device, n, &host);
    double begin = planner_state_free(s, state)[device];
    double ns = begin > host ? dev->submit_ns : dev->submit_idle_ns;
    host = host_free(state, host, ns);
    *sent = host + ns;
    host_works(state, host, *sent);
    planner_state_steps(s, state)[device]++;
    planner_state_order(s, state)[device] = ++state->n_steps;
    state->open |= 1u << device;
    begin = begin > *sent ? begin : *sent;
    return (begin > ready ? begin : ready) + dev->dispatch_ns;
}

void planner_state_put_off(const planner_schedule *s, planner_state *state,
                           uint32_t device, double end)
{
    const uint32_t step = planner_state_steps(s, state)[device];
    for (uint32_t i = state->n_slots; i--;) {
        planner_slot *slot = planner_state_slot(s, state, i);
        if (slot->device != device)
            continue;
        if (slot->step != step) /* those before it are of earlier steps too */
            return;
        slot->at = end;
    }
}

/* ------------------------------------------------------------------------ */
/* Rings                                                                     */

double planner_state_ring_free(const planner_schedule *s,
                               const planner_state *state, uint32_t device,
                               double bytes)
{
    const planner_ring *ring = planner_state_ring(s, state, device);
    double room = (double)s->tables->problem->devices[device].ring, at = 0;
    for (uint32_t i = 0; i < ring->n; i++)
        room -= ring->bytes[i];
    for (uint32_t i = 0; i < ring->n && room < bytes; i++) {
        room += ring->bytes[i];
        at = ring->end[i];
    }
    return at;
}

static void forget_first(planner_ring *ring)
{
    ring->n--;
    memmove(ring->bytes, ring->bytes + 1, ring->n * sizeof *ring->bytes);
    memmove(ring->end, ring->end + 1, ring->n * sizeof *ring->end);
}

/* The two neighbours with the fewest bytes become one. */
static void join_two(planner_ring *ring)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i + 1 < ring->n; i++)
        if (ring->bytes[i] + ring->bytes[i + 1] <
            ring->bytes[best] + ring->bytes[best + 1])
            best = i;
    ring->bytes[best + 1] += ring->bytes[best];
    ring->n--;
    for (uint32_t i = best; i < ring->n; i++) {
        ring->bytes[i] = ring->bytes[i + 1];
        ring->end[i] = ring->end[i + 1];
    }
}

/* The copy takes the place of what was there; what needs it ends then. */
static void fill_ring(const planner_schedule *s, planner_state *state,
                      const planner_part_need *copy, double end)
{
    planner_ring *ring = planner_state_ring(s, state, copy->device);
    double room = (double)s->tables->problem->devices[copy->device].ring;
    for (uint32_t i = 0; i < ring->n; i++)
        room -= ring->bytes[i];
    for (; ring->n && room < copy->ring_bytes; forget_first(ring))
        room += *ring->bytes;
    if (ring->n == PLANNER_RING)
        join_two(ring);
    ring->bytes[ring->n] = copy->ring_bytes;
    ring->end[ring->n++] = end;
}

/* ------------------------------------------------------------------------ */

/* copies: time before the part; after: behind it. */
static double place(const planner_schedule *s, planner_state *state,
                    const planner_part_need *part, needs *n, double copies,
                    double after)
{
    uint32_t d = part->device;
    const double room =
        part->ring_bytes > 0
            ? planner_state_ring_free(s, state, d, part->ring_bytes)
            : 0;
    bool joins = (state->open >> d & 1) && !n->n && !n->renamed && copies <= 0;
    double *free_at = &planner_state_free(s, state)[d];
    double begin = joins ? *free_at : begin_step(s, state, d, n) + copies;
    begin = begin > room ? begin : room;
    *free_at = begin + part->ns + after;
    if (joins)
        planner_state_put_off(s, state, d, *free_at);
    return begin;
}

static void add_slot(const planner_schedule *s, planner_state *state,
                     const planner_part_need *part, bool ends)
{
    uint32_t d = part->device;
    planner_slot *slot = planner_state_slot(s, state, state->n_slots++);
    slot->at = planner_state_free(s, state)[d];
    slot->step = planner_state_steps(s, state)[d];
    slot->order = planner_state_order(s, state)[d];
    slot->device = d;
    slot->memories = 1u << s->tables->problem->devices[d].memory_index;
    const uint32_t *clock = planner_state_clock(s, state, d);
    for (uint32_t i = 0; i < s->n_devices; i++)
        slot->clock[i] = clock[i];
    if (ends)
        state->open &= ~(1u << d);
}

/* ------------------------------------------------------------------------ */
/* Copies between memories                                                   */

#define HOST 1u /* memory 0, in planner_slot.memories */

static const planner_solve_piece *
piece_of(const planner_schedule *s, uint32_t node, uint32_t option, uint32_t at)
{
    const planner_solve_problem *p = s->tables->problem;
    const planner_solve_option *o =
        &p->options[p->nodes[node].first_option + option];
    return &p->pieces[o->first_piece + at];
}

static planner_box intersection(const planner_box *a, const planner_box *b)
{
    planner_box out = *a;
    for (int i = 0; i < 2; i++) {
        if (b->begin[i] > out.begin[i])
            out.begin[i] = b->begin[i];
        if (b->end[i] < out.end[i])
            out.end[i] = b->end[i];
    }
    return out;
}

/* How a node's result is copied. */
typedef struct layout {
    int64_t columns;    /* of it all */
    double bytes, rows; /* copied for an element, and for a row */
} layout;

/* Part of a node's result; a copy of some columns is one of many rows. */
static double copy_ns(const planner_solve_device *dev, const planner_box *box,
                      const layout *of)
{
    int64_t rows = box->end[0] - box->begin[0];
    int64_t length = box->end[1] - box->begin[1];
    double runs = length < of->columns ? (double)rows * of->rows : 1;
    return dev->copy_ns + dev->copy_row_ns * fmax(runs - 1, 0) +
           dev->copy_byte_ns * of->bytes * (double)rows * (double)length;
}

/* The step that made the slot's result goes on with a copy of it. */
static void copy_out(const planner_schedule *s, planner_state *state,
                     planner_slot *slot, double ns)
{
    uint32_t device = slot->device;
    double end = planner_state_free(s, state)[device] += ns;
    if (slot->step != planner_state_steps(s, state)[device])
        slot->at += ns;
    else
        planner_state_put_off(s, state, device, end);
}

static bool is_there(const planner_schedule *s, const planner_slot *slot,
                     uint32_t device)
{
    return slot->memories >> s->tables->problem->devices[device].memory_index &
           1;
}

/* A box of the slot's result comes to the device's memory, where it is not;
 * what is left to do there. */
static double bring(const planner_schedule *s, planner_state *state,
                    planner_slot *slot, uint32_t device, const planner_box *box,
                    const layout *of)
{
    const planner_solve_device *devices = s->tables->problem->devices;
    uint32_t memory = devices[device].memory_index;
    if (!(slot->memories & HOST)) {
        copy_out(s, state, slot, copy_ns(&devices[slot->device], box, of));
        slot->memories |= HOST;
    }
    if (!memory)
        return 0;
    slot->memories |= 1u << memory;
    return copy_ns(&devices[device], box, of);
}

/* The partial sums that the part joins. */
static double bring_partial(const planner_schedule *s, planner_state *state,
                            uint32_t node, uint32_t option, uint32_t at,
                            uint32_t first)
{
    const planner_solve_node *n = &s->tables->problem->nodes[node];
    const layout of = {n->columns, n->element_bytes, 1};
    uint32_t device = piece_of(s, node, option, at)->device;
    double ns = 0;
    for (uint32_t i = 0; i < at; i++) {
        const planner_solve_piece *piece = piece_of(s, node, option, i);
        planner_slot *slot = planner_state_slot(s, state, first + i);
        if (piece->partial && !is_there(s, slot, device))
            ns += bring(s, state, slot, device, &piece->out, &of);
    }
    return ns;
}

/* What a part reads of piece i of its node's dep k. */
static double bring_piece(const planner_schedule *s, planner_state *state,
                          uint32_t index, const planner_part_need *part,
                          uint32_t k, uint32_t i)
{
    const planner_tables *t = s->tables;
    const planner_step_node *node = &t->nodes[index];
    const planner_solve_node *source = &t->problem->nodes[index];
    planner_live dep = planner_state_live(s, state)[node->live[k]];
    const layout of = {t->problem->nodes[dep.node].columns,
                       source->read_bytes[k],
                       source->read_rows[k] > 0 ? source->read_rows[k] : 1};
    const planner_box *need =
        &t->boxes[t->classes[node->class].first_box[k] + part->boxes[k]].box;
    const planner_box box =
        intersection(need, &piece_of(s, dep.node, dep.option, i)->out);
    return bring(s, state, planner_state_slot(s, state, dep.first_slot + i),
                 part->device, &box, &of);
}

static double bring_in(const planner_schedule *s, planner_state *state,
                       uint32_t index, uint32_t option, uint32_t at,
                       uint32_t first)
{
    const planner_tables *t = s->tables;
    const planner_step_node *node = &t->nodes[index];
    const planner_part_need *part =
        &t->parts[planner_tables_parts(t, index, option)->first + at];
    const planner_solve_node *source = &t->problem->nodes[index];
    const planner_live *live = planner_state_live(s, state);
    double ns = 0;
    if (!s->several)
        return 0;
    for (uint32_t k = 0; k < node->n_deps; k++) {
        planner_live dep = live[node->live[k]];
        uint32_t some = planner_tables_overlap(node, part, k, dep.option)->some;
        for (; some && source->read_bytes[k] > 0; some &= some - 1) {
            uint32_t i = (uint32_t)__builtin_ctz(some);
            if (!is_there(s, planner_state_slot(s, state, dep.first_slot + i),
                          part->device))
                ns += bring_piece(s, state, index, part, k, i);
        }
    }
    return part->joins ? ns + bring_partial(s, state, index, option, at, first)
                       : ns;
}

/* Slices that are added for the part. */
static double add_slices(const planner_schedule *s, const planner_state *state,
                         const planner_step_node *node,
                         const planner_part_need *part)
{
    const planner_live *live = planner_state_live(s, state);
    double ns = 0;
    for (uint32_t k = 0; k < node->n_deps; k++)
        ns += planner_tables_overlap(node, part, k, live[node->live[k]].option)
                  ->add_ns;
    return ns;
}

static double hand_over(const planner_schedule *s, uint32_t node,
                        uint32_t option, uint32_t at)
{
    const planner_solve_node *n = &s->tables->problem->nodes[node];
    if (!n->wanted)
        return 0;
    const planner_solve_piece *piece = piece_of(s, node, option, at);
    const planner_solve_device *dev =
        &s->tables->problem->devices[piece->device];
    if (!dev->memory_index || piece->partial)
        return 0;
    const layout of = {n->columns, n->element_bytes, 1};
    return copy_ns(dev, &piece->out, &of);
}

/* ------------------------------------------------------------------------ */
/* Nodes                                                                     */

/* Forgets a live node. */
static void retire(const planner_schedule *s, planner_state *state,
                   uint32_t live)
{
    planner_live *lives = planner_state_live(s, state);
    uint32_t first = lives[live].first_slot;
    uint32_t end =
        live + 1 < state->n_live ? lives[live + 1].first_slot : state->n_slots;
    char *slots = (char *)planner_state_slot(s, state, 0);
    memmove(slots + first * s->slot_size, slots + end * s->slot_size,
            (state->n_slots - end) * s->slot_size);
    state->n_slots -= end - first;
    state->n_live--;
    for (uint32_t i = live; i < state->n_live; i++) {
        lives[i] = lives[i + 1];
        lives[i].first_slot -= (uint16_t)(end - first);
    }
}

void planner_state_add(const planner_schedule *s, planner_state *state,
                       uint32_t index, uint32_t option, double *begin,
                       double *end)
{
    const planner_tables *t = s->tables;
    const planner_step_node *node = &t->nodes[index];
    const planner_parts *parts = planner_tables_parts(t, index, option);
    const planner_part_need *part = t->parts + parts->first;
    uint32_t first = state->n_slots;
    needs n;
    end_steps(s, state, node, part, parts->n);
    for (uint32_t i = 0; i < parts->n; i++) {
        find_needs(s, state, node, &part[i], &n);
        if (part[i].joins)
            find_partial(s, state, part, i, first, &n);
        if (part[i].after)
            need_slot(s, state, part[i].device, first + i - part[i].after, true,
                      &n);
        double copies = bring_in(s, state, index, option, i, first);
        if (node->adds)
            copies += add_slices(s, state, node, &part[i]);
        double after = hand_over(s, index, option, i);
        double at = place(s, state, &part[i], &n, copies, after);
        add_slot(s, state, &part[i], part[i].ends);
        if (part[i].after && part[i - part[i].after].ring_bytes > 0)
            fill_ring(s, state, &part[i - part[i].after], at + part[i].ns);
        if (begin)
            begin[i] = at;
        if (end)
            end[i] = at + part[i].ns;
    }
    planner_state_live(s, state)[state->n_live++] =
        (planner_live){index, (uint16_t)option, (uint16_t)first};
    for (uint32_t r = 0; r < node->n_retired; r++)
        retire(s, state, t->retired[node->first_retired + r]);
}

double planner_state_makespan(const planner_schedule *s,
                              const planner_state *state)
{
    const planner_solve_device *devices = s->tables->problem->devices;
    double host = state->n_busy ? state->busy[state->n_busy - 1].end : 0;
    for (uint32_t d = 0; d < s->n_devices; d++) {
        double end = planner_state_free(s, state)[d];
        if (planner_state_steps(s, state)[d] && end > host)
            host = end + devices[d].wait_ns;
    }
    return host;
}
