/*
 * The search for the least makespan, without regard to constraints but for the
 * prices that stand for them. Two beams with different measures of a partial
 * schedule each find a choice; the better one is improved node by node. Of a
 * block that repeats (a layer) a few copies are searched, and the choice of one
 * is given to the rest.
 */
#pragma once

#include "improve.h"

typedef struct planner_finding {
    uint32_t *options;                 /* [n_nodes] */
    planner_alternative *alternatives; /* [n_nodes] */
    double ns;                         /* makespan */
} planner_finding;

typedef struct planner_find_params {
    bool quick;           /* one narrow beam, no improvement, no alternatives */
    const double *prices; /* as in planner_beam_params */
    uint32_t without;     /* stages left out: bits of planner_stage */
} planner_find_params;

/* Fills the arrays of out, which are the caller's. */
clv_status planner_find(const planner_schedule *s,
                        const planner_find_params *params,
                        planner_finding *out);
