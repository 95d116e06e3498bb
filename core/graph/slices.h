/*
 * Slices: what pieces by experts make of a value that has a part for each id of
 * a row.
 *
 * A piece of MATMUL_EXPERTS without scores that has the weights of some experts
 * gives the parts whose ids are of these, and zeros elsewhere. A GLU of two
 * such slices of the same experts gives another one, and a later MATMUL_EXPERTS
 * needs only the parts of its own experts. So a feed-forward that is cut by
 * experts reads slices and nothing is joined but the sums at its end. Who needs
 * all of the value has the slices added.
 */
#pragma once

#include "cut.h"

#define CORE_NO_SLICE 0xffffffffu

/* Whose parts the ids of a node choose. */
typedef struct core_experts {
    clv_value ids;
    int64_t first, n; /* experts of the weights */
} core_experts;

/* The experts of a MATMUL_EXPERTS, or of a GLU of two of them without scores.
 * False for any other node. */
bool core_cut_experts(const clv_graph *graph, uint32_t node, core_experts *out);
/* Whether an operand of such a node has a part for each id. */
bool core_cut_has_parts(const clv_graph *graph, uint32_t node,
                        uint32_t operand);

/* For each piece of a cut: */
typedef struct core_slice {
    core_range valid; /* experts whose parts its output has, the others are 0;
                         end 0: it makes no slice */
    uint32_t from[2]; /* piece whose slice it reads as input 0 and 1, or
                         CORE_NO_SLICE */
    bool joined;      /* who reads its part of the value needs all experts */
    bool whole;       /* then: its output is that already */
    bool added;       /* to the other slices of its value */
} core_slice;

/* pieces: [n] of all nodes, sorted by node, with all ranges in full. out: [n],
 * the caller's to free(). */
clv_status core_slices_find(const clv_graph *graph, const core_piece *pieces,
                            uint32_t n, core_slice **out);
