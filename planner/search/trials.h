/*
 * What the makespan is with another option of one node, while all else of a
 * full choice stays. Only the nodes are played from that one on until the
 * schedule runs on as without the change. What was tried is kept as long as it
 * holds, also while the choice changes behind it.
 *
 * Options are counted from 0 within a node here.
 */
#pragma once

#include "schedule.h"

typedef struct planner_outcome planner_outcome;
typedef struct planner_point planner_point;

typedef struct planner_trials {
    const planner_schedule *s;
    uint32_t *options;         /* [n_nodes] the choice */
    double ns;                 /* its makespan; negative: there is no choice */
    char *states;              /* before each node, and after the last */
    planner_state *trial;      /* one more, */
    planner_state *rest;       /* and another one */
    planner_point *points;     /* NULL: there are no rings */
    uint32_t *first;           /* [n_nodes] of a node's outcomes */
    planner_outcome *outcomes; /* of each option of each node */
    uint32_t n_outcomes;
} planner_trials;

/* Without a choice. planner_trials_finish() frees what it has, also after an
 * error. */
clv_status planner_trials_make(const planner_schedule *s, planner_trials *out);
void planner_trials_finish(planner_trials *t);

/* Another choice: [n_nodes]. */
void planner_trials_set(planner_trials *t, const uint32_t *options);
/* The makespan with another option of a node. It may be a little off where the
 * schedule does not run on alike. */
double planner_trials_ns(planner_trials *t, uint32_t node, uint32_t option);
/* The same, played to the end. */
double planner_trials_exact(planner_trials *t, uint32_t node, uint32_t option);
