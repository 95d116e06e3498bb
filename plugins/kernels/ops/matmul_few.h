/* Products of few rows by matrix instructions: matrix times vector, also of
 * several matrices by one kernel. */
#pragma once

#include "lower/team.h"

/* How many warps share a product, tiles that each has under way, whether groups
 * stay for more of it. */
void gpu_few_ways(const gpu_node *node, gpu_ways *out);
/* tiles: the private buffer with the weights. */
clv_status gpu_few_lower(gpu_lowering *lowering, const gpu_node *node,
                         uint32_t way, uint32_t tiles);

/* Whether the product can be one of a team. */
bool gpu_few_takes(const gpu_node *product);
clv_status gpu_few_lower_team(gpu_lowering *lowering, const gpu_team *team);

/* For the kernels of both languages: what a team's text says of its members but
 * where their weights lie, and its operands: x, gain, turns (gpu_rope_turns()),
 * w, w1, w2, bias, bias1, bias2, dst, dst1, dst2. */
void gpu_few_put_team(gpu_text *text, const gpu_team *team);
void gpu_few_add_team(gpu_call *call, const gpu_team *team,
                      const uint32_t *tiles, uint32_t turns);
