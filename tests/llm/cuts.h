/*
 * Plans for models, made by a rule: each node that can be divided is divided
 * over all devices of a set in the same manner; the other nodes go to the
 * devices in rotation. Sessions get them as JSON, like saved plans.
 */
#pragma once

#include "../core/divide.h"

#include "../../core/graph/graph.h"

#define CUTS_DEVICES 4
#define CUTS_ROWS_OF_RUN 5 /* tokens that the kinds with sequences divide */

typedef enum cuts_kind {
    CUTS_ROWS = 0,     /* output features, columns */
    CUTS_SEQUENCE = 1, /* tokens */
    CUTS_CHANNELS = 2, /* input features, in partial sums */
    CUTS_HEADS = 3,
    CUTS_HYBRID = 4,  /* rows of some tokens, the others elsewhere */
    CUTS_LENGTHS = 5, /* tokens, of which one device has two pieces */
    CUTS_PAIRS = 6,   /* rows of gate and up, then channels of down */
    CUTS_EXPERTS = 7,
    CUTS_RANDOM = 8,
    CUTS_COUNT
} cuts_kind;

const char *cuts_name(uint32_t kind);

typedef struct cuts {
    const clv_graph *graph;
    clv_device *const *devices; /* the set */
    uint32_t n_devices;
    bool takes[CUTS_DEVICES][CLV_OP_COUNT];
    uint32_t kind;
    test_random *random; /* of CUTS_RANDOM */
    test_random *lanes;  /* of it, whether weights are held or streamed where
                            devices have memory of their own; NULL: held */

    core_piece *pieces; /* owned; device: into devices */
    uint32_t n_pieces, capacity;
    uint32_t n_cut; /* nodes of which several devices have pieces */
} cuts;

/* Divides the graph, and returns the plan as JSON, for free(). */
char *cuts_make(cuts *c);
void cuts_finish(cuts *c);
