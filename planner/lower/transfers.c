#include "interleave.h"
#include "../../core/base/error.h"

#include <stdlib.h>
#include <string.h>

#define HOST ((uint64_t)1)
/* Of a state: not written since the run began. */
#define FRESH ((uint64_t)1 << 63)
#define MAX_MEMORIES 63u

static bool grow(void *array, uint32_t n, uint32_t *capacity, size_t size)
{
    void *old, *grown;
    if (n < *capacity)
        return true;
    memcpy(&old, array, sizeof old);
    uint32_t wanted = *capacity ? *capacity * 2 : 16;
    if (!(grown = reallocarray(old, wanted, size)))
        return false;
    memcpy(array, &grown, sizeof grown);
    *capacity = wanted;
    return true;
}

static uint32_t memory_of(const clv_plan *plan, uint32_t device)
{
    return plan->devices[device].local ? 1 + device : 0;
}

/* The memory in which a device has a base: a state in a layout of its own is
 * apart from the host's, whatever memory the device has. */
static uint32_t memory_for(const clv_plan *plan, uint32_t device,
                           clv_value base)
{
    return plan->graph->tensors[base].layout ? 1 + device
                                             : memory_of(plan, device);
}

bool planner_find_local(clv_plan *plan)
{
    bool any = false;
    for (uint32_t i = 0; i < plan->n_pieces; i++) {
        core_plan_device *d = &plan->devices[plan->pieces[i].device];
        d->local = core_device_has_local(d->dev, &d->local_type);
        d->staged = d->local && !core_device_reaches_host(d->dev, 1);
        any |= d->local;
    }
    return any;
}

/* ------------------------------------------------------------------------ */
/* Names                                                                     */

/* The memory in which a base lies under its own name. */
uint32_t planner_interleave_home(const planner_interleaver *w, clv_value base)
{
    uint64_t used = w->used[base];
    uint32_t m = 0;
    if (!used || (used & (used - 1)))
        return 0;
    while (!(used >> m & 1))
        m++;
    return m;
}

clv_value *planner_interleave_name(const planner_interleaver *w,
                                   clv_value value, uint32_t memory)
{
    return &w->names[(size_t)value * w->n_memories + memory];
}

/* The base as it is called in a memory; CLV_NO_TENSOR when memory runs out. */
static clv_value base_in(planner_interleaver *w, clv_value base,
                         uint32_t memory)
{
    clv_value *name = planner_interleave_name(w, base, memory);
    if (*name == CLV_NO_TENSOR && planner_interleave_home(w, base) == memory)
        *name = base;
    if (*name == CLV_NO_TENSOR) {
        clv_tensor_desc desc = w->graph->tensors[base];
        if (desc.usage != CLV_USAGE_STATE)
            desc.usage = CLV_USAGE_TRANSIENT;
        *name = core_graph_add_tensor(w->graph, &desc,
                                      w->graph->values[base].name, NULL);
    }
    return *name;
}

/* A box of a base in a memory. */
static clv_value box_in(planner_interleaver *w, clv_value base, uint32_t memory,
                        const core_bounds *box)
{
    clv_value in = base_in(w, base, memory);
    if (in == CLV_NO_TENSOR)
        return in;
    clv_tensor_desc desc = w->graph->tensors[in];
    const core_bounds whole = core_bounds_whole(desc.rank, desc.dims);
    if (core_bounds_equal(&whole, box, desc.rank))
        return in;
    core_desc_set_dense(&desc);
    for (uint32_t i = 0; i < desc.rank; i++)
        if (box->end[i] - box->begin[i] != desc.dims[i]) {
            desc.dims[i] = box->end[i] - box->begin[i];
            desc.symbols[i] = 0;
        }
    clv_value view = core_graph_add_tensor(w->graph, &desc, NULL, NULL);
    if (view == CLV_NO_TENSOR)
        return view;
    w->graph->values[view].base = in;
    memcpy(w->graph->values[view].origin, box->begin, sizeof box->begin);
    return view;
}

