/*
 * A schedule that grows node by node, by the rules in solve.h: the host's time,
 * when each device is free, which results are there, where and when, and which
 * of them the latest step of each device waited for.
 *
 * States are flat blocks of core_schedule.state_size bytes, to be copied.
 */
#pragma once

#include "tables.h"

/* A piece's result. */
typedef struct core_slot {
    double at;      /* the end of its step, as far as it is filled */
    uint32_t step;  /* of its device, from 1 */
    uint32_t order; /* of its step among all steps */
    uint32_t device;
    uint32_t memories; /* bits: that have it, or the part that was needed */
    uint32_t clock[];  /* [n_devices] steps done before its step begins */
} core_slot;

typedef struct core_live {
    uint32_t node;
    uint16_t option, first_slot;
} core_live;

/* When the host is busy with submits, or late after a wait. */
#define CORE_BUSY 4
typedef struct core_busy {
    double begin, end;
} core_busy;

typedef struct core_state {
    core_busy busy[CORE_BUSY]; /* the latest ones, in order of time */
    uint32_t n_busy;
    uint32_t n_steps; /* of all devices */
    uint32_t open;    /* devices that are filling a step, bits */
    uint32_t n_live, n_slots;
} core_state;

typedef struct core_schedule {
    const core_tables *tables;
    uint32_t n_devices;
    bool several; /* memories */
    size_t free_at, sent_at, steps_at, order_at, clock_at, live_at, slots_at,
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

/* Adds the node that comes next, by its option (within its kind). begin, end:
 * times of its pieces, or NULL. */
void core_state_add(const core_schedule *s, core_state *state, uint32_t node,
                    uint32_t option, double *begin, double *end);

/* What the step that the device is filling, or filled last, made is there at
 * `end`. */
void core_state_put_off(const core_schedule *s, core_state *state,
                        uint32_t device, double end);

/* When the host goes on after waiting for all. */
double core_state_makespan(const core_schedule *s, const core_state *state);

static inline double *core_state_free(const core_schedule *s,
                                      const core_state *state)
{
    return (double *)((char *)state + s->free_at);
}
/* When each device's latest step is submitted. */
static inline double *core_state_sent(const core_schedule *s,
                                      const core_state *state)
{
    return (double *)((char *)state + s->sent_at);
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
