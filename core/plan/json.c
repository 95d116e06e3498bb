/* A plan as JSON: its arrays, and what is predicted of them in whole ns. */
#include "../graph/tensor.h"
#include "../base/text.h"
#include "plan.h"

#include <math.h>

static const char *const home_names[] = {"unused", "arena", "own", "bound",
                                         "weight"};
static const char *const usage_names[] = {"transient", "input", "output",
                                          "weight", "state"};

static const char *comma(uint32_t i)
{
    return i ? ",\n  " : "\n  ";
}

static void json_string(core_text *text, const char *key, const char *value)
{
    core_text_add(text, "\"%s\":", key);
    core_text_add_json(text, value);
}

static void json_span(core_text *text, const char *key, core_span span)
{
    core_text_add(text, ",\"%s\":[%lld,%lld]", key, llround(span.begin_ns),
                  llround(span.end_ns));
}

static void json_predicted(core_text *text, const clv_plan *plan)
{
    if (!plan->forecast)
        return;
    core_text_add(text,
                  "\"predicted\":{\"ns\":%lld,\"energy_nj\":%lld,"
                  "\"prepare_ns\":%lld",
                  llround(plan->forecast->makespan_ns),
                  llround(plan->forecast->energy_nj),
                  llround(plan->prepare_ns));
    if (plan->run_ratio > 0)
        core_text_add(text, ",\"measured_ns\":%lld",
                      llround(core_plan_expected_ns(plan)));
    json_span(text, "last_wait", plan->forecast->last_wait);
    core_text_add(text, "},\n");
}

static void json_devices(core_text *text, const clv_plan *plan)
{
    core_text_add(text, "\"devices\":[");
    for (uint32_t d = 0; d < plan->n_queues; d++) {
        core_text_add(text, "%s{", comma(d));
        json_string(text, "id", core_plan_device_id(plan, d));
        core_text_add(text, ",");
        json_string(text, "name", plan->devices[d].dev->info.name);
        core_text_add(text, ",\"queue\":%u", plan->devices[d].queue);
        core_text_add(text, ",\"steps\":%u", plan->devices[d].n_steps);
        if (plan->forecast)
            core_text_add(text, ",\"busy_ns\":%lld",
                          llround(plan->forecast->busy_ns[d]));
        if (plan->devices[d].local)
            core_text_add(text, ",\"own_memory\":%llu,\"staging\":%llu",
                          (unsigned long long)plan->devices[d].memory.size,
                          (unsigned long long)plan->devices[d].staging_size);
        core_text_add(text, "}");
    }
    core_text_add(text,
                  "],\n\"memory\":{\"naive\":%llu,\"offsets\":%llu,\"objects\":"
                  "%llu,\"live\":%llu,\"size\":%llu,\"align\":%llu},\n",
                  (unsigned long long)plan->memory.naive,
                  (unsigned long long)plan->memory.offsets,
                  (unsigned long long)plan->memory.objects,
                  (unsigned long long)plan->memory.live,
                  (unsigned long long)plan->memory.size,
                  (unsigned long long)plan->align);
}

/* Of states that lie otherwise than the host has them. */
static void json_layouts(core_text *text, const clv_plan *plan)
{
    bool any = false;
    core_text_add(text, "\"layouts\":[");
    for (uint32_t d = 0; d < plan->n_devices; d++)
        for (clv_value v = 0; v < plan->graph->n_tensors; v++) {
            if (!core_plan_layout_on(plan, v, d))
                continue;
            core_text_add(text,
                          "%s{\"state\":%u,\"device\":%u,\"layout\":"
                          "\"weights\",\"bytes\":%llu}",
                          comma(any), v, d,
                          (unsigned long long)plan->places[v].size);
            any = true;
        }
    core_text_add(text, "],\n");
}

static void json_loads(core_text *text, const clv_plan *plan)
{
    core_text_add(text, "\"loads\":[");
    for (uint32_t i = 0; i < plan->n_loads; i++) {
        const core_load *load = &plan->loads[i];
        core_text_add(text,
                      "%s{\"weight\":%u,\"device\":%u,\"how\":\"%s\","
                      "\"bytes\":%llu}",
                      comma(i), load->weight, load->device,
                      load->streamed                       ? "stream"
                      : load->holding == CORE_HOLD_COPY    ? "copy"
                      : load->holding == CORE_HOLD_PRIVATE ? "private"
                                                           : "import",
                      (unsigned long long)load->bytes);
    }
    core_text_add(text, "],\n");
}

/* Bases of weights that runs read from the file. */
static void json_file(core_text *text, const clv_plan *plan)
{
    const core_plan_file *file = &plan->file;
    bool any = false;
    if (!file->read)
        return;
    core_text_add(text,
                  "\"file\":{\"room\":%llu,\"used\":%llu,\"ahead\":%llu,"
                  "\"bytes\":%llu,\"weights\":[",
                  (unsigned long long)file->room,
                  (unsigned long long)file->used,
                  (unsigned long long)file->ahead,
                  (unsigned long long)core_plan_file_sum(plan, NULL));
    for (clv_value v = 0; v < plan->graph->n_tensors; v++)
        if (file->read[v]) {
            core_text_add(text, "%s%u", comma(any), v);
            any = true;
        }
    core_text_add(text, "]},\n");
}

