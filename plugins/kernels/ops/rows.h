/* Row maps of fused SET_ROWS. */
#pragma once

#include "lower/lower.h"

/* The private buffer that has for each of the ids the row of the state that it
 * names, or -1 where there is none or a later id is the same. Those who ask for
 * the same share it. */
clv_status gpu_row_map(gpu_lowering *lowering, const gpu_tensor *ids,
                       const gpu_tensor *state, uint32_t *buffer);
