/*
 * A schedule that grows node by node, by the rules in solve.h: the host's time,
 * when each device is free, which results are there, where and when, and which
 * of them the latest step of each device waited for.
 *
 * A step ends with a piece whose result another device needs, which is known
 * only later. Where the next piece of the device could join the step, one of
 * both is assumed, and the schedule given up when it turns out otherwise.
 *
 * States are flat blocks of core_schedule.state_size bytes, to be copied.
 */
#pragma once

#include "tables.h"

#define CORE_NO_SLOT 0xffffu

enum {
    CORE_SLOT_MAYBE = 1,  /* its consumers decide whether its step ends with it */
    CORE_SLOT_JOINED = 2, /* assumed: it does not */
    CORE_SLOT_ENDED = 4,  /* assumed: it does */
    CORE_SLOT_USED = 8,   /* another device did need it */
};

/* A piece's result. */
typedef struct core_slot {
    double at;
    uint32_t step;   /* of its device, from 1 */
    uint32_t order;  /* of its step among all steps */
    uint32_t device, flags;
    uint32_t clock[]; /* [n_devices] steps done before its step begins */
} core_slot;

typedef struct core_live {
    uint32_t node;
    uint16_t option, first_slot;
} core_live;

typedef struct core_state {
    double host;      /* when the host can go on */
    uint32_t n_steps; /* of all devices */
    uint32_t open;    /* devices that are filling a step, bits */
    uint32_t n_live, n_slots;
} core_state;

typedef struct core_schedule {
    const core_tables *tables;
    uint32_t n_devices;
    size_t free_at, steps_at, order_at, last_at, clock_at, live_at, slots_at,
        slot_size, state_size; /* bytes */
} core_schedule;

void core_schedule_init(core_schedule *s, const core_tables *tables);
/* Before the first node. */
void core_state_begin(const core_schedule *s, core_state *state);
/* Bytes in use. */
static inline size_t core_state_used(const core_schedule *s,
                                     const core_state *state)
{
    return s->slots_at + state->n_slots * s->slot_size;
}

/* How a node is added. */
typedef struct core_adding {
    uint32_t ends, maybe; /* pieces that end their steps, or may, bits */
    uint32_t assumed;     /* bit q: a step is ended at the q-th question */
    uint32_t n_questions; /* out: that came up */
    double *begin, *end;  /* out: times of pieces, or NULL */
} core_adding;

/* Adds the node that comes next, by its option (within its kind). False: an
 * assumption turned out wrong, the state is of no use. */
bool core_state_add(const core_schedule *s, core_state *state, uint32_t node,
                    uint32_t option, core_adding *adding);

/* Answers another choice of assumptions, after those of the latest call to
 * core_state_add(); false: there is none. */
static inline bool core_adding_next(core_adding *adding)
{
    uint32_t n = adding->n_questions < 32 ? adding->n_questions : 32;
    while (n-- > 0)
        if (!(adding->assumed >> n & 1)) {
            adding->assumed &= (1u << n) - 1;
            adding->assumed |= 1u << n;
            return true;
        }
    return false;
}

/* When the host goes on after waiting for all. */
double core_state_makespan(const core_schedule *s, const core_state *state);

static inline double *core_state_free(const core_schedule *s,
                                      const core_state *state)
{
    return (double *)((char *)state + s->free_at);
}
static inline uint32_t *core_state_steps(const core_schedule *s,
                                         const core_state *state)
{
    return (uint32_t *)((char *)state + s->steps_at);
}
/* Of each device's latest step, among all. */
static inline uint32_t *core_state_order(const core_schedule *s,
                                         const core_state *state)
{
    return (uint32_t *)((char *)state + s->order_at);
}
/* Slot of each device's latest piece, while it lives. */
static inline uint32_t *core_state_last(const core_schedule *s,
                                        const core_state *state)
{
    return (uint32_t *)((char *)state + s->last_at);
}
/* [device][other]: steps of the other that are done before the device's latest
 * step begins. */
static inline uint32_t *core_state_clock(const core_schedule *s,
                                         const core_state *state,
                                         uint32_t device)
{
    return (uint32_t *)((char *)state + s->clock_at) +
           (size_t)device * s->n_devices;
}
static inline core_live *core_state_live(const core_schedule *s,
                                         const core_state *state)
{
    return (core_live *)((char *)state + s->live_at);
}
static inline core_slot *core_state_slot(const core_schedule *s,
                                         const core_state *state, uint32_t slot)
{
    return (core_slot *)((char *)state + s->slots_at + slot * s->slot_size);
}

/* Whether the latest step of a device begins after the slot's piece. */
static inline bool core_state_covered(const core_schedule *s,
                                      const core_state *state, uint32_t device,
                                      const core_slot *slot)
{
    return core_state_clock(s, state, device)[slot->device] >= slot->step;
}
