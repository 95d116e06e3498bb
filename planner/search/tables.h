/*
 * What the search looks up in a problem, computed once: which pieces of one
 * node the pieces of another need, and how long results are needed. Options and
 * pieces are counted from 0 within a class here. A class is all nodes with
 * equal options.
 */
#pragma once

#include "search.h"

/* Of the pieces of a dep's option, as bits: those of which something is needed,
 * and among them those that are exactly what is needed. Of replicas it is the
 * device's own, or else the first one. */
typedef struct planner_overlap {
    uint32_t some, exact;
    double add_ns; /* slices that have to be added for it */
} planner_overlap;

/* A piece. */
typedef struct planner_part_need {
    double ns, weight_bytes, ring_bytes;
    uint32_t device;
    bool partial, joins;
    bool ends; /* another device needs it for the same node: ends its step */
    uint32_t after; /* as in planner_solve_piece */
    uint16_t
        boxes[PLANNER_SOLVE_DEPS]; /* which box of each dep, see overlaps */
} planner_part_need;

/* What pieces on a device need of a dep's result. */
typedef struct planner_need {
    planner_box box;
    uint32_t device;
} planner_need;

typedef struct planner_parts {
    uint32_t first, n; /* in tables->parts */
    double energy_ns;  /* what they count beside the makespan */
    bool shared;       /* they are on several devices, */
    bool replicated;   /* of which some make the same */
    double longest_ns; /* that a device works on them, but for sums of others */
} planner_parts;

typedef struct planner_class {
    uint32_t node;        /* the first of this class */
    uint32_t first_parts; /* in tables->options */
    uint32_t n_options, n_deps, most_pieces;
    bool adds; /* its slices may have to be added */
    uint32_t first_box[PLANNER_SOLVE_DEPS], n_boxes[PLANNER_SOLVE_DEPS];
} planner_class;

typedef struct planner_consumer {
    uint32_t node, dep; /* index into its deps */
} planner_consumer;

typedef struct planner_step_node {
    uint32_t class;        /* in tables->classes */
    uint32_t first_layout; /* in tables->layouts, one an option */
    uint32_t n_deps;
    uint32_t deps[PLANNER_SOLVE_DEPS];
    uint32_t
        live[PLANNER_SOLVE_DEPS]; /* where among the live nodes the dep is */
    /* [box][option of the dep] */
    const planner_overlap *overlaps[PLANNER_SOLVE_DEPS];
    uint32_t dep_options[PLANNER_SOLVE_DEPS];
    bool adds; /* slices of a dep, with some options */
    uint32_t first_consumer, n_consumers;
    bool rooted;     /* it and all later ones need something, in every option */
    uint32_t n_live; /* before it */
    uint32_t first_retired, n_retired; /* live indices after it that are not
                                          needed any more, from the last */
} planner_step_node;

typedef struct planner_table {
    uint32_t class, dep, of; /* classes of the consumer and of its dep */
    planner_overlap *overlaps;
} planner_table;

typedef struct planner_tables {
    const planner_solve_problem *problem;
    planner_class *classes;
    planner_parts *options;
    planner_part_need *parts;
    planner_need *boxes;
    planner_table *tables;
    /* Options of equal layout differ in times only, to those that use the
     * result. */
    uint64_t *layouts;
    planner_consumer *consumers;
    planner_step_node *nodes; /* [problem->n_nodes] */
    uint32_t *retired;
    uint32_t n_classes, n_options, n_parts, n_boxes, n_tables;
    uint32_t most_live, most_slots; /* at any time, one a piece */
    bool replicates;                /* some options are replicated */
} planner_tables;

/* CLV_ERR_INVALID: the problem is none. It outlives the tables. */
clv_status planner_tables_make(const planner_solve_problem *problem,
                               planner_tables *out);
void planner_tables_finish(planner_tables *tables);

static inline const planner_parts *
planner_tables_parts(const planner_tables *t, uint32_t node, uint32_t option)
{
    return &t->options[t->classes[t->nodes[node].class].first_parts + option];
}

/* The box of a dep's result that a part needs, in the dep's option. */
static inline const planner_overlap *
planner_tables_overlap(const planner_step_node *node,
                       const planner_part_need *part, uint32_t dep,
                       uint32_t option)
{
    return &node->overlaps[dep]
                          [part->boxes[dep] * node->dep_options[dep] + option];
}
