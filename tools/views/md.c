#include "md.h"

#include <stdlib.h>
#include <string.h>

/* "12.3 MiB", exact below a KiB. */
static void add_bytes(FILE *out, uint64_t bytes)
{
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes / 1024;
    uint32_t unit = 0;
    for (; value >= 1024 && unit < 3; unit++)
        value /= 1024;
    if (bytes < 1024)
        fprintf(out, "%llu B", (unsigned long long)bytes);
    else
        fprintf(out, "%.1f %s", value, units[unit]);
}

/* Names come from files: nothing in them ends a cell or a line. */
static void add_cell(FILE *out, const char *string)
{
    for (; *string; string++) {
        if (*string == '|' || *string == '\\')
            fputc('\\', out);
        fputc((unsigned char)*string < ' ' ? ' ' : *string, out);
    }
}

static double length_of(view_span span)
{
    return span.end - span.begin;
}

/* ------------------------------------------------------------------------ */
/* Totals                                                                    */

static uint64_t weight_bytes(const view_plan_data *v, uint32_t device,
                             bool copied)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < v->n_loads; i++)
        if (v->loads[i].device == device && v->loads[i].copied == copied &&
            !v->loads[i].streamed)
            sum += v->loads[i].bytes;
    return sum;
}

static void add_device(const view_plan_data *v, uint32_t d, FILE *out)
{
    const view_device *device = &v->devices[d];
    uint32_t nodes = 0;
    for (uint32_t i = 0; i < v->n_nodes; i++)
        nodes += v->nodes[i].device == d;
    fprintf(out, "| %s | ", device->id);
    add_cell(out, device->copies ? "copies beside the work" : device->name);
    fprintf(out, " | %u | %u | ", device->n_steps, nodes);
    if (v->predicted)
        fprintf(out, "%.3f | %.0f%% | ", device->busy_ns / 1e6,
                100 * device->busy_ns / v->makespan_ns);
    add_bytes(out, weight_bytes(v, d, false));
    fprintf(out, " | ");
    add_bytes(out, weight_bytes(v, d, true));
    fprintf(out, " |\n");
}

static void add_devices(const view_plan_data *v, FILE *out)
{
    fprintf(out,
            "| device | name | steps | nodes | %sweights in place | weights "
            "copied |\n|---|---|--:|--:|%s--:|--:|\n",
            v->predicted ? "busy ms | of the time | " : "",
            v->predicted ? "--:|--:|" : "");
    for (uint32_t d = 0; d < v->n_devices; d++)
        add_device(v, d, out);
}

static void add_predicted(const view_plan_data *v, FILE *out)
{
    double submits = 0, waits = length_of(v->last_wait);
    if (!v->predicted)
        return;
    for (uint32_t s = 0; s < v->n_steps; s++) {
        submits += length_of(v->steps[s].submit);
        waits += length_of(v->steps[s].host_wait);
    }
    fprintf(out, "\nPredicted: %.3f ms%s", v->makespan_ns / 1e6,
            *v->symbols ? " for " : "");
    add_cell(out, v->symbols);
    if (v->energy_nj > 0)
        fprintf(out, ", %.3f mJ", v->energy_nj / 1e6);
    fprintf(out, "; the host submits for %.3f ms and waits for %.3f ms.\n",
            submits / 1e6, waits / 1e6);
    if (v->prepare_ns > 0)
        fprintf(out, "Preparation: %.3f ms before the first run.\n",
                v->prepare_ns / 1e6);
    if (v->measured_ns > 0)
        fprintf(out, "Measured: %.3f ms, by earlier runs.\n",
                v->measured_ns / 1e6);
}

static void add_own_memory(const view_plan_data *v, uint32_t d, FILE *out)
{
    uint64_t to_device = 0, to_host = 0;
    uint32_t n = 0;
    for (uint32_t i = 0; i < v->n_copies; i++) {
        const view_copy *copy = &v->copies[i];
        if (copy->device != d)
            continue;
        *(copy->to_host ? &to_host : &to_device) += copy->bytes;
        n++;
    }
    fprintf(out, "In the memory of %s: ", v->devices[d].id);
    add_bytes(out, v->devices[d].own_bytes);
    fprintf(out, " of them; a run copies ");
    add_bytes(out, to_device);
    fprintf(out, " there and ");
    add_bytes(out, to_host);
    fprintf(out, " back, in %u copies%s.\n", n,
            v->devices[d].staged ? " through memory that the host sees" : "");
}

/* States that are stored in another layout than the host's. */
static void add_layouts(const view_plan_data *v, uint32_t device, FILE *out)
{
    uint64_t bytes = 0;
    uint32_t n = 0;
    for (uint32_t i = 0; i < v->n_layouts; i++)
        if (v->layouts[i].device == device) {
            bytes += v->layouts[i].bytes;
            n++;
        }
    if (!n)
        return;
    fprintf(out, "States in the layout of weights on %s: %u, ",
            v->devices[device].id, n);
    add_bytes(out, bytes);
    fprintf(out, ".\n");
}