/* Of nodes that copy. */
static void json_copies(core_text *text, const clv_plan *plan)
{
    core_text_add(text, "\"copies\":[");
    for (uint32_t i = 0; i < plan->n_copies; i++) {
        const core_copy *copy = &plan->copies[i];
        core_text_add(text,
                      "%s{\"part\":%u,\"to\":\"%s\",\"by\":\"%s\","
                      "\"bytes\":%llu,\"ranges\":%llu}",
                      comma(i), copy->part, copy->out ? "host" : "device",
                      copy->staged ? "staging" : "import",
                      (unsigned long long)copy->bytes,
                      (unsigned long long)copy->n_runs);
    }
    core_text_add(text, "],\n");
}

static void json_steps(core_text *text, const clv_plan *plan)
{
    core_text_add(text, "\"steps\":[");
    for (uint32_t s = 0; s < plan->n_steps; s++) {
        const core_step *step = &plan->steps[s];
        core_text_add(text,
                      "%s{\"device\":%u,\"first_part\":%u,"
                      "\"n_parts\":%u,\"signal\":%llu,\"waits\":[",
                      comma(s), step->device, step->first_part, step->n_parts,
                      (unsigned long long)step->signal);
        for (uint32_t i = 0; i < step->n_waits; i++) {
            const core_wait *wait = &plan->waits[step->first_wait + i];
            core_text_add(
                text, "%s{\"device\":%u,\"value\":%llu,\"by\":\"%s\"}",
                i ? "," : "", wait->device, (unsigned long long)wait->value,
                wait->by_host ? "host" : "device");
        }
        core_text_add(text, "]");
        if (plan->forecast) {
            json_span(text, "host_wait", plan->forecast->host_waits[s]);
            json_span(text, "submit", plan->forecast->submits[s]);
            json_span(text, "runs", plan->forecast->steps[s]);
        }
        core_text_add(text, "}");
    }
    core_text_add(text, "],\n");
}

static void json_parts(core_text *text, const clv_plan *plan)
{
    core_text_add(text, "\"parts\":[");
    for (uint32_t i = 0; i < plan->n_parts; i++) {
        const core_part *part = &plan->parts[i];
        core_text_add(text, "%s{\"node\":%u,\"device\":%u,\"step\":%u",
                      comma(i), part->node, part->device, part->step);
        if (plan->forecast) {
            json_span(text, "runs", plan->forecast->parts[i]);
            core_text_add(text, ",\"alone_ns\":%lld",
                          llround(plan->forecast->costs_ns[i]));
        }
        core_text_add(text, "}");
    }
    core_text_add(text, "],\n");
}

/* Nodes here are those of the graph that was planned. */
static void json_pieces(core_text *text, const clv_plan *plan)
{
    core_text_add(text, "\"pieces\":[");
    for (uint32_t i = 0; i < plan->n_pieces; i++) {
        const core_piece *piece = &plan->pieces[i];
        core_text_add(text, "%s{\"node\":%u,", comma(i), piece->node);
        json_string(text, "device", core_plan_device_id(plan, piece->device));
        for (uint32_t a = 0; a < CORE_AXIS_COUNT; a++)
            if (piece->ranges[a].end)
                core_text_add(text, ",\"%s\":[%lld,%lld]", core_axis_name(a),
                              (long long)piece->ranges[a].begin,
                              (long long)piece->ranges[a].end);
        if (piece->streamed)
            core_text_add(text, ",\"streamed\":%s",
                          piece->streamed == CORE_STREAM_ONCE ? "\"once\""
                                                              : "true");
        if (piece->adds)
            core_text_add(text, ",\"adds\":true");
        if (piece->variant) {
            core_text_add(text, ",");
            json_string(text, "variant", plan->names[i].text);
        }
        const char *reason = plan->choices[piece->node].reason;
        if (reason) {
            core_text_add(text, ",");
            json_string(text, "reason", reason);
        }
        core_text_add(text, "}");
    }
    core_text_add(text, "]");
}

/* Of the nodes where costs decided. */
static void json_choices(core_text *text, const clv_plan *plan)
{
    uint32_t n = 0;
    core_text_add(text, "\"choices\":[");
    for (uint32_t i = 0; i < plan->source->n_nodes; i++) {
        const core_choice *choice = &plan->choices[i];
        if (!choice->alternative)
            continue;
        core_text_add(text, "%s{\"node\":%u,\"alone_ns\":%lld,", comma(n++), i,
                      llround(choice->ns));
        json_string(text, "alternative", choice->alternative);
        core_text_add(text, ",\"alternative_ns\":%lld}",
                      llround(choice->alternative_ns));
    }
    core_text_add(text, "]");
}

