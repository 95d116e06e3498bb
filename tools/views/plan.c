#include "plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------------ */
/* Reading                                                                   */

static const cJSON *field(const cJSON *item, const char *key)
{
    return cJSON_GetObjectItemCaseSensitive(item, key);
}

static double number(const cJSON *item, const char *key)
{
    const cJSON *value = field(item, key);
    return cJSON_IsNumber(value) ? value->valuedouble : 0;
}

/* An index; VIEW_NONE where it is absent. */
static uint32_t index_of(const cJSON *item, const char *key)
{
    return field(item, key) ? (uint32_t)number(item, key) : VIEW_NONE;
}

static const char *string(const cJSON *item, const char *key)
{
    return cJSON_GetStringValue(field(item, key));
}

static bool says(const cJSON *item, const char *key, const char *what)
{
    const char *value = string(item, key);
    return value && !strcmp(value, what);
}

static view_span span(const cJSON *item, const char *key)
{
    const cJSON *pair = field(item, key);
    return (view_span){cJSON_GetNumberValue(cJSON_GetArrayItem(pair, 0)),
                       cJSON_GetNumberValue(cJSON_GetArrayItem(pair, 1))};
}

/* Memory for what a list has; never NULL but when there is none. */
static void *list_of(const view_plan_data *v, const char *key, size_t size,
                     uint32_t *n)
{
    *n = (uint32_t)cJSON_GetArraySize(field(v->json, key));
    return calloc(*n + 1u, size);
}

static bool allocate(view_plan_data *v)
{
    v->devices = list_of(v, "devices", sizeof *v->devices, &v->n_devices);
    v->steps = list_of(v, "steps", sizeof *v->steps, &v->n_steps);
    v->nodes = list_of(v, "nodes", sizeof *v->nodes, &v->n_nodes);
    v->pieces = list_of(v, "pieces", sizeof *v->pieces, &v->n_pieces);
    v->values = list_of(v, "values", sizeof *v->values, &v->n_values);
    v->loads = list_of(v, "loads", sizeof *v->loads, &v->n_loads);
    v->copies = list_of(v, "copies", sizeof *v->copies, &v->n_copies);
    v->layouts = list_of(v, "layouts", sizeof *v->layouts, &v->n_layouts);
    v->parts = calloc(v->n_nodes + 1u, sizeof *v->parts);
    v->n_sources = (uint32_t)number(v->json, "planned_nodes");
    v->choices = calloc(v->n_sources + 1u, sizeof *v->choices);
    v->first = calloc(v->n_sources + 2u, sizeof *v->first);
    return v->devices && v->steps && v->nodes && v->pieces && v->values &&
           v->loads && v->copies && v->layouts && v->parts && v->choices &&
           v->first;
}

static void read_totals(view_plan_data *v)
{
    const cJSON *predicted = field(v->json, "predicted");
    const cJSON *memory = field(v->json, "memory");
    v->predicted = predicted;
    v->makespan_ns = number(predicted, "ns");
    v->energy_nj = number(predicted, "energy_nj");
    v->prepare_ns = number(predicted, "prepare_ns");
    v->measured_ns = number(predicted, "measured_ns");
    v->last_wait = span(predicted, "last_wait");
    v->memory_naive = (uint64_t)number(memory, "naive");
    v->memory_offsets = (uint64_t)number(memory, "offsets");
    v->memory_objects = (uint64_t)number(memory, "objects");
    v->memory_size = (uint64_t)number(memory, "size");
}

static bool read_symbols(view_plan_data *v)
{
    const cJSON *item;
    size_t size;
    FILE *text = open_memstream(&v->symbols, &size);
    if (!text)
        return false;
    const char *separator = "";
    cJSON_ArrayForEach (item, field(v->json, "symbols")) {
        fprintf(text, "%s%s = %.0f", separator, string(item, "name"),
                number(item, "max"));
        separator = ", ";
    }
    return !fclose(text);
}

