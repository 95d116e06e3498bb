/*
 * A plan: which part of which node runs where and in which step, where every
 * value lies, and every wait between steps. It is data: nothing here runs
 * anything, and the executor adds no decision of its own.
 *
 * The pieces are the decisions; the rest follows from them. Where nodes are
 * cut, plan->graph is the cut graph (cut.h), in which each node runs whole on
 * one device, and its values that are no views begin with those of the source
 * graph, under the same indices. Else plan->graph is the source graph itself.
 *
 * Indices: `device` into plan->devices, `node` and `clv_value` into
 * plan->graph, `step` into plan->steps.
 *
 *   steps[s] -> parts[first_part .. + n_parts)   what a program runs
 *   parts[p] -> a node of plan->graph, each once
 *   choices[i] -> pieces[first_piece .. + n_pieces) of node i of the source
 *
 * Parts are in step order, and inside a step in node order; this order is one
 * in which they could run one after another. Steps are in the order in which
 * they are submitted: the host waits for nothing longer than a step needs that
 * could not be submitted later without harm. Those of one device run in this
 * order by themselves; all waits between devices are listed. A step is done
 * when its device's timeline has gained `signal` since the run began.
 */
#pragma once

#include "../device/device_memory.h"
#include "../graph/graph.h"
#include "../graph/regions.h"
#include "cut.h"
#include "memplan.h"

typedef struct core_part {
    uint32_t node, device, step;
} core_part;

typedef struct core_choice {
    uint32_t first_piece, n_pieces;
    char *reason; /* why not an earlier device; NULL: the first one took it, or
                     costs decided */
    /* Where costs decided; else 0 and NULL. */
    double ns;             /* of its longest piece, alone */
    char *alternative;     /* the best other way: "all on cpu" */
    double alternative_ns; /* what the run would take with it */
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
    CORE_HOME_ARENA = 1,  /* at offset in the arena of its memory */
    CORE_HOME_OWN = 2,    /* an input or output: a tensor of the exec */
    CORE_HOME_BOUND = 3,  /* a state: the caller's tensor */
    CORE_HOME_WEIGHT = 4, /* as plan->loads say */
} core_home;

#define CORE_NO_STEP 0xffffffffu

/* Where a value lies and when it is in use. */
typedef struct core_place {
    uint32_t home;      /* core_home */
    uint32_t memory;    /* 0: the host's; 1 + d: device d's own */
    clv_value original; /* of a mirror (plan_transfers.h): the value itself */
    bool copied;        /* a base that nodes copy from or to */
    uint64_t offset;    /* ARENA */
    uint64_t size;      /* bytes, for the largest symbols */
    clv_value in_place; /* whose memory it takes over, or CLV_NO_TENSOR */
    uint32_t first_part, last_part; /* that use it or a view of it */
    uint32_t first_step, last_step;
    uint32_t writer; /* step with a node whose output is this value;
                        CORE_NO_STEP: none */
} core_place;

/* A weight on a device: done once, before the first run. */
typedef struct core_load {
    clv_value weight;
    uint32_t device;
    uint32_t holding; /* core_holding: used in place, or copied */
    uint64_t bytes;   /* there */
    core_runs range;  /* of the weight's tensor: what is copied. A view's bytes,
                         or the whole where rows of it are to stay as far apart
                         as they are */
    bool whole;
} core_load;

/* A node that copies between a device's own memory and the host's. */
typedef struct core_copy {
    uint32_t part;
    clv_value from, to;
    bool out;         /* to the host's */
    uint64_t bytes;   /* for the largest symbols, */
    uint64_t n_runs;  /* in so many stretches */
    uint64_t staging; /* where they pass, if the device is staged */
} core_copy;

/* A run needs this part of a state in a memory when it begins, */
typedef struct core_state_use {
    clv_value state;
    uint32_t memory;
    core_bounds box;
} core_state_use;

/* and leaves this one in these, written by a device of memory `writer`. */
typedef struct core_state_end {
    clv_value state;
    core_bounds box;
    uint64_t memories;
    uint32_t writer;
} core_state_end;

typedef struct core_plan_device {
    clv_device *dev;
    uint32_t n_steps; /* of a run; 0: unused */
    bool local;       /* works in memory of its own, of local_type */
    bool staged;      /* and cannot copy from and to the host's memory: bytes
                         pass through staging_size bytes that both see */
    uint32_t local_type;
    uint64_t staging_size;
    core_memplan memory; /* of its own arena, if it is local */
} core_plan_device;