static void json_indices(core_text *text, const char *key, const uint32_t *list,
                         uint32_t n)
{
    core_text_add(text, ",\"%s\":[", key);
    for (uint32_t i = 0; i < n; i++) {
        if (list[i] == CLV_NO_TENSOR)
            core_text_add(text, "%snull", i ? "," : "");
        else
            core_text_add(text, "%s%u", i ? "," : "", list[i]);
    }
    core_text_add(text, "]");
}

static void json_nodes(core_text *text, const clv_plan *plan)
{
    core_text_add(text, "\"nodes\":[");
    for (uint32_t i = 0; i < plan->graph->n_nodes; i++) {
        const clv_node *node = &plan->graph->nodes[i];
        core_text_add(text, "%s{", comma(i));
        json_string(text, "op", core_op_name(node->op));
        json_indices(text, "inputs", node->inputs, node->n_inputs);
        json_indices(text, "outputs", node->outputs, node->n_outputs);
        const core_piece *piece = core_plan_piece_of(plan, i);
        if (piece)
            core_text_add(text, ",\"piece\":%u",
                          (uint32_t)(piece - plan->pieces));
        if (plan->cut.graph)
            core_text_add(text, ",\"source\":%u", plan->cut.sources[i]);
        core_text_add(text, "}");
    }
    core_text_add(text, "],\n");
}

static void json_value(core_text *text, const clv_plan *plan, clv_value value)
{
    const core_place *place = &plan->places[value];
    const clv_tensor_desc *desc = &plan->graph->tensors[value];
    char name[16], shape[CLV_SHAPE_TEXT];
    core_text_add(text, "%s{", comma(value));
    json_string(text, "name", core_value_name(plan->graph, value, name));
    core_text_add(text, ",\"usage\":\"%s\",", usage_names[desc->usage]);
    json_string(text, "shape", clv_shape_text(desc, shape));
    core_text_add(text, ",\"home\":\"%s\",\"size\":%llu",
                  home_names[place->home], (unsigned long long)place->size);
    if (place->home == CORE_HOME_ARENA)
        core_text_add(text,
                      ",\"offset\":%llu,\"first_part\":%u,\"last_part\":%u",
                      (unsigned long long)place->offset, place->first_part,
                      place->last_part);
    if (place->memory)
        core_text_add(text, ",\"memory_of\":%u", place->memory - 1);
    if (place->original != value)
        core_text_add(text, ",\"mirror_of\":%u", place->original);
    if (place->in_place != CLV_NO_TENSOR)
        core_text_add(text, ",\"in_place\":%u", place->in_place);
    if (plan->graph->values[value].base != value)
        core_text_add(text, ",\"view_of\":%u", plan->graph->values[value].base);
    core_text_add(text, "}");
}

/* Values that the prediction is for. */
static void json_symbols(core_text *text, const clv_graph *graph)
{
    core_text_add(text, "\"symbols\":[");
    for (uint32_t i = 0; i < graph->n_symbols; i++) {
        core_text_add(text, "%s{", comma(i));
        json_string(text, "name", graph->symbol_names[i]);
        core_text_add(text, ",\"max\":%lld}", (long long)graph->symbols[i].max);
    }
    core_text_add(text, "],\n");
}

static void json_graph(core_text *text, const clv_plan *plan)
{
    core_text_add(text, "{\"graph\":\"%016llx\",\n\"planned_nodes\":%u,\n",
                  (unsigned long long)core_graph_fingerprint(plan->source),
                  plan->source->n_nodes);
}

/* What was decided: all else follows from it. */
static void json_decisions(core_text *text, const clv_plan *plan)
{
    json_pieces(text, plan);
    core_text_add(text, ",\n");
    json_choices(text, plan);
}

clv_status core_plan_decisions_json(const clv_plan *plan, char **out)
{
    core_text text = {0};
    *out = NULL;
    json_graph(&text, plan);
    json_decisions(&text, plan);
    core_text_add(&text, "}\n");
    return core_text_take(&text, out);
}

clv_status clv_plan_json(const clv_plan *plan, char **out)
{
    core_text text = {0};
    *out = NULL;
    json_graph(&text, plan);
    json_symbols(&text, plan->source);
    json_predicted(&text, plan);
    json_devices(&text, plan);
    json_layouts(&text, plan);
    json_loads(&text, plan);
    json_file(&text, plan);
    json_copies(&text, plan);
    json_steps(&text, plan);
    json_decisions(&text, plan);
    core_text_add(&text, ",\n");
    json_parts(&text, plan);
    json_nodes(&text, plan);
    core_text_add(&text, "\"values\":[");
    for (uint32_t i = 0; i < plan->graph->n_tensors; i++)
        json_value(&text, plan, i);
    core_text_add(&text, "]}\n");
    return core_text_take(&text, out);
}
