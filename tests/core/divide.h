/* Random legal divisions of nodes. */
#pragma once

#include "test.h"

#include "../../core/graph/slices.h"

#define TEST_MAX_PIECES 6 /* of a node */

/* Part k of n of an extent, in whole granules; false if it would be empty. */
static inline bool test_share(test_random *r, int64_t extent, int64_t granule,
                              uint32_t n, core_range *out)
{
    int64_t granules = (extent + granule - 1) / granule;
    if (granules < n)
        return false;
    int64_t begin = 0;
    for (uint32_t i = 0; i < n; i++) {
        int64_t left = granules - begin - (n - 1 - i);
        int64_t take =
            i + 1 == n ? granules - begin : 1 + test_below(r, (uint32_t)left);
        int64_t end = (begin + take) * granule;
        out[i] = (core_range){begin * granule, end < extent ? end : extent};
        begin += take;
    }
    return true;
}

/* The whole node on each of several devices. */
static inline uint32_t test_replicate(test_random *r, uint32_t node,
                                      uint32_t n_devices, core_piece *out)
{
    const uint32_t n = 2 + test_below(r, n_devices - 1);
    const uint32_t first = test_below(r, n_devices);
    for (uint32_t i = 0; i < n; i++)
        out[i] = (core_piece){.node = node, .device = (first + i) % n_devices};
    return n;
}

/* Some of the devices of partial sums add all of them for themselves. */
static inline void test_add_sums(test_random *r, core_piece *pieces, uint32_t n)
{
    for (uint32_t i = 1; i < n; i++) {
        bool first = true;
        for (uint32_t j = 0; j < i; j++)
            first &= pieces[j].device != pieces[i].device;
        pieces[i].adds = first && test_below(r, 2);
    }
}

/* One piece or two to three along an axis, sometimes each divided once more
 * along a second one; on devices in any order. out: TEST_MAX_PIECES. */
static inline uint32_t test_divide(const clv_graph *g, test_random *r,
                                   uint32_t node, uint32_t n_devices,
                                   core_piece *out)
{
    core_range first[3], second[2];
    uint32_t a = test_below(r, CORE_AXIS_COUNT);
    uint32_t b = test_below(r, CORE_AXIS_COUNT), n = 2 + test_below(r, 2);
    int64_t extent = core_cut_extent(g, node, a), other = 0;
    core_piece whole = {.node = node, .device = test_below(r, n_devices)};
    out[0] = whole;
    if (!extent || test_below(r, 4) == 0 ||
        !test_share(r, extent, core_cut_granule(g, node, a), n, first))
        return 1;
    if (b != a && test_below(r, 2))
        other = core_cut_extent(g, node, b);
    bool twice =
        other && test_share(r, other, core_cut_granule(g, node, b), 2, second);
    uint32_t count = 0;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t j = 0; j < (twice ? 2 : 1); j++) {
            core_piece *p = &out[count++];
            *p = whole;
            p->device = test_below(r, n_devices);
            p->ranges[a] = first[i];
            if (twice)
                p->ranges[b] = second[j];
        }
    return count;
}

/* Like test_divide(), and some nodes and partial sums are replicated. */
static inline uint32_t test_divide_or_replicate(const clv_graph *g,
                                                test_random *r, uint32_t node,
                                                uint32_t n_devices,
                                                core_piece *out)
{
    const bool may = core_cut_may_replicate(g, node) && n_devices > 1;
    if (may && test_below(r, 5) == 0)
        return test_replicate(r, node, n_devices, out);
    const uint32_t n = test_divide(g, r, node, n_devices, out);
    const core_range *part = out->ranges;
    const bool sums = part[CORE_AXIS_CHANNELS].end ||
                      (part[CORE_AXIS_EXPERTS].end &&
                       !core_cut_has_parts(g, node, g->nodes[node].n_inputs));
    if (may && sums && !part[CORE_AXIS_ROWS].end &&
        !part[CORE_AXIS_SEQUENCE].end)
        test_add_sums(r, out, n);
    return n;
}
