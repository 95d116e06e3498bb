/*
 * The search for the least makespan, without regard to constraints but for the
 * prices that stand for them.
 */
#pragma once

#include "improve.h"

typedef struct core_finding {
    uint32_t *options;              /* [n_nodes] within kinds */
    core_alternative *alternatives; /* [n_nodes] */
    double ns;                      /* makespan */
} core_finding;

typedef struct core_find_params {
    uint32_t width;       /* of the beams */
    bool quick;           /* one beam, no improvement, no alternatives */
    const double *prices; /* as in core_beam_params */
} core_find_params;

/* problem: checked. Fills the arrays of out, which are the caller's. */
clv_status core_find(const core_solve_problem *problem,
                     const core_find_params *params, core_finding *out);
