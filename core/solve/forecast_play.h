/*
 * The devices' side of a forecast: their queues, played through event by event.
 *
 * A device works on its steps in order: a step begins once it was submitted and
 * what it waits for by itself is there, takes the dispatch, then its parts one
 * after another. Parts that run at the same time on several devices share the
 * memory's bandwidth max-min fair: nobody gets more than it can use, and who
 * gets less is slowed down in proportion. Those that compute are slowed down
 * by others that work.
 */
#pragma once

#include "forecast.h"

/* A part as it is alone. */
typedef struct core_part_load {
    double ns, energy_nj;
    double bytes_ns; /* what it moves, at most what its device can; >= 0 */
} core_part_load;

typedef struct core_lane {
    const core_overheads *overheads;
    clv_device *dev;
    uint32_t first;           /* in core_play.order */
    uint32_t submitted, done; /* steps; the timeline's value */
    bool polled;              /* by a host that waits for it; else it blocks */
    bool running;
    uint32_t part; /* the running one; CORE_NO_PART: the dispatch */
    double left;   /* ns of it at full speed, at core_play.now */
    double speed;  /* 1: full */
} core_lane;

#define CORE_NO_PART 0xffffffffu

typedef struct core_play {
    const clv_plan *plan;
    const core_costs *costs;
    const core_part_load *loads;    /* [plan->n_parts] */
    struct core_forecast *forecast; /* spans are written there */
    core_lane *lanes;               /* [plan->n_devices] */
    uint32_t *order;                /* [plan->n_steps] by device */
    clv_device **active;            /* [plan->n_devices] scratch */
    double *rates;                  /* [plan->n_devices] scratch */
    double now;
} core_play;

/* With loads, forecast and costs set by the caller. */
clv_status core_play_begin(core_play *play);
void core_play_finish(core_play *play);
/* Everything up to this time happens. */
void core_play_until(core_play *play, double ns);
/* The step's submit ended at core_forecast.submits[step].end_ns. */
void core_play_push(core_play *play, uint32_t step);
/* Lets things happen until the device has done so many steps; false if it never
 * will. */
bool core_play_reach(core_play *play, uint32_t device, uint64_t value);

/* forecast_rates.c: sets the speeds of all lanes. */
void core_play_speeds(core_play *play);
