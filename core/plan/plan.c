#include "held.h"
#include "../graph/tensor.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void core_forecast_free(core_forecast *forecast)
{
    if (!forecast)
        return;
    free(forecast->parts);
    free(forecast->costs_ns);
    free(forecast->steps);
    free(forecast->submits);
    free(forecast->host_waits);
    free(forecast->busy_ns);
    free(forecast);
}

clv_device *clv_plan_short_device(const clv_plan *plan)
{
    return plan->short_device;
}

void clv_plan_destroy(clv_plan *plan)
{
    if (!plan)
        return;
    for (uint32_t i = 0; plan->choices && i < plan->source->n_nodes; i++)
        free(plan->choices[i].reason);
    for (uint32_t i = 0; plan->choices && i < plan->source->n_nodes; i++)
        free(plan->choices[i].alternative);
    core_cut_finish(&plan->cut);
    core_forecast_free(plan->forecast);
    free(plan->devices);
    free(plan->choices);
    free(plan->pieces);
    free(plan->names);
    free(plan->parts);
    free(plan->steps);
    free(plan->clocks);
    free(plan->waits);
    free(plan->loads);
    free(plan->copies);
    free(plan->state_uses);
    free(plan->state_ends);
    free(plan->places);
    free(plan->file.read);
    free(plan->flight.symbols);
    free(plan);
}

double core_plan_expected_ns(const clv_plan *plan)
{
    const double ns = plan->forecast ? plan->forecast->makespan_ns : 0;
    return plan->run_ratio > 0 ? ns * plan->run_ratio : ns;
}

/* Steps that do more than copy. */
static uint32_t count_programs(const clv_plan *plan)
{
    uint32_t n = 0;
    for (uint32_t s = 0; s < plan->n_steps; s++) {
        uint32_t p = plan->steps[s].first_part;
        const uint32_t end = p + plan->steps[s].n_parts;
        while (p < end && core_part_copies(plan, p))
            p++;
        n += p < end;
    }
    return n;
}

clv_plan_summary clv_plan_summarise(const clv_plan *plan)
{
    clv_plan_summary summary = {.n_steps = plan->n_steps,
                                .n_programs = count_programs(plan),
                                .transient_naive = plan->memory.naive,
                                .transient_offsets = plan->memory.offsets,
                                .transient_objects = plan->memory.objects,
                                .transient_size = plan->memory.size};
    if (plan->forecast) {
        summary.predicted_ns = core_plan_expected_ns(plan);
        summary.predicted_nj = plan->forecast->energy_nj;
    }
    summary.together_ns = plan->together_ns;
    summary.n_copies = plan->n_copies;
    for (uint32_t d = 0; d < plan->n_devices; d++) {
        const core_memplan *own = &plan->devices[d].memory;
        summary.transient_naive += own->naive;
        summary.transient_offsets += own->offsets;
        summary.transient_objects += own->objects;
        summary.transient_size += own->size;
    }
    for (uint32_t i = 0; i < plan->n_loads; i++)
        summary.n_copies += plan->loads[i].holding != 0;
    for (uint32_t i = 0; i < plan->n_devices; i++)
        summary.n_devices += plan->devices[i].n_steps != 0;
    return summary;
}

clv_device *clv_plan_device(const clv_plan *plan, uint32_t index)
{
    for (uint32_t d = 0; d < plan->n_devices; d++)
        if (plan->devices[d].n_steps && !index--)
            return plan->devices[d].dev;
    return NULL;
}

void core_plan_node_text(const clv_plan *plan, uint32_t node, char *text,
                         size_t size)
{
    const clv_graph *graph = plan->graph;
    const clv_node *n = &graph->nodes[node];
    const char *name = NULL;
    for (uint32_t i = 0; i < n->n_inputs && !name; i++)
        if (n->inputs[i] != CLV_NO_TENSOR &&
            (n->op == CORE_OP_COPY ||
             graph->tensors[n->inputs[i]].usage >= CLV_USAGE_WEIGHT))
            name = graph->values[graph->values[n->inputs[i]].base].name;
    snprintf(text, size, "%s%s%s", core_op_name(n->op), name ? " " : "",
             name ? name : "");
}

const char *core_plan_device_id(const clv_plan *plan, uint32_t device)
{
    return plan->devices[device].dev->id;
}

const core_piece *core_plan_piece_of(const clv_plan *plan, uint32_t node)
{
    if (!plan->cut.graph)
        return &plan->pieces[node];
    return plan->cut.pieces[node] == CORE_NO_PIECE
               ? NULL
               : &plan->pieces[plan->cut.pieces[node]];
}

uint32_t core_plan_source_of(const clv_plan *plan, uint32_t node)
{
    return plan->cut.graph ? plan->cut.sources[node] : node;
}

