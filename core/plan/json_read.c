/*
 * The pieces of a plan from the JSON that json.c writes. A file may have been
 * edited by hand, so everything in it is checked here, except whether the
 * pieces divide the nodes properly (core_cut_make()) and whether the devices
 * take them.
 */
#include "../base/error.h"
#include "plan.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_PIECES 1000000

typedef struct reader {
    clv_context *ctx;
    const clv_graph *graph;
    const clv_plan_params *allowed; /* NULL, or devices NULL: all */
    clv_device **devices;           /* those named, in order of appearance */
    uint32_t n_devices;
    core_piece *pieces;
    core_variant_name *names; /* NULL until a piece has one */
    uint32_t n_pieces, n_all;
} reader;

static clv_status malformed(const char *json, uint64_t size, const char *at)
{
    uint32_t line = 1;
    for (const char *c = json; c < at && c < json + size; c++)
        line += *c == '\n';
    return clv_error(CLV_ERR_FORMAT,
                     "plan: line %u is no JSON; it should be "
                     "what 'cleave plan --save' writes",
                     line);
}

static bool is_whole(const cJSON *item, double max)
{
    return cJSON_IsNumber(item) && item->valuedouble >= 0 &&
           item->valuedouble <= max &&
           item->valuedouble == floor(item->valuedouble);
}

static clv_status bad_piece(uint32_t index, const char *what)
{
    return clv_error(CLV_ERR_FORMAT, "plan: piece %u: %s", index, what);
}

static bool is_allowed(const reader *r, const clv_device *dev)
{
    if (!r->allowed || !r->allowed->devices)
        return true;
    for (uint32_t i = 0; i < r->allowed->n_devices; i++)
        if (r->allowed->devices[i] == dev)
            return true;
    return false;
}

static clv_status read_device(reader *r, uint32_t index, const cJSON *item,
                              uint32_t *out)
{
    clv_device *dev;
    if (!cJSON_IsString(item))
        return bad_piece(index, "its device is no string");
    clv_status status =
        clv_context_find_device(r->ctx, item->valuestring, &dev);
    if (status)
        return clv_error_prefix(status, "plan: piece %u", index);
    if (!is_allowed(r, dev))
        return clv_error(CLV_ERR_INVALID,
                         "plan: piece %u is for device '%s', "
                         "which is not among those to use",
                         index, dev->id);
    for (*out = 0; *out < r->n_devices; ++*out)
        if (r->devices[*out] == dev)
            return CLV_OK;
    r->devices[r->n_devices++] = dev;
    return CLV_OK;
}

static clv_status read_range(uint32_t index, const cJSON *item, core_range *out)
{
    const cJSON *begin = cJSON_GetArrayItem(item, 0);
    const cJSON *end = cJSON_GetArrayItem(item, 1);
    char text[96];
    if (!cJSON_IsArray(item) || cJSON_GetArraySize(item) != 2 ||
        !is_whole(begin, 0x1p53) || !is_whole(end, 0x1p53) ||
        end->valuedouble <= begin->valuedouble) {
        snprintf(text, sizeof text, "its %.20s are not [begin, end]",
                 item->string);
        return bad_piece(index, text);
    }
    *out = (core_range){(int64_t)begin->valuedouble, (int64_t)end->valuedouble};
    return CLV_OK;
}

static clv_status read_variant(reader *r, uint32_t index, const cJSON *item)
{
    core_variant_name *name;
    if (!cJSON_IsString(item) || !*item->valuestring ||
        strlen(item->valuestring) >= sizeof name->text)
        return bad_piece(index, "its variant is no name of one");
    if (!r->names)
        r->names = calloc(r->n_all, sizeof *r->names);
    if (!r->names)
        return core_no_memory("to read a plan");
    name = &r->names[index];
    snprintf(name->text, sizeof name->text, "%s", item->valuestring);
    return CLV_OK;
}

static clv_status read_streamed(uint32_t index, const cJSON *item,
                                uint32_t *out)
{
    const bool once =
        cJSON_IsString(item) && !strcmp(item->valuestring, "once");
    *out = once                 ? CORE_STREAM_ONCE
           : cJSON_IsTrue(item) ? CORE_STREAM_EACH
                                : CORE_STREAM_NOT;
    return once || cJSON_IsBool(item)
               ? CLV_OK
               : bad_piece(index,
                           "its streamed is not true, false or \"once\"");
}

static clv_status read_piece(reader *r, uint32_t index, const cJSON *item)
{
    core_piece *piece = &r->pieces[index];
    bool has_node = false, has_device = false;
    const cJSON *field;
    cJSON_ArrayForEach (field, item) {
        clv_status status = CLV_OK;
        uint32_t axis = 0;
        while (axis < CORE_AXIS_COUNT &&
               strcmp(field->string, core_axis_name(axis)))
            axis++;
        if (axis < CORE_AXIS_COUNT) {
            status = read_range(index, field, &piece->ranges[axis]);
        } else if (!strcmp(field->string, "node")) {
            has_node = is_whole(field, r->graph->n_nodes - 1.0);
            piece->node = has_node ? (uint32_t)field->valuedouble : 0;
        } else if (!strcmp(field->string, "device")) {
            has_device = true;
            status = read_device(r, index, field, &piece->device);
        } else if (!strcmp(field->string, "streamed")) {
            status = read_streamed(index, field, &piece->streamed);
        } else if (!strcmp(field->string, "adds")) {
            piece->adds = cJSON_IsTrue(field);
            status = cJSON_IsBool(field)
                         ? CLV_OK
                         : bad_piece(index, "its adds is not true or false");
        } else if (!strcmp(field->string, "variant")) {
            status = read_variant(r, index, field);
        } else if (strcmp(field->string, "reason")) {
            char text[96];
            snprintf(text, sizeof text, "'%.40s' is no key of a piece",
                     field->string);
            status = bad_piece(index, text);
        }
        if (status)
            return status;
    }
    return has_node && has_device
               ? CLV_OK
               : bad_piece(index,
                           "it names no node of the graph, or no device");
}

