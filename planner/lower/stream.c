#include "stream.h"
#include "../memory/ring.h"
#include "../../core/base/error.h"
#include "../../core/device/subgraph.h"

#include <stdlib.h>
#include <string.h>

/* Of each weight in the ring: what any device asks for. */
#define STREAM_ALIGN 4096u

static uint64_t round_up(uint64_t size)
{
    return (size + STREAM_ALIGN - 1) & ~(uint64_t)(STREAM_ALIGN - 1);
}

/* ------------------------------------------------------------------------ */
/* Which weights                                                             */

static const core_piece *piece_of(const clv_plan *plan, uint32_t node)
{
    const uint32_t piece = plan->cut.pieces[node];
    return piece == CORE_NO_PIECE ? NULL : &plan->pieces[piece];
}

static bool is_weight(const clv_graph *g, clv_value value)
{
    return value != CLV_NO_TENSOR &&
           g->tensors[value].usage == CLV_USAGE_WEIGHT;
}

static uint32_t count_weights(const clv_plan *plan)
{
    const clv_graph *g = plan->cut.graph;
    uint32_t n = 0;
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        const core_piece *piece = piece_of(plan, i);
        for (uint32_t j = 0; piece && j < g->nodes[i].n_inputs; j++)
            n += piece->streamed && is_weight(g, g->nodes[i].inputs[j]);
    }
    return n;
}

/* Adds the weight's copy, and before it that of its scales: whoever waits for
 * the one has waited for the other. CLV_NO_TENSOR when memory runs out. */
static clv_value add_copy(clv_plan *plan, planner_streams *s, uint32_t node,
                          clv_value weight)
{
    clv_graph *g = plan->cut.graph;
    clv_tensor_desc desc = g->tensors[weight];
    uint64_t size;
    desc.usage = CLV_USAGE_TRANSIENT;
    if (desc.quant_scales) {
        const clv_value scales = add_copy(plan, s, node, desc.quant_scales - 1);
        if (scales == CLV_NO_TENSOR)
            return CLV_NO_TENSOR;
        desc.quant_scales = 1 + scales;
    }
    core_desc_set_dense(&desc);
    if (core_desc_size(&desc, NULL, &size))
        return CLV_NO_TENSOR;
    const clv_value copy = core_graph_add_tensor(g, &desc, NULL, NULL);
    s->list[s->n++] = (planner_stream){.node = node,
                                       .device = plan->cut.devices[node],
                                       .weight = weight,
                                       .copy = copy,
                                       .size = round_up(size)};
    return copy;
}

static clv_status find_weights(clv_plan *plan, planner_streams *s,
                               uint32_t device)
{
    const clv_graph *g = plan->cut.graph;
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        const core_piece *piece = piece_of(plan, i);
        if (!piece || !piece->streamed || plan->cut.devices[i] != device)
            continue;
        if (!plan->devices[device].local)
            return clv_error(CLV_ERR_INVALID,
                             "plan: weights are streamed to device '%s', which "
                             "has no memory of its own; let it use them in "
                             "place",
                             core_plan_device_id(plan, device));
        for (uint32_t j = 0; j < g->nodes[i].n_inputs; j++) {
            if (!is_weight(g, g->nodes[i].inputs[j]))
                continue;
            const clv_value copy = add_copy(plan, s, i, g->nodes[i].inputs[j]);
            if (copy == CLV_NO_TENSOR)
                return core_no_memory("for a plan");
            g->nodes[i].inputs[j] = copy;
        }
    }
    return CLV_OK;
}

/* ------------------------------------------------------------------------ */
/* The ring                                                                  */

/* Entries of one node, from the first on, lie side by side. */
typedef struct entries {
    uint32_t first, n;
    uint64_t bytes;
} entries;

static entries entries_from(const planner_stream *list, uint32_t n,
                            uint32_t first)
{
    entries e = {.first = first};
    while (first + e.n < n && list[first + e.n].node == list[first].node)
        e.bytes += list[first + e.n++].size;
    return e;
}

static uint64_t ring_size(const core_plan_device *d, const planner_stream *list,
                          uint32_t n)
{
    uint64_t largest = 0, all = 0;
    for (uint32_t i = 0; i < n;) {
        const entries e = entries_from(list, n, i);
        largest = e.bytes > largest ? e.bytes : largest;
        all += e.bytes;
        i += e.n;
    }
    const uint64_t size = planner_ring_bytes(d, largest);
    return size < all ? round_up(size) : all;
}

/* They do not fit there; or, of entries, none lies there. */
#define NOWHERE (-1)

static int64_t fitting(int64_t offset, const entries *e, uint64_t size)
{
    return offset >= 0 && (uint64_t)offset + e->bytes <= size ? offset
                                                              : NOWHERE;
}

/* Where they may lie: beside those of the node before, and at the ends of the
 * ring. */
static void find_places(const entries *e, const entries *before, uint64_t at,
                        uint64_t size, int64_t places[4])
{
    places[0] = fitting((int64_t)(at + before->bytes), e, size);
    places[1] = 0;
    places[2] = (int64_t)(size - e->bytes);
    places[3] = fitting((int64_t)at - (int64_t)e->bytes, e, size);
}

/* The latest entry that they overwrite at the offset. */
static int64_t latest_at(const planner_stream *list, const entries *e,
                         int64_t offset)
{
    const uint64_t begin = (uint64_t)offset, end = begin + e->bytes;
    for (uint32_t j = e->first; j > 0; j--)
        if (begin < list[j - 1].offset + list[j - 1].size &&
            list[j - 1].offset < end)
            return j - 1;
    return NOWHERE;
}

