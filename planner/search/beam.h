/*
 * The search through partial schedules, node by node: of each generation the
 * best are kept, but none than which another one is no worse in anything.
 */
#pragma once

#include "schedule.h"

typedef struct planner_beam_params {
    uint32_t width;       /* schedules kept */
    bool look_ahead;      /* to nodes that may run at the same time; else the
                             best are those that are done first */
    const double *prices; /* [tables->n_options] added to the makespan; may be
                             NULL */
} planner_beam_params;

/* options: [n_nodes] within classes. */
clv_status planner_beam_search(const planner_schedule *s,
                               const planner_beam_params *params,
                               uint32_t *options);
