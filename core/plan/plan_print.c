#include "../base/text.h"
#include "../graph/shape.h"
#include "../graph/tensor.h"
#include "plan.h"

#include <string.h>

static const char *const home_names[] = {"unused", "arena", "own", "bound",
                                         "weight"};
static const char *const usage_names[] = {"transient", "input", "output",
                                          "weight", "state"};

static const char *device_id(const clv_plan *plan, uint32_t device)
{
    return plan->devices[device].dev->id;
}

/* "12.3 MiB", exact below a KiB. */
static void add_bytes(core_text *text, uint64_t bytes)
{
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes / 1024;
    uint32_t unit = 0;
    for (; value >= 1024 && unit < 3; unit++)
        value /= 1024;
    if (bytes < 1024)
        core_text_add(text, "%llu B", (unsigned long long)bytes);
    else
        core_text_add(text, "%.1f %s", value, units[unit]);
}

/* ------------------------------------------------------------------------ */
/* Markdown                                                                  */

/* Names come from files: nothing in them ends a cell or a line. */
static void add_cell(core_text *text, const char *string)
{
    for (; *string; string++) {
        if (*string == '|' || *string == '\\')
            core_text_add(text, "\\%c", *string);
        else
            core_text_add(text, "%c", (unsigned char)*string < ' ' ? ' '
                                                                    : *string);
    }
}

static uint64_t weight_bytes(const clv_plan *plan, uint32_t device,
                             uint32_t holding)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < plan->n_loads; i++)
        if (plan->loads[i].device == device &&
            plan->loads[i].holding == holding)
            sum += plan->loads[i].bytes;
    return sum;
}

static void md_devices(core_text *text, const clv_plan *plan)
{
    core_text_add(text, "| device | name | steps | nodes | weights in place | "
                        "weights copied |\n|---|---|--:|--:|--:|--:|\n");
    for (uint32_t d = 0; d < plan->n_devices; d++) {
        uint32_t nodes = 0;
        for (uint32_t i = 0; i < plan->n_parts; i++)
            nodes += plan->parts[i].device == d;
        core_text_add(text, "| %s | ", device_id(plan, d));
        add_cell(text, plan->devices[d].dev->info.name);
        core_text_add(text, " | %u | %u | ", plan->devices[d].n_steps, nodes);
        add_bytes(text, weight_bytes(plan, d, CORE_HOLD_IMPORT));
        core_text_add(text, " | ");
        add_bytes(text, weight_bytes(plan, d, CORE_HOLD_COPY));
        core_text_add(text, " |\n");
    }
}

static void md_memory(core_text *text, const clv_plan *plan)
{
    core_text_add(text, "\nIntermediate values: ");
    add_bytes(text, plan->memory.naive);
    core_text_add(text, " without sharing, ");
    add_bytes(text, plan->memory.offsets);
    core_text_add(text, " by offsets, ");
    add_bytes(text, plan->memory.objects);
    core_text_add(text, " by shared objects; used: ");
    add_bytes(text, plan->memory.size);
    core_text_add(text, ".\n");
}

static void md_loads(core_text *text, const clv_plan *plan)
{
    bool any = false;
    for (uint32_t i = 0; i < plan->n_loads; i++) {
        const core_load *load = &plan->loads[i];
        if (load->holding == CORE_HOLD_IMPORT)
            continue;
        if (!any)
            core_text_add(text, "\nCopied before the first run:\n\n| weight | "
                                "to | bytes |\n|---|---|--:|\n");
        any = true;
        core_text_add(text, "| ");
        clv_value base = plan->graph->values[load->weight].base;
        add_cell(text, plan->graph->values[base].name);
        core_text_add(text, " | %s | %llu |\n", device_id(plan, load->device),
                      (unsigned long long)load->bytes);
    }
}

static void md_steps(core_text *text, const clv_plan *plan)
{
    core_text_add(text, "\n| step | device | nodes | waits for |\n"
                        "|--:|---|---|---|\n");
    for (uint32_t s = 0; s < plan->n_steps; s++) {
        const core_step *step = &plan->steps[s];
        core_text_add(text, "| %u | %s | %u..%u | ", s,
                      device_id(plan, step->device),
                      plan->parts[step->first_part].node,
                      plan->parts[step->first_part + step->n_parts - 1].node);
        for (uint32_t i = 0; i < step->n_waits; i++) {
            const core_wait *wait = &plan->waits[step->first_wait + i];
            core_text_add(text, "%s%s step %llu%s", i ? ", " : "",
                          device_id(plan, wait->device),
                          (unsigned long long)wait->value,
                          wait->by_host ? " (host)" : "");
        }
        core_text_add(text, " |\n");
    }
}

