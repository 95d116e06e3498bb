/*
 * What the memory planner is measured by: a straightforward allocator, and what
 * no plan can do without. Written without a look at how the planner does it.
 */
#pragma once

#include "../../planner/memory/memplan.h"

static inline uint64_t rival_round(uint64_t size, uint64_t align)
{
    return (size + align - 1) / align * align;
}

static inline bool rival_together(const planner_lifetime *a,
                                  const planner_lifetime *b)
{
    return a->first <= b->last && b->first <= a->last;
}

/* Every tensor its own. */
static inline uint64_t rival_unshared(const planner_lifetime *t, uint32_t n,
                                      uint64_t align)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += rival_round(t[i].size, align);
    return sum;
}

/* The most bytes live at one of the nodes. */
static inline uint64_t rival_bound(const planner_lifetime *t, uint32_t n,
                                   uint32_t n_nodes, uint64_t align)
{
    uint64_t most = 0;
    for (uint32_t node = 0; node < n_nodes; node++) {
        uint64_t live = 0;
        for (uint32_t i = 0; i < n; i++)
            if (t[i].first <= node && node <= t[i].last)
                live += rival_round(t[i].size, align);
        most = live > most ? live : most;
    }
    return most;
}

/* The lowest offset at which tensor i overlaps none that is placed and lives
 * with it. */
static inline uint64_t rival_lowest(const planner_lifetime *t, uint32_t n,
                                    uint64_t align, const bool *placed,
                                    const uint64_t *place, uint32_t i)
{
    uint64_t at = 0, size = rival_round(t[i].size, align);
    for (uint32_t j = 0; j < n; j++) {
        uint64_t end = place[j] + rival_round(t[j].size, align);
        if (!placed[j] || !rival_together(&t[i], &t[j]) || end <= at ||
            place[j] >= at + size)
            continue;
        at = end;
        j = UINT32_MAX; /* from the beginning */
    }
    return at;
}

/* As a heap would: each tensor where there is room first, in the order in which
 * they are made. Returns the bytes; place and placed: room for n. */
static inline uint64_t rival_first_fit(const planner_lifetime *t, uint32_t n,
                                       uint32_t n_nodes, uint64_t align,
                                       bool *placed, uint64_t *place)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < n; i++)
        placed[i] = false;
    for (uint32_t node = 0; node < n_nodes; node++)
        for (uint32_t i = 0; i < n; i++) {
            if (t[i].first != node)
                continue;
            place[i] = rival_lowest(t, n, align, placed, place, i);
            placed[i] = true;
            uint64_t end = place[i] + rival_round(t[i].size, align);
            bytes = end > bytes ? end : bytes;
        }
    return bytes;
}
