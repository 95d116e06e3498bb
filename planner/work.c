#include "work.h"
#include "planner.h"
#include "../core/base/error.h"
#include "candidates/room.h"
#include "profile/accepts.h"
#include "profile/variants.h"

#include <stdlib.h>

/* Where no such plan can be had: so many times what values take, for what
 * programs make of them. */
#define LIVE_TIMES 2

/* The first device that takes the node, `device` before all others; n_devices:
 * none does. */
static uint32_t taker(const clv_plan *plan, const clv_graph *graph,
                      const clv_op_caps *caps, uint32_t device, uint32_t node)
{
    const uint32_t n = plan->n_devices;
    char reason[PLANNER_REASON_SIZE];
    for (uint32_t i = 0; i <= n; i++) {
        const uint32_t d = i ? i - 1 : device;
        if (planner_accepts(graph, &graph->nodes[node], plan->devices[d].dev,
                            &caps[(size_t)d * graph->n_nodes + node], reason))
            return d;
    }
    return n;
}

/* Of a matrix that no table is. */
static bool has_matrix(const clv_graph *graph, const clv_node *node)
{
    if (node->op == CLV_OP_GET_ROWS || node->n_inputs < 2 ||
        node->inputs[1] == CLV_NO_TENSOR)
        return false;
    const clv_tensor_desc *weight = &graph->tensors[node->inputs[1]];
    return weight->usage == CLV_USAGE_WEIGHT && weight->rank > 1;
}

static clv_status make(const clv_plan *plan, clv_graph *graph,
                       const clv_op_caps *caps, uint32_t device, bool streamed,
                       clv_plan **out)
{
    const uint32_t n = graph->n_nodes;
    clv_device **devices = calloc(plan->n_devices, sizeof *devices);
    core_piece *pieces = calloc(n, sizeof *pieces);
    clv_status status =
        devices && pieces ? CLV_OK : core_no_memory("for a plan");
    for (uint32_t d = 0; d < plan->n_devices && !status; d++)
        devices[d] = plan->devices[d].dev;
    for (uint32_t i = 0; i < n && !status; i++) {
        const uint32_t d = taker(plan, graph, caps, device, i);
        if (d == plan->n_devices) {
            status = clv_error(CLV_ERR_UNSUPPORTED,
                               "no device takes node %u whole", i);
            break;
        }
        pieces[i] = (core_piece){
            .node = i,
            .device = d,
            .variant =
                planner_ways_of(plan->ctx, &caps[(size_t)d * n + i]).ids[0],
            .streamed =
                streamed && d == device && has_matrix(graph, &graph->nodes[i])};
    }
    if (!status)
        status = planner_from_pieces(
            plan->ctx, graph,
            &(clv_plan_params){.devices = devices,
                               .n_devices = plan->n_devices},
            pieces, n, out);
    free(pieces);
    free(devices);
    return status;
}

static clv_status estimate(const clv_graph *graph, core_plan_device *of)
{
    CLV_TRY(clv_graph_live(graph, &of->work));
    of->work *= LIVE_TIMES;
    return CLV_OK;
}

static clv_status find(clv_plan *plan, clv_graph *graph,
                       const clv_op_caps *caps, uint32_t device)
{
    core_plan_device *of = &plan->devices[device];
    clv_plan *all;
    clv_status status = make(plan, graph, caps, device, true, &all);
    if (status && status != CLV_ERR_NO_MEMORY)
        status = make(plan, graph, caps, device, false, &all);
    if (status)
        return status == CLV_ERR_NO_MEMORY ? status : estimate(graph, of);
    const core_plan_device *there = &all->devices[device];
    of->scratch = there->scratch_size;
    of->work = there->memory.size - there->ring_size + of->scratch;
    clv_plan_destroy(all);
    return CLV_OK;
}

clv_status planner_find_work(clv_plan *plan, clv_graph *graph,
                             const clv_op_caps *caps)
{
    uint32_t type;
    for (uint32_t d = 0; d < plan->n_devices; d++)
        if (core_device_has_local(plan->devices[d].dev, &type) &&
            planner_is_scarce(graph, &plan->devices[d]))
            CLV_TRY(find(plan, graph, caps, d));
    return CLV_OK;
}
