/*
 * Beam search: partial schedules grow node by node, and the best of each
 * generation are kept. A schedule is dropped if another one that is alike in
 * all but times is no later in anything.
 */
#pragma once

#include "schedule.h"

typedef struct planner_beam_params {
    uint32_t width;       /* schedules kept */
    bool look_ahead;      /* the best schedules are those after which the nodes
                             that follow and may run at the same time, divided
                             freely, would be done first; else those that are
                             done first */
    bool replicas;        /* options in which several devices make the same */
    bool together;        /* where a node has options with several devices, the
                             even ones of these alone */
    const double *prices; /* [tables->n_options] added to the makespan; may be
                             NULL */
} planner_beam_params;

/* options: [n_nodes], counted from 0 within a node. */
clv_status planner_beam_search(const planner_schedule *s,
                               const planner_beam_params *params,
                               uint32_t *options);
