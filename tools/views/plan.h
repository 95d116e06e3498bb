/*
 * A plan as views of it for people see it: read from the JSON that
 * clv_plan_json() writes, whose arrays these are.
 */
#pragma once

#include <cleave/cleave.h>

#include <cjson/cJSON.h>

#define VIEW_NONE 0xffffffffu
#define VIEW_AXES 4

/* Nanoseconds since the run began. */
typedef struct view_span {
    double begin, end;
} view_span;

typedef struct view_device {
    const char *id, *name;
    uint32_t n_steps;
    double busy_ns;
    bool copies;        /* a queue that only copies */
    bool local;         /* it works in memory of its own */
    bool staged;        /* and copies pass through memory that the host sees */
    uint64_t own_bytes; /* of intermediate values there */
} view_device;

typedef struct view_wait {
    uint32_t step; /* that is waited for */
    uint32_t device;
    uint64_t value;
    bool by_host;
} view_wait;

typedef struct view_step {
    uint32_t device, first_part, n_parts, n_waits;
    uint64_t signal;
    view_wait *waits;
    view_span host_wait, submit, runs;
} view_step;

/* A node of the graph that is run, with its part. */
typedef struct view_node {
    const char *op;
    const cJSON *inputs, *outputs; /* indices of values, or null */
    uint32_t source; /* the node of the planned graph that it comes from */
    uint32_t piece;  /* VIEW_NONE: it copies or joins partial sums */
    uint32_t device, step;
    view_span runs;
    double alone_ns;
} view_node;

typedef struct view_piece {
    uint32_t node; /* of the planned graph */
    const char *reason, *device;
    const char *variant;         /* NULL: the plain one */
    const char *axes[VIEW_AXES]; /* names of the axes that are cut */
    int64_t begin[VIEW_AXES], end[VIEW_AXES];
    uint32_t n_axes;
} view_piece;

/* Why a node of the planned graph is divided as it is. */
typedef struct view_choice {
    uint32_t n_pieces;
    const char *alternative; /* NULL: costs did not decide */
    double alternative_ns;
} view_choice;

typedef struct view_value {
    const char *name, *usage, *shape;
    uint32_t base; /* of which it is a view, or itself */
} view_value;

typedef struct view_load {
    uint32_t weight, device;
    bool copied, streamed; /* neither: used in place */
    uint64_t bytes;
} view_load;

typedef struct view_copy {
    uint32_t device;
    bool to_host;
    uint64_t bytes;
} view_copy;

/* A state that lies on a device in another layout than the host's. */
typedef struct view_layout {
    uint32_t device;
    uint64_t bytes;
} view_layout;

typedef struct view_plan_data {
    cJSON *json;    /* owns all strings below */
    bool predicted; /* spans and times are known */
    double makespan_ns, energy_nj, prepare_ns;
    double measured_ns; /* by earlier runs; 0: there were none */
    view_span last_wait;
    char *symbols; /* "n = 256, rows = 512" */
    uint64_t memory_naive, memory_offsets, memory_objects, memory_size;
    view_device *devices;
    view_step *steps;
    view_node *nodes;
    uint32_t *parts; /* [n_nodes] the node of each part */
    uint32_t *first; /* [n_sources + 1] first node of each source */
    view_piece *pieces;
    view_choice *choices; /* [n_sources] */
    view_value *values;
    view_load *loads;
    view_copy *copies;
    view_layout *layouts;
    uint32_t n_devices, n_steps, n_nodes, n_sources, n_pieces, n_values;
    uint32_t n_loads, n_copies, n_layouts, n_waits;
} view_plan_data;

clv_status view_plan_read(const clv_plan *plan, view_plan_data *out);
void view_plan_finish(view_plan_data *view);

/* "matmul blk.0.ffn_up.weight": the op and what tells it from others. */
void view_node_text(const view_plan_data *view, uint32_t node, char *text,
                    size_t size);
/* ", rows 0..96, sequence 4..8"; "" for a whole node. Returns text. */
#define VIEW_RANGES_TEXT 256
const char *view_ranges_text(const view_plan_data *view, uint32_t node,
                             char text[VIEW_RANGES_TEXT]);

/* What repeats in a list: period * count items from `first` on; count 1: they
 * do not repeat. */
typedef struct view_fold {
    uint32_t first, period, count;
} view_fold;

/* hashes[n]: equal for equal items. *out is the caller's, for free(): it covers
 * the list. */
clv_status view_folds_find(const uint64_t *hashes, uint32_t n, view_fold **out,
                           uint32_t *n_out);
/* The same of the planned graph's nodes: equal are those that do the same on
 * the same devices. */
clv_status view_folds_of_nodes(const view_plan_data *view, view_fold **out,
                               uint32_t *n_out);
/* What the weights of n source nodes from `source` on have in their names
 * before the first dot that follows a number: "blk.12"; "" if nothing. */
#define VIEW_LAYER_NAME 40
void view_layer_name(const view_plan_data *view, uint32_t source, uint32_t n,
                     char out[VIEW_LAYER_NAME]);

/* FNV-1a; begins with VIEW_HASH_SEED. */
#define VIEW_HASH_SEED 0xcbf29ce484222325u
uint64_t view_hash(uint64_t hash, const void *data, size_t size);
