#include "regions.h"
#include "../base/error.h"
#include "../base/grow.h"

#include <stdlib.h>
#include <string.h>

core_bounds core_bounds_whole(uint32_t rank, const int64_t *dims)
{
    core_bounds box = {0};
    for (uint32_t i = 0; i < rank; i++)
        box.end[i] = dims[i];
    return box;
}

core_bounds core_bounds_of(const clv_graph *graph, clv_value value)
{
    const clv_tensor_desc *desc = &graph->tensors[value];
    core_bounds box = {0};
    for (uint32_t i = 0; i < desc->rank; i++) {
        box.begin[i] = graph->values[value].origin[i];
        box.end[i] = box.begin[i] + desc->dims[i];
    }
    return box;
}

bool core_bounds_equal(const core_bounds *a, const core_bounds *b,
                       uint32_t rank)
{
    return !memcmp(a->begin, b->begin, rank * sizeof *a->begin) &&
           !memcmp(a->end, b->end, rank * sizeof *a->end);
}

static bool meet(const core_bounds *a, const core_bounds *b, uint32_t rank,
                 core_bounds *both)
{
    *both = (core_bounds){0};
    for (uint32_t i = 0; i < rank; i++) {
        both->begin[i] = a->begin[i] > b->begin[i] ? a->begin[i] : b->begin[i];
        both->end[i] = a->end[i] < b->end[i] ? a->end[i] : b->end[i];
        if (both->begin[i] >= both->end[i])
            return false;
    }
    return true;
}

static clv_status append(core_regions *r, const core_region *region)
{
    if (!core_grow(&r->list, &r->capacity, r->n + 1ull, sizeof *r->list))
        return core_no_memory("for the regions of a tensor");
    r->list[r->n++] = *region;
    return CLV_OK;
}

clv_status core_regions_begin(core_regions *r, uint32_t rank,
                              const int64_t *dims, uint64_t memories)
{
    const core_region all = {core_bounds_whole(rank, dims), memories,
                             CORE_NO_WRITER};
    *r = (core_regions){.rank = rank};
    return append(r, &all);
}

void core_regions_finish(core_regions *r)
{
    free(r->list);
    *r = (core_regions){0};
}

/* Divides regions until each lies either inside or outside the box. */
static clv_status split(core_regions *r, const core_bounds *box)
{
    for (uint32_t i = 0; i < r->n; i++) {
        core_bounds both;
        if (!meet(&r->list[i].box, box, r->rank, &both))
            continue;
        for (uint32_t d = 0; d < r->rank; d++) {
            core_region side = r->list[i];
            if (side.box.begin[d] < both.begin[d]) {
                side.box.end[d] = both.begin[d];
                CLV_TRY(append(r, &side));
            }
            side = r->list[i];
            if (side.box.end[d] > both.end[d]) {
                side.box.begin[d] = both.end[d];
                CLV_TRY(append(r, &side));
            }
            r->list[i].box.begin[d] = both.begin[d];
            r->list[i].box.end[d] = both.end[d];
        }
    }
    return CLV_OK;
}

static bool inside(const core_regions *r, uint32_t i, const core_bounds *box)
{
    core_bounds both;
    return meet(&r->list[i].box, box, r->rank, &both);
}

/* Whether b continues a in one dimension. */
static bool joins(const core_region *a, const core_region *b, uint32_t rank,
                  uint32_t *dim)
{
    uint32_t differ = 0;
    if (a->memories != b->memories || a->writer != b->writer)
        return false;
    for (uint32_t d = 0; d < rank; d++) {
        if (a->box.begin[d] == b->box.begin[d] &&
            a->box.end[d] == b->box.end[d])
            continue;
        if (differ++ || a->box.end[d] != b->box.begin[d])
            return false;
        *dim = d;
    }
    return differ == 1;
}

static void merge(core_regions *r)
{
    for (uint32_t i = 0; i < r->n; i++)
        for (uint32_t j = 0; j < r->n; j++) {
            uint32_t dim = 0;
            if (i == j || !joins(&r->list[i], &r->list[j], r->rank, &dim))
                continue;
            r->list[i].box.end[dim] = r->list[j].box.end[dim];
            r->list[j] = r->list[--r->n];
            if (i == r->n)
                i = j;
            j = (uint32_t)-1;
        }
}

bool core_regions_are(const core_regions *r, const core_bounds *box,
                      uint64_t memories, uint32_t writer)
{
    for (uint32_t i = 0; i < r->n; i++)
        if ((r->list[i].memories != memories || r->list[i].writer != writer) &&
            inside(r, i, box))
            return false;
    return true;
}

clv_status core_regions_set(core_regions *r, const core_bounds *box,
                            uint64_t memories, uint32_t writer)
{
    const core_region region = {*box, memories, writer};
    CLV_TRY(split(r, box));
    for (uint32_t i = 0; i < r->n;) {
        if (inside(r, i, box))
            r->list[i] = r->list[--r->n];
        else
            i++;
    }
    CLV_TRY(append(r, &region));
    merge(r);
    return CLV_OK;
}

clv_status core_regions_add(core_regions *r, const core_bounds *box,
                            uint64_t memories)
{
    CLV_TRY(split(r, box));
    for (uint32_t i = 0; i < r->n; i++)
        if (inside(r, i, box))
            r->list[i].memories |= memories;
    merge(r);
    return CLV_OK;
}

bool core_regions_missing(const core_regions *r, const core_bounds *box,
                          uint64_t memories, core_region *out)
{
    for (uint32_t i = 0; i < r->n; i++) {
        core_bounds both;
        if (!(memories & ~r->list[i].memories) ||
            !meet(&r->list[i].box, box, r->rank, &both))
            continue;
        *out = r->list[i];
        out->box = both;
        return true;
    }
    return false;
}
