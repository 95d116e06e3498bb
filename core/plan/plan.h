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
 * plan->graph, `step` into plan->steps. Where pieces, weights and memories are
 * concerned, a device is its first queue.
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

#include "../device/memory.h"
#include "../graph/graph.h"
#include "../graph/regions.h"
#include "../graph/cut.h"

typedef struct core_part {
    uint32_t node, device, step;
} core_part;

/* Of a piece; empty for the plain variant. */
typedef struct core_variant_name {
    char text[sizeof((clv_variant){0}.name)];
} core_variant_name;

typedef struct core_choice {
    uint32_t first_piece, n_pieces;
    char *reason; /* why not an earlier device; NULL: the first one took it, or
                     costs decided */
    /* Where costs decided; else 0 and NULL. */
    double ns;             /* of its longest piece, alone */
    char *alternative;     /* the best other way: "all on cpu" */
    double alternative_ns; /* what the run would take with it */
} core_choice;

/* Until the queue's timeline has gained value. by_host: the waiting device
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
    bool streamed;    /* to memory that the host sees; copied on by runs, */
    bool kept;        /* but not while nobody else uses where it lies then */
    uint64_t bytes;   /* there */
    core_runs range;  /* of the weight's tensor: what is copied. A view's bytes,
                         or the whole where rows of it are to stay as far apart
                         as they are */
    bool whole;
} core_load;

/*
 * What of the weights that devices use in mapped files does not find room in
 * the host's memory. A weight that every run reads whole is either kept, or the
 * run reads it from the file: it is asked for ahead, and given up after its
 * use, so that it drives out none that is kept. Of weights of which a run uses
 * only some experts the system keeps what was used last.
 */
typedef struct core_plan_file {
    bool *read;     /* [graph->n_tensors] bases that are read from the file;
                       NULL: none */
    double missed;  /* part of the experts' bytes that is not in memory */
    uint64_t room;  /* bytes of the host's memory for such weights, */
    uint64_t used;  /* and of the weights */
    uint64_t ahead; /* at most so many are asked for before they are used */
    double speed;   /* bytes a ns that the file gives; 0: not known */
} core_plan_file;

