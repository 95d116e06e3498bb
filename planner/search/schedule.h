/*
 * A schedule that grows node by node, by the rules of steps (planner.h): the
 * host's time, when each device is free, which results are there, where and
 * when, and which of them the latest step of each device waited for.
 *
 * States are flat blocks of planner_schedule.state_size bytes, to be copied.
 */
#pragma once

#include "tables.h"

/* A piece's result. */
typedef struct planner_slot {
    double at;      /* the end of its step, as far as it is filled */
    uint32_t step;  /* of its device, from 1 */
    uint32_t order; /* of its step among all steps */
    uint32_t device;
    uint32_t memories; /* bits: that have it, or the part that was needed */
    uint32_t clock[];  /* [n_devices] steps done before its step begins */
} planner_slot;

typedef struct planner_live {
    uint32_t node;
    uint16_t option, first_slot;
} planner_live;

/* When the host is busy with submits, or late after a wait. */
#define PLANNER_BUSY 4
typedef struct planner_busy {
    double begin, end;
} planner_busy;

/* Weights' copies in a device's ring, in order, each with the end of the piece
 * that needs it. Where there is no room, two that follow one another count as
 * one. */
#define PLANNER_RING 8
typedef struct planner_ring {
    double bytes[PLANNER_RING], end[PLANNER_RING];
    uint32_t n;
} planner_ring;

typedef struct planner_state {
    planner_busy busy[PLANNER_BUSY]; /* the latest ones, in order of time */
    uint32_t n_busy;
    uint32_t n_steps; /* of all devices */
    uint32_t open;    /* devices that are filling a step, bits */
    uint32_t n_live, n_slots;
} planner_state;

typedef struct planner_schedule {
    const planner_tables *tables;
    uint32_t n_devices;
    bool several; /* memories */
    bool rings;   /* some device has one; each has a planner_ring then */
    size_t free_at, sent_at, rings_at, steps_at, order_at, clock_at, live_at,
        slots_at, slot_size, state_size; /* bytes */
} planner_schedule;

void planner_schedule_init(planner_schedule *s, const planner_tables *tables);
/* Before the first node. */
void planner_state_begin(const planner_schedule *s, planner_state *state);
/* Bytes in use. */
static inline size_t planner_state_used(const planner_schedule *s,
                                        const planner_state *state)
{
    return s->slots_at + state->n_slots * s->slot_size;
}

/* Adds the node that comes next, by its option (within its class). begin, end:
 * times of its pieces, or NULL. */
void planner_state_add(const planner_schedule *s, planner_state *state,
                       uint32_t node, uint32_t option, double *begin,
                       double *end);

/* What the step that the device is filling, or filled last, made is there at
 * `end`. */
void planner_state_put_off(const planner_schedule *s, planner_state *state,
                           uint32_t device, double end);

/* When the host goes on after waiting for all. */
double planner_state_makespan(const planner_schedule *s,
                              const planner_state *state);

static inline double *planner_state_free(const planner_schedule *s,
                                         const planner_state *state)
{
    return (double *)((char *)state + s->free_at);
}
/* When each device's latest step is submitted. */
static inline double *planner_state_sent(const planner_schedule *s,
                                         const planner_state *state)
{
    return (double *)((char *)state + s->sent_at);
}
static inline planner_ring *planner_state_ring(const planner_schedule *s,
                                               const planner_state *state,
                                               uint32_t device)
{
    return (planner_ring *)((char *)state + s->rings_at) + device;
}
/* When so many bytes of the device's ring are free. */
double planner_state_ring_free(const planner_schedule *s,
                               const planner_state *state, uint32_t device,
                               double bytes);
static inline uint32_t *planner_state_steps(const planner_schedule *s,
                                            const planner_state *state)
{
    return (uint32_t *)((char *)state + s->steps_at);
}
/* Of each device's latest step, among all. */
static inline uint32_t *planner_state_order(const planner_schedule *s,
                                            const planner_state *state)
{
    return (uint32_t *)((char *)state + s->order_at);
}
/* [device][other]: steps of the other that are done before the device's latest
 * step begins. */
static inline uint32_t *planner_state_clock(const planner_schedule *s,
                                            const planner_state *state,
                                            uint32_t device)
{
    return (uint32_t *)((char *)state + s->clock_at) +
           (size_t)device * s->n_devices;
}
static inline planner_live *planner_state_live(const planner_schedule *s,
                                               const planner_state *state)
{
    return (planner_live *)((char *)state + s->live_at);
}
static inline planner_slot *planner_state_slot(const planner_schedule *s,
                                               const planner_state *state,
                                               uint32_t slot)
{
    return (planner_slot *)((char *)state + s->slots_at + slot * s->slot_size);
}

/* Whether the latest step of a device begins after the slot's piece. */
static inline bool planner_state_covered(const planner_schedule *s,
                                         const planner_state *state,
                                         uint32_t device,
                                         const planner_slot *slot)
{
    return planner_state_clock(s, state, device)[slot->device] >= slot->step;
}
