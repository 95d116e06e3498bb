/*
 * A full choice made better node by node: each option of each node is tried
 * with all else as it is, until none helps. What it tries last are the
 * alternatives.
 */
#pragma once

#include "evaluate.h"
#include "stretch.h"
#include "value.h"

typedef struct core_alternative {
    uint32_t option; /* within the kind; UINT32_MAX: there is no other */
    double ns;       /* makespan with it */
} core_alternative;

typedef struct core_improve_params {
    uint32_t max_rounds;  /* through the nodes in which options are taken */
    uint32_t first, n;    /* nodes that are tried; n 0: all */
    bool whole;           /* options of one piece only */
    const double *prices; /* as in core_beam_params */
    core_stretch stretch; /* what repeats; period 0: nothing does */
} core_improve_params;

/* options: [n_nodes] within kinds. alternatives: [n_nodes], of the nodes tried;
 * or NULL. */
clv_status core_improve(const core_schedule *s,
                        const core_improve_params *params, uint32_t *options,
                        core_alternative *alternatives, core_value *value);
