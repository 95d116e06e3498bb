/*
 * Which weights a plan keeps among values, where batches work (core_stream).
 * The search counts what a device may hold and what it may keep as one. Of the
 * pieces that it chose, as many are streamed once as the device may not hold.
 */
#pragma once

#include "solver.h"

/* bytes: [n] of the pieces' weights that their devices have to hold. */
void planner_keep_some(const planner_solver *v, core_piece *pieces,
                       const uint64_t *bytes, uint32_t n);
