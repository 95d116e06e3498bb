/* Rope angles, for products with a fused ROPE. */
#pragma once

#include "lower/lower.h"

/* The private buffer that has for each position sine and cosine of each pair,
 * times the scale: rows of 2 floats a pair. Positions and frequencies do not
 * change in a run; ropes of the same share it. */
clv_status gpu_rope_angles(gpu_lowering *lowering, const gpu_node *rope,
                           uint32_t *buffer);
