/* A plan for people, as Markdown. What repeats is written once. */
#include "../base/hash.h"
#include "../graph/shape.h"
#include "../graph/tensor.h"
#include "plan_print.h"

#include <stdlib.h>
#include <string.h>

/* Shorter stretches are as well written out. */
#define MIN_PERIOD 3

typedef struct writer {
    core_text *text;
    const clv_plan *plan;
    const core_forecast *forecast; /* or NULL */
    uint32_t *parts;               /* core_plan_part_map() */
    uint32_t *first; /* [source->n_nodes + 1] in plan->graph's nodes */
} writer;

/* "12.3 MiB", exact below a KiB. */
static void add_bytes(core_text *text, uint64_t bytes)
{
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes / 1024;
    uint32_t unit = 0;
    for (; value >= 1024 && unit < 3; unit++)
        value /= 1024;
    if (bytes < 1024) {
        core_text_add(text, "%llu B", (unsigned long long)bytes);
    } else {
        core_plan_add_fixed(text, value, 1);
        core_text_add(text, " %s", units[unit]);
    }
}

/* Names come from files: nothing in them ends a cell or a line. */
static void add_cell(core_text *text, const char *string)
{
    for (; *string; string++) {
        if (*string == '|' || *string == '\\')
            core_text_add(text, "\\%c", *string);
        else
            core_text_add(text, "%c",
                          (unsigned char)*string < ' ' ? ' ' : *string);
    }
}

static void add_ms_cell(core_text *text, double ns)
{
    core_plan_add_ms(text, ns);
    core_text_add(text, " | ");
}

/* ------------------------------------------------------------------------ */
/* Totals                                                                    */

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

static void add_device(const writer *w, uint32_t d)
{
    const clv_plan *plan = w->plan;
    uint32_t nodes = 0;
    for (uint32_t i = 0; i < plan->n_parts; i++)
        nodes += plan->parts[i].device == d;
    core_text_add(w->text, "| %s | ", core_plan_device_id(plan, d));
    add_cell(w->text, plan->devices[d].dev->info.name);
    core_text_add(w->text, " | %u | %u | ", plan->devices[d].n_steps, nodes);
    if (w->forecast) {
        add_ms_cell(w->text, w->forecast->busy_ns[d]);
        core_plan_add_fixed(
            w->text, 100 * w->forecast->busy_ns[d] / w->forecast->makespan_ns,
            0);
        core_text_add(w->text, "%% | ");
    }
    add_bytes(w->text, weight_bytes(plan, d, CORE_HOLD_IMPORT));
    core_text_add(w->text, " | ");
    add_bytes(w->text, weight_bytes(plan, d, CORE_HOLD_COPY));
    core_text_add(w->text, " |\n");
}

static void add_devices(const writer *w)
{
    const bool timed = w->forecast;
    core_text_add(w->text,
                  "| device | name | steps | nodes | %sweights in "
                  "place | weights copied |\n|---|---|--:|--:|%s--:|--:|\n",
                  timed ? "busy ms | of the time | " : "",
                  timed ? "--:|--:|" : "");
    for (uint32_t d = 0; d < w->plan->n_devices; d++)
        add_device(w, d);
}

static void add_predicted(const writer *w)
{
    const core_forecast *f = w->forecast;
    const clv_graph *graph = w->plan->source;
    double submits = 0,
           waits = f ? f->last_wait.end_ns - f->last_wait.begin_ns : 0;
    if (!f)
        return;
    for (uint32_t s = 0; s < w->plan->n_steps; s++) {
        submits += f->submits[s].end_ns - f->submits[s].begin_ns;
        waits += f->host_waits[s].end_ns - f->host_waits[s].begin_ns;
    }
    core_text_add(w->text, "\nPredicted: ");
    core_plan_add_ms(w->text, f->makespan_ns);
    core_text_add(w->text, " ms");
    for (uint32_t i = 0; i < graph->n_symbols; i++) {
        core_text_add(w->text, "%s", i ? ", " : " for ");
        add_cell(w->text, graph->symbol_names[i]);
        core_text_add(w->text, " = %lld", (long long)graph->symbols[i].max);
    }
    if (f->energy_nj > 0) {
        core_text_add(w->text, ", ");
        core_plan_add_fixed(w->text, f->energy_nj / 1e6, 3);
        core_text_add(w->text, " mJ");
    }
    core_text_add(w->text, "; the host submits for ");
    core_plan_add_ms(w->text, submits);
    core_text_add(w->text, " ms and waits for ");
    core_plan_add_ms(w->text, waits);
    core_text_add(w->text, " ms.\n");
}

