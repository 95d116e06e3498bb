#include "stream.h"
#include "chunks.h"
#include "../memory/ring.h"
#include "../../core/base/error.h"
#include "../../core/device/subgraph.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Nodes whose weights are looked at before one's has its place in the ring. */
#define LOOK_AHEAD 3

/* Of a ring, what is copied at once at least; what is larger may be divided. */
#define CHUNK_PART 8

static uint64_t round_up(uint64_t size)
{
    return (size + PLANNER_STREAM_ALIGN - 1) &
           ~(uint64_t)(PLANNER_STREAM_ALIGN - 1);
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
                                       .part = copy,
                                       .size = round_up(size)};
    return copy;
}

/* Those of pieces that are streamed so. */
static clv_status find_weights(clv_plan *plan, planner_streams *s,
                               uint32_t device, core_stream way)
{
    const clv_graph *g = plan->cut.graph;
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        const core_piece *piece = piece_of(plan, i);
        if (!piece || piece->streamed != way || plan->cut.devices[i] != device)
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

/* The latest entry before the index that lies in the range. */
static int64_t latest_in(const planner_stream *list, uint32_t index,
                         uint64_t begin, uint64_t end)
{
    for (uint32_t j = index; j > 0; j--)
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

/* How many bytes are copied at least from when a node has all that it reads
 * until something overwrites that: so far copies run ahead of the work. */
static double ahead(const planner_stream *list, const entries *e, double most)
{
    for (uint32_t i = e->first; i < e->first + e->n; i++) {
        const int64_t over = latest_in(list, e->first, list[i].offset,
                                       list[i].offset + list[i].size);
        if (over != NOWHERE)
            most = fmin(most, (double)list[i].before - (double)list[over].due);
    }
    return most;
}

/* Entries, those before them, and where these lie. */
typedef struct turn {
    entries e, before;
    uint64_t at;
} turn;

/* Puts entries where copies run ahead far of the work, those of so many nodes
 * that come next too. Answers what they lack, the sum of squares: one long wait
 * is worse than some short ones. */
static double put(planner_stream *list, uint32_t n, const turn *t,
                  uint32_t depth, uint64_t size)
{
    const entries *e = &t->e;
    const entries next = entries_from(list, n, e->first + e->n);
    int64_t places[4], best = 0;
    double least = INFINITY;
    find_places(e, &t->before, t->at, size, places);
    for (uint32_t k = 0; k < 4; k++) {
        if (places[k] == NOWHERE)
            continue;
        put_at(list, e, places[k]);
        const double lack = 1 - ahead(list, e, (double)size) / (double)size;
        const turn then = {next, *e, (uint64_t)places[k]};
        const double sum =
            lack * lack +
            (depth && next.n ? put(list, n, &then, depth - 1, size) : 0);
        if (sum < least) {
            best = places[k];
            least = sum;
        }
    }
    put_at(list, e, best);
    return least;
}

static void count_bytes(planner_stream *list, uint32_t n)
{
    uint64_t sum = 0;
    for (entries e = entries_from(list, n, 0); e.n;
         e = entries_from(list, n, e.first + e.n))
        for (uint32_t i = e.first; i < e.first + e.n; i++) {
            list[i].before = sum;
            sum += list[i].size;
            list[i].due = list[e.first].before + e.bytes;
        }
}

/* A copy comes after the last node that reads what it overwrites, and copies
 * stay in order. beside: the work; else a copy would only delay what comes
 * before its node. */
static void fill_ring(planner_stream *list, uint32_t n, uint64_t size,
                      bool beside)
{
    turn t = {.e = entries_from(list, n, 0)};
    uint32_t at = 0; /* the node that copies may run before */
    count_bytes(list, n);
    while (t.e.n) {
        const entries e = t.e;
        put(list, n, &t, LOOK_AHEAD, size);
        for (uint32_t i = e.first; i < e.first + e.n; i++) {
            const int64_t over = latest_in(list, e.first, list[i].offset,
                                           list[i].offset + list[i].size);
            if (over != NOWHERE && list[over].node + 1 > at)
                at = list[over].node + 1;
            list[i].at = beside ? at : list[i].node;
        }
        t = (turn){entries_from(list, n, e.first + e.n), e,
                   list[e.first].offset};
    }
}

/* Gives the copies, and the parts of them, their places in the ring. */
static void place_copies(clv_graph *g, const planner_stream *list, uint32_t n,
                         clv_value ring)
{
    for (uint32_t i = 0; i < n; i++) {
        const planner_stream *s = &list[i];
        g->values[s->part].base = ring;
        g->values[s->part].origin[0] = (int64_t)s->offset;
        if (s->begin)
            continue;
        g->values[s->copy].base = ring;
        g->values[s->copy].origin[0] = (int64_t)s->offset;
    }
}

/* A value of so many bytes, that is a ring or what is kept. */
static clv_value add_bytes(clv_graph *g, uint64_t size, const char *name)
{
    clv_tensor_desc desc = CLV_INIT(clv_tensor_desc, CLV_STRUCT_TENSOR_DESC);
    desc.dtype = CLV_DTYPE_I8;
    desc.rank = 1;
    desc.dims[0] = (int64_t)size;
    core_desc_set_dense(&desc);
    return core_graph_add_tensor(g, &desc, name, NULL);
}

/* Copied before all else. */
static clv_status keep(clv_plan *plan, planner_streams *s, uint32_t device,
                       uint32_t first)
{
    clv_graph *g = plan->cut.graph;
    uint64_t size = 0;
    if (s->n == first)
        return CLV_OK;
    if (!plan->devices[device].dev->info.copy_queues)
        return clv_error(
            CLV_ERR_INVALID,
            "plan: weights are streamed once to device '%s', which "
            "has no queue that copies; let each run stream them",
            core_plan_device_id(plan, device));
    for (uint32_t i = first; i < s->n; i++) {
        s->list[i].offset = size;
        size += s->list[i].size;
    }
    const clv_value kept = add_bytes(g, size, "kept");
    if (kept == CLV_NO_TENSOR)
        return core_no_memory("for a plan");
    plan->devices[device].kept = kept;
    place_copies(g, s->list + first, s->n - first, kept);
    return CLV_OK;
}

static clv_status make_ring(clv_plan *plan, planner_streams *s, uint32_t device,
                            uint32_t first)
{
    clv_graph *g = plan->cut.graph;
    core_plan_device *d = &plan->devices[device];
    const bool beside = d->dev->info.copy_queues;
    if (s->n == first)
        return CLV_OK;
    d->ring_size = ring_size(d, s->list + first, s->n - first);
    if (beside)
        CLV_TRY(planner_streams_divide(g, s, first, d->ring_size / CHUNK_PART));
    fill_ring(s->list + first, s->n - first, d->ring_size, beside);
    CLV_TRY(planner_streams_join(g, s, first));
    const clv_value ring = add_bytes(g, d->ring_size, "ring");
    if (ring == CLV_NO_TENSOR)
        return core_no_memory("for a plan");
    s->rings[device] = ring;
    place_copies(g, s->list + first, s->n - first, ring);
    return CLV_OK;
}

clv_status planner_streams_find(clv_plan *plan, planner_streams *out)
{
    const uint32_t n = plan->cut.graph ? count_weights(plan) : 0;
    clv_status status = CLV_OK;
    *out = (planner_streams){0};
    if (!n)
        return CLV_OK;
    out->capacity = 2 * n;
    out->list = calloc(out->capacity, sizeof *out->list);
    out->rings = malloc(plan->n_devices * sizeof *out->rings);
    if (!out->list || !out->rings)
        status = core_no_memory("for a plan");
    for (uint32_t d = 0; d < plan->n_devices && !status; d++) {
        uint32_t first = out->n;
        out->rings[d] = CLV_NO_TENSOR;
        status = find_weights(plan, out, d, CORE_STREAM_ONCE);
        if (!status)
            status = keep(plan, out, d, first);
        first = out->n;
        if (!status)
            status = find_weights(plan, out, d, CORE_STREAM_EACH);
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
        if (streams->rings[d] == value || plan->devices[d].kept == value)
            return true;
    return false;
}

clv_status planner_streams_queues(clv_plan *plan,
                                  const planner_streams *streams,
                                  uint32_t *queues)
{
    for (uint32_t d = 0; d < plan->n_devices; d++) {
        queues[d] = d;
        if (!streams->rings || !plan->devices[d].dev->info.copy_queues ||
            (streams->rings[d] == CLV_NO_TENSOR &&
             plan->devices[d].kept == CLV_NO_TENSOR))
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