/* An operand in a memory. */
static clv_value value_in(planner_interleaver *w, clv_value value,
                          uint32_t memory)
{
    clv_value base = w->graph->values[value].base;
    clv_value *name = planner_interleave_name(w, value, memory);
    if (*name == CLV_NO_TENSOR) {
        const core_bounds box = core_bounds_of(w->graph, value);
        *name = planner_interleave_home(w, base) == memory
                    ? value
                    : box_in(w, base, memory, &box);
    }
    return *name;
}

/* ------------------------------------------------------------------------ */
/* What is copied                                                            */

static clv_status add_move(planner_interleaver *w, const planner_move *m)
{
    if (m->from == CLV_NO_TENSOR || m->to == CLV_NO_TENSOR ||
        !grow(&w->moves, w->n_moves, &w->moves_capacity, sizeof *w->moves))
        return core_no_memory("for a plan");
    w->moves[w->n_moves++] = *m;
    return CLV_OK;
}

static clv_status copy_out(planner_interleaver *w, clv_value base,
                           const core_region *old, bool last)
{
    const core_cut *cut = &w->plan->cut;
    uint32_t m = 1;
    while (m < w->n_memories && !(old->memories >> m & 1))
        m++;
    if (m == w->n_memories || old->writer == CORE_NO_WRITER)
        return clv_error(CLV_ERR_INTERNAL, "plan: a value is read that nothing "
                                           "wrote");
    const planner_move out = {.at = last ? w->graph->n_nodes - 1 : old->writer,
                              .device = m - 1,
                              .source = cut->sources[old->writer],
                              .after = true,
                              .from = box_in(w, base, m, &old->box),
                              .to = box_in(w, base, 0, &old->box)};
    clv_status status = add_move(w, &out);
    return status ? status
                  : core_regions_add(&w->regions[base], &old->box, HOST);
}

/* For node i. Inputs come first thing, so that they do not divide steps. */
static clv_status copy_in(planner_interleaver *w, clv_value base,
                          uint32_t memory, const core_region *old, uint32_t i)
{
    const core_cut *cut = &w->plan->cut;
    uint32_t device = memory - 1;
    uint32_t at = old->writer == CORE_NO_WRITER ? w->first[device] : i;
    const planner_move in = {.at = at,
                             .device = device,
                             .source = cut->sources[at],
                             .from = box_in(w, base, 0, &old->box),
                             .to = box_in(w, base, memory, &old->box)};
    clv_status status = add_move(w, &in);
    return status ? status
                  : core_regions_add(&w->regions[base], &old->box,
                                     (uint64_t)1 << memory);
}

/* Node i needs the value in a memory. */
static clv_status bring(planner_interleaver *w, uint32_t i, clv_value value,
                        uint32_t memory)
{
    clv_value base = w->graph->values[value].base;
    const core_bounds box = core_bounds_of(w->graph, value);
    const uint64_t bit = (uint64_t)1 << memory;
    core_region old;
    clv_status status = CLV_OK;
    while (!status &&
           core_regions_missing(&w->regions[base], &box, bit, &old)) {
        if (!(old.memories & HOST))
            status = copy_out(w, base, &old, false);
        if (!status && memory)
            status = copy_in(w, base, memory, &old, i);
    }
    return status;
}

static clv_status note_state(planner_interleaver *w, clv_value value,
                             uint32_t memory)
{
    clv_plan *plan = w->plan;
    const core_state_use use = {w->graph->values[value].base, memory,
                                core_bounds_of(w->graph, value)};
    const uint32_t rank = w->graph->tensors[value].rank;
    for (uint32_t i = 0; i < plan->n_state_uses; i++)
        if (plan->state_uses[i].state == use.state &&
            plan->state_uses[i].memory == memory &&
            core_bounds_equal(&plan->state_uses[i].box, &use.box, rank))
            return CLV_OK;
    if (!grow(&plan->state_uses, plan->n_state_uses, &w->uses_capacity,
              sizeof *plan->state_uses))
        return core_no_memory("for a plan");
    plan->state_uses[plan->n_state_uses++] = use;
    return CLV_OK;
}