static void md_where(core_text *text, const clv_plan *plan, clv_value value)
{
    const core_place *place = &plan->places[value];
    if (place->home == CORE_HOME_ARENA)
        core_text_add(text, "arena + %llu%s",
                      (unsigned long long)place->offset,
                      place->in_place != CLV_NO_TENSOR ? ", in place" : "");
    else
        add_cell(text, plan->graph->values[plan->graph->values[value].base]
                           .name);
}

static void md_ranges(core_text *text, const core_piece *piece)
{
    for (uint32_t a = 0; a < CORE_AXIS_COUNT; a++)
        if (piece->ranges[a].end)
            core_text_add(text, ", %s %lld..%lld", core_axis_name(a),
                          (long long)piece->ranges[a].begin,
                          (long long)piece->ranges[a].end);
}

/* What decided about a node of the graph that is run: NULL for one that joins
 * partial sums. */
static const core_piece *piece_of(const clv_plan *plan, uint32_t node)
{
    if (!plan->cut.graph)
        return &plan->pieces[node];
    return plan->cut.pieces[node] == CORE_NO_PIECE
               ? NULL
               : &plan->pieces[plan->cut.pieces[node]];
}

static void md_why(core_text *text, const clv_plan *plan,
                   const core_piece *piece)
{
    if (!piece)
        core_text_add(text, "joins partial sums");
    else if (plan->choices[piece->node].reason)
        add_cell(text, plan->choices[piece->node].reason);
    else
        core_text_add(text, "%s",
                      plan->choices[piece->node].n_pieces > 1 ? "cut"
                                                              : "first listed");
}

static void md_nodes(core_text *text, const clv_plan *plan)
{
    core_text_add(text, "\n| node | op | output | step | device | where | why "
                        "there |\n|--:|---|---|--:|---|---|---|\n");
    for (uint32_t i = 0; i < plan->n_parts; i++) {
        const core_part *part = &plan->parts[i];
        const clv_node *node = &plan->graph->nodes[part->node];
        char op[96], shape[CORE_SHAPE_TEXT] = "";
        clv_value value = node->n_outputs ? node->outputs[0] : node->inputs[0];
        core_plan_node_text(plan, part->node, op, sizeof op);
        core_shape_text(&plan->graph->tensors[value], shape);
        const core_piece *piece = piece_of(plan, part->node);
        core_text_add(text, "| %u | ", part->node);
        add_cell(text, op);
        if (piece)
            md_ranges(text, piece);
        core_text_add(text, " | %s | %u | %s | ", shape, part->step,
                      device_id(plan, part->device));
        md_where(text, plan, value);
        core_text_add(text, " | ");
        md_why(text, plan, piece);
        core_text_add(text, " |\n");
    }
}

static void print_md(core_text *text, const clv_plan *plan)
{
    md_devices(text, plan);
    md_memory(text, plan);
    md_loads(text, plan);
    md_steps(text, plan);
    md_nodes(text, plan);
}

/* ------------------------------------------------------------------------ */
/* JSON: the plan's arrays                                                   */

static const char *comma(uint32_t i)
{
    return i ? ",\n  " : "\n  ";
}

static void json_string(core_text *text, const char *key, const char *value)
{
    core_text_add(text, "\"%s\":", key);
    core_text_add_json(text, value);
}

static void json_devices(core_text *text, const clv_plan *plan)
{
    core_text_add(text, "\"devices\":[");
    for (uint32_t d = 0; d < plan->n_devices; d++) {
        core_text_add(text, "%s{", comma(d));
        json_string(text, "id", device_id(plan, d));
        core_text_add(text, ",\"steps\":%u}", plan->devices[d].n_steps);
    }
    core_text_add(text, "],\n\"memory\":{\"naive\":%llu,\"offsets\":%llu,"
                  "\"objects\":%llu,\"live\":%llu,\"size\":%llu,"
                  "\"align\":%llu},\n",
                  (unsigned long long)plan->memory.naive,
                  (unsigned long long)plan->memory.offsets,
                  (unsigned long long)plan->memory.objects,
                  (unsigned long long)plan->memory.live,
                  (unsigned long long)plan->memory.size,
                  (unsigned long long)plan->align);
}

