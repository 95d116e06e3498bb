#include "room.h"
#include "../memory/ring.h"
#include "../../core/device/subgraph.h"
#include "../../core/graph/tensor.h"
#include "../../core/plan/held.h"

/* Of the memory, what is left to values between nodes and to scratch; and where
 * not all weights find room: as much for those that pass through, or so many
 * times the largest of them, which is itself no larger than that. */
#define WORKSPACE_PART 16
#define PASSING 3
/* In an address space so many times what values take, for what programs make of
 * them, such as activations in halves and sums of parts. */
#define VALUES 2
/* Of values, what those of plans that cut nodes take more. */
#define CUT_PART 2
/* Where it is known what plans work on, this part of it more, for weights which
 * only later plans use. */
#define MORE_PART 32
/* Where it is not: one that passes through lies there twice, itself and the
 * next one, and maybe in another form, beside values. */
#define PASSING_PART 4
#define LEAST_PASSING_PART 16
/* No plan has to leave more of the memory for states that it has elsewhere. */
#define STATES_PART 2
/* And of what the first plan left, the part for weights which only other plans
 * use. */
#define LEFT_PART 8

/* Of at most so many bytes; 0: most of the weights' bytes are in larger ones.
 */
static uint64_t largest_weight(const clv_graph *graph, uint64_t most)
{
    uint64_t largest = 0, sum = 0, bytes;
    for (uint32_t v = 0; v < graph->n_tensors; v++) {
        if (graph->tensors[v].usage != CLV_USAGE_WEIGHT ||
            core_desc_size(&graph->tensors[v], NULL, &bytes) || bytes > most)
            continue;
        sum += bytes;
        largest = bytes > largest ? bytes : largest;
    }
    return sum >= core_graph_weight_bytes(graph) / 2 ? largest : 0;
}

static uint64_t less(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

bool planner_is_scarce(const clv_graph *graph, const core_plan_device *of)
{
    uint64_t missing = 0, bytes;
    for (uint32_t v = 0; v < graph->n_tensors; v++)
        if (graph->tensors[v].usage == CLV_USAGE_WEIGHT &&
            graph->values[v].weight &&
            !core_desc_size(&graph->tensors[v], NULL, &bytes))
            missing +=
                less(bytes, core_held_bytes(of, graph->values[v].weight));
    return missing > of->room;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

uint64_t planner_cut_work(const core_plan_device *of)
{
    return of->work + (of->work - of->scratch) / CUT_PART;
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
static bool holds_weights(const clv_graph *graph, const core_plan_device *of)
{
    for (uint32_t v = 0; v < graph->n_tensors; v++)
        if (graph->values[v].weight &&
            core_held_bytes(of, graph->values[v].weight))
            return true;
    return false;
}

static uint64_t beside_states(const clv_graph *graph,
                              const core_plan_device *of)
{
    if (core_device_is_windowed(of->dev)) /* it may leave them to others */
        return of->room;
    return less(of->room, less(state_bytes(graph), of->states));
}

/* Not all weights find room, and another plan was first. */
static bool is_later(const clv_graph *graph, const core_plan_device *of)
{
    return planner_is_scarce(graph, of) && holds_weights(graph, of);
}

/* Of one weight, where what the plan works on is known: with the ring, twice as
 * large, that lies beside it. A plan that works on as much as there is may
 * still be cut. */
static uint64_t beside_work(const clv_graph *graph, const core_plan_device *of)
{
    const uint64_t room = beside_states(graph, of) + of->given;
    const uint64_t most =
        larger(less(room, planner_cut_work(of)) / 2, room / LEAST_PASSING_PART);
    const uint64_t largest = largest_weight(graph, most);
    return largest ? largest : most;
}

/* Of a weight that passes through, where it is not known what plans work on. */
static uint64_t one_passing(const clv_graph *graph, const core_plan_device *of)
{
    const uint64_t part = (of->room + of->given) / WORKSPACE_PART;
    const uint64_t largest = largest_weight(graph, part);
    return largest ? largest : part / 2;
}

/* What this plan works on, or one that comes after it, with the ring. */
static uint64_t known_work(const clv_graph *graph, const core_plan_device *of)
{
    if (is_later(graph, of))
        return planner_cut_work(of) +
               planner_ring_bytes(of, beside_work(graph, of));
    const uint64_t one = one_passing(graph, of);
    const uint64_t work =
        larger(planner_cut_work(of) + planner_ring_bytes(of, one),
               of->reserve + 2 * one);
    /* Scratch of several plans lies side by side. */
    return work + work / MORE_PART + of->scratch;
}

/* Whether plans are told what they and later ones work on. */
static bool is_known(const clv_graph *graph, const core_plan_device *of)
{
    return of->work && (of->reserve || is_later(graph, of));
}

uint64_t planner_workspace(const clv_graph *graph, const core_plan_device *of)
{
    const uint64_t part = (of->room + of->given) / WORKSPACE_PART;
    if (!planner_is_scarce(graph, of))
        return less(part, of->given);
    /* Nothing passes through an address space. */
    if (core_device_is_windowed(of->dev))
        return less(larger(part, VALUES * of->reserve) + part, of->given);
    if (is_known(graph, of))
        return less(known_work(graph, of), of->given);
    const uint64_t passing = PASSING * largest_weight(graph, part);
    return less(larger(part, of->work) + larger(passing, part), of->given);
}

uint64_t planner_beside_weights(const clv_graph *graph,
                                const core_plan_device *of)
{
    const uint64_t workspace = planner_workspace(graph, of);
    if (!planner_is_scarce(graph, of))
        return workspace;
    const uint64_t states = less(of->room, beside_states(graph, of));
    const uint64_t most = of->room / STATES_PART;
    return workspace + (states < most ? states : most);
}

uint64_t planner_room_to_hold(const clv_graph *graph,
                              const core_plan_device *of)
{
    if (of->room == UINT64_MAX)
        return of->room;
    const uint64_t room = beside_states(graph, of);
    if (is_later(graph, of) && of->more)
        return of->more;
    if (!is_later(graph, of) || is_known(graph, of))
        return less(room, planner_workspace(graph, of));
    return room / LEFT_PART;
}

/* What the first plan works on stays when others are made, so it leaves them
 * space, but where all weights are large: then it holds less. */
uint64_t planner_room_to_stream(const clv_graph *graph,
                                const core_plan_device *of)
{
    if (is_later(graph, of) && is_known(graph, of))
        return beside_work(graph, of);
    const uint64_t room = beside_states(graph, of) + of->given;
    const uint64_t left = less(room, planner_room_to_hold(graph, of));
    const uint64_t largest = largest_weight(graph, room / WORKSPACE_PART);
    const uint64_t most = left / PASSING_PART;
    if (is_later(graph, of))
        return most;
    if (is_known(graph, of))
        return largest ? largest : room / WORKSPACE_PART / 2;
    if (largest && most < largest)
        return most;
    return largest ? largest : room / PASSING_PART;
}

uint64_t planner_room_for_values(const clv_graph *graph,
                                 const core_plan_device *of)
{
    uint32_t type;
    if (of->room == UINT64_MAX || !of->reserve_values || !of->work ||
        !of->dev->info.copy_queues || !core_device_has_local(of->dev, &type) ||
        !planner_is_scarce(graph, of) || is_later(graph, of))
        return 0;
    return of->reserve_values + 2 * one_passing(graph, of);
}

uint64_t planner_room_to_keep(const clv_graph *graph,
                              const core_plan_device *of)
{
    return less(planner_room_for_values(graph, of),
                planner_cut_work(of) - of->scratch);
}
