/*
 * How candidates are made. A candidate is one way to divide the nodes of a
 * class over devices. A device whose memory does not hold all weights counts
 * twice: with the weights that it holds, and with weights that it is sent in
 * each run. Linked classes are divided at the same points, or by the
 * same layouts of the sequence, so that a value is read where it was made.
 */
#pragma once

#include "balance.h"
#include "candidates.h"
#include "classes.h"
#include "../profile/variants.h"

#define PLANNER_CANDIDATE_PIECES 12
#define PLANNER_MAX_CANDIDATES 64 /* of a class, looked at */
#define PLANNER_MAX_OPTIONS                                                    \
    32                       /* of a class that are kept, beside whole ones    \
                              */
#define PLANNER_MAX_STEPS 64 /* into which an extent is divided */
#define PLANNER_MAX_RUNS 4   /* pieces of one sequence on one static device */

typedef struct planner_candidate {
    core_piece cuts[PLANNER_CANDIDATE_PIECES]; /* node: the class's first */
    double ns[PLANNER_CANDIDATE_PIECES];       /* alone */
    double energy_nj[PLANNER_CANDIDATE_PIECES];
    uint64_t weight_bytes[PLANNER_CANDIDATE_PIECES];
    uint32_t n;
    uint32_t joins[PLANNER_CANDIDATE_PIECES]; /* pieces whose devices add the
                                          sums of the same output */
    double join_ns[PLANNER_CANDIDATE_PIECES], join_nj[PLANNER_CANDIDATE_PIECES];
    uint32_t n_joins;
    double copy_ns[PLANNER_CANDIDATE_PIECES]; /* of its weight, and so many */
    uint64_t copy_bytes[PLANNER_CANDIDATE_PIECES]; /* bytes; 0: is held */
    double add_ns[PLANNER_CANDIDATE_PIECES];       /* of its slice to another */
    uint32_t axes;                                 /* bits: cut along them */
    double time; /* until all are done, if they began now */
    bool near;   /* see planner_near: it is kept */
} planner_candidate;

typedef struct planner_candidate_set {
    planner_candidate *list;
    uint32_t n, capacity;
} planner_candidate_set;

/* Devices that share a node; ranges are given to them in this order. */
typedef struct planner_device_set {
    uint32_t devices[PLANNER_SHARE_DEVICES];
    uint32_t n;
} planner_device_set;

/* A sequence in parts: for each device of a set lengths that it has programs
 * for, and the rest for one with any length. */
typedef struct planner_layout {
    int64_t runs[PLANNER_SHARE_DEVICES]
                [PLANNER_MAX_RUNS]; /* descending; 0: none */
    int64_t rest;                   /* rows at the end */
    uint32_t rest_on;               /* index in the set */
} planner_layout;

/* Where a set divides an axis: device i has num[i-1]/den .. num[i]/den of it.
 * layout.runs: of a hybrid, only of the part of the sequence that the static
 * device runs; the rest is whole. */
typedef struct planner_cut_point {
    planner_device_set set;
    int64_t num[PLANNER_SHARE_DEVICES], den;
    bool hybrid;
    planner_layout layout;
    double rank; /* time by the best one's; 1 is best */
    bool near;   /* see planner_near */
} planner_cut_point;

typedef struct planner_maker {
    const clv_plan *plan;
    const clv_graph *graph;
    clv_op_caps *caps; /* [n_devices * n_nodes] */
    const planner_costs *costs;
    planner_strategy strategy;
    uint32_t halvings; /* as planner_candidates_make() */
    const planner_near *near;
    uint32_t n_devices; /* lanes: the plan's devices as they hold weights, then
                           some of them again, to which weights are streamed */
    uint32_t owners[PLANNER_SOLVE_DEVICES]; /* device of each */
    uint64_t align; /* of pointers: the most that a device asks for */
    planner_solve_device *devices; /* memory of those that weights are streamed
                                      to: for the largest of them */
    planner_node_reads *reads;
    planner_classes classes;
    bool several;                       /* memories: some device has its own */
    bool usable[PLANNER_SOLVE_DEVICES]; /* sees the host's memory, as plans want
                                         */
    bool *takes;                        /* [n_classes * n_devices] whole */
    planner_ways *ways;                 /* [n_classes * n_devices] */
    planner_candidate_set *sets;        /* [n_classes] */
    planner_demand *tables;             /* scratch */
} planner_maker;

const clv_op_caps *planner_maker_caps(const planner_maker *m, uint32_t class,
                                      uint32_t device);
clv_device *planner_maker_device(const planner_maker *m, uint32_t device);
/* Bytes/ns that so many devices get from the host's memory together; 0: no
 * limit is known. */
double planner_maker_bandwidth(const planner_maker *m, const uint32_t *devices,
                               uint32_t n);