static void read_devices(view_plan_data *v)
{
    const cJSON *item;
    uint32_t d = 0;
    cJSON_ArrayForEach (item, field(v->json, "devices"))
        v->devices[d++] = (view_device){
            .id = string(item, "id"),
            .name = string(item, "name"),
            .n_steps = (uint32_t)number(item, "steps"),
            .busy_ns = number(item, "busy_ns"),
            .copies = number(item, "queue") > 0,
            .local = field(item, "own_memory"),
            .staged = number(item, "staging") > 0,
            .own_bytes = (uint64_t)number(item, "own_memory"),
        };
}

static uint32_t find_step(const view_plan_data *v, uint32_t device,
                          uint64_t signal)
{
    uint32_t s = 0;
    while (s < v->n_steps &&
           (v->steps[s].device != device || v->steps[s].signal != signal))
        s++;
    return s;
}

static bool read_waits(view_plan_data *v, view_step *step, const cJSON *list)
{
    const cJSON *item;
    step->waits =
        calloc((size_t)cJSON_GetArraySize(list) + 1, sizeof *step->waits);
    if (!step->waits)
        return false;
    cJSON_ArrayForEach (item, list) {
        const uint32_t device = index_of(item, "device");
        const uint64_t value = (uint64_t)number(item, "value");
        step->waits[step->n_waits++] =
            (view_wait){find_step(v, device, value), device, value,
                        says(item, "by", "host")};
        v->n_waits++;
    }
    return true;
}

static bool read_steps(view_plan_data *v)
{
    const cJSON *item;
    uint32_t s = 0;
    cJSON_ArrayForEach (item, field(v->json, "steps"))
        v->steps[s++] = (view_step){
            .device = index_of(item, "device"),
            .first_part = index_of(item, "first_part"),
            .n_parts = (uint32_t)number(item, "n_parts"),
            .signal = (uint64_t)number(item, "signal"),
            .host_wait = span(item, "host_wait"),
            .submit = span(item, "submit"),
            .runs = span(item, "runs"),
        };
    s = 0;
    cJSON_ArrayForEach (item, field(v->json, "steps"))
        if (!read_waits(v, &v->steps[s++], field(item, "waits")))
            return false;
    return true;
}

/* Nodes of the graph that is run follow the order of those they come from. */
static void read_nodes(view_plan_data *v)
{
    const cJSON *item;
    uint32_t i = 0, p = 0;
    cJSON_ArrayForEach (item, field(v->json, "nodes")) {
        view_node *node = &v->nodes[i];
        *node = (view_node){.op = string(item, "op"),
                            .inputs = field(item, "inputs"),
                            .outputs = field(item, "outputs"),
                            .source = index_of(item, "source"),
                            .piece = index_of(item, "piece")};
        if (node->source == VIEW_NONE)
            node->source = i;
        v->first[node->source + 1]++;
        i++;
    }
    for (uint32_t s = 0; s < v->n_sources; s++)
        v->first[s + 1] += v->first[s];
    cJSON_ArrayForEach (item, field(v->json, "parts")) {
        const uint32_t at = index_of(item, "node");
        v->parts[p++] = at;
        v->nodes[at].device = index_of(item, "device");
        v->nodes[at].step = index_of(item, "step");
        v->nodes[at].runs = span(item, "runs");
        v->nodes[at].alone_ns = number(item, "alone_ns");
    }
}

static void read_pieces(view_plan_data *v)
{
    static const char *const axes[VIEW_AXES] = {"rows", "sequence", "channels",
                                                "heads"};
    const cJSON *item;
    uint32_t i = 0;
    cJSON_ArrayForEach (item, field(v->json, "pieces")) {
        view_piece *piece = &v->pieces[i++];
        piece->node = index_of(item, "node");
        piece->reason = string(item, "reason");
        piece->device = string(item, "device");
        piece->variant = string(item, "variant");
        v->choices[piece->node].n_pieces++;
        for (uint32_t a = 0; a < VIEW_AXES; a++) {
            if (!field(item, axes[a]))
                continue;
            const view_span range = span(item, axes[a]);
            piece->axes[piece->n_axes] = axes[a];
            piece->begin[piece->n_axes] = (int64_t)range.begin;
            piece->end[piece->n_axes++] = (int64_t)range.end;
        }
    }
    cJSON_ArrayForEach (item, field(v->json, "choices")) {
        view_choice *choice = &v->choices[index_of(item, "node")];
        choice->alternative = string(item, "alternative");
        choice->alternative_ns = number(item, "alternative_ns");
    }
}

