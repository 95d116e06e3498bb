#include "cut_rules.h"

#define NONE CORE_AXIS_NONE
#define ROWS CORE_AXIS_ROWS
#define SEQ CORE_AXIS_SEQUENCE
#define CHAN CORE_AXIS_CHANNELS
#define HEADS CORE_AXIS_HEADS

#define MAX_OPERANDS 5

/* Inputs in order, then the output. */
static const core_cut_operand rules[CLV_OP_COUNT][MAX_OPERANDS] = {
    [CLV_OP_GET_ROWS] = {{NONE, ROWS, 0}, {NONE, SEQ, 0}, {SEQ, ROWS, 0}},
    [CLV_OP_SET_ROWS] = {{NONE, ROWS, 0}, {SEQ, ROWS, 0}, {NONE, SEQ, 0}},
    [CLV_OP_MATMUL] = {{SEQ, CHAN, 0},
                       {ROWS, CHAN, 0},
                       {NONE, ROWS, 0},
                       {SEQ, ROWS, 0}},
    [CLV_OP_ADD] = {{SEQ, ROWS, 0}, {SEQ, ROWS, 0}, {SEQ, ROWS, 0}},
    [CLV_OP_MUL] = {{SEQ, ROWS, 0}, {SEQ, ROWS, 0}, {SEQ, ROWS, 0}},
    [CLV_OP_SILU] = {{SEQ, ROWS, 0}, {SEQ, ROWS, 0}},
    [CLV_OP_GELU] = {{SEQ, ROWS, 0}, {SEQ, ROWS, 0}},
    [CLV_OP_GLU] = {{SEQ, ROWS, 0}, {SEQ, ROWS, 0}, {SEQ, ROWS, 0}},
    [CLV_OP_RMS_NORM] = {{SEQ, NONE, 0}, {NONE, NONE, 0}, {SEQ, NONE, 0}},
    [CLV_OP_LAYER_NORM] = {{SEQ, NONE, 0},
                           {NONE, NONE, 0},
                           {NONE, NONE, 0},
                           {SEQ, NONE, 0}},
    [CLV_OP_ROPE] = {{SEQ, HEADS, 0},
                     {NONE, SEQ, 0},
                     {NONE, NONE, 0},
                     {SEQ, HEADS, 0}},
    [CLV_OP_SOFTMAX] = {{SEQ, NONE, 0}, {SEQ, NONE, 0}},
    [CLV_OP_ATTENTION] = {{SEQ, HEADS, 0},
                          {NONE, HEADS, 1},
                          {NONE, HEADS, 1},
                          {NONE, SEQ, 0},
                          {SEQ, HEADS, 0}},
    [CLV_OP_CONVERT] = {{SEQ, ROWS, 0}, {SEQ, ROWS, 0}},
    [CLV_OP_TOP_K] = {{SEQ, NONE, 0}, {SEQ, NONE, 0}},
    [CLV_OP_MATMUL_EXPERTS] = {{SEQ, NONE, 0},
                               {NONE, NONE, 0},
                               {SEQ, NONE, 0},
                               {SEQ, NONE, 0},
                               {SEQ, NONE, 0}},
};

core_cut_operand core_cut_operand_of(const clv_node *node, uint32_t index)
{
    core_cut_operand none = {NONE, NONE, false};
    if (node->op >= CLV_OP_COUNT || index >= MAX_OPERANDS)
        return none;
    return rules[node->op][index];
}

int64_t core_cut_unit(const clv_node *node, uint32_t axis)
{
    if (axis != HEADS)
        return 1;
    return node->op == CLV_OP_ROPE ? node->attr.rope.head_dim
                                   : node->attr.attention.head_dim;
}

int64_t core_cut_group(const clv_graph *graph, const clv_node *node)
{
    if (node->op != CLV_OP_ATTENTION)
        return 1;
    return graph->tensors[node->inputs[0]].dims[1] /
           graph->tensors[node->inputs[1]].dims[1];
}
