/*
 * A plan: which part of which node runs where and in which step, where every
 * value lies, and every wait between steps. It is data: nothing here runs
 * anything, and the executor adds no decision of its own.
 *
 * Indices: `device` into plan->devices, `node` and `clv_value` into the graph,
 * `step` into plan->steps.
 *
 *   nodes[i]   -> parts[first_part .. + n_parts)   what was decided for a node
 *   steps[s]   -> parts[first_part .. + n_parts)   what a program runs
 *
 * Parts are in step order, and inside a step in node order. A node that is not
 * cut has one part whose ranges are whole. One that is cut has a part for each
 * piece, in as many steps; channel cuts need a sum behind them.
 *
 * Steps are in an order in which they can be submitted. Those of one device run
 * in this order by themselves; all waits between devices are listed. A step is
 * done when its device's timeline has gained `signal` since the run began.
 */
#pragma once

#include "device.h"
#include "graph.h"
#include "memplan.h"

/* Part of an axis, in elements; end 0: the whole axis. */
typedef struct core_range {
    int64_t begin, end;
} core_range;

typedef struct core_part {
    uint32_t node, device, step;
    core_range rows;     /* output features: CLV_SPLIT_ROWS */
    core_range sequence; /* rows of the activation: CLV_SPLIT_SEQUENCE */
    core_range channels; /* input features: CLV_SPLIT_CHANNELS */
    core_range heads;    /* CLV_SPLIT_HEADS */
} core_part;

typedef struct core_choice {
    uint32_t first_part, n_parts;
    char *reason; /* why not an earlier device; NULL: the first one took it */
} core_choice;

/* Until the device's timeline has gained value. by_host: the waiting device
 * cannot watch foreign flag words, so the host waits before it submits. */
typedef struct core_wait {
    uint32_t device;
    uint64_t value;
    bool by_host;
} core_wait;

/* One program on one device. */
typedef struct core_step {
    uint32_t device;
    uint32_t first_part, n_parts;
    uint32_t first_wait, n_waits; /* in plan->waits */
    uint64_t signal;              /* 1 for the device's first step */
} core_step;

typedef enum core_home {
    CORE_HOME_NONE = 0,   /* nothing uses it */
    CORE_HOME_ARENA = 1,  /* at offset in the arena, shared by all devices */
    CORE_HOME_OWN = 2,    /* an input or output: a tensor of the exec */
    CORE_HOME_BOUND = 3,  /* a state: the caller's tensor */
    CORE_HOME_WEIGHT = 4, /* as plan->loads say */
} core_home;

#define CORE_NO_STEP 0xffffffffu

/* Where a value lies and when it is in use. */
typedef struct core_place {
    uint32_t home;        /* core_home */
    uint64_t offset;      /* ARENA */
    uint64_t size;        /* bytes, for the largest symbols */
    clv_value in_place;   /* whose memory it takes over, or CLV_NO_TENSOR */
    uint32_t first_node, last_node; /* that use it */
    uint32_t first_step, last_step;
    uint32_t writer;      /* step that makes it; CORE_NO_STEP: none */
} core_place;

/* A weight on a device: done once, before the first run. */
typedef struct core_load {
    clv_value weight;
    uint32_t device;
    uint32_t holding; /* core_holding: used in place, or copied */
    uint64_t bytes;
} core_load;

typedef struct core_plan_device {
    clv_device *dev;
    uint32_t n_steps; /* of a run; 0: unused */
} core_plan_device;

struct clv_plan {
    clv_context *ctx;
    const clv_graph *graph;
    core_plan_device *devices; /* in preference order */
    core_choice *nodes;        /* [graph->n_nodes] */
    core_part *parts;
    core_step *steps;
    core_wait *waits;
    core_load *loads;
    core_place *places;        /* [graph->n_tensors] */
    uint32_t n_devices, n_parts, n_steps, n_waits, n_loads;
    uint64_t pointer_align;    /* most that a device asks for; at least 1 */
    uint64_t align;            /* of offsets in the arena */
    core_memplan memory;       /* of the arena: size, and what it might be */
};

/* The stages of clv_plan_create(), in this order; each fills its arrays.
 * caps[d * n_nodes + i] is what device d answered for node i. */
clv_status core_plan_place(clv_plan *plan, const clv_op_caps *caps);
clv_status core_plan_steps(clv_plan *plan);
clv_status core_plan_memory(clv_plan *plan, const clv_op_caps *caps);
clv_status core_plan_waits(clv_plan *plan);

/* "matmul blk.0.ffn_up.weight": the op and what tells it from others. */
void core_plan_node_text(const clv_plan *plan, uint32_t node, char *text,
                         size_t size);
