/* Between plan_transfers.c, which finds the copies, and interleave.c, which
 * puts them into the graph. */
#pragma once

#include "lower.h"
#include "stream.h"

/* A copy to be put before or after a node of the graph as it was. */
typedef struct planner_move {
    uint32_t at, device, source;
    bool after;
    clv_value from, to;
} planner_move;

typedef struct planner_interleaver {
    clv_plan *plan;
    clv_graph *graph;  /* the cut one */
    uint32_t n_values; /* of it, before anything is added */
    uint32_t n_memories;
    uint64_t *used;        /* [n_values] memories that bases are used in */
    core_regions *regions; /* [n_values] of bases */
    clv_value *names;      /* [n_values * n_memories] the value as it is called
                              in a memory; CLV_NO_TENSOR: not yet */
    uint32_t *first;       /* [n_devices] node of each device */
    const planner_streams *streams;
    planner_move *moves;
    uint32_t n_moves, moves_capacity;
    uint32_t uses_capacity, ends_capacity;
} planner_interleaver;

/* The memory in which a base lies under its own name. */
uint32_t planner_interleave_home(const planner_interleaver *w, clv_value base);
clv_value *planner_interleave_name(const planner_interleaver *w,
                                   clv_value value, uint32_t memory);
/* Puts the moves into the plan's cut graph; caps as planner_transfers(). */
clv_status planner_interleave_rebuild(planner_interleaver *w,
                                      clv_op_caps **caps);