static bool is_weight(const planner_interleaver *w, clv_value value)
{
    return value == CLV_NO_TENSOR ||
           w->graph->tensors[value].usage == CLV_USAGE_WEIGHT;
}

static bool is_state(const planner_interleaver *w, clv_value value)
{
    return w->graph->tensors[w->graph->values[value].base].usage ==
           CLV_USAGE_STATE;
}

static clv_status interleave_operand(planner_interleaver *w, uint32_t i,
                                     clv_value *value, bool read, bool write)
{
    clv_value base;
    clv_status status = CLV_OK;
    if (is_weight(w, *value))
        return CLV_OK;
    base = w->graph->values[*value].base;
    if (planner_is_ring(w->streams, w->plan, base))
        return CLV_OK;
    const uint32_t memory = memory_for(w->plan, w->plan->cut.devices[i], base);
    if (is_state(w, *value))
        status = note_state(w, *value, memory);
    if (!status && read)
        status = bring(w, i, *value, memory);
    if (!status && write) {
        const core_bounds box = core_bounds_of(w->graph, *value);
        status =
            core_regions_set(&w->regions[base], &box, (uint64_t)1 << memory, i);
    }
    if (status)
        return status;
    clv_value name = value_in(w, *value, memory);
    if (name == CLV_NO_TENSOR)
        return core_no_memory("for a plan");
    *value = name;
    return CLV_OK;
}

/* All reads come before the writes. The nodes of the graph are changed in
 * place; their number stays. */
static clv_status interleave_node(planner_interleaver *w, uint32_t i)
{
    clv_node node = w->graph->nodes[i];
    bool sets = node.op == CLV_OP_SET_ROWS;
    clv_status status = CLV_OK;
    for (uint32_t j = node.n_inputs; j-- > 0 && !status;)
        status = interleave_operand(w, i, &node.inputs[j], true, sets && !j);
    for (uint32_t j = 0; j < node.n_outputs && !status; j++)
        status = interleave_operand(w, i, &node.outputs[j], false, true);
    w->graph->nodes[i] = node;
    return status;
}

/* ------------------------------------------------------------------------ */
/* The beginning and the end of a run                                        */

static void note_use(planner_interleaver *w, uint32_t device, clv_value base)
{
    w->used[base] |= (uint64_t)1 << memory_for(w->plan, device, base);
}

static void find_used(planner_interleaver *w)
{
    const clv_graph *g = w->graph;
    memset(w->first, 0xff, w->plan->n_devices * sizeof *w->first);
    for (uint32_t i = g->n_nodes; i-- > 0;) {
        const clv_node *node = &g->nodes[i];
        uint32_t device = w->plan->cut.devices[i];
        w->first[device] = i;
        for (uint32_t j = 0; j < node->n_inputs; j++)
            if (node->inputs[j] != CLV_NO_TENSOR)
                note_use(w, device, g->values[node->inputs[j]].base);
        for (uint32_t j = 0; j < node->n_outputs; j++)
            note_use(w, device, g->values[node->outputs[j]].base);
    }
    for (uint32_t v = 0; v < g->n_tensors; v++)
        if (g->tensors[v].usage == CLV_USAGE_INPUT ||
            g->tensors[v].usage == CLV_USAGE_OUTPUT)
            w->used[v] |= HOST;
}

static clv_status begin_regions(planner_interleaver *w)
{
    const clv_graph *g = w->graph;
    clv_status status = CLV_OK;
    for (uint32_t v = 0; v < w->n_values && !status; v++) {
        const clv_tensor_desc *desc = &g->tensors[v];
        uint64_t has = desc->usage == CLV_USAGE_INPUT   ? HOST
                       : desc->usage == CLV_USAGE_STATE ? w->used[v] | FRESH
                                                        : 0;
        if (g->values[v].base == v && desc->usage != CLV_USAGE_WEIGHT)
            status =
                core_regions_begin(&w->regions[v], desc->rank, desc->dims, has);
    }
    return status;
}

