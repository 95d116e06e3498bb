/*
 * Which memories hold the newest contents of which part of a tensor. A region
 * is a box of elements; bit m of memories says that memory m has its newest
 * contents. The regions of a tensor are disjoint, and their union is the whole
 * tensor.
 */
#pragma once

#include "graph.h"

typedef struct core_bounds {
    int64_t begin[CLV_MAX_RANK], end[CLV_MAX_RANK];
} core_bounds;

typedef struct core_region {
    core_bounds box;
    uint64_t memories;
    uint32_t writer; /* as given by core_regions_set() */
} core_region;

typedef struct core_regions {
    core_region *list;
    uint32_t n, capacity, rank;
} core_regions;

#define CORE_NO_WRITER 0xffffffffu

clv_status core_regions_begin(core_regions *r, uint32_t rank,
                              const int64_t *dims, uint64_t memories);
void core_regions_finish(core_regions *r);
/* Whether all of the box is as core_regions_set() would leave it. */
bool core_regions_are(const core_regions *r, const core_bounds *box,
                      uint64_t memories, uint32_t writer);
/* The box has been written: now only these memories have it. */
clv_status core_regions_set(core_regions *r, const core_bounds *box,
                            uint64_t memories, uint32_t writer);
/* Those memories have the box too. */
clv_status core_regions_add(core_regions *r, const core_bounds *box,
                            uint64_t memories);
/* The first region's part in the box that lacks some of these memories; false:
 * they have all of it. */
bool core_regions_missing(const core_regions *r, const core_bounds *box,
                          uint64_t memories, core_region *out);

/* Of a whole tensor, and of a value in its base. */
core_bounds core_bounds_whole(uint32_t rank, const int64_t *dims);
core_bounds core_bounds_of(const clv_graph *graph, clv_value value);
bool core_bounds_equal(const core_bounds *a, const core_bounds *b,
                       uint32_t rank);