uint32_t core_plan_usage(const clv_plan *plan, uint32_t step, clv_value value)
{
    const core_place *base = core_plan_base(plan, value);
    const uint32_t usage = plan->graph->tensors[value].usage;
    if (usage != CLV_USAGE_TRANSIENT && usage != CLV_USAGE_OUTPUT)
        return usage;
    if (plan->places[value].writer != step)
        return CLV_USAGE_INPUT;
    return base->copied || base->first_step != step || base->last_step != step
               ? CLV_USAGE_OUTPUT
               : usage;
}

uint64_t core_plan_missing(const clv_plan *plan, const core_load *load)
{
    return load->holding == CORE_HOLD_IMPORT ||
                   core_tensor_has_copy(
                       plan->graph->values[load->weight].weight,
                       plan->devices[load->device].dev, plan->pointer_align,
                       load->holding, &load->range)
               ? 0
               : load->range.bytes * load->range.n;
}

clv_status core_plan_reach(const clv_plan *plan, const core_load *load,
                           core_runs *out)
{
    if (plan->graph->values[load->weight].base != load->weight)
        return core_plan_copy_runs(plan, load->weight, NULL, out);
    *out = core_tensor_whole(plan->graph->values[load->weight].weight);
    return CLV_OK;
}

bool core_plan_load_reaches(const clv_plan *plan, const core_load *load)
{
    return load->holding == CORE_HOLD_IMPORT &&
           core_device_is_windowed(plan->devices[load->device].dev);
}

uint64_t core_plan_unused(const clv_plan *plan, const core_load *load)
{
    core_runs range = load->range;
    if (core_plan_load_reaches(plan, load)) {
        if (core_plan_reach(plan, load, &range))
            return 0;
    } else if (load->holding == CORE_HOLD_IMPORT) {
        return 0;
    }
    return core_held_has(&plan->devices[load->device],
                         plan->graph->values[load->weight].weight,
                         plan->pointer_align, load->holding, &range)
               ? 0
               : range.bytes * range.n;
}

/* Whether an earlier value has the same weight. */
static bool is_again(const clv_graph *graph, uint32_t value)
{
    uint32_t v = 0;
    while (graph->values[v].weight != graph->values[value].weight)
        v++;
    return v < value;
}

uint64_t core_plan_unused_bytes(const clv_graph *graph, const clv_device *dev)
{
    uint64_t sum = 0;
    for (uint32_t v = 0; v < graph->n_tensors; v++)
        if (graph->values[v].weight && !is_again(graph, v))
            sum += core_tensor_unused_bytes(graph->values[v].weight, dev);
    return sum;
}

/* Of a dimension that is a symbol a box has all or, where the symbol is fixed
 * to one value, a part of what it is at most. */
clv_status core_plan_copy_runs(const clv_plan *plan, clv_value value,
                               const int64_t *symbols, core_runs *out)
{
    const clv_graph *g = plan->graph;
    const clv_tensor_desc *base = &g->tensors[g->values[value].base];
    core_bounds box = core_bounds_of(g, value);
    int64_t dims[CLV_MAX_RANK];
    bool known = true;
    for (uint32_t d = 0; d < base->rank; d++) {
        uint32_t symbol = base->symbols[d];
        dims[d] = base->dims[d];
        if (symbol && symbols && box.end[d] == dims[d] && !box.begin[d])
            dims[d] = box.end[d] = symbols[symbol - 1];
        known &= !d || !symbol ||
                 g->symbols[symbol - 1].min == g->symbols[symbol - 1].max;
    }
    if (known && core_bounds_runs(base->dtype, base->rank, dims, &box, out))
        return CLV_OK;
    return clv_error(CLV_ERR_UNSUPPORTED,
                     "plan: a part of '%s' cannot be "
                     "copied between memories; only the first dimension can "
                     "vary, and only the first and the last can be cut",
                     g->values[g->values[value].base].name
                         ? g->values[g->values[value].base].name
                         : "a value");
}

bool core_plan_spare_core(const clv_plan *plan)
{
    cpu_set_t set;
    uint64_t units = 0;
    for (uint32_t d = 0; d < plan->n_devices; d++) {
        const clv_device_info *info = &plan->devices[d].dev->info;
        bool software =
            info->kind == CLV_DEVICE_CPU || (info->flags & CLV_DEVICE_SOFTWARE);
        if (plan->devices[d].n_steps && software &&
            info->clock != CLV_CLOCK_VIRTUAL)
            units += info->units ? info->units : 1;
    }
    return !units || (!sched_getaffinity(0, sizeof set, &set) &&
                      (uint64_t)CPU_COUNT(&set) > units);
}
