/*
 * Which weights a program keeps in another layout where memory for second
 * copies is limited.
 */
#pragma once

#include "lower/check.h"

/* Nodes, from the first on, whose copies take `size` bytes at most, all
 * together. They do not depend on what other programs have copied, so programs
 * with the same products keep, and share, the same. */
uint32_t gpu_count_repacked(const gpu_target *target, const clv_subgraph *graph,
                            uint64_t size);
