/*
 * Nodes that are alike, and axes that run through several nodes.
 *
 * Layers repeat, so a model has few classes of nodes. An axis of a node is
 * linked with the axes of others along which the same values are divided: the
 * rows of a feed-forward's gate and up with the columns of its GLU and the
 * channels of its down; the heads of an attention with those of its ropes, and
 * with the rows of q, k and v; the experts of gate, up, GLU and down. Cut at
 * the same fraction of their extents they need nothing of each other's devices.
 */
#pragma once

#include "../../core/plan/plan.h"
#include "reads.h"

#define PLANNER_NO_LINK 0xffffffffu

typedef struct planner_class {
    uint32_t first;                  /* node */
    uint32_t links[CORE_AXIS_COUNT]; /* PLANNER_NO_LINK: no such axis */
} planner_class;

/* An axis of a class in a link, and how many nodes of the class it stands for.
 */
typedef struct planner_member {
    uint32_t class, axis, count;
} planner_member;

/* Links whose members are alike are one. */
typedef struct planner_link {
    uint32_t first_member, n_members;
} planner_link;

typedef struct planner_classes {
    uint32_t *of; /* [n_nodes] class */
    planner_class *classes;
    planner_link *links;
    planner_member *members;
    uint32_t n_classes, n_links, n_members;
} planner_classes;

/* caps[d * n_nodes + i] as planner_candidates_make(). align: bytes, of which
 * the devices want addresses to be multiples. */
clv_status planner_classes_find(const clv_plan *plan, const clv_op_caps *caps,
                                const planner_node_reads *reads, uint64_t align,
                                planner_classes *out);
/* Whether the device would use a weight where it lies: only then the plan may
 * give it some of the columns. */
bool planner_weight_in_place(const clv_graph *graph, clv_value weight,
                             const clv_device *dev, uint64_t align);
void planner_classes_finish(planner_classes *classes);
