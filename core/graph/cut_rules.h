/* Which axis of a cut runs along which dimension of an op's operands. */
#pragma once

#include "cut.h"

#define CORE_AXIS_NONE CORE_AXIS_COUNT

/* For an operand of rank 1 only last counts. */
typedef struct core_cut_operand {
    uint8_t first, last; /* core_axis of the outermost and last dimension */
    bool groups;         /* last holds a head for each group of query heads */
} core_cut_operand;

/* index: of an input, or n_inputs for the output. */
core_cut_operand core_cut_operand_of(const clv_node *node, uint32_t index);
/* Elements of the operand's last dimension for one step of the axis: head_dim
 * for heads, else 1. */
int64_t core_cut_unit(const clv_node *node, uint32_t axis);
/* Query heads that share one of k and v. */
int64_t core_cut_group(const clv_graph *graph, const clv_node *node);