/* A node that copies between a device's own memory and the host's. */
typedef struct core_copy {
    uint32_t part;
    clv_value from, to;
    bool out;         /* to the host's */
    bool streams;     /* a weight, of which a streamed load has the bytes */
    bool kept;        /* as core_load */
    uint64_t bytes;   /* for the largest symbols, */
    uint64_t n_runs;  /* in so many ranges */
    bool staged;      /* through staging memory of the device, */
    uint64_t staging; /* where its bytes are from here on */
    bool relayed; /* other steps write or read what is staged: the host moves
                     it between steps */
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

typedef struct core_span {
    double begin_ns, end_ns; /* since the run began */
} core_span;

/*
 * What a run of the plan takes, as predicted from profiles; times in ns since
 * the run began. The executor waits by it, and views show it.
 */
typedef struct core_forecast {
    double makespan_ns;    /* until the host goes on after the last wait */
    double energy_nj;      /* of the work; 0: unknown */
    core_span *parts;      /* [plan->n_parts] */
    double *costs_ns;      /* [plan->n_parts] of the part alone */
    core_span *steps;      /* [plan->n_steps] on the device, with dispatch */
    core_span *submits;    /* [plan->n_steps] of the host */
    core_span *host_waits; /* [plan->n_steps] before the submit */
    core_span last_wait;   /* of the host, for everything to end */
    double *busy_ns;       /* [plan->n_queues] */
    double certain; /* part of the devices' work whose costs were measured */
} core_forecast;

void core_forecast_free(core_forecast *forecast); /* NULL is legal */

/* How much memory an arena takes, and what it might take. */
typedef struct core_memplan {
    uint64_t naive;   /* bytes without sharing */
    uint64_t offsets; /* bytes by offsets */
    uint64_t objects; /* bytes by shared objects */
    uint64_t live;    /* most bytes live at one node: no plan needs less */
    uint64_t size;    /* bytes used */
} core_memplan;

/* A queue of a device that steps are submitted to. */
typedef struct core_plan_device {
    clv_device *dev;
    uint32_t queue;   /* of the device: 0, or one that only copies */
    uint32_t n_steps; /* of a run; 0: unused */
    uint64_t room;    /* planner_room() before anything was measured, less
                         what the plan before takes, and */
    uint64_t more;    /* in it what is only supposed to be there */
    uint64_t given;   /* bytes for values that are there already */
    uint64_t states;  /* and of graphs' states */
    uint64_t reserve; /* of what later plans will work on, */
    uint64_t reserve_values; /* and of it values between nodes */
    uint64_t work;    /* what a plan works on that has all nodes there, */
    uint64_t scratch; /* and of it scratch; 0: not known (planner/work.h) */
    bool local;       /* works in memory of its own, of local_type */
    bool staged;      /* and cannot copy from and to the host's memory: bytes
                         pass through staging_size bytes that both see */
    uint32_t local_type;
    uint64_t staging_size, scratch_size; /* latter: that its programs share */
    core_memplan memory;                 /* of its own arena, if it is local */
    uint64_t ring_size; /* in it, of what weights pass through */
    clv_value kept;     /* in it, weights that stay until others use the memory;
                           CLV_NO_TENSOR: none */
    /* clv_plan_params; read while plans are made. */
    const clv_plan *after;
    /* The highest rates that were measured on it, a ns; 0: unknown. */
    double top_bytes, top_flops;
} core_plan_device;

/* The runs that will be under way at once: clv_plan_params. */
typedef struct core_plan_flight {
    uint32_t n;       /* at least 1 */
    int64_t *symbols; /* [n, source->n_symbols]; NULL: the largest */
    double ns;        /* what they take, of which each has an equal part; 0: n
                         is 1, or costs are not known */
} core_plan_flight;

struct clv_plan {
    clv_device *short_device; /* of the latest exec that failed */
    clv_context *ctx;
    const clv_graph *source;   /* what was planned */
    const clv_graph *graph;    /* what is run: source or cut.graph */
    core_cut cut;              /* nothing in it where no node is cut */
    core_plan_device *devices; /* [n_queues] in preference order, then the
                                  queues that copy for some of them */
    core_choice *choices;      /* [source->n_nodes] */
    core_piece *pieces;        /* in node order; device: into devices */
    core_variant_name *names;  /* [n_pieces] of their variants; NULL: all are
                                  the plain one */
    core_part *parts;          /* [graph->n_nodes] */
    core_step *steps;
    uint64_t *clocks; /* [n_steps * n_queues] signals that each queue
                         has given before a step begins, whoever
                         waited for them */
    core_wait *waits;
    core_load *loads;
    core_copy *copies;          /* in the order of their parts */
    core_state_use *state_uses; /* where any device has memory of its own */
    core_state_end *state_ends; /* likewise */
    core_place *places;         /* [graph->n_tensors] */
    core_plan_file file;
    uint32_t n_devices, n_queues; /* n_devices: queues that compute */
    uint32_t n_pieces, n_parts, n_steps, n_waits, n_loads;
    uint32_t n_copies, n_state_uses, n_state_ends;
    uint64_t pointer_align;  /* most that a device asks for; at least 1 */
    uint64_t align;          /* of offsets in the arena */
    uint32_t shared_device;  /* the arena in the host's memory, inputs and
                                outputs are in memory of this one, from 1, that
                                the host sees, and that others of its plugin
                                may import; 0: in any of the host's */
    core_memplan memory;     /* of the arena in the host's memory: size, and
                                what it might be */
    core_forecast *forecast; /* for the largest symbols; NULL: costs are
                                       not known */
    /* Bytes moved and operations of a node for these symbols; NULL: unknown. */
    void (*node_work)(const clv_graph *graph, uint32_t node,
                      const int64_t *symbols, double *bytes, double *flops);
    core_plan_flight flight;
    double together_ns; /* as clv_plan_summary */
    uint64_t problem;   /* hash of the graph and the devices */
    uint64_t identity;  /* hash of the problem and the pieces */
    uint64_t question;  /* planner_question() that it was searched for; 0: it
                           was not */
    double run_ratio;   /* what earlier runs took, as a part of what is
                           forecast for them; 0: it has not run */
    double prepare_ns;  /* that compiling its programs takes, as predicted */
    double noise;       /* standard deviation of a run, as a part of it, on
                           simulated devices whose times are random; else 0 */
};

/* What a run with the largest symbols takes, ns: the forecast, corrected by
 * earlier runs. 0: not known. */
double core_plan_expected_ns(const clv_plan *plan);

/* Nodes that copy input 0 to output 0, boxes of equal shape. */
#define CORE_OP_COPY CLV_OP_NONE

/* Ranges of a copy's bytes in the base of `value`, for these symbols (NULL:
 * the largest). */
clv_status core_plan_copy_runs(const clv_plan *plan, clv_value value,
                               const int64_t *symbols, core_runs *out);

static inline bool core_part_copies(const clv_plan *plan, uint32_t part)
{
    return plan->graph->nodes[plan->parts[part].node].op == CORE_OP_COPY;
}

/* Whether a value is a state that a device stores in another layout. */
static inline bool core_plan_layout_on(const clv_plan *plan, clv_value value,
                                       uint32_t device)
{
    return plan->graph->tensors[value].layout &&
           plan->places[value].memory == 1 + device;
}

/* Of the value that this one is, or is a view of. */
static inline const core_place *core_plan_base(const clv_plan *plan,
                                               clv_value value)
{
    return &plan->places[plan->graph->values[value].base];
}

/* Of a value in the program of a step that uses it: what passes between
 * programs are inputs and outputs of theirs. */
uint32_t core_plan_usage(const clv_plan *plan, uint32_t step, clv_value value);

/* Whether the value is among the weights that a device keeps among values. */
static inline bool core_plan_is_kept(const clv_plan *plan, clv_value value)
{
    const clv_value base = plan->graph->values[value].base;
    for (uint32_t d = 0; d < plan->n_devices; d++)
        if (plan->devices[d].kept == base)
            return true;
    return false;
}

/* Whether a copying part leaves its device's memory. */
static inline bool core_part_copies_out(const clv_plan *plan, uint32_t part)
{
    const clv_node *node = &plan->graph->nodes[plan->parts[part].node];
    return !core_plan_base(plan, node->outputs[0])->memory;
}

/* Bytes of a weight's value that a part reads in the host's memory, in a file
 * that is mapped: from *data on; 0: none. A row that is gathered does not
 * count. */
uint64_t core_plan_file_operand(const clv_plan *plan, uint32_t part,
                                clv_value value, const char **data);
/* Whether a part reads some experts' weights, as against all of them. */
bool core_plan_reads_experts(const clv_plan *plan, uint32_t part);
/* Bytes that a part is expected to read from the file, for these symbols (NULL:
 * the largest). */
uint64_t core_plan_file_bytes(const clv_plan *plan, uint32_t part,
                              const int64_t *symbols);
/* Of all parts. */
uint64_t core_plan_file_sum(const clv_plan *plan, const int64_t *symbols);

/* Bytes that the plan leaves of the device's own memory for second copies of
 * weights, beside its weights, states and values and those of longer runs;
 * *weights: bytes of the weights there, but for those in its own layout, which
 * it does not copy a second time. UINT64_MAX: the device does not say how much
 * memory it has. */
uint64_t core_plan_room_for_copies(const clv_plan *plan, uint32_t device,
                                   uint64_t *weights);
/* Whether a load takes of a limited address space, and which of its tensor's
 * bytes. */
bool core_plan_load_reaches(const clv_plan *plan, const core_load *load);
clv_status core_plan_reach(const clv_plan *plan, const core_load *load,
                           core_runs *out);
/* Bytes of the load that are not on its device yet, and have to be copied. */
uint64_t core_plan_missing(const clv_plan *plan, const core_load *load);
/* The same, or that no exec uses there: what the load takes of the memory that
 * plans can have. */
uint64_t core_plan_unused(const clv_plan *plan, const core_load *load);
/* Bytes of the graph's weights in the device's own memory that no exec uses. */
uint64_t core_plan_unused_bytes(const clv_graph *graph, const clv_device *dev);

/* Whether the devices that compute on the host's cores leave it one to poll on.
 */
bool core_plan_spare_core(const clv_plan *plan);

/* "matmul blk.0.ffn_up.weight": the op and what tells it from others. */
void core_plan_node_text(const clv_plan *plan, uint32_t node, char *text,
                         size_t size);

const char *core_plan_device_id(const clv_plan *plan, uint32_t device);
/* What decided about a node of the graph that is run: NULL for one that joins
 * partial sums. */
const core_piece *core_plan_piece_of(const clv_plan *plan, uint32_t node);
/* The node of the source graph that a node of plan->graph comes from. */
uint32_t core_plan_source_of(const clv_plan *plan, uint32_t node);
/* The pieces of a saved plan, for the devices that it names. */
typedef struct core_saved_plan {
    clv_device **devices; /* in order of appearance */
    core_piece *pieces;   /* device: into devices; variant: 0, as its name */
    core_variant_name *names; /* [n_pieces] tells which it is; NULL: all are
                                 the plain one */
    uint32_t n_devices, n_pieces;
} core_saved_plan;

/* Nothing in the text is believed: the pieces name nodes of the graph and
 * devices that are allowed (NULL, or no devices in it: all of the context).
 * Whether they divide the nodes properly is core_cut_make()'s to check. */
clv_status core_plan_read_json(clv_context *ctx, const clv_graph *graph,
                               const clv_plan_params *allowed, const char *json,
                               uint64_t size, core_saved_plan *out);
void core_saved_plan_finish(core_saved_plan *saved);
/* What clv_plan_json() writes of the pieces and of what else might have been
 * chosen, without what follows from the pieces; *out is for
 * clv_string_free(). */
clv_status core_plan_decisions_json(const clv_plan *plan, char **out);
/* Takes over what else might have been chosen for the plan's nodes. */
clv_status core_plan_read_choices(clv_plan *plan, const char *json,
                                  uint64_t size);