static clv_status end_output(planner_interleaver *w, clv_value output)
{
    const clv_tensor_desc *desc = &w->graph->tensors[output];
    const core_bounds all = core_bounds_whole(desc->rank, desc->dims);
    core_region old;
    clv_status status = CLV_OK;
    while (!status && w->used[output] != HOST &&
           core_regions_missing(&w->regions[output], &all, HOST, &old))
        status = copy_out(w, output, &old, true);
    return status;
}

static clv_status end_state(planner_interleaver *w, clv_value state)
{
    clv_plan *plan = w->plan;
    const core_regions *r = &w->regions[state];
    for (uint32_t i = 0; i < r->n; i++) {
        if (r->list[i].memories & FRESH)
            continue;
        if (!grow(&plan->state_ends, plan->n_state_ends, &w->ends_capacity,
                  sizeof *plan->state_ends))
            return core_no_memory("for a plan");
        plan->state_ends[plan->n_state_ends++] = (core_state_end){
            .state = state,
            .box = r->list[i].box,
            .memories = r->list[i].memories,
            .writer =
                memory_for(plan, plan->cut.devices[r->list[i].writer], state)};
    }
    return CLV_OK;
}

/* The copies of streamed weights. */
static clv_status stream(planner_interleaver *w)
{
    const planner_streams *streams = w->streams;
    uint32_t *queues = calloc(w->plan->n_devices, sizeof *queues);
    clv_status status = queues
                            ? planner_streams_queues(w->plan, streams, queues)
                            : core_no_memory("for a plan");
    for (uint32_t i = 0; i < streams->n && !status; i++) {
        const planner_stream *s = &streams->list[i];
        const planner_move move = {.at = s->at,
                                   .device = queues[s->device],
                                   .source = w->plan->cut.sources[s->at],
                                   .from = s->weight,
                                   .to = s->part};
        status = add_move(w, &move);
    }
    free(queues);
    return status;
}

static clv_status interleave(planner_interleaver *w)
{
    clv_status status = begin_regions(w);
    if (!status)
        status = stream(w);
    for (uint32_t i = 0; i < w->graph->n_nodes && !status; i++)
        status = interleave_node(w, i);
    for (uint32_t v = 0; v < w->n_values && !status; v++) {
        if (w->graph->values[v].base != v)
            continue;
        if (w->graph->tensors[v].usage == CLV_USAGE_OUTPUT)
            status = end_output(w, v);
        else if (w->graph->tensors[v].usage == CLV_USAGE_STATE)
            status = end_state(w, v);
    }
    return status;
}

/* ------------------------------------------------------------------------ */

static void finish(planner_interleaver *w)
{
    for (uint32_t v = 0; w->regions && v < w->n_values; v++)
        core_regions_finish(&w->regions[v]);
    free(w->regions);
    free(w->used);
    free(w->names);
    free(w->first);
    free(w->moves);
}

clv_status planner_transfers(clv_plan *plan, const planner_streams *streams,
                             clv_op_caps **caps)
{
    planner_interleaver w = {.plan = plan,
                             .graph = plan->cut.graph,
                             .streams = streams,
                             .n_values = plan->cut.graph->n_tensors,
                             .n_memories = plan->n_devices + 1};
    size_t n = w.n_values, names = n * w.n_memories;
    if (w.n_memories > MAX_MEMORIES)
        return clv_error(CLV_ERR_LIMIT,
                         "plan: %u devices, some with memory of "
                         "their own, where at most %u can be; list fewer",
                         plan->n_devices, MAX_MEMORIES - 1);
    w.used = calloc(n, sizeof *w.used);
    w.regions = calloc(n, sizeof *w.regions);
    w.names = malloc(names * sizeof *w.names);
    w.first = calloc(plan->n_devices, sizeof *w.first);
    clv_status status = w.used && w.regions && w.names && w.first
                            ? CLV_OK
                            : core_no_memory("for a plan");
    if (!status) {
        memset(w.names, 0xff, names * sizeof *w.names);
        find_used(&w);
        status = interleave(&w);
    }
    if (!status)
        status = planner_interleave_rebuild(&w, caps);
    finish(&w);
    return status;
}