static void add_own_memory(const writer *w, uint32_t device)
{
    const clv_plan *plan = w->plan;
    const core_plan_device *d = &plan->devices[device];
    uint64_t ways[2] = {0};
    uint32_t n = 0;
    for (uint32_t i = 0; i < plan->n_copies; i++) {
        const core_copy *copy = &plan->copies[i];
        if (plan->parts[copy->part].device != device)
            continue;
        ways[copy->out] += copy->bytes;
        n++;
    }
    core_text_add(w->text,
                  "In the memory of %s: ", core_plan_device_id(plan, device));
    add_bytes(w->text, d->memory.size);
    core_text_add(w->text, " of them; a run copies ");
    add_bytes(w->text, ways[0]);
    core_text_add(w->text, " there and ");
    add_bytes(w->text, ways[1]);
    core_text_add(w->text, " back, in %u copies%s.\n", n,
                  d->staged ? " through memory that the host sees" : "");
}

/* States that lie otherwise than the host has them. */
static void add_laid(const writer *w, uint32_t device)
{
    const clv_plan *plan = w->plan;
    uint64_t bytes = 0;
    uint32_t n = 0;
    for (clv_value v = 0; v < plan->graph->n_tensors; v++)
        if (core_plan_laid_on(plan, v, device)) {
            bytes += plan->places[v].size;
            n++;
        }
    if (!n)
        return;
    core_text_add(w->text, "States laid out as weights on %s: %u, ",
                  core_plan_device_id(plan, device), n);
    add_bytes(w->text, bytes);
    core_text_add(w->text, ".\n");
}

static void add_memory(const writer *w)
{
    const core_memplan *memory = &w->plan->memory;
    core_text_add(w->text, "\nIntermediate values: ");
    add_bytes(w->text, memory->naive);
    core_text_add(w->text, " without sharing, ");
    add_bytes(w->text, memory->offsets);
    core_text_add(w->text, " by offsets, ");
    add_bytes(w->text, memory->objects);
    core_text_add(w->text, " by shared objects; used: ");
    add_bytes(w->text, memory->size);
    core_text_add(w->text, ".\n");
    for (uint32_t d = 0; d < w->plan->n_devices; d++)
        if (w->plan->devices[d].local && w->plan->devices[d].n_steps)
            add_own_memory(w, d);
    for (uint32_t d = 0; d < w->plan->n_devices; d++)
        add_laid(w, d);
}

static void add_loads(const writer *w)
{
    const clv_plan *plan = w->plan;
    bool any = false;
    for (uint32_t i = 0; i < plan->n_loads; i++) {
        const core_load *load = &plan->loads[i];
        if (load->holding == CORE_HOLD_IMPORT)
            continue;
        if (!any)
            core_text_add(w->text, "\nCopied before the first run:\n\n| weight "
                                   "| to | bytes |\n|---|---|--:|\n");
        any = true;
        core_text_add(w->text, "| ");
        clv_value base = plan->graph->values[load->weight].base;
        add_cell(w->text, plan->graph->values[base].name);
        core_text_add(w->text, " | %s | %llu |\n",
                      core_plan_device_id(plan, load->device),
                      (unsigned long long)load->bytes);
    }
}

/* ------------------------------------------------------------------------ */
/* Steps                                                                     */

/* How far each wait goes back, so that steps of repeated layers are alike.
 * ahead: submitted on each device so far. */
static uint64_t sign_step(const clv_plan *plan, uint32_t s, uint64_t sign,
                          const uint32_t *ahead)
{
    const core_step *step = &plan->steps[s];
    sign = core_hash(sign, &step->device, sizeof step->device);
    sign = core_hash(sign, &step->n_parts, sizeof step->n_parts);
    for (uint32_t i = 0; i < step->n_parts; i++) {
        const core_part *part = &plan->parts[step->first_part + i];
        const uint32_t op = plan->graph->nodes[part->node].op;
        sign = core_hash(sign, &op, sizeof op);
    }
    for (uint32_t i = 0; i < step->n_waits; i++) {
        const core_wait *wait = &plan->waits[step->first_wait + i];
        const uint64_t back[] = {wait->device, wait->by_host,
                                 ahead[wait->device] - wait->value};
        sign = core_hash(sign, back, sizeof back);
    }
    return sign;
}

