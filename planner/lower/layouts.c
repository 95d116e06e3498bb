/*
 * Layouts of states and weights. What lies where is the plan's: a device says
 * what it would like, and is asked again once it is decided.
 */
#include "../../core/graph/tensor.h"
#include "../../core/device/subgraph.h"
#include "../../core/device/caps.h"
#include "../../core/base/error.h"
#include "lower.h"
#include "../profile/accepts.h"

#include <stdlib.h>
#include <string.h>

/* What those who use a state, or a weight or a view of one, ask for. */
typedef struct preference {
    bool used, off; /* off: it stays as it is */
    uint32_t layout;
    uint8_t axes[2];        /* as ATTENTION reads it; NONE: none does */
    clv_tensor_desc linear; /* as it is */
} preference;

typedef struct preferences {
    preference *of; /* [n] by value of plan->graph */
    bool *users;    /* [n][n_devices] */
    uint32_t n, n_devices;
} preferences;

static bool *user_of(const preferences *p, clv_value value, uint32_t device)
{
    return &p->users[(size_t)value * p->n_devices + device];
}

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

static bool is_weight(const clv_graph *graph, clv_value value)
{
    return graph->tensors[value].usage == CLV_USAGE_WEIGHT;
}

/* A state may have a layout as a whole, and a weight's view one of its own. */
static bool may_have(const clv_graph *graph, clv_value value)
{
    return is_weight(graph, value) || graph->values[value].base == value;
}

static void add_use(const clv_plan *plan, const clv_op_caps *caps, uint32_t i,
                    uint32_t input, const preferences *p)
{
    const clv_graph *graph = plan->graph;
    const clv_node *node = &graph->nodes[i];
    const clv_value value = node->inputs[input];
    const clv_value of =
        is_weight(graph, value) ? value : graph->values[value].base;
    preference *w = &p->of[of];
    uint8_t axes[2];
    if (!w->used) {
        *w = (preference){.used = true,
                          .layout = caps[i].layouts[input],
                          .linear = graph->tensors[of]};
    }
    *user_of(p, of, plan->parts[i].device) = true;
    w->off |= !may_have(graph, value) || w->layout != caps[i].layouts[input];
    if (!axes_of(node, input, axes))
        return;
    w->off |= w->axes[0] && memcmp(w->axes, axes, sizeof axes);
    memcpy(w->axes, axes, sizeof axes);
}

/* All who use it use the same object, so there is one device. */
static bool can_have_state(const clv_plan *plan, const clv_tensor_desc *desc,
                           const preferences *p, clv_value value)
{
    const preference *w = &p->of[value];
    uint64_t size;
    uint32_t n = 0;
    if (w->layout != CLV_LAYOUT_WEIGHTS || !w->axes[0] || desc->rank != 2 ||
        core_desc_size(desc, NULL, &size))
        return false;
    for (uint32_t d = 0; d < p->n_devices; d++) {
        if (!*user_of(p, value, d))
            continue;
        n++;
        if (!plan->devices[d].local &&
            core_tensor_can_share(plan->devices[d].dev, size, false))
            return false;
    }
    return n == 1;
}

/* Whether the bytes of each row are one range of the tensor's. */
static bool has_rows(const clv_graph *graph, clv_value value,
                     const clv_tensor_desc *desc)
{
    const clv_tensor *tensor = graph->values[value].weight;
    const core_bounds box = core_bounds_of(graph, value);
    core_runs runs;
    return desc->rank > 1 && desc->rank == tensor->rank &&
           desc->dtype == tensor->dtype && core_desc_is_dense(desc) &&
           core_bounds_runs(desc->dtype, desc->rank, tensor->dims, &box,
                            &runs) &&
           (runs.n == 1 ||
            runs.bytes ==
                core_row_bytes(desc->dtype, desc->dims[desc->rank - 1]));
}

/* Rows that are copied to memory of a device's own, of each that uses it. The
 * program that brings them into the layout takes any number of its blocks. */
static bool can_have_weight(const clv_plan *plan, const preferences *p,
                            clv_value value)
{
    const preference *w = &p->of[value];
    for (uint32_t d = 0; d < p->n_devices; d++)
        if (*user_of(p, value, d) &&
            (!plan->devices[d].local ||
             (plan->devices[d].dev->info.flags & CLV_DEVICE_STATIC_SHAPES)))
            return false;
    return w->layout == CLV_LAYOUT_PRIVATE && !w->linear.quant &&
           has_rows(plan->graph, value, &w->linear);
}

