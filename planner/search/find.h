/*
 * The search for the least makespan, without regard to constraints but for the
 * prices that stand for them.
 */
#pragma once

#include "improve.h"

typedef struct planner_finding {
    uint32_t *options;                 /* [n_nodes] within kinds */
    planner_alternative *alternatives; /* [n_nodes] */
    double ns;                         /* makespan */
} planner_finding;

typedef struct planner_find_params {
    uint32_t width;       /* of the beams */
    bool quick;           /* one beam, no improvement, no alternatives */
    const double *prices; /* as in planner_beam_params */
} planner_find_params;

/* problem: checked. Fills the arrays of out, which are the caller's. */
clv_status planner_find(const planner_solve_problem *problem,
                        const planner_find_params *params,
                        planner_finding *out);
