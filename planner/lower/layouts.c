/*
 * Layouts of states. What lies where is the plan's: a device says what it would
 * like, and is asked again once it is decided.
 */
#include "../../core/graph/tensor.h"
#include "../../core/device/subgraph.h"
#include "../../core/device/caps.h"
#include "../../core/base/error.h"
#include "lower.h"
#include "../profile/accepts.h"

#include <stdlib.h>
#include <string.h>

/* What those who use a state ask for. */
typedef struct preference {
    bool used, off; /* off: it stays as it is */
    uint32_t device, layout;
    uint8_t axes[2]; /* as ATTENTION reads it; NONE: none does */
} preference;

/* Which dimension of a state is O and which is I, where a node says so. */
static bool axes_of(const clv_node *node, uint32_t input, uint8_t axes[2])
{
    static const uint8_t k[2] = {CLV_AXIS_O, CLV_AXIS_I};
    static const uint8_t v[2] = {CLV_AXIS_I, CLV_AXIS_O};
    if (node->op != CLV_OP_ATTENTION || input < 1 || input > 2)
        return false;
    memcpy(axes, input == 1 ? k : v, 2);
    return true;
}

static void add_use(const clv_plan *plan, const clv_op_caps *caps, uint32_t i,
                    uint32_t input, preference *preferences)
{
    const clv_graph *graph = plan->graph;
    const clv_node *node = &graph->nodes[i];
    const clv_value value = node->inputs[input];
    uint8_t axes[2];
    if (value == CLV_NO_TENSOR)
        return;
    const clv_value base = graph->values[value].base;
    preference *w = &preferences[base];
    if (graph->tensors[base].usage != CLV_USAGE_STATE)
        return;
    if (!w->used) {
        w->used = true;
        w->device = plan->parts[i].device;
        w->layout = caps[i].layouts[input];
    }
    w->off |= base != value || w->device != plan->parts[i].device ||
              w->layout != caps[i].layouts[input];
    if (!axes_of(node, input, axes))
        return;
    w->off |= w->axes[0] && memcmp(w->axes, axes, sizeof axes);
    memcpy(w->axes, axes, sizeof axes);
}

/* Whether the device can have a tensor so. */
static bool can_have(const clv_plan *plan, const clv_tensor_desc *desc,
                     const preference *w)
{
    const clv_device *dev = plan->devices[w->device].dev;
    uint64_t size;
    return w->used && !w->off && w->layout == CLV_LAYOUT_WEIGHTS &&
           w->axes[0] && desc->rank == 2 &&
           !core_desc_size(desc, NULL, &size) &&
           (plan->devices[w->device].local ||
            !core_tensor_can_share(dev, size, false));
}

/* Writes the preferences that are granted into the graph's tensors, the others
 * out of them; how many there are. */
static uint32_t describe(clv_plan *plan, preference *preferences)
{
    uint32_t n = 0;
    for (uint32_t v = 0; v < plan->source->n_tensors; v++) {
        clv_tensor_desc preferred = plan->source->tensors[v];
        preference *w = &preferences[v];
        if (!w->used)
            continue;
        preferred.layout = w->layout;
        memcpy(preferred.axes, w->axes, sizeof w->axes);
        w->off = !can_have(plan, &preferred, w);
        plan->cut.graph->tensors[v] =
            w->off ? plan->source->tensors[v] : preferred;
        n += !w->off;
    }
    return n;
}

/* Whether a granted state is among the node's inputs; takes the grants of all
 * of them back where the device does not take it so. */
static bool settle(const clv_plan *plan, uint32_t i, const clv_op_caps *caps,
                   preference *preferences, bool *refused)
{
    const clv_node *node = &plan->graph->nodes[i];
    const clv_device *dev = plan->devices[plan->parts[i].device].dev;
    char reason[PLANNER_REASON_SIZE];
    bool has = false;
    for (uint32_t j = 0; j < node->n_inputs; j++)
        has |= node->inputs[j] != CLV_NO_TENSOR &&
               plan->graph->tensors[node->inputs[j]].layout;
    if (!has || planner_accepts(plan->graph, node, dev, caps, reason))
        return has;
    for (uint32_t j = 0; j < node->n_inputs; j++)
        if (node->inputs[j] != CLV_NO_TENSOR)
            preferences[node->inputs[j]].off = true;
    *refused = true;
    return false;
}

/* Asks a device again, if it has states so: the answers of its nodes that use
 * them go to caps. */
static clv_status ask_again(clv_plan *plan, uint32_t device,
                            preference *preferences, clv_op_caps *answers,
                            clv_op_caps *caps, bool *refused)
{
    const clv_subgraph view = core_graph_view(plan->graph);
    bool any = false;
    for (uint32_t v = 0; v < plan->source->n_tensors && !any; v++)
        any = preferences[v].used && !preferences[v].off &&
              preferences[v].device == device;
    if (!any)
        return CLV_OK;
    clv_status status =
        core_device_caps(plan->devices[device].dev, &view, answers);
    for (uint32_t i = 0; i < plan->graph->n_nodes && !status; i++)
        if (plan->parts[i].device == device &&
            settle(plan, i, &answers[i], preferences, refused))
            caps[i] = answers[i];
    return status;
}

/* Until all who were asked say yes; each time round there are fewer grants. */
static clv_status grant(clv_plan *plan, preference *preferences,
                        clv_op_caps *caps, bool *any)
{
    const uint32_t n = plan->graph->n_nodes;
    clv_op_caps *linear = calloc(n, sizeof *linear);
    clv_op_caps *answers = calloc(n, sizeof *answers);
    clv_status status =
        linear && answers ? CLV_OK : core_no_memory("for a plan");
    bool refused = true;
    if (linear)
        memcpy(linear, caps, n * sizeof *caps);
    while (!status && refused) {
        refused = false;
        memcpy(caps, linear, n * sizeof *caps);
        *any = describe(plan, preferences) != 0;
        for (uint32_t d = 0; d < plan->n_devices && !status; d++)
            status = ask_again(plan, d, preferences, answers, caps, &refused);
    }
    free(answers);
    free(linear);
    return status;
}

clv_status planner_layouts(clv_plan *plan, clv_op_caps *caps, bool *any)
{
    const clv_graph *graph = plan->graph;
    bool any_preferred = false;
    clv_status status = CLV_OK;
    *any = false;
    for (uint32_t i = 0; i < graph->n_nodes; i++)
        for (uint32_t j = 0; j < graph->nodes[i].n_inputs; j++)
            any_preferred |= caps[i].layouts[j] != CLV_LAYOUT_LINEAR;
    if (!any_preferred)
        return CLV_OK;
    preference *preferences = calloc(graph->n_tensors, sizeof *preferences);
    if (!preferences)
        return core_no_memory("for a plan");
    for (uint32_t i = 0; i < graph->n_nodes; i++)
        for (uint32_t j = 0; j < graph->nodes[i].n_inputs; j++)
            add_use(plan, caps, i, j, preferences);
    any_preferred = false;
    for (uint32_t v = 0; v < graph->n_tensors; v++)
        any_preferred |= !preferences[v].off && preferences[v].layout &&
                         preferences[v].axes[0];
    if (any_preferred && !plan->cut.graph) {
        status = core_cut_make(plan->source, plan->pieces, plan->n_pieces,
                               &plan->cut);
        if (!status)
            plan->graph = plan->cut.graph;
    }
    if (any_preferred && !status)
        status = grant(plan, preferences, caps, any);
    free(preferences);
    return status;
}