/* Whether weights are streamed to it. */
bool planner_maker_streams(const planner_maker *m, uint32_t device);
/* The weight of a node and which operand it is; CLV_NO_TENSOR: it has none. */
clv_value planner_maker_weight(const planner_maker *m, uint32_t node,
                               uint32_t *operand);
/* Its tensor, or NULL. */
clv_tensor *planner_maker_tensor(const planner_maker *m, uint32_t node);
/* The part of the weight that the piece reads; false: its node has none. */
bool planner_maker_weight_range(const planner_maker *m, const core_piece *piece,
                                core_runs *out);
/* Whether the device takes pieces of the class along the axis; it may take none
 * of the whole node, if its programs have fixed lengths. */
bool planner_maker_splits(const planner_maker *m, uint32_t class,
                          uint32_t device, uint32_t axis);
/* Whether pieces of the class along the axis give partial sums. */
bool planner_maker_sums(const planner_maker *m, uint32_t node, uint32_t axis);
/* Its programs have fixed lengths, and none is the node's. */
bool planner_maker_needs_length(const planner_maker *m, uint32_t class,
                                uint32_t device);
/* Whether it gives a partial sum. */
bool planner_piece_partial(const planner_maker *m, const core_piece *piece);
/* What a piece costs its device, as the variant that is fastest there, which
 * goes to *variant: variants of a device differ in nothing else. False where
 * that is not known. */
bool planner_maker_cost(const planner_maker *m, const core_piece *piece,
                        uint32_t *variant, planner_cost *out,
                        planner_demand *demand);
/* Whether the device takes less than until it had another one's result of the
 * node: a step of its own, a wait, and copies between memories. False where it
 * has no memory of its own, as what it reads there again others lack, and where
 * weights are streamed to it, since it counts twice then. */
bool planner_is_less_than_exchange(const planner_maker *m, uint32_t node,
                                   uint32_t device, double ns);

/* Adds a candidate whose cuts are filled in; it is weighed here, and dropped if
 * a cost is not known or it is there already. */
clv_status planner_candidate_add(planner_maker *m, uint32_t class,
                                 const planner_candidate *candidate);
/* Index of the candidate in its class's set; the set's n: it is not there. */
uint32_t planner_candidate_find(const planner_maker *m, uint32_t class,
                                const planner_candidate *candidate);

/* Makes the graph's weights values like others, as they are where they are
 * streamed. */
void planner_stream_weights(clv_graph *graph);

int64_t planner_common_divisor(int64_t a, int64_t b);
/* Elements in whose multiples the set may cut the axis. */
int64_t planner_step_of(const planner_maker *m, uint32_t class, uint32_t axis,
                        const planner_device_set *set);

int64_t planner_member_extent(const planner_maker *m,
                              const planner_member *member);
int64_t planner_class_sequence(const planner_maker *m, uint32_t class);
/* Whether all devices of the set take pieces of the class along the axis. */
bool planner_takes_part(const planner_maker *m, const planner_member *member,
                        const planner_device_set *set);
/* The first device of the set whose programs have fixed lengths, none of which
 * is the class's; set->n: there is none. */
uint32_t planner_find_static(const planner_maker *m, uint32_t class,
                             const planner_device_set *set);
/* Fractions at which the set may divide all n members: multiples of
 * *step / *unit, at most PLANNER_MAX_STEPS of them. False: there are none. */
bool planner_point_steps(const planner_maker *m,
                         const planner_member *const *members, uint32_t n,
                         const planner_device_set *set, int64_t *unit,
                         int64_t *step);
/* Adds the class's candidate that is divided so, if there is one. */
clv_status planner_point_add(planner_maker *m, const planner_member *member,
                             const planner_cut_point *point);

/* Candidates of all classes with more than one piece. */
clv_status planner_add_points(planner_maker *m); /* rows, channels, heads, and
                                                sequences of any length */
clv_status planner_add_sequences(planner_maker *m); /* of static lengths */
clv_status planner_add_replicas(planner_maker *m);  /* of cheap nodes */
clv_status planner_add_near(planner_maker *m);      /* m->near is there */
/* options: [n_nodes] those of m->near as these nodes have them; false: some are
 * no more. */
bool planner_near_options(const planner_maker *m,
                          const planner_solve_node *nodes, uint32_t *options);

/* Candidates of a class that copy weights to devices that hold them have no
 * pieces any more, where another one uses what is held. */
void planner_refuse_copied_again(const planner_maker *m, uint32_t class);
/* Sorts and shortens the candidates of every class, and drops those that the
 * devices refuse, which are asked once. */
clv_status planner_candidates_choose(planner_maker *m);

/* Calls fn for each set of two to four of the first devices (of pairs alone
 * past PLANNER_SHARE_DEVICES devices) and, if alone, of one. */
clv_status planner_each_device_set(
    planner_maker *m, bool alone,
    clv_status (*fn)(planner_maker *m, const planner_device_set *set,
                     void *ctx),
    void *ctx);
