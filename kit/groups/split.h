/* One op divided along an axis: views of its operands as operands of a part. */
#pragma once

#include "../reference/judge.h"

enum {
    ROWS = CLV_CUT_ROWS,
    SEQUENCE = CLV_CUT_SEQUENCE,
    CHANNELS = CLV_CUT_CHANNELS,
    HEADS = CLV_CUT_HEADS,
    EXPERTS = CLV_CUT_EXPERTS,
    N_AXES = CLV_CUT_NONE,
};

/* One division of one op. */
typedef struct split {
    kit *k;
    kit_graph g;
    kit_spec spec;
    uint32_t axis;
    clv_op_caps caps; /* of the whole */
    int64_t begin, n; /* the part now being built, along the axis */
    bool misaligned;  /* a view lies where the device says none may */
} split;

/* Adds the node of the part begin..begin+n-1, which writes its piece of the
 * tensor `to`, or all of it where sums are partial. */
void split_add_part(split *s, uint32_t to);