struct clv_plan {
    clv_context *ctx;
    const clv_graph *source;   /* what was planned */
    const clv_graph *graph;    /* what is run: source or cut.graph */
    core_cut cut;              /* nothing in it where no node is cut */
    core_plan_device *devices; /* in preference order */
    core_choice *choices;      /* [source->n_nodes] */
    core_piece *pieces;        /* in node order; device: into devices */
    bool early_steps;          /* see plan_steps.c */
    core_part *parts;          /* [graph->n_nodes] */
    core_step *steps;
    uint64_t *clocks; /* [n_steps * n_devices] signals that each device
                         has given before a step begins, whoever
                         waited for them */
    core_wait *waits;
    core_load *loads;
    core_copy *copies;          /* in the order of their parts */
    core_state_use *state_uses; /* where any device has memory of its own */
    core_state_end *state_ends; /* likewise */
    core_place *places;         /* [graph->n_tensors] */
    uint32_t n_devices, n_pieces, n_parts, n_steps, n_waits, n_loads;
    uint32_t n_copies, n_state_uses, n_state_ends;
    uint64_t pointer_align; /* most that a device asks for; at least 1 */
    uint64_t align;         /* of offsets in the arena */
    core_memplan memory;    /* of the arena in the host's memory: size, and
                               what it might be */
    struct core_forecast *forecast; /* for the largest symbols; NULL: costs are
                                       not known */
};

/* What may be done with nodes. */
typedef enum core_strategy {
    CORE_STRATEGY_FIRST = 0,  /* each on the first device that takes it */
    CORE_STRATEGY_LAYER = 1,  /* whole nodes, where they are best */
    CORE_STRATEGY_TENSOR = 2, /* parts of nodes too */
} core_strategy;

/* A plan from pieces that are given: the solver's, or saved ones. Checked like
 * any input: they cover the graph, and each device takes its own. pieces are
 * copied; device: into params->devices. */
clv_status core_plan_from_pieces(clv_context *ctx, clv_graph *graph,
                                 const clv_plan_params *params,
                                 const core_piece *pieces, uint32_t n_pieces,
                                 clv_plan **out);

/* The same with a say in how parts are joined to steps: early ends them where
 * another device needs something. */
clv_status core_plan_make(clv_context *ctx, clv_graph *graph,
                          const clv_plan_params *params,
                          const core_piece *pieces, uint32_t n_pieces,
                          bool early, clv_plan **out);

/* The stages of clv_plan_create(), in this order; each fills its arrays.
 * all[d * n_nodes + i] is what device d answered for node i of the source;
 * caps[i] what the device of node i of plan->graph answered for it. */
clv_status core_plan_place(clv_plan *plan, const clv_op_caps *all);
clv_status core_plan_steps(clv_plan *plan);
/* Of core_plan_steps(): puts the steps into the order of submission. */
clv_status core_plan_order(clv_plan *plan);
clv_status core_plan_memory(clv_plan *plan, const clv_op_caps *caps);
clv_status core_plan_waits(clv_plan *plan);
/* Whether the host waits where a device needs something of another one. */
bool core_plan_host_waits(const clv_plan *plan, uint32_t device, uint32_t on);

/* Whether dev takes the node as it is; else why not. */
#define CORE_REASON_SIZE 160
bool core_plan_accepts(const clv_graph *graph, const clv_node *node,
                       const clv_device *dev, const clv_op_caps *caps,
                       char reason[CORE_REASON_SIZE]);

/* A forecast by the profiles of the plan's devices, in memory or in the cache;
 * nothing is measured. symbols as core_forecast_make(); CLV_ERR_NOT_FOUND where
 * a cost is not known. */
clv_status core_plan_foresee(const clv_plan *plan, const int64_t *symbols,
                             struct core_forecast **out);

/* Whether the devices that compute on the host's cores leave it one to poll on.
 */
bool core_plan_spare_core(const clv_plan *plan);

/* "matmul blk.0.ffn_up.weight": the op and what tells it from others. */
void core_plan_node_text(const clv_plan *plan, uint32_t node, char *text,
                         size_t size);
