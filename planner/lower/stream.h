/*
 * Weights that a device does not hold: each run copies them into a ring in the
 * device's own memory, from memory that the host sees too, while the device
 * computes with those before. So only the ring takes memory there. Large ones
 * are copied in parts (chunks.h) where copies run beside the work.
 *
 * Weights of pieces that are streamed once lie beside the ring, each in a place
 * of its own for as long as a run lasts. So they are still there when the next
 * run begins, unless another plan's run worked in the same memory, and the
 * executor leaves their copies out (core/exec/copy.c).
 *
 * The ring is a value of bytes; each streamed weight is a view of it. A copy
 * that overwrites another weight conflicts with the nodes that read that one,
 * so waits follow as they do for any other value. Copies run on a queue that
 * only copies, where the device has one.
 */
#pragma once

#include "lower.h"

/* Where each weight begins in a ring: at a multiple of what any device asks
 * for. */
#define PLANNER_STREAM_ALIGN 4096u

/* A weight of a node, or its scales; or a part of it that is copied by itself.
 */
typedef struct planner_stream {
    uint32_t node;   /* of the cut graph that computes with it */
    uint32_t device; /* and where */
    uint32_t at;     /* the copy may run before this node, not earlier */
    clv_value weight, copy, part; /* the node reads the copy, of which this part
                                     is written; it may be all of it */
    uint32_t dim;                 /* the part's range of this dimension; */
    int64_t begin, end;           /* end 0: all of it */
    uint64_t offset, size;        /* in the ring */
    uint64_t before, due; /* bytes copied before it, and until its node has all
                             that it reads */
} planner_stream;

struct planner_streams {
    planner_stream *list; /* by device, then in the order of nodes */
    uint32_t n, capacity;
    clv_value *rings; /* [plan->n_devices] CLV_NO_TENSOR: none. What is kept is
                         plan->devices[d].kept */
};

/* Gives the nodes of streamed pieces views of a ring for their weights; the
 * plan's graph is a cut one if there are any. CLV_ERR_INVALID for a device
 * without memory of its own. */
clv_status planner_streams_find(clv_plan *plan, planner_streams *out);
/* The plan's queues that copy: queues[d] is that of device d, or d. */
clv_status planner_streams_queues(clv_plan *plan,
                                  const planner_streams *streams,
                                  uint32_t *queues);
/* Whether it is a ring, or what is kept. */
bool planner_is_ring(const planner_streams *streams, const clv_plan *plan,
                     clv_value value);
void planner_streams_finish(planner_streams *streams);