static void add_memory(const view_plan_data *v, FILE *out)
{
    fprintf(out, "\nIntermediate values: ");
    add_bytes(out, v->memory_naive);
    fprintf(out, " without sharing, ");
    add_bytes(out, v->memory_offsets);
    fprintf(out, " by offsets, ");
    add_bytes(out, v->memory_objects);
    fprintf(out, " by shared objects; used: ");
    add_bytes(out, v->memory_size);
    fprintf(out, ".\n");
    for (uint32_t d = 0; d < v->n_devices; d++)
        if (v->devices[d].local && v->devices[d].n_steps)
            add_own_memory(v, d, out);
    for (uint32_t d = 0; d < v->n_devices; d++)
        add_layouts(v, d, out);
}

static void add_loads(const view_plan_data *v, FILE *out)
{
    bool any = false;
    for (uint32_t i = 0; i < v->n_loads; i++) {
        const view_load *load = &v->loads[i];
        if (!load->copied)
            continue;
        if (!any)
            fprintf(out, "\nCopied before the first run:\n\n| weight | to | "
                         "bytes |\n|---|---|--:|\n");
        any = true;
        fprintf(out, "| ");
        add_cell(out, v->values[v->values[load->weight].base].name);
        fprintf(out, " | %s | %llu |\n", v->devices[load->device].id,
                (unsigned long long)load->bytes);
    }
}

/* ------------------------------------------------------------------------ */
/* Steps                                                                     */

/* Waits count by how far they go back, so that the steps of repeated layers
 * are alike. ahead: [n_devices] steps submitted on each device so far. */
static uint64_t hash_step(const view_plan_data *v, const view_step *step,
                          const uint32_t *ahead)
{
    uint64_t hash =
        view_hash(VIEW_HASH_SEED, &step->device, sizeof step->device);
    for (uint32_t i = 0; i < step->n_parts; i++) {
        const char *op = v->nodes[v->parts[step->first_part + i]].op;
        hash = view_hash(hash, op, strlen(op) + 1);
    }
    for (uint32_t i = 0; i < step->n_waits; i++) {
        const view_wait *wait = &step->waits[i];
        const uint64_t back[] = {wait->device, wait->by_host,
                                 ahead[wait->device] - wait->value};
        hash = view_hash(hash, back, sizeof back);
    }
    return hash;
}

static clv_status find_folds_of_steps(const view_plan_data *v,
                                      view_fold **folds, uint32_t *n)
{
    uint64_t *hashes = calloc(v->n_steps + 1u, sizeof *hashes);
    uint32_t *ahead = calloc(v->n_devices + 1u, sizeof *ahead);
    clv_status status = CLV_OK;
    *folds = NULL;
    *n = 0;
    if (!hashes || !ahead)
        status = clv_error(CLV_ERR_NO_MEMORY, "no memory to show a plan");
    for (uint32_t s = 0; s < v->n_steps && !status; s++) {
        hashes[s] = hash_step(v, &v->steps[s], ahead);
        ahead[v->steps[s].device]++;
    }
    if (!status)
        status = view_folds_find(hashes, v->n_steps, folds, n);
    free(ahead);
    free(hashes);
    return status;
}

static void add_step(const view_plan_data *v, uint32_t s, FILE *out)
{
    const view_step *step = &v->steps[s];
    const uint32_t *parts = v->parts + step->first_part;
    fprintf(out, "| %u | %s | %u..%u | ", s, v->devices[step->device].id,
            v->nodes[parts[0]].source,
            v->nodes[parts[step->n_parts - 1]].source);
    for (uint32_t i = 0; i < step->n_waits; i++) {
        const view_wait *wait = &step->waits[i];
        fprintf(out, "%s%u on %s%s", i ? ", " : "", wait->step,
                v->devices[wait->device].id, wait->by_host ? " (host)" : "");
    }
    fprintf(out, " |");
    if (v->predicted)
        fprintf(out, " %.3f | %.3f | %.3f |", step->submit.begin / 1e6,
                step->runs.begin / 1e6, step->runs.end / 1e6);
    fprintf(out, "\n");
}

