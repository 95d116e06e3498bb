/* Products of few rows by matrix instructions: matrix times vector, also of
 * several matrices by one kernel. */
#pragma once

#include "lower/team.h"

/* How many warps share a product, tiles that each has under way. */
void gpu_few_ways(const gpu_node *node, gpu_ways *out);
/* tiles: the private buffer with the weights. */
clv_status gpu_few_lower(gpu_lowering *lowering, const gpu_node *node,
                         uint32_t way, uint32_t tiles);

/* Whether the product can be one of a team. */
bool gpu_few_takes(const gpu_node *product);
clv_status gpu_few_lower_team(gpu_lowering *lowering, const gpu_team *team);