static uint64_t *step_signs(const clv_plan *plan)
{
    uint64_t *signs = calloc(plan->n_steps + 1u, sizeof *signs);
    uint32_t *ahead = calloc(plan->n_devices + 1u, sizeof *ahead);
    for (uint32_t s = 0; signs && ahead && s < plan->n_steps; s++) {
        signs[s] = sign_step(plan, s, CORE_HASH_SEED, ahead);
        ahead[plan->steps[s].device]++;
    }
    if (!ahead) {
        free(signs);
        signs = NULL;
    }
    free(ahead);
    return signs;
}

static uint32_t awaited_step(const clv_plan *plan, const core_wait *wait)
{
    uint32_t s = 0;
    while (plan->steps[s].device != wait->device ||
           plan->steps[s].signal != wait->value)
        s++;
    return s;
}

static void add_step(const writer *w, uint32_t s)
{
    const clv_plan *plan = w->plan;
    const core_step *step = &plan->steps[s];
    const uint32_t last = step->first_part + step->n_parts - 1;
    core_text_add(w->text, "| %u | %s | %u..%u | ", s,
                  core_plan_device_id(plan, step->device),
                  core_plan_source_of(plan, plan->parts[step->first_part].node),
                  core_plan_source_of(plan, plan->parts[last].node));
    for (uint32_t i = 0; i < step->n_waits; i++) {
        const core_wait *wait = &plan->waits[step->first_wait + i];
        core_text_add(w->text, "%s%u on %s%s", i ? ", " : "",
                      awaited_step(plan, wait),
                      core_plan_device_id(plan, wait->device),
                      wait->by_host ? " (host)" : "");
    }
    core_text_add(w->text, " |");
    if (w->forecast) {
        core_text_add(w->text, " ");
        add_ms_cell(w->text, w->forecast->submits[s].begin_ns);
        add_ms_cell(w->text, w->forecast->steps[s].begin_ns);
        core_plan_add_ms(w->text, w->forecast->steps[s].end_ns);
        core_text_add(w->text, " |");
    }
    core_text_add(w->text, "\n");
}

static clv_status add_steps(const writer *w)
{
    uint64_t *signs = step_signs(w->plan);
    core_fold *folds = NULL;
    uint32_t n = 0;
    clv_status status =
        signs ? core_folds_find(signs, w->plan->n_steps, MIN_PERIOD, &folds, &n)
              : clv_error(CLV_ERR_NO_MEMORY, "no memory to print a plan");
    core_text_add(w->text,
                  "\n| step | device | nodes | waits for |%s\n"
                  "|--:|---|---|---|%s\n",
                  w->forecast ? " submit ms | begin ms | end ms |" : "",
                  w->forecast ? "--:|--:|--:|" : "");
    for (uint32_t i = 0; i < n && !status; i++) {
        const core_fold *fold = &folds[i];
        const uint32_t next = fold->first + fold->period;
        for (uint32_t s = fold->first; s < next; s++)
            add_step(w, s);
        if (fold->count > 1)
            core_text_add(w->text,
                          "| %u..%u | as steps %u..%u, %u time%s more "
                          "| | |%s\n",
                          next, fold->first + fold->period * fold->count - 1,
                          fold->first, next - 1, fold->count - 1,
                          fold->count > 2 ? "s" : "",
                          w->forecast ? " | | |" : "");
    }
    free(folds);
    free(signs);
    return status;
}

/* ------------------------------------------------------------------------ */
/* Nodes                                                                     */

static void add_why(const writer *w, const core_piece *piece)
{
    const core_choice *choice = piece ? &w->plan->choices[piece->node] : NULL;
    if (!choice) {
        core_text_add(w->text, "joins partial sums");
    } else if (choice->reason) {
        add_cell(w->text, choice->reason);
    } else if (choice->alternative) {
        add_cell(w->text, choice->alternative);
        core_text_add(w->text, ": ");
        core_plan_add_ms(w->text, choice->alternative_ns);
        core_text_add(w->text, " ms in all");
    } else {
        core_text_add(w->text, "%s",
                      choice->n_pieces > 1 ? "cut" : "first listed");
    }
}

