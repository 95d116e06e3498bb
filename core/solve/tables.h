/*
 * What the search asks of a problem again and again, found once: which pieces
 * of one node another one's pieces need, how long results live.
 *
 * Options and pieces are counted from 0 within a kind here.
 */
#pragma once

#include "solve.h"

/* Of the pieces of a dep's option, as bits: those of which something is needed,
 * and among them those that are exactly what is needed. */
typedef struct core_overlap {
    uint32_t some, exact;
} core_overlap;

/* A piece. */
typedef struct core_part_need {
    double ns, weight_bytes;
    uint32_t device;
    bool partial, joins;
    bool ends; /* a partial sum that another device joins: ends its step */
    uint16_t boxes[CORE_SOLVE_DEPS]; /* which box of each dep, see overlaps */
} core_part_need;

typedef struct core_parts {
    uint32_t first, n; /* in tables->parts */
} core_parts;

typedef struct core_kind {
    uint32_t node;        /* the first of this kind */
    uint32_t first_parts; /* in tables->options */
    uint32_t n_options, n_deps, most_pieces;
    uint32_t first_box[CORE_SOLVE_DEPS], n_boxes[CORE_SOLVE_DEPS];
} core_kind;

typedef struct core_consumer {
    uint32_t node, dep; /* index into its deps */
} core_consumer;

typedef struct core_step_node {
    uint32_t kind;         /* in tables->kinds */
    uint32_t first_layout; /* in tables->layouts, one an option */
    uint32_t n_deps;
    uint32_t deps[CORE_SOLVE_DEPS];
    uint32_t live[CORE_SOLVE_DEPS]; /* where among the live nodes the dep is */
    /* [box][option of the dep] */
    const core_overlap *overlaps[CORE_SOLVE_DEPS];
    uint32_t dep_options[CORE_SOLVE_DEPS];
    uint32_t first_consumer, n_consumers;
    bool rooted;     /* it and all later ones need something, in every option */
    uint32_t n_live; /* before it */
    uint32_t first_retired, n_retired; /* live indices after it that are not
                                          needed any more, from the last */
} core_step_node;

typedef struct core_table {
    uint32_t kind, dep, of; /* kinds of the consumer and of its dep */
    core_overlap *overlaps;
} core_table;

typedef struct core_tables {
    const core_solve_problem *problem;
    core_kind *kinds;
    core_parts *options;
    core_part_need *parts;
    core_box *boxes;
    core_table *tables;
    /* Options of equal layout differ in times only, to those that use the
     * result. */
    uint64_t *layouts;
    core_consumer *consumers;
    core_step_node *nodes; /* [problem->n_nodes] */
    uint32_t *retired;
    uint32_t n_kinds, n_options, n_parts, n_boxes, n_tables;
    uint32_t most_live, most_slots; /* at any time, one a piece */
} core_tables;

/* CLV_ERR_INVALID: the problem is none. It outlives the tables. */
clv_status core_tables_make(const core_solve_problem *problem,
                            core_tables *out);
void core_tables_finish(core_tables *tables);

static inline const core_parts *
core_tables_parts(const core_tables *t, uint32_t node, uint32_t option)
{
    return &t->options[t->kinds[t->nodes[node].kind].first_parts + option];
}

/* The box of a dep's result that a part needs, in the dep's option. */
static inline core_overlap core_tables_overlap(const core_step_node *node,
                                               const core_part_need *part,
                                               uint32_t dep, uint32_t option)
{
    return node
        ->overlaps[dep][part->boxes[dep] * node->dep_options[dep] + option];
}
