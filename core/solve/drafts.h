/*
 * The inside of candidates: drafts are ways to divide one kind of node, as they
 * are found and weighed. Points and layouts are what the members of a link
 * share.
 */
#pragma once

#include "balance.h"
#include "candidates.h"
#include "kinds.h"

#define CORE_DRAFT_PIECES 12
#define CORE_MAX_DRAFTS 64  /* of a kind, looked at */
#define CORE_MAX_OPTIONS 32 /* of a kind, beside whole ones: kept */
#define CORE_MAX_STEPS 64   /* into which an extent is divided */
#define CORE_MAX_RUNS 4     /* pieces of one sequence on one static device */

typedef struct core_draft {
    core_piece cuts[CORE_DRAFT_PIECES]; /* node: the kind's first */
    double ns[CORE_DRAFT_PIECES];       /* alone, then beside the others */
    double bytes[CORE_DRAFT_PIECES], energy_nj[CORE_DRAFT_PIECES];
    uint64_t weight_bytes[CORE_DRAFT_PIECES];
    uint32_t n;
    uint32_t lead; /* device whose pieces come first, or CORE_NO_LEAD */
    uint32_t joins[CORE_DRAFT_PIECES]; /* pieces whose sums are joined with
                                          later ones of the same output */
    double join_ns[CORE_DRAFT_PIECES], join_nj[CORE_DRAFT_PIECES];
    uint32_t n_joins;
    uint32_t axes;  /* bits: cut along them */
    double crowded; /* of a whole one: how much longer it takes while the other
                       devices are at such work too */
    double time;    /* until all are done, if they began now */
} core_draft;

#define CORE_NO_LEAD 0xffffffffu

typedef struct core_drafts {
    core_draft *list;
    uint32_t n, capacity;
} core_drafts;

/* Devices that share a node; ranges are given to them in this order. */
typedef struct core_team {
    uint32_t devices[CORE_SHARE_DEVICES];
    uint32_t n;
} core_team;

/* A sequence in parts: for each device of a team lengths that it has programs
 * for, and the rest for one with any length. */
typedef struct core_layout {
    int64_t runs[CORE_SHARE_DEVICES][CORE_MAX_RUNS]; /* descending; 0: none */
    int64_t rest;                                    /* rows at the end */
    uint32_t rest_on;                                /* index in the team */
} core_layout;

/* Where a team divides an axis: device i has num[i-1]/den .. num[i]/den of it.
 * layout.runs: of a hybrid, only of the part of the sequence that the static
 * device runs; the rest is whole. */
typedef struct core_cut_point {
    core_team team;
    int64_t num[CORE_SHARE_DEVICES], den;
    bool hybrid;
    core_layout layout;
    double rank; /* time by the best one's; 1 is best */
} core_cut_point;

typedef struct core_maker {
    const clv_plan *plan;
    const clv_graph *graph;
    const clv_op_caps *caps;
    const core_costs *costs;
    core_strategy strategy;
    uint32_t n_devices;
    uint64_t align; /* of pointers: the most that a device asks for */
    core_solve_device *devices;
    core_node_reads *reads;
    core_kinds kinds;
    bool several;                    /* memories: some device has its own */
    bool usable[CORE_SOLVE_DEVICES]; /* sees the host's memory, as plans want */
    bool *takes;                     /* [n_kinds * n_devices] whole */
    core_drafts *drafts;             /* [n_kinds] */
    core_demand *tables;             /* scratch */
} core_maker;

const clv_op_caps *core_maker_caps(const core_maker *m, uint32_t kind,
                                   uint32_t device);
clv_device *core_maker_device(const core_maker *m, uint32_t device);
/* Whether the device takes pieces of the kind along the axis; it may take none
 * of the whole node, if its programs have fixed lengths. */
bool core_maker_splits(const core_maker *m, uint32_t kind, uint32_t device,
                       uint32_t axis);
/* Its programs have fixed lengths, and none is the node's. */
bool core_maker_needs_length(const core_maker *m, uint32_t kind,
                             uint32_t device);
/* What a piece costs its device; false where that is not known. */
bool core_maker_cost(const core_maker *m, const core_piece *piece,
                     core_cost *out, core_demand *demand);

/* Adds a draft whose cuts are filled in; it is weighed here, and dropped if a
 * cost is not known or it is there already. */
clv_status core_draft_add(core_maker *m, uint32_t kind,
                          const core_draft *draft);

/* Elements in whose multiples the team may cut the axis. */
int64_t core_step_of(const core_maker *m, uint32_t kind, uint32_t axis,
                     const core_team *team);

/* Drafts of all kinds with more than one piece. */
clv_status core_draft_points(core_maker *m);    /* rows, channels, heads, and
                                                   sequences of any length */
clv_status core_draft_sequences(core_maker *m); /* of static lengths */

/* Sorts and shortens the drafts of every kind, and drops those that the devices
 * refuse, which are asked once. */
clv_status core_drafts_choose(core_maker *m);

/* Calls fn for each set of two to four of the first devices (of pairs alone
 * past CORE_SHARE_DEVICES devices) and, if alone, of one. */
clv_status core_each_team(core_maker *m, bool alone,
                          clv_status (*fn)(core_maker *m, const core_team *team,
                                           void *ctx),
                          void *ctx);