static void put_at(planner_stream *list, const entries *e, int64_t offset)
{
    for (uint32_t i = 0; i < e->n; i++) {
        list[e->first + i].offset = (uint64_t)offset;
        offset += (int64_t)list[e->first + i].size;
    }
}

/* Puts them where they overwrite the oldest entries; of several such places,
 * where those of the next node, if there is one, then overwrite the oldest.
 * Answers the latest that they overwrite. before: those of the node before,
 * that lie at `at`. */
static int64_t put(planner_stream *list, const entries *e,
                   const entries *before, uint64_t at, const entries *next,
                   uint64_t size)
{
    int64_t places[4], best = 0, least = INT64_MAX, next_least = INT64_MAX;
    find_places(e, before, at, size, places);
    for (uint32_t k = 0; k < 4; k++) {
        if (places[k] == NOWHERE)
            continue;
        const int64_t latest = latest_at(list, e, places[k]);
        int64_t then = 0;
        if (next) {
            put_at(list, e, places[k]);
            then = put(list, next, e, (uint64_t)places[k], NULL, size);
        }
        if (latest < least || (latest == least && then < next_least)) {
            best = places[k];
            least = latest;
            next_least = then;
        }
    }
    put_at(list, e, best);
    return least;
}

/* A copy comes after the last node that reads what it overwrites, and copies
 * stay in order. beside: the work; else a copy would only delay what comes
 * before its node. */
static void fill_ring(planner_stream *list, uint32_t n, uint64_t size,
                      bool beside)
{
    entries before = {0}, e = entries_from(list, n, 0);
    uint32_t at = 0; /* the node that copies may run before */
    while (e.n) {
        const entries next = entries_from(list, n, e.first + e.n);
        const int64_t over =
            put(list, &e, &before, before.n ? list[before.first].offset : 0,
                next.n ? &next : NULL, size);
        if (over != NOWHERE && list[over].node + 1 > at)
            at = list[over].node + 1;
        for (uint32_t i = 0; i < e.n; i++)
            list[e.first + i].at = beside ? at : list[e.first].node;
        before = e;
        e = next;
    }
}

static clv_status make_ring(clv_plan *plan, planner_streams *s, uint32_t device,
                            uint32_t first)
{
    clv_graph *g = plan->cut.graph;
    clv_tensor_desc desc = CLV_INIT(clv_tensor_desc, CLV_STRUCT_TENSOR_DESC);
    const uint32_t n = s->n - first;
    if (!n)
        return CLV_OK;
    desc.dtype = CLV_DTYPE_I8;
    desc.rank = 1;
    core_plan_device *d = &plan->devices[device];
    d->ring_size = ring_size(d, s->list + first, n);
    desc.dims[0] = (int64_t)d->ring_size;
    core_desc_set_dense(&desc);
    fill_ring(s->list + first, n, d->ring_size, d->dev->info.copy_queues);
    const clv_value ring = core_graph_add_tensor(g, &desc, "ring", NULL);
    if (ring == CLV_NO_TENSOR)
        return core_no_memory("for a plan");
    s->rings[device] = ring;
    for (uint32_t i = first; i < s->n; i++) {
        g->values[s->list[i].copy].base = ring;
        g->values[s->list[i].copy].origin[0] = (int64_t)s->list[i].offset;
    }
    return CLV_OK;
}

clv_status planner_streams_find(clv_plan *plan, planner_streams *out)
{
    const uint32_t n = plan->cut.graph ? count_weights(plan) : 0;
    clv_status status = CLV_OK;
    *out = (planner_streams){0};
    if (!n)
        return CLV_OK;
    out->list = calloc(2 * (size_t)n, sizeof *out->list);
    out->rings = malloc(plan->n_devices * sizeof *out->rings);
    if (!out->list || !out->rings)
        status = core_no_memory("for a plan");
    for (uint32_t d = 0; d < plan->n_devices && !status; d++) {
        const uint32_t first = out->n;
        out->rings[d] = CLV_NO_TENSOR;
        status = find_weights(plan, out, d);
        if (!status)
            status = make_ring(plan, out, d, first);
    }
    if (status)
        planner_streams_finish(out);
    return status;
}

bool planner_is_ring(const planner_streams *streams, const clv_plan *plan,
                     clv_value value)
{
    for (uint32_t d = 0; streams->rings && d < plan->n_devices; d++)
        if (streams->rings[d] == value)
            return true;
    return false;
}

clv_status planner_streams_queues(clv_plan *plan,
                                  const planner_streams *streams,
                                  uint32_t *queues)
{
    for (uint32_t d = 0; d < plan->n_devices; d++) {
        queues[d] = d;
        if (!streams->rings || streams->rings[d] == CLV_NO_TENSOR ||
            !plan->devices[d].dev->info.copy_queues)
            continue;
        core_plan_device *grown =
            reallocarray(plan->devices, plan->n_queues + 1u, sizeof *grown);
        if (!grown)
            return core_no_memory("for a plan");
        plan->devices = grown;
        queues[d] = plan->n_queues;
        grown[plan->n_queues] = grown[d];
        grown[plan->n_queues++].queue = 1;
    }
    return CLV_OK;
}

void planner_streams_finish(planner_streams *streams)
{
    free(streams->list);
    free(streams->rings);
    *streams = (planner_streams){0};
}
