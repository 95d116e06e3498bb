#include "coop_few.h"

#include "lower/lower.h"
#include "lower/variant.h"

/* A power of two. */
static uint32_t columns_of(const gpu_node *node)
{
    uint32_t columns = 1;
    while (columns < gpu_max_rows(&node->in[0]))
        columns *= 2;
    return columns;
}

static bool is_wide(const gpu_node *node)
{
    return node->in[1].d.dtype == CLV_DTYPE_F16;
}

/* Numbers of x in local memory; the sums of all lanes take their place. */
static uint32_t room_of(const gpu_node *node)
{
    return node->target->local_bytes < 48 * 1024 ? 4096 : 8192;
}

static bool fits(const gpu_node *node, gpu_coop_few s)
{
    const uint32_t sets = s.tiles * (is_wide(node) ? 2 : 1);
    return s.warps * 32 <= node->target->max_group &&
           s.warps * sets * columns_of(node) * 32 <= room_of(node);
}

static uint32_t way_of(gpu_coop_few s)
{
    return s.tiles << 12 | s.warps << 4 | s.deep;
}

gpu_coop_few gpu_coop_few_of(uint32_t way)
{
    return (gpu_coop_few){way >> 12, way >> 4 & 255, way & 15};
}

/* All groups should run at once, and hide what memory takes by as many warps;
 * two tiles share what is read of x. */
static gpu_coop_few prefer(const gpu_node *node)
{
    const int64_t tiles = (node->in[1].d.dims[0] + 15) / 16;
    const int64_t units = node->target->units;
    const gpu_coop_few two = {2, 16, 2}, many = {1, 16, 2}, one = {1, 8, 2};
    if (tiles * 2 >= units * 3 && fits(node, two))
        return two;
    return tiles <= units && fits(node, many) ? many : one;
}

void gpu_coop_few_ways(const gpu_node *node, gpu_ways *out)
{
    out->preferred = way_of(prefer(node));
    gpu_way_add(out, out->preferred);
    for (uint32_t tiles = 1; tiles <= 2; tiles++)
        for (uint32_t warps = 4; warps <= 16; warps *= 2)
            for (uint32_t deep = 2; deep <= 4; deep *= 2) {
                const gpu_coop_few s = {tiles, warps, deep};
                if (way_of(s) != out->preferred && fits(node, s))
                    gpu_way_add(out, way_of(s));
            }
}

void gpu_coop_few_define(gpu_call *call, const gpu_node *node,
                         gpu_coop_few shape)
{
    const uint32_t columns = columns_of(node);
    gpu_call_define(call, "CHUNK", room_of(node) / columns);
    gpu_call_define(call, "ROWS", shape.tiles);
    gpu_call_define(call, "WARPS", shape.warps);
    gpu_call_define(call, "ITEMS", shape.warps * 32);
    gpu_call_define(call, "DEEP", is_wide(node) ? shape.deep / 2 : shape.deep);
}
