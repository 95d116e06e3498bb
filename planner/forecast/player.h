/*
 * The devices' side of a forecast: their queues, played event by event by the
 * rules of steps (planner.h).
 *
 * Parts that run at the same time on several devices share the memory's
 * bandwidth max-min fair: no device gets more than it can use, and one that
 * gets less is slowed down in proportion. Parts that compute are slowed down by
 * other devices at work as the profile says.
 *
 * Weights in files are read in the order of the parts that use them, ahead of
 * them by so much as the plan says; a part ends once all of its own are read.
 */
#pragma once

#include "forecast.h"

/* A part as it is alone. */
typedef struct planner_part_load {
    double ns, energy_nj;
    bool measured;   /* else by a model */
    double bytes_ns; /* what it moves, at most what its device can; >= 0 */
    bool copies;     /* between memories */
    double file_ns;  /* that reading its weights from the file takes */
} planner_part_load;

typedef struct planner_lane {
    const planner_overheads *overheads;
    clv_device *dev;
    uint32_t first;           /* in planner_play.order */
    uint32_t submitted, done; /* steps; the timeline's value */
    bool polled;              /* by a host that waits for it; else it blocks */
    bool running;
    uint32_t part; /* the running one; CORE_NO_PART: the dispatch */
    double left;   /* ns of it at full speed, at planner_play.now */
    double speed;  /* 1: full */
} planner_lane;

#define CORE_NO_PART 0xffffffffu

typedef struct planner_play {
    const clv_plan *plan;
    const planner_costs *costs;
    const planner_part_load *loads; /* [plan->n_parts] */
    core_forecast *forecast;        /* spans are written there */
    planner_lane *lanes;            /* [plan->n_queues] */
    uint32_t *order;                /* [plan->n_steps] by device */
    clv_device **active;            /* [plan->n_queues] scratch */
    double *rates;                  /* [plan->n_queues] scratch */
    double now;
    double file_ahead; /* ns of reading that may be ahead of the parts */
    double file_read;  /* when the weights of the parts so far will be read */
} planner_play;

/* With loads, forecast and costs set by the caller. */
clv_status planner_play_begin(planner_play *play);
void planner_play_finish(planner_play *play);
/* Everything up to this time happens. */
void planner_play_until(planner_play *play, double ns);
/* The step's submit ended at core_forecast.submits[step].end_ns. */
void planner_play_push(planner_play *play, uint32_t step);
/* The next thing happens; false if nothing does by itself. */
bool planner_play_event(planner_play *play);
/* Lets things happen until the device has done so many steps; false if it never
 * will. */
bool planner_play_reach(planner_play *play, uint32_t device, uint64_t value);
