/* What the reference's files share: a node at work. */
#pragma once

#include "reference.h"

typedef struct work {
    const kit_graph *g;
    const clv_node *node;
    kit_values in[CLV_MAX_INPUTS];
    bool has[CLV_MAX_INPUTS];
    kit_values out;
} work;

/* Zeros. */
kit_values kit_rule_values(const kit_graph *g, int64_t rows, int64_t columns);
/* out gets its sums of squares, zeros. */
void kit_rule_squares(work *w);

void kit_rule_select(work *w); /* experts.c */
void kit_rule_experts(work *w);
void kit_rule_sparse_mixer(work *w);
