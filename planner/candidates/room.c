#include "room.h"
#include "../../core/device/subgraph.h"
#include "../../core/graph/tensor.h"

/* Of the memory, what is left to values between nodes and to scratch; and where
 * not all weights find room: as much for those that pass through, or so many
 * times the largest of them, which is itself no larger than that. */
#define WORKSPACE_PART 16
#define PASSING 3
/* One that passes through lies there twice, itself and the next one, and maybe
 * in another form, beside values. */
#define PASSING_PART 4
/* Part of what the first plan left that is for weights which only other plans
 * use. */
#define MORE_PART 8

static uint64_t largest_weight(const clv_graph *graph, uint64_t most)
{
    uint64_t largest = 0, bytes;
    for (uint32_t v = 0; v < graph->n_tensors; v++)
        if (graph->tensors[v].usage == CLV_USAGE_WEIGHT &&
            !core_desc_size(&graph->tensors[v], NULL, &bytes) &&
            bytes <= most && bytes > largest)
            largest = bytes;
    return largest;
}

uint64_t planner_workspace(const clv_graph *graph, uint64_t room)
{
    const uint64_t part = room / WORKSPACE_PART;
    if (core_graph_weight_bytes(graph) <= room)
        return part;
    const uint64_t passing = PASSING * largest_weight(graph, part);
    return part + (passing > part ? passing : part);
}

/* Of the graph's states, all of which may come to lie on one device. */
static uint64_t state_bytes(const clv_graph *graph)
{
    uint64_t sum = 0, bytes;
    for (uint32_t v = 0; v < graph->n_tensors; v++)
        if (graph->tensors[v].usage == CLV_USAGE_STATE &&
            !core_desc_size(&graph->tensors[v], NULL, &bytes))
            sum += bytes;
    return sum;
}

/* Whether the device holds weights already, for another plan. */
static bool holds_weights(const clv_graph *graph, const clv_device *dev)
{
    core_runs range;
    for (uint32_t v = 0; v < graph->n_tensors; v++)
        if (graph->values[v].weight &&
            core_tensor_copy_at(graph->values[v].weight, dev, 0, &range))
            return true;
    return false;
}

static uint64_t less(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

static uint64_t beside_states(const clv_graph *graph,
                              const core_plan_device *of)
{
    const uint64_t there = atomic_load(&of->dev->state_bytes);
    return less(of->room, less(state_bytes(graph), there));
}

/* Not all weights find room, and another plan was first. */
static bool is_later(const clv_graph *graph, const core_plan_device *of)
{
    return core_graph_weight_bytes(graph) > of->room &&
           holds_weights(graph, of->dev);
}

uint64_t planner_room_to_hold(const clv_graph *graph,
                              const core_plan_device *of)
{
    if (of->room == UINT64_MAX)
        return of->room;
    const uint64_t room = beside_states(graph, of);
    return is_later(graph, of) ? room / MORE_PART
                               : less(room, planner_workspace(graph, of->room));
}

/* What the first plan works on stays when others are made, so it leaves them
 * space. */
uint64_t planner_room_to_stream(const clv_graph *graph,
                                const core_plan_device *of)
{
    const uint64_t left =
        less(beside_states(graph, of), planner_room_to_hold(graph, of));
    const uint64_t largest = largest_weight(graph, of->room / WORKSPACE_PART);
    const uint64_t most = left / PASSING_PART;
    return is_later(graph, of) || !largest || most < largest ? most : largest;
}