static void json_loads(core_text *text, const clv_plan *plan)
{
    core_text_add(text, "\"loads\":[");
    for (uint32_t i = 0; i < plan->n_loads; i++) {
        const core_load *load = &plan->loads[i];
        core_text_add(text, "%s{\"weight\":%u,\"device\":%u,\"how\":\"%s\","
                      "\"bytes\":%llu}", comma(i), load->weight, load->device,
                      load->holding == CORE_HOLD_COPY ? "copy" : "import",
                      (unsigned long long)load->bytes);
    }
    core_text_add(text, "],\n");
}

static void json_steps(core_text *text, const clv_plan *plan)
{
    core_text_add(text, "\"steps\":[");
    for (uint32_t s = 0; s < plan->n_steps; s++) {
        const core_step *step = &plan->steps[s];
        core_text_add(text, "%s{\"device\":%u,\"first_part\":%u,"
                      "\"n_parts\":%u,\"signal\":%llu,\"waits\":[", comma(s),
                      step->device, step->first_part, step->n_parts,
                      (unsigned long long)step->signal);
        for (uint32_t i = 0; i < step->n_waits; i++) {
            const core_wait *wait = &plan->waits[step->first_wait + i];
            core_text_add(text, "%s{\"device\":%u,\"value\":%llu,"
                          "\"by\":\"%s\"}", i ? "," : "", wait->device,
                          (unsigned long long)wait->value,
                          wait->by_host ? "host" : "device");
        }
        core_text_add(text, "]}");
    }
    core_text_add(text, "],\n");
}

static void json_parts(core_text *text, const clv_plan *plan)
{
    core_text_add(text, "\"parts\":[");
    for (uint32_t i = 0; i < plan->n_parts; i++) {
        const core_part *part = &plan->parts[i];
        core_text_add(text, "%s{\"node\":%u,\"device\":%u,\"step\":%u}",
                      comma(i), part->node, part->device, part->step);
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
        json_string(text, "device", device_id(plan, piece->device));
        for (uint32_t a = 0; a < CORE_AXIS_COUNT; a++)
            if (piece->ranges[a].end)
                core_text_add(text, ",\"%s\":[%lld,%lld]", core_axis_name(a),
                              (long long)piece->ranges[a].begin,
                              (long long)piece->ranges[a].end);
        const char *reason = plan->choices[piece->node].reason;
        if (reason) {
            core_text_add(text, ",");
            json_string(text, "reason", reason);
        }
        core_text_add(text, "}");
    }
    core_text_add(text, "],\n");
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
    char name[16], shape[CORE_SHAPE_TEXT];
    core_text_add(text, "%s{", comma(value));
    json_string(text, "name", core_value_name(plan->graph, value, name));
    core_text_add(text, ",\"usage\":\"%s\",", usage_names[desc->usage]);
    json_string(text, "shape", core_shape_text(desc, shape));
    core_text_add(text, ",\"home\":\"%s\",\"size\":%llu",
                  home_names[place->home], (unsigned long long)place->size);
    if (place->home == CORE_HOME_ARENA)
        core_text_add(text, ",\"offset\":%llu,\"first_part\":%u,"
                      "\"last_part\":%u", (unsigned long long)place->offset,
                      place->first_part, place->last_part);
    if (place->in_place != CLV_NO_TENSOR)
        core_text_add(text, ",\"in_place\":%u", place->in_place);
    if (plan->graph->values[value].base != value)
        core_text_add(text, ",\"view_of\":%u",
                      plan->graph->values[value].base);
    core_text_add(text, "}");
}

static void print_json(core_text *text, const clv_plan *plan)
{
    core_text_add(text, "{\"graph\":\"%016llx\",\n",
                  (unsigned long long)core_graph_fingerprint(plan->source));
    json_devices(text, plan);
    json_loads(text, plan);
    json_steps(text, plan);
    json_pieces(text, plan);
    json_parts(text, plan);
    json_nodes(text, plan);
    core_text_add(text, "\"values\":[");
    for (uint32_t i = 0; i < plan->graph->n_tensors; i++)
        json_value(text, plan, i);
    core_text_add(text, "]}\n");
}

clv_status clv_plan_print(const clv_plan *plan, const char *format, char **out)
{
    core_text text = {0};
    *out = NULL;
    if (!strcmp(format, "md"))
        print_md(&text, plan);
    else if (!strcmp(format, "json"))
        print_json(&text, plan);
    else
        return clv_error(CLV_ERR_INVALID, "plan: format '%s' is unknown; md "
                         "and json are", format);
    return core_text_take(&text, out);
}
