/*
 * A full choice made better node by node: each option of each node is tried
 * with all else as it is, until none helps. What it tries last are the
 * alternatives.
 */
#pragma once

#include "evaluate.h"
#include "stretch.h"
#include "value.h"

typedef struct planner_alternative {
    uint32_t option; /* within the kind; UINT32_MAX: there is no other */
    double ns;       /* makespan with it */
} planner_alternative;

typedef struct planner_improve_params {
    uint32_t max_rounds;     /* through the nodes in which options are taken */
    uint32_t first, n;       /* nodes that are tried; n 0: all */
    bool whole;              /* options of one piece only */
    const double *prices;    /* as in planner_beam_params */
    planner_stretch stretch; /* what repeats; period 0: nothing does */
} planner_improve_params;

/* options: [n_nodes] within kinds. alternatives: [n_nodes], of the nodes tried;
 * or NULL. */
clv_status planner_improve(const planner_schedule *s,
                           const planner_improve_params *params,
                           uint32_t *options, planner_alternative *alternatives,
                           core_value *value);
