/* The lengths that devices with static shapes have programs for. */
#include "../core/plan/plan.h"
#include "../core/device/loss.h"
#include "../core/device/caps.h"
#include "../core/base/error.h"

#include <stdlib.h>
#include <string.h>

typedef struct lengths {
    int64_t *items; /* ascending */
    uint32_t n, capacity;
} lengths;

static clv_status add(lengths *l, int64_t length)
{
    uint32_t at = 0;
    while (at < l->n && l->items[at] < length)
        at++;
    if (at < l->n && l->items[at] == length)
        return CLV_OK;
    if (l->n == l->capacity) {
        uint32_t capacity = l->capacity ? l->capacity * 2 : 16;
        void *grown = reallocarray(l->items, capacity, sizeof *l->items);
        if (!grown)
            return core_no_memory("for lengths of graphs");
        l->items = grown;
        l->capacity = capacity;
    }
    memmove(&l->items[at + 1], &l->items[at], (l->n++ - at) * sizeof *l->items);
    l->items[at] = length;
    return CLV_OK;
}

static clv_status add_device(lengths *l, const clv_graph *graph,
                             clv_device *dev)
{
    if (core_device_lost(dev) || !(dev->info.flags & CLV_DEVICE_STATIC_SHAPES))
        return CLV_OK;
    clv_subgraph view = core_graph_view(graph);
    clv_op_caps *caps = calloc(graph->n_nodes, sizeof *caps);
    if (!caps)
        return core_no_memory("for lengths of graphs");
    clv_status status = core_device_caps(dev, &view, caps);
    for (uint32_t i = 0; i < graph->n_nodes && !status; i++)
        for (uint32_t j = 0; caps[i].answer == CLV_ANSWER_STATIC &&
                             j < caps[i].n_static && !status;
             j++)
            status = add(l, caps[i].static_shapes[j]);
    free(caps);
    return status;
}

clv_status clv_graph_lengths(clv_context *ctx, const clv_graph *graph,
                             const clv_plan_params *params, int64_t *out,
                             uint32_t *count)
{
    lengths l = {0};
    uint32_t room = *count;
    bool given = params && params->devices;
    uint32_t n_devices = given ? params->n_devices : ctx->n_devices;
    clv_status status = clv_graph_check(graph);
    *count = 0;
    if (!status && !graph->n_nodes)
        return CLV_OK;
    for (uint32_t i = 0; i < n_devices && !status; i++)
        status =
            add_device(&l, graph, given ? params->devices[i] : ctx->devices[i]);
    if (!status) {
        uint32_t n = l.n < room ? l.n : room;
        *count = l.n;
        if (n)
            memcpy(out, l.items, n * sizeof *out);
    }
    free(l.items);
    return status;
}