static clv_status read_pieces(reader *r, const cJSON *list)
{
    int n = cJSON_IsArray(list) ? cJSON_GetArraySize(list) : 0;
    if (n < 1 || n > MAX_PIECES)
        return clv_error(CLV_ERR_FORMAT,
                         "plan: it has no list of 1 to %d \"pieces\"",
                         MAX_PIECES);
    r->n_all = (uint32_t)n;
    r->pieces = calloc((size_t)n, sizeof *r->pieces);
    r->devices =
        calloc(clv_context_device_count(r->ctx) + 1u, sizeof *r->devices);
    if (!r->pieces || !r->devices)
        return core_no_memory("to read a plan");
    const cJSON *item;
    cJSON_ArrayForEach (item, list) {
        CLV_TRY(cJSON_IsObject(item)
                    ? read_piece(r, r->n_pieces, item)
                    : bad_piece(r->n_pieces, "it is no object"));
        r->n_pieces++;
    }
    return CLV_OK;
}

static clv_status check_fingerprint(const clv_graph *graph, const cJSON *root)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(root, "graph");
    char own[17];
    snprintf(own, sizeof own, "%016llx",
             (unsigned long long)core_graph_fingerprint(graph));
    if (!cJSON_IsString(item))
        return clv_error(CLV_ERR_FORMAT, "plan: it does not say for which "
                                         "\"graph\" it was made");
    if (strcmp(item->valuestring, own))
        return clv_error(CLV_ERR_NOT_FOUND,
                         "plan: it was made for graph %.16s, this one is %s: "
                         "another model, phase, batch or context",
                         item->valuestring, own);
    return CLV_OK;
}

/* *root is for cJSON_Delete(). */
static clv_status parse(const char *json, uint64_t size, cJSON **root)
{
    const char *end = NULL;
    *root = cJSON_ParseWithLengthOpts(json, size, &end, false);
    return *root ? CLV_OK : malformed(json, size, end ? end : json);
}

clv_status core_plan_read_json(clv_context *ctx, const clv_graph *graph,
                               const clv_plan_params *allowed, const char *json,
                               uint64_t size, core_saved_plan *out)
{
    cJSON *root;
    reader r = {.ctx = ctx, .graph = graph, .allowed = allowed};
    *out = (core_saved_plan){0};
    CLV_TRY(clv_graph_check(graph));
    CLV_TRY(parse(json, size, &root));
    clv_status status = check_fingerprint(graph, root);
    if (!status)
        status =
            read_pieces(&r, cJSON_GetObjectItemCaseSensitive(root, "pieces"));
    *out = (core_saved_plan){r.devices, r.pieces, r.names, r.n_devices,
                             r.n_pieces};
    cJSON_Delete(root);
    if (status)
        core_saved_plan_finish(out);
    return status;
}

static clv_status read_choice(clv_plan *plan, const cJSON *item)
{
    const cJSON *node = cJSON_GetObjectItemCaseSensitive(item, "node");
    const cJSON *alone = cJSON_GetObjectItemCaseSensitive(item, "alone_ns");
    const cJSON *other = cJSON_GetObjectItemCaseSensitive(item, "alternative");
    const cJSON *ns = cJSON_GetObjectItemCaseSensitive(item, "alternative_ns");
    if (!is_whole(node, plan->source->n_nodes - 1.0) ||
        !is_whole(alone, 0x1p53) || !cJSON_IsString(other) ||
        !is_whole(ns, 0x1p53))
        return clv_error(CLV_ERR_FORMAT,
                         "plan: a choice lacks its node, alternative or times");
    core_choice *choice = &plan->choices[(uint32_t)node->valuedouble];
    char *text = strdup(other->valuestring);
    if (!text)
        return core_no_memory("to read a plan");
    free(choice->alternative);
    choice->alternative = text;
    choice->ns = alone->valuedouble;
    choice->alternative_ns = ns->valuedouble;
    return CLV_OK;
}

clv_status core_plan_read_choices(clv_plan *plan, const char *json,
                                  uint64_t size)
{
    cJSON *root;
    const cJSON *item;
    CLV_TRY(parse(json, size, &root));
    clv_status status = CLV_OK;
    cJSON_ArrayForEach (item, cJSON_GetObjectItemCaseSensitive(root, "choices"))
        if (!status)
            status = read_choice(plan, item);
    cJSON_Delete(root);
    return status;
}

void core_saved_plan_finish(core_saved_plan *saved)
{
    free(saved->devices);
    free(saved->pieces);
    free(saved->names);
    *saved = (core_saved_plan){0};
}

clv_status clv_plan_check(const char *json, uint64_t size)
{
    cJSON *root;
    clv_status status = parse(json, size, &root);
    if (!status &&
        !cJSON_IsString(cJSON_GetObjectItemCaseSensitive(root, "graph")))
        status = clv_error(CLV_ERR_FORMAT,
                           "plan: it does not say for which \"graph\" it was "
                           "made; write one with 'cleave plan --save'");
    cJSON_Delete(root);
    return status;
}

bool clv_plan_fits(const clv_graph *graph, const char *json, uint64_t size)
{
    cJSON *root = NULL;
    bool fits = !clv_graph_check(graph) && !parse(json, size, &root) &&
                !check_fingerprint(graph, root);
    cJSON_Delete(root);
    return fits;
}