/* Writes the preferences that are granted into the graph's tensors, the others
 * out of them; how many of states there are. */
static uint32_t describe(clv_plan *plan, const preferences *p)
{
    uint32_t n = 0;
    for (clv_value v = 0; v < p->n; v++) {
        preference *w = &p->of[v];
        clv_tensor_desc preferred = w->linear;
        if (!w->used)
            continue;
        preferred.layout = w->layout;
        memcpy(preferred.axes, w->axes, sizeof w->axes);
        const bool weight = is_weight(plan->graph, v);
        if (weight)
            memset(preferred.strides, 0, sizeof preferred.strides);
        w->off |= !(weight ? can_have_weight(plan, p, v)
                           : can_have_state(plan, &preferred, p, v));
        plan->cut.graph->tensors[v] = w->off ? w->linear : preferred;
        n += !w->off && !weight;
    }
    return n;
}

/* Whether the node has an input of a granted layout; takes the grants of all of
 * them back where the device does not take it so. */
static bool settle(const clv_plan *plan, uint32_t i, const clv_op_caps *caps,
                   const preferences *p, bool *refused)
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
            p->of[node->inputs[j]].off = true;
    *refused = true;
    return false;
}

/* Asks a device again, if it has what has another layout: the answers of its
 * nodes that use such go to caps. */
static clv_status ask_again(clv_plan *plan, uint32_t device,
                            const preferences *p, clv_op_caps *answers,
                            clv_op_caps *caps, bool *refused)
{
    const clv_subgraph view = core_graph_view(plan->graph);
    bool any = false;
    for (clv_value v = 0; v < p->n && !any; v++)
        any = !p->of[v].off && *user_of(p, v, device);
    if (!any)
        return CLV_OK;
    clv_status status =
        core_device_caps(plan->devices[device].dev, &view, answers);
    for (uint32_t i = 0; i < plan->graph->n_nodes && !status; i++)
        if (plan->parts[i].device == device &&
            settle(plan, i, &answers[i], p, refused))
            caps[i] = answers[i];
    return status;
}

/* Until all who were asked say yes; each time round there are fewer grants. */
static clv_status grant(clv_plan *plan, const preferences *p, clv_op_caps *caps,
                        bool *any)
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
        *any = describe(plan, p) != 0;
        for (uint32_t d = 0; d < plan->n_devices && !status; d++)
            status = ask_again(plan, d, p, answers, caps, &refused);
    }
    free(answers);
    free(linear);
    return status;
}

/* What is preferred for states, if they may have layouts, and for weights;
 * whether there is any. */
static bool collect(const clv_plan *plan, const clv_op_caps *caps, bool states,
                    const preferences *p)
{
    const clv_graph *graph = plan->graph;
    bool any = false;
    for (uint32_t i = 0; i < graph->n_nodes; i++)
        for (uint32_t j = 0; j < graph->nodes[i].n_inputs; j++) {
            const clv_value value = graph->nodes[i].inputs[j];
            if (value == CLV_NO_TENSOR)
                continue;
            const clv_value base = graph->values[value].base;
            if (is_weight(graph, value) ||
                (states && graph->tensors[base].usage == CLV_USAGE_STATE))
                add_use(plan, caps, i, j, p);
        }
    for (clv_value v = 0; v < p->n; v++) {
        p->of[v].off |= p->of[v].layout == CLV_LAYOUT_LINEAR ||
                        (!is_weight(graph, v) && !p->of[v].axes[0]);
        any |= p->of[v].used && !p->of[v].off;
    }
    return any;
}

clv_status planner_layouts(clv_plan *plan, clv_op_caps *caps, bool states,
                           bool *any)
{
    preferences p = {.n = plan->graph->n_tensors, .n_devices = plan->n_devices};
    *any = false;
    p.of = calloc(p.n + 1u, sizeof *p.of);
    p.users = calloc(p.n + 1u, p.n_devices * sizeof *p.users);
    clv_status status = p.of && p.users ? CLV_OK : core_no_memory("for a plan");
    const bool preferred = !status && collect(plan, caps, states, &p);
    if (preferred && !plan->cut.graph) {
        status = core_cut_make(plan->source, plan->pieces, plan->n_pieces,
                               &plan->cut);
        if (!status)
            plan->graph = plan->cut.graph;
    }
    if (preferred && !status)
        status = grant(plan, &p, caps, any);
    free(p.of);
    free(p.users);
    return status;
}
