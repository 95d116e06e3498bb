/* Products of few rows by matrix instructions: matrix times vector, also of
 * several matrices by one kernel. */
#pragma once

#include "graph/group.h"

/* How many warps share a product, tiles that each has under way, whether groups
 * stay for more of it. */
void gpu_few_ways(const gpu_node *node, gpu_ways *out);
/* tiles: the private buffer with the weights. */
clv_status gpu_few_lower(gpu_lowering *lowering, const gpu_node *node,
                         uint32_t way, uint32_t tiles);

/* For the kernels of both languages. Columns of x: a power of two. */
int64_t gpu_few_columns(const gpu_node *node);
/* Defines what the text is to know of the product, and of its team; NULL: it
 * has none. */
void gpu_few_define(gpu_call *call, const gpu_node *node, const gpu_team *team);
/* What a team's text says of its members but where their weights lie, and its
 * operands: x, gain, turns (gpu_rope_turns()), w, w1, w2, bias, bias1, bias2,
 * dst, dst1, dst2. */
void gpu_few_put_team(gpu_text *text, const gpu_team *team);
void gpu_few_add_team(gpu_call *call, const gpu_team *team,
                      const uint32_t *tiles, uint32_t turns);
