/*
 * Cutting: one op divided over several devices.
 *
 * A piece is a decision: this part of a node runs on that device. Pieces are
 * the answer of the search, and a saved plan holds them. core_cut_make() turns
 * them into a graph in which every node runs whole on one device. A node that
 * is divided becomes one node for each piece. The operands of these nodes are
 * views of the original values, so nothing is moved or copied. Pieces along
 * input channels give partial sums. ADD nodes add them on the device of the
 * first of these pieces, so the order of the pieces decides where.
 *
 * Several devices may have the same result, so that what reads it need not wait
 * for another device. A node is replicated if all of it is a piece on each of
 * several devices. Partial sums are replicated if other pieces than the first
 * one say `adds`: their devices add all of them for themselves, in the same
 * order. The first device writes the value itself. Each other one writes a
 * replica of it, a value that the cut adds, and its pieces read that.
 *
 * Axes of a cut, as CLV_SPLIT_* of plugin.h has them:
 *   rows      output features of MATMUL and GET_ROWS, columns of SET_ROWS and
 *             of elementwise ops
 *   sequence  rows of the activation; only where their number is fixed
 *   channels  input features of MATMUL
 *   heads     of ROPE and ATTENTION, there in whole groups of query heads
 *   experts   of MATMUL_EXPERTS: with scores partial sums, else slices, which
 *             GLU and the next one read as they are (slices.h)
 */
#pragma once

#include "graph.h"

/* Part of an axis, in elements; end 0: the whole axis. */
typedef struct core_range {
    int64_t begin, end;
} core_range;

typedef enum core_axis {
    CORE_AXIS_ROWS = CLV_CUT_ROWS,
    CORE_AXIS_SEQUENCE = CLV_CUT_SEQUENCE,
    CORE_AXIS_CHANNELS = CLV_CUT_CHANNELS,
    CORE_AXIS_HEADS = CLV_CUT_HEADS,
    CORE_AXIS_EXPERTS = CLV_CUT_EXPERTS,
    CORE_AXIS_COUNT = CLV_CUT_NONE,
} core_axis;

/* "rows" */
const char *core_axis_name(uint32_t axis);

/* How the weights of a piece come to its device, if it does not hold them. */
typedef enum core_stream {
    CORE_STREAM_NOT = 0,
    CORE_STREAM_EACH = 1, /* in each run */
    CORE_STREAM_ONCE = 2, /* in the first run after others have worked in the
                             memory that they lie in */
} core_stream;

typedef struct core_piece {
    uint32_t node, device; /* device: as the caller numbers them */
    uint32_t streamed;     /* core_stream */
    uint32_t variant;      /* of the node, as the device has it; 0: the plain
                              one. Pieces are compared as bytes */
    uint32_t adds;         /* 1: a partial sum whose device adds all of the
                              node's, as that of the first piece always does */
    core_range ranges[CORE_AXIS_COUNT];
} core_piece;

#define CORE_NO_PIECE 0xffffffffu

typedef struct core_cut {
    clv_graph *graph;  /* owned. The values of the source graph keep their
                          indices; views and partial sums follow */
    uint32_t *devices; /* [graph->n_nodes] */
    uint32_t *pieces;  /* [graph->n_nodes] CORE_NO_PIECE: joins partial sums */
    uint32_t *sources; /* [graph->n_nodes] node of the source graph */
} core_cut;

/* Elements of an operand's last dimension for one step of the axis: head_dim
 * for heads, else 1. */
int64_t core_cut_unit(const clv_node *node, uint32_t axis);
/* Query heads that share one head of the operands marked with groups. */
int64_t core_cut_group(const clv_graph *graph, const clv_node *node);
/* Elements of an axis of a node; 0 where the node has no such axis, and for a
 * sequence whose length is a symbol. */
int64_t core_cut_extent(const clv_graph *graph, uint32_t node, uint32_t axis);
/* Pieces begin and end at multiples of this, whatever devices allow: blocks of
 * the weight, groups of heads. */
int64_t core_cut_granule(const clv_graph *graph, uint32_t node, uint32_t axis);
/* What a piece, with all ranges in full, touches of the first and of the last
 * dimension of an operand that is there. */
void core_cut_box(const clv_graph *graph, const core_piece *full,
                  uint32_t operand, core_range out[2]);
/* Whether a piece is the whole node. */
bool core_piece_is_whole(const core_piece *piece);
/* Whether a node may be replicated: what it writes is one value, and no state.
 */
bool core_cut_may_replicate(const clv_graph *graph, uint32_t node);

/* pieces: sorted by node, at least one for each, in any order within a node.
 * CLV_ERR_INVALID if those of a node are not exactly the node: a gap, an
 * overlap that is no replica, an axis it does not have, part of a block. Nodes
 * that write states have no replicas. The source graph outlives the cut. */
clv_status core_cut_make(const clv_graph *graph, const core_piece *pieces,
                         uint32_t n_pieces, core_cut *out);
/* A graph to ask devices what they would take: a node for each of the pieces,
 * which may overlap and leave gaps, and after one that makes a partial sum the
 * ADD that would join it. pieces[i] of the cut: whose the node is, of the ADD
 * too. CLV_ERR_INVALID for a range that the node does not have. */
clv_status core_cut_try(const clv_graph *graph, const core_piece *pieces,
                        uint32_t n_pieces, core_cut *out);
/* Views of columns of weights that only such devices use lie there without
 * gaps: those have memory of their own, into which weights are copied. local:
 * for each of the devices. */
clv_status core_cut_pack(core_cut *cut, const bool *local);
void core_cut_finish(core_cut *cut);
