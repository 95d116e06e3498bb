/*
 * The devices' side of a forecast: their queues, played event by event by the
 * rules of steps (planner.h).
 *
 * Parts that run at the same time on several devices share the memory's
 * bandwidth max-min fair: no device gets more than it can use, and one that
 * gets less is slowed down in proportion. Parts that compute are slowed down by
 * other devices at work as the profile says.
 *
 * Several runs of a plan may be played together. A step of a run is an item:
 * run * n_steps + step. Loads and the spans of the forecast are by run, too.
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
    uint32_t first;           /* in planner_play.items */
    uint32_t submitted, done; /* items */
    bool polled;              /* by a host that waits for it; else it blocks */
    bool running;
    uint32_t part; /* the running one, in loads; CORE_NO_PART: the dispatch */
    double left;   /* ns of it at full speed, at planner_play.now */
    double speed;  /* 1: full */
} planner_lane;

#define CORE_NO_PART 0xffffffffu

typedef struct planner_play {
    const clv_plan *plan;
    const planner_costs *costs;
    uint32_t n_runs;
    planner_part_load *loads; /* [n_runs * plan->n_parts] */
    core_forecast *forecast;  /* spans are written there; arrays are
                                 n_runs times as long */
    planner_lane *lanes;      /* [plan->n_queues] */
    uint32_t *items; /* [n_runs * plan->n_steps] by queue, as submitted. Before
                        that, the steps of one run */
    uint64_t *reached;   /* [n_runs * plan->n_queues] steps done of each run */
    clv_device **active; /* [plan->n_queues] scratch */
    double *rates;       /* [plan->n_queues] scratch */
    double now;
    double file_ahead; /* ns of reading that may be ahead of the parts */
    double file_read;  /* when the weights of the parts so far will be read */
} planner_play;

/* With plan, costs and n_runs set by the caller. symbols: [n_runs,
 * plan->source->n_symbols], NULL for the upper bounds. */
clv_status planner_play_begin(planner_play *play, const int64_t *symbols);
/* Its second part: the queues. */
clv_status planner_play_begin_lanes(planner_play *play);
void planner_play_finish(planner_play *play);
/* Everything up to this time happens. */
void planner_play_until(planner_play *play, double ns);
/* The host submits the item, which takes until *host. */
void planner_play_submit(planner_play *play, uint32_t item, double *host);
/* The next thing happens; false if nothing does by itself. */
bool planner_play_event(planner_play *play);
/* Lets things happen until the device has done so many steps of the run; false
 * if it never will. */
bool planner_play_reach(planner_play *play, uint32_t run, uint32_t device,
                        uint64_t value);
static inline uint64_t planner_play_reached(const planner_play *play,
                                            uint32_t run, uint32_t device)
{
    return play->reached[run * play->plan->n_queues + device];
}
