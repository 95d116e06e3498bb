/*
 * Pieces as cutting reads them: what ranges they have, what they give, and
 * whether those of a node are exactly the node.
 */
#pragma once

#include "cut.h"

/* The value of an input, or after these of the output. */
clv_value core_piece_value(const clv_node *node, uint32_t index);
/* The piece with all ranges in full: an axis that the node lacks, or that is
 * not cut, is 0..extent. CLV_ERR_INVALID: a range that the node does not have.
 */
clv_status core_piece_resolve(const clv_graph *graph, const core_piece *piece,
                              core_piece *full);
/* All pieces of a graph, sorted by node. CLV_ERR_INVALID: those of some node
 * are not exactly the node, or no replicas of it. */
clv_status core_pieces_resolve(const clv_graph *graph, const core_piece *pieces,
                               uint32_t n, core_piece *full);

/* Of pieces with all ranges in full: */
bool core_piece_is_cut(const clv_graph *graph, const core_piece *full,
                       uint32_t axis);
bool core_piece_is_all(const clv_graph *graph, const core_piece *full);
/* Whether it gives a partial sum. Slices are not added by themselves. */
bool core_piece_is_partial(const clv_graph *graph, const core_piece *full);
/* Whether two pieces of a node, by themselves or added, give the same part of
 * its result. */
bool core_piece_same_output(const core_piece *a, const core_piece *b);