static void read_values(view_plan_data *v)
{
    const cJSON *item;
    uint32_t i = 0;
    cJSON_ArrayForEach (item, field(v->json, "values")) {
        const uint32_t base = index_of(item, "view_of");
        v->values[i] =
            (view_value){string(item, "name"), string(item, "usage"),
                         string(item, "shape"), base == VIEW_NONE ? i : base};
        i++;
    }
}

static void read_memory(view_plan_data *v)
{
    const cJSON *item;
    uint32_t i = 0;
    cJSON_ArrayForEach (item, field(v->json, "loads"))
        v->loads[i++] = (view_load){
            index_of(item, "weight"), index_of(item, "device"),
            says(item, "how", "copy") || says(item, "how", "private"),
            says(item, "how", "stream"), (uint64_t)number(item, "bytes")};
    i = 0;
    cJSON_ArrayForEach (item, field(v->json, "copies")) {
        const uint32_t part = index_of(item, "part");
        v->copies[i++] = (view_copy){v->nodes[v->parts[part]].device,
                                     says(item, "to", "host"),
                                     (uint64_t)number(item, "bytes")};
    }
    i = 0;
    cJSON_ArrayForEach (item, field(v->json, "layouts"))
        v->layouts[i++] = (view_layout){index_of(item, "device"),
                                        (uint64_t)number(item, "bytes")};
}

clv_status view_plan_read(const clv_plan *plan, view_plan_data *out)
{
    char *text;
    *out = (view_plan_data){0};
    CLV_TRY(clv_plan_json(plan, &text));
    out->json = cJSON_Parse(text);
    clv_string_free(text);
    if (!out->json || !allocate(out) || !read_symbols(out) ||
        !read_steps(out)) {
        view_plan_finish(out);
        return clv_error(CLV_ERR_NO_MEMORY, "no memory to show a plan");
    }
    read_totals(out);
    read_devices(out);
    read_nodes(out);
    read_pieces(out);
    read_values(out);
    read_memory(out);
    return CLV_OK;
}

void view_plan_finish(view_plan_data *view)
{
    for (uint32_t s = 0; view->steps && s < view->n_steps; s++)
        free(view->steps[s].waits);
    free(view->symbols);
    free(view->devices);
    free(view->steps);
    free(view->nodes);
    free(view->parts);
    free(view->first);
    free(view->pieces);
    free(view->choices);
    free(view->values);
    free(view->loads);
    free(view->copies);
    free(view->layouts);
    cJSON_Delete(view->json);
    *view = (view_plan_data){0};
}

/* ------------------------------------------------------------------------ */
/* Names                                                                     */

void view_node_text(const view_plan_data *view, uint32_t node, char *text,
                    size_t size)
{
    const view_node *n = &view->nodes[node];
    const char *name = NULL;
    const bool copies = !strcmp(n->op, "copy");
    const cJSON *input;
    cJSON_ArrayForEach (input, n->inputs) {
        if (!cJSON_IsNumber(input))
            continue;
        const view_value *value = &view->values[input->valueint];
        if (copies || !strcmp(value->usage, "weight") ||
            !strcmp(value->usage, "state")) {
            name = view->values[value->base].name;
            break;
        }
    }
    snprintf(text, size, "%s%s%s", n->op, name ? " " : "", name ? name : "");
}

const char *view_ranges_text(const view_plan_data *view, uint32_t node,
                             char text[VIEW_RANGES_TEXT])
{
    const uint32_t index = view->nodes[node].piece;
    int used = 0;
    *text = 0;
    for (uint32_t a = 0; index != VIEW_NONE && a < view->pieces[index].n_axes;
         a++) {
        const view_piece *piece = &view->pieces[index];
        used += snprintf(text + used, (size_t)(VIEW_RANGES_TEXT - used),
                         ", %s %lld..%lld", piece->axes[a],
                         (long long)piece->begin[a], (long long)piece->end[a]);
    }
    if (index != VIEW_NONE && view->pieces[index].variant)
        snprintf(text + used, (size_t)(VIEW_RANGES_TEXT - used), ", as %s",
                 view->pieces[index].variant);
    return text;
}
