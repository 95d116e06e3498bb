/*
 * Local search: each option of each node of a full choice is tried while all
 * else stays, and the best one is taken, until none helps. The best of the
 * options that were tried last and not taken are the nodes' alternatives.
 */
#pragma once

#include "blocks.h"
#include "evaluate.h"
#include "trials.h"

typedef struct planner_alternative {
    uint32_t option; /* within the class; UINT32_MAX: there is no other */
    double ns;       /* makespan with it */
} planner_alternative;

typedef struct planner_improve_params {
    uint32_t max_rounds;  /* through the nodes in which options are taken */
    uint32_t first, n;    /* nodes that are tried; n 0: all */
    bool constrained;     /* to the problem's memory and max_share */
    const double *prices; /* as in planner_beam_params */
    planner_block block;  /* that repeats; period 0: none does */
} planner_improve_params;

/* options: [n_nodes]. alternatives: [n_nodes], of the nodes tried; or NULL.
 * trials: of any choice. */
void planner_improve(planner_trials *trials,
                     const planner_improve_params *params, uint32_t *options,
                     planner_alternative *alternatives, planner_value *value);

/* The makespan with each option of each node while all else stays, node by
 * node, into ns. Of copies of the block that are chosen alike, one is tried. */
void planner_improve_all(planner_trials *trials, const planner_block *block,
                         const uint32_t *options, double *ns);