static void add_node(const writer *w, uint32_t index)
{
    const clv_plan *plan = w->plan;
    const clv_node *node = &plan->graph->nodes[index];
    const uint32_t p = w->parts[index];
    const core_piece *piece = core_plan_piece_of(plan, index);
    char op[96], shape[CORE_SHAPE_TEXT] = "";
    clv_value value = node->n_outputs ? node->outputs[0] : node->inputs[0];
    core_plan_node_text(plan, index, op, sizeof op);
    core_shape_text(&plan->graph->tensors[value], shape);
    core_text_add(w->text, "| %u | ", core_plan_source_of(plan, index));
    add_cell(w->text, op);
    if (piece)
        core_plan_add_ranges(w->text, piece);
    core_text_add(w->text, " | %s | %u | %s | ", shape, plan->parts[p].step,
                  core_plan_device_id(plan, plan->parts[p].device));
    if (w->forecast) {
        add_ms_cell(w->text, w->forecast->parts[p].begin_ns);
        add_ms_cell(w->text, w->forecast->parts[p].end_ns);
        add_ms_cell(w->text, w->forecast->costs_ns[p]);
    }
    /* Once for all pieces of a node. */
    if (!piece || index == w->first[core_plan_source_of(plan, index)])
        add_why(w, piece);
    core_text_add(w->text, " |\n");
}

static void add_repeats(const writer *w, const core_fold *fold)
{
    const clv_plan *plan = w->plan;
    const uint32_t next = fold->first + fold->period;
    const uint32_t end = fold->first + fold->period * fold->count;
    char names[3][CORE_LAYER_NAME];
    core_plan_layer(plan, fold->first, fold->period, names[0]);
    core_plan_layer(plan, next, fold->period, names[1]);
    core_plan_layer(plan, end - fold->period, fold->period, names[2]);
    core_text_add(w->text, "| %u..%u | ", next, end - 1);
    if (*names[0]) {
        add_cell(w->text, names[1]);
        core_text_add(w->text, "%s", fold->count > 2 ? " to " : "");
        add_cell(w->text, fold->count > 2 ? names[2] : "");
        core_text_add(w->text, " as ");
        add_cell(w->text, names[0]);
    } else {
        core_text_add(w->text, "as nodes %u..%u, %u time%s more", fold->first,
                      next - 1, fold->count - 1, fold->count > 2 ? "s" : "");
    }
    core_text_add(w->text, " | | | |%s |\n", w->forecast ? " | | |" : "");
}

static clv_status add_nodes(const writer *w)
{
    uint64_t *signs = core_plan_node_signs(w->plan);
    core_fold *folds = NULL;
    uint32_t n = 0;
    clv_status status =
        signs ? core_folds_find(signs, w->plan->source->n_nodes, MIN_PERIOD,
                                &folds, &n)
              : clv_error(CLV_ERR_NO_MEMORY, "no memory to print a plan");
    core_text_add(w->text,
                  "\n| node | op | output | step | device | %swhy "
                  "there, or else |\n|--:|---|---|--:|---|%s---|\n",
                  w->forecast ? "begin ms | end ms | alone ms | " : "",
                  w->forecast ? "--:|--:|--:|" : "");
    for (uint32_t i = 0; i < n && !status; i++) {
        const uint32_t next = folds[i].first + folds[i].period;
        for (uint32_t at = w->first[folds[i].first]; at < w->first[next]; at++)
            add_node(w, at);
        if (folds[i].count > 1)
            add_repeats(w, &folds[i]);
    }
    free(folds);
    free(signs);
    return status;
}

/* Nodes of the graph that is run follow the order of those they come from. */
static bool find_first(writer *w)
{
    const clv_plan *plan = w->plan;
    w->first = calloc(plan->source->n_nodes + 1u, sizeof *w->first);
    for (uint32_t i = 0; w->first && i < plan->graph->n_nodes; i++)
        w->first[core_plan_source_of(plan, i) + 1]++;
    for (uint32_t i = 0; w->first && i < plan->source->n_nodes; i++)
        w->first[i + 1] += w->first[i];
    return w->first;
}

clv_status core_plan_add_md(core_text *text, const clv_plan *plan)
{
    writer w = {text, plan, plan->forecast, core_plan_part_map(plan), NULL};
    clv_status status =
        w.parts && find_first(&w)
            ? CLV_OK
            : clv_error(CLV_ERR_NO_MEMORY, "no memory to print a plan");
    if (!status) {
        add_devices(&w);
        add_predicted(&w);
        add_memory(&w);
        add_loads(&w);
        status = add_steps(&w);
    }
    if (!status)
        status = add_nodes(&w);
    free(w.first);
    free(w.parts);
    return status;
}
