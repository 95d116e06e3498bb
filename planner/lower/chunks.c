#include "chunks.h"
#include "../../core/base/error.h"
#include "../../core/device/subgraph.h"

#include <stdlib.h>

/* How a weight is divided: so many of the dimension's elements a part. */
typedef struct division {
    uint32_t dim;
    int64_t count; /* of a part */
    uint64_t bytes;
    uint32_t n; /* 1: it is not */
} division;

/* Parts begin at multiples of what the ring's entries begin at. */
static division divide(const clv_graph *graph, const planner_stream *s,
                       uint64_t most)
{
    clv_tensor_desc dense = graph->tensors[s->weight];
    division out = {.n = 1};
    core_desc_set_dense(&dense);
    while (out.dim + 1 < dense.rank && dense.dims[out.dim] == 1)
        out.dim++;
    if (out.dim + 1 >= dense.rank || s->size <= most)
        return out;
    const uint64_t one = (uint64_t)dense.strides[out.dim];
    const int64_t extent = dense.dims[out.dim];
    int64_t step = 1;
    while (step < extent && (uint64_t)step * one % PLANNER_STREAM_ALIGN)
        step *= 2;
    out.count = step;
    while ((uint64_t)(out.count + step) * one <= most)
        out.count += step;
    out.bytes = (uint64_t)out.count * one;
    out.n = (uint32_t)((extent + out.count - 1) / out.count);
    return out;
}

static void add_parts(const clv_graph *graph, const planner_stream *s,
                      const division *d, planner_stream *out)
{
    const int64_t extent = graph->tensors[s->weight].dims[d->dim];
    for (uint32_t i = 0; i < d->n; i++) {
        out[i] = *s;
        if (d->n == 1)
            return;
        out[i].dim = d->dim;
        out[i].begin = i * d->count;
        out[i].end = i + 1 < d->n ? out[i].begin + d->count : extent;
        out[i].size = i + 1 < d->n ? d->bytes : s->size - (d->n - 1) * d->bytes;
    }
}

clv_status planner_streams_divide(const clv_graph *graph,
                                  planner_streams *streams, uint32_t first,
                                  uint64_t most)
{
    uint32_t n = first;
    for (uint32_t i = first; i < streams->n; i++)
        n += divide(graph, &streams->list[i], most).n;
    const uint32_t capacity = n + streams->capacity - streams->n;
    planner_stream *list = calloc(capacity + 1u, sizeof *list);
    if (!list)
        return core_no_memory("for a plan");
    n = 0;
    for (uint32_t i = 0; i < streams->n; i++) {
        const planner_stream *s = &streams->list[i];
        const division d =
            i < first ? (division){.n = 1} : divide(graph, s, most);
        add_parts(graph, s, &d, list + n);
        n += d.n;
    }
    free(streams->list);
    streams->list = list;
    streams->n = n;
    streams->capacity = capacity;
    return CLV_OK;
}

/* Of a weight, or of its copy, which has no scales of its own. */
static clv_value part_of(clv_graph *graph, clv_value whole,
                         const planner_stream *s)
{
    clv_tensor_desc desc = graph->tensors[whole];
    const core_value value = graph->values[whole];
    if (s->end - s->begin == desc.dims[s->dim])
        return whole;
    desc.dims[s->dim] = s->end - s->begin;
    desc.quant = CLV_QUANT_NONE;
    desc.quant_group = desc.quant_scales = 0;
    if (desc.usage != CLV_USAGE_WEIGHT)
        core_desc_set_dense(&desc);
    const clv_value part =
        core_graph_add_tensor(graph, &desc, NULL, value.weight);
    if (part == CLV_NO_TENSOR || desc.usage != CLV_USAGE_WEIGHT)
        return part;
    graph->values[part].base = value.base;
    for (uint32_t i = 0; i < desc.rank; i++)
        graph->values[part].origin[i] = value.origin[i];
    graph->values[part].origin[s->dim] += s->begin;
    return part;
}

static bool can_join(const planner_stream *a, const planner_stream *b)
{
    return a->weight == b->weight && a->node == b->node && a->at == b->at &&
           a->end && a->end == b->begin;
}

clv_status planner_streams_join(clv_graph *graph, planner_streams *streams,
                                uint32_t first)
{
    planner_stream *list = streams->list;
    uint32_t n = first;
    for (uint32_t i = first; i < streams->n; i++) {
        if (n > first && can_join(&list[n - 1], &list[i])) {
            list[n - 1].size += list[i].size;
            list[n - 1].end = list[i].end;
        } else {
            list[n++] = list[i];
        }
    }
    streams->n = n;
    for (uint32_t i = first; i < n; i++) {
        planner_stream *s = &list[i];
        if (!s->end)
            continue;
        s->part = part_of(graph, s->copy, s);
        s->weight = part_of(graph, s->weight, s);
        if (s->weight == CLV_NO_TENSOR || s->part == CLV_NO_TENSOR)
            return core_no_memory("for a plan");
    }
    return CLV_OK;
}