static clv_status add_steps(const view_plan_data *v, FILE *out)
{
    view_fold *folds;
    uint32_t n;
    CLV_TRY(find_folds_of_steps(v, &folds, &n));
    fprintf(out,
            "\n| step | device | nodes | waits for |%s\n|--:|---|---|---|%s\n",
            v->predicted ? " submit ms | begin ms | end ms |" : "",
            v->predicted ? "--:|--:|--:|" : "");
    for (uint32_t i = 0; i < n; i++) {
        const view_fold *fold = &folds[i];
        const uint32_t next = fold->first + fold->period;
        for (uint32_t s = fold->first; s < next; s++)
            add_step(v, s, out);
        if (fold->count > 1)
            fprintf(out, "| %u..%u | as steps %u..%u, %u time%s more | | |%s\n",
                    next, fold->first + fold->period * fold->count - 1,
                    fold->first, next - 1, fold->count - 1,
                    fold->count > 2 ? "s" : "", v->predicted ? " | | |" : "");
    }
    free(folds);
    return CLV_OK;
}

/* ------------------------------------------------------------------------ */
/* Nodes                                                                     */

static void add_why(const view_plan_data *v, const view_node *node, FILE *out)
{
    if (node->piece == VIEW_NONE) {
        fprintf(out, "%s",
                strcmp(node->op, "copy") ? "joins partial sums" : "");
        return;
    }
    const view_piece *piece = &v->pieces[node->piece];
    const view_choice *choice = &v->choices[piece->node];
    if (piece->reason) {
        add_cell(out, piece->reason);
    } else if (choice->alternative) {
        add_cell(out, choice->alternative);
        fprintf(out, ": %.3f ms in all", choice->alternative_ns / 1e6);
    } else {
        fprintf(out, "%s", choice->n_pieces > 1 ? "cut" : "first listed");
    }
}

/* The value that a node gives, or the state that it changes. */
static const view_value *result_of(const view_plan_data *v,
                                   const view_node *node)
{
    const bool any = cJSON_GetArraySize(node->outputs);
    return &v->values[cJSON_GetArrayItem(any ? node->outputs : node->inputs, 0)
                          ->valueint];
}

static void add_node(const view_plan_data *v, uint32_t index, FILE *out)
{
    const view_node *node = &v->nodes[index];
    char op[96], ranges[VIEW_RANGES_TEXT];
    view_node_text(v, index, op, sizeof op);
    fprintf(out, "| %u | ", node->source);
    add_cell(out, op);
    fprintf(out, "%s | %s | %u | %s | ", view_ranges_text(v, index, ranges),
            result_of(v, node)->shape, node->step, v->devices[node->device].id);
    if (v->predicted)
        fprintf(out, "%.3f | %.3f | %.3f | ", node->runs.begin / 1e6,
                node->runs.end / 1e6, node->alone_ns / 1e6);
    uint32_t first = v->first[node->source];
    while (first < index && v->nodes[first].piece == VIEW_NONE)
        first++;
    if (node->piece == VIEW_NONE || first == index) /* once for all pieces */
        add_why(v, node, out);
    fprintf(out, " |\n");
}

static void add_repeats(const view_plan_data *v, const view_fold *fold,
                        FILE *out)
{
    const uint32_t next = fold->first + fold->period;
    const uint32_t end = fold->first + fold->period * fold->count;
    char names[3][VIEW_LAYER_NAME];
    view_layer_name(v, fold->first, fold->period, names[0]);
    view_layer_name(v, next, fold->period, names[1]);
    view_layer_name(v, end - fold->period, fold->period, names[2]);
    fprintf(out, "| %u..%u | ", next, end - 1);
    if (*names[0]) {
        add_cell(out, names[1]);
        fprintf(out, "%s", fold->count > 2 ? " to " : "");
        add_cell(out, fold->count > 2 ? names[2] : "");
        fprintf(out, " as ");
        add_cell(out, names[0]);
    } else {
        fprintf(out, "as nodes %u..%u, %u time%s more", fold->first, next - 1,
                fold->count - 1, fold->count > 2 ? "s" : "");
    }
    fprintf(out, " | | | |%s |\n", v->predicted ? " | | |" : "");
}

static clv_status add_nodes(const view_plan_data *v, FILE *out)
{
    view_fold *folds;
    uint32_t n;
    CLV_TRY(view_folds_of_nodes(v, &folds, &n));
    fprintf(out,
            "\n| node | op | output | step | device | %swhy there, or else |\n"
            "|--:|---|---|--:|---|%s---|\n",
            v->predicted ? "begin ms | end ms | alone ms | " : "",
            v->predicted ? "--:|--:|--:|" : "");
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t next = folds[i].first + folds[i].period;
        for (uint32_t at = v->first[folds[i].first]; at < v->first[next]; at++)
            add_node(v, at, out);
        if (folds[i].count > 1)
            add_repeats(v, &folds[i], out);
    }
    free(folds);
    return CLV_OK;
}

clv_status view_plan_md(const view_plan_data *view, FILE *out)
{
    add_devices(view, out);
    add_predicted(view, out);
    add_memory(view, out);
    add_loads(view, out);
    CLV_TRY(add_steps(view, out));
    return add_nodes(view, out);
}
