#include "trial.h"
#include "accepts.h"
#include "../../core/device/loss.h"
#include "../../core/device/subgraph.h"
#include "../../core/device/caps.h"
#include "../../core/device/submit.h"
#include "../../core/base/error.h"
#include "workload_graph.h"

#include "../../core/plan/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAGE 4096u
#define ALIGNMENT 256u
#define HOT_SETS                                                               \
    2 /* of activations, in turn: no node finds the input of the               \
         one before it prepared */

/* ------------------------------------------------------------------------ */
/* Whether a device takes it                                                 */

/* The longest that is no longer than n, or the shortest. */
static int64_t nearest_length(const clv_op_caps *caps, int64_t n)
{
    int64_t below = 0, least = INT64_MAX;
    for (uint32_t i = 0; i < caps->n_static; i++) {
        int64_t length = caps->static_shapes[i];
        below = length <= n && length > below ? length : below;
        least = length < least ? length : least;
    }
    return below ? below : least;
}

clv_status planner_trial_accepted(clv_device *dev,
                                  const planner_workload *workload,
                                  int64_t *static_n)
{
    clv_graph *graph;
    clv_op_caps caps;
    char reason[PLANNER_REASON_SIZE], text[PLANNER_WORKLOAD_TEXT];
    clv_status status = planner_workload_graph(workload, 1, 1, &graph);
    if (status)
        return status;
    clv_subgraph view = core_graph_view(graph);
    status = core_device_caps(dev, &view, &caps);
    if (static_n)
        *static_n = 0;
    if (!status && !planner_accepts(graph, graph->nodes, dev, &caps, reason)) {
        if (static_n && caps.answer == CLV_ANSWER_STATIC)
            *static_n = nearest_length(&caps, workload->n);
        status = clv_error(CLV_ERR_UNSUPPORTED, "device '%s': %s: %s", dev->id,
                           planner_workload_text(workload, text), reason);
    }
    clv_graph_destroy(graph);
    return status;
}

static clv_status pointer_align(clv_device *dev,
                                const planner_workload *workload,
                                uint64_t *align)
{
    clv_graph *graph;
    clv_op_caps caps;
    uint32_t type;
    clv_status status = planner_workload_graph(workload, 1, 1, &graph);
    if (status)
        return status;
    clv_subgraph view = core_graph_view(graph);
    status = core_device_caps(dev, &view, &caps);
    *align = ALIGNMENT;
    if (core_device_has_local(dev, &type) &&
        dev->mem_types[type].alignment < ALIGNMENT)
        *align = dev->mem_types[type].alignment;
    if (!status && caps.pointer_align > *align)
        *align = caps.pointer_align;
    clv_graph_destroy(graph);
    return status;
}

/* ------------------------------------------------------------------------ */
/* Where operands lie                                                        */

/* A part of the pool: ids; activations, few, so that they stay in caches as in
 * a model; then, in turn, what comes from memory: weights and caches. */
typedef struct layout {
    uint64_t align;
    uint64_t ids, slot;  /* bytes; slot: of the largest activation */
    uint32_t n_lists;    /* of ids, of a node */
    uint32_t n_slots;    /* activations of a node */
    uint64_t cold;       /* bytes of one node */
    uint64_t begin, end; /* of the part, in the pool */
} layout;

static uint64_t round_up(uint64_t size, uint64_t align)
{
    return (size + align - 1) / align * align;
}

static bool is_cold(const clv_tensor_desc *t)
{
    return t->usage == CLV_USAGE_WEIGHT || t->usage == CLV_USAGE_STATE;
}

static bool is_ids(const clv_tensor_desc *t)
{
    return t->usage == CLV_USAGE_INPUT && t->dtype == CLV_DTYPE_I32;
}

/* What one node needs. */
static clv_status measure(const clv_graph *one, layout *l)
{
    for (uint32_t i = 0; i < one->n_tensors; i++) {
        uint64_t size;
        const clv_tensor_desc *t = &one->tensors[i];
        clv_status status = core_desc_size(t, NULL, &size);
        if (status)
            return status;
        size = round_up(size, l->align);
        if (is_cold(t)) {
            l->cold += size;
        } else if (is_ids(t)) {
            l->ids = size;
            l->n_lists++;
        } else {
            l->slot = size > l->slot ? size : l->slot;
            l->n_slots++;
        }
    }
    return CLV_OK;
}

static uint64_t hot_begin(const layout *l)
{
    return l->begin + l->ids * l->n_lists;
}

static uint64_t hot_end(const layout *l)
{
    return hot_begin(l) + l->slot * l->n_slots * HOT_SETS;
}

static clv_status plan_layout(planner_meter *meter, clv_device *dev,
                              const planner_trial_params *p, layout *l)
{
    clv_graph *one;
    const bool is_virtual = dev->info.clock == CLV_CLOCK_VIRTUAL;
    uint64_t parts = p->parts ? p->parts : 1;
    clv_status status = pointer_align(dev, p->workload, &l->align);
    if (!status)
        status = planner_workload_graph(p->workload, 1, 1, &one);
    if (status)
        return status;
    status = measure(one, l);
    clv_graph_destroy(one);
    if (status)
        return status;
    uint64_t size = round_up(hot_end(l) + l->cold, PAGE);
    status =
        planner_pool_reserve(meter, dev, l->align, size * parts, !is_virtual);
    if (status)
        return status;
    uint64_t part = meter->pool->size / parts / PAGE * PAGE;
    l->begin = part * p->part;
    l->end = l->begin + part;
    return CLV_OK;
}

typedef struct placer {
    const layout *l;
    planner_meter *meter;
    uint32_t next_list, next_slot;
} placer;

/* The next place for the tensor. */
static uint64_t place(placer *p, const clv_tensor_desc *t, uint64_t size)
{
    const layout *l = p->l;
    if (is_ids(t))
        return l->begin + l->ids * (p->next_list++ % l->n_lists);
    if (!is_cold(t)) {
        uint64_t at = hot_begin(l) + l->slot * p->next_slot;
        p->next_slot = (p->next_slot + 1) % (l->n_slots * HOT_SETS);
        return at;
    }
    uint64_t *cursor = &p->meter->cursor;
    size = round_up(size, l->align);
    if (*cursor < hot_end(l) || *cursor > l->end - size)
        *cursor = hot_end(l);
    uint64_t at = *cursor;
    *cursor += size;
    return at;
}

/* Copies to the pool as the device sees it. */
static clv_status write_pool(planner_meter *meter, const core_object *object,
                             uint64_t at, const void *data, uint64_t size)
{
    void *to;
    memcpy((char *)clv_tensor_data(meter->pool->tensor) + at, data, size);
    if (object->holding == CORE_HOLD_IMPORT)
        return core_buffer_flush(object->buffer, object->offset + at, size);
    if (!(object->buffer->dev->mem_types[object->buffer->mem_type].flags &
          CLV_MEM_HOST_VISIBLE)) {
        const core_runs all = {0, size, size, 1};
        return core_buffer_write(object->buffer, object->offset + at, &all,
                                 data);
    }
    clv_status status = core_buffer_map(object->buffer, CLV_ACCESS_WRITE, &to);
    if (status)
        return status;
    memcpy((char *)to + object->offset + at, data, size);
    status = core_buffer_flush(object->buffer, object->offset + at, size);
    core_buffer_unmap(object->buffer);
    return status;
}

static clv_status write_ids(planner_meter *meter, const core_object *object,
                            const layout *l, const planner_workload *workload)
{
    if (!l->ids)
        return CLV_OK;
    const size_t n = (size_t)planner_workload_n_ids(workload);
    int32_t *ids = malloc(n * sizeof *ids);
    if (!ids)
        return core_no_memory("to measure devices");
    clv_status status = CLV_OK;
    for (uint32_t i = 0; i < l->n_lists && !status; i++) {
        planner_workload_ids(workload, i, ids);
        status = write_pool(meter, object, l->begin + i * l->ids, ids,
                            n * sizeof *ids);
    }
    free(ids);
    return status;
}

static clv_status find_memory(planner_meter *meter, clv_device *dev,
                              const layout *l, const core_object **out)
{
    uint32_t holding;
    clv_status status =
        core_tensor_holding(meter->pool->tensor, dev, l->align, true, &holding);
    return status ? status
                  : core_tensor_object(meter->pool->tensor, dev, l->align,
                                       holding, NULL, out);
}

/* ------------------------------------------------------------------------ */

/* Weights first, then what is bound at each run. */
static clv_status bind(core_trial *t, const layout *l,
                       const core_object *object, uint32_t *n_weights)
{
    const clv_graph *g = t->graph;
    placer p = {.l = l, .meter = t->meter};
    uint32_t weights = 0, at, others;
    for (uint32_t i = 0; i < g->n_tensors; i++)
        weights += g->tensors[i].usage == CLV_USAGE_WEIGHT;
    at = 0;
    others = weights;
    for (uint32_t i = 0; i < g->n_tensors; i++) {
        const clv_tensor_desc *desc = &g->tensors[i];
        uint64_t size;
        clv_status status = core_desc_size(desc, NULL, &size);
        if (status)
            return status;
        core_binding *b =
            &t->bindings[desc->usage == CLV_USAGE_WEIGHT ? at++ : others++];
        *b =
            (core_binding){.tensor = i, .buffer = object->buffer, .size = size};
        b->offset = object->offset + place(&p, desc, size);
    }
    *n_weights = weights;
    return CLV_OK;
}

static clv_status compile(core_trial *t, uint32_t n_weights)
{
    clv_subgraph view = core_graph_view(t->graph);
    const core_compile request = {
        .graph = &view, .weights = t->bindings, .n_weights = n_weights};
    double begin, end;
    CLV_TRY(planner_trial_now(t->dev, &begin));
    CLV_TRY(core_program_compile(t->dev, &request, &t->program));
    CLV_TRY(planner_trial_now(t->dev, &end));
    if (t->meter->n_programs < PLANNER_METER_PROGRAMS)
        t->meter->programs[t->meter->n_programs++] = (planner_program_time){
            .program = planner_program_of(&view), .ns = end - begin};
    /* They are the program's now. */
    memmove(t->bindings, t->bindings + n_weights,
            (t->graph->n_tensors - n_weights) * sizeof *t->bindings);
    return CLV_OK;
}

static clv_status prepare(core_trial *t, const planner_trial_params *params)
{
    layout l = {0};
    const core_object *object;
    uint32_t n_weights;
    clv_status status = plan_layout(t->meter, t->dev, params, &l);
    if (!status)
        status = planner_workload_graph(params->workload, params->nodes,
                                        params->shared ? 1 : params->nodes,
                                        &t->graph);
    if (!status)
        status = find_memory(t->meter, t->dev, &l, &object);
    if (!status)
        status = write_ids(t->meter, object, &l, params->workload);
    if (status)
        return status;
    t->bindings = calloc(t->graph->n_tensors, sizeof *t->bindings);
    if (!t->bindings)
        return core_no_memory("to measure devices");
    status = bind(t, &l, object, &n_weights);
    if (!status)
        status = compile(t, n_weights);
    return status ? status : core_timeline_create(t->dev, 0, &t->timeline);
}

clv_status planner_trial_create(planner_meter *meter, clv_device *dev,
                                const planner_trial_params *params,
                                core_trial **out)
{
    char text[PLANNER_WORKLOAD_TEXT];
    *out = NULL;
    core_trial *t = calloc(1, sizeof *t);
    if (!t)
        return core_no_memory("to measure devices");
    t->meter = meter;
    t->dev = dev;
    clv_status status = prepare(t, params);
    meter->n_trials++;
    if (status) {
        planner_trial_destroy(t);
        return clv_error_prefix(status, "%s on '%s'",
                                planner_workload_text(params->workload, text),
                                dev->id);
    }
    *out = t;
    return CLV_OK;
}

/* What was said of why the trial ends stays the thread's message. */
static void settle(const core_trial *t)
{
    char message[1024];
    snprintf(message, sizeof message, "%s", clv_last_error());
    if (!core_device_lost(t->dev))
        core_device_settle(t->dev, t->meter->limit_ns);
    clv_error(CLV_OK, "%s", message);
}

void planner_trial_destroy(core_trial *t)
{
    if (!t)
        return;
    if (t->timeline && core_timeline_reached(t->timeline) < t->value)
        settle(t);
    core_timeline_destroy(t->timeline);
    core_program_destroy(t->program);
    free(t->bindings);
    clv_graph_destroy(t->graph);
    planner_pool_release(t->meter);
    free(t);
}

/* ------------------------------------------------------------------------ */
/* Runs                                                                      */

clv_status planner_trial_submit(core_trial *t, uint64_t correlation)
{
    const core_command command = {.kind = CLV_COMMAND_RUN,
                                  .program = t->program,
                                  .bindings = t->bindings,
                                  .n_bindings = t->program->n_bound};
    const core_point signal = {t->timeline, t->value + 1};
    const core_submit submit = {.commands = &command,
                                .n_commands = 1,
                                .signals = &signal,
                                .n_signals = 1,
                                .correlation = correlation};
    clv_status status = core_device_submit(t->dev, &submit);
    t->value += !status;
    return status;
}

clv_status planner_trial_wait(core_trial *t, uint64_t spin_ns)
{
    return core_timeline_wait(t->timeline, t->value, spin_ns,
                              t->meter->limit_ns);
}

clv_status planner_trial_now(clv_device *dev, double *ns)
{
    clv_moment now;
    if (dev->info.clock != CLV_CLOCK_VIRTUAL) {
        *ns = (double)clv_now_ns();
        return CLV_OK;
    }
    clv_status status = clv_device_now(dev, &now);
    *ns = status ? 0 : now.ns;
    return status;
}

clv_status planner_trial_time(core_trial *t, uint64_t spin_ns, double *ns,
                              double *energy_nj)
{
    clv_moment before = {0}, after = {0};
    double begin = 0, end = 0;
    clv_status status = energy_nj ? clv_device_now(t->dev, &before) : CLV_OK;
    if (!status)
        status = planner_trial_now(t->dev, &begin);
    if (!status)
        status = planner_trial_submit(t, 0);
    if (!status)
        status = planner_trial_wait(t, spin_ns);
    if (!status)
        status = planner_trial_now(t->dev, &end);
    if (!status && energy_nj)
        status = clv_device_now(t->dev, &after);
    *ns = end - begin;
    if (energy_nj)
        *energy_nj = after.energy_nj - before.energy_nj;
    return status;
}

clv_status planner_trial_is_noisy(core_trial *t, bool *out)
{
    double first, second;
    *out = false;
    if (t->dev->info.clock != CLV_CLOCK_VIRTUAL)
        return CLV_OK;
    CLV_TRY(planner_trial_time(t, 0, &first, NULL));
    CLV_TRY(planner_trial_time(t, 0, &second, NULL));
    *out = first != second;
    return CLV_OK;
}

/* ------------------------------------------------------------------------ */
/* When trials ran                                                           */

#define RECORDS 64

static void take(planner_trial_span *span, const clv_trace_record *r,
                 const clv_calibration *c, bool is_virtual)
{
    double base =
        is_virtual ? 0
                   : (double)c->host_ns - (double)c->device_tick * c->tick_ns;
    double begin = base + (double)r->begin * c->tick_ns;
    double end = base + (double)r->end * c->tick_ns;
    if (r->node != CLV_NO_TENSOR) {
        if (!span->node || begin < span->node)
            span->node = begin;
        return;
    }
    if (!span->begin || begin < span->begin)
        span->begin = begin;
    if (end > span->end)
        span->end = end;
}

clv_status planner_trial_spans(clv_device *dev, planner_trial_span *spans,
                               uint32_t n)
{
    clv_trace_record records[RECORDS];
    clv_calibration c = {0};
    clv_status status = core_device_calibrate(dev, &c);
    uint32_t count = RECORDS;
    while (!status && count == RECORDS) {
        status = core_device_trace_read(dev, &count, records);
        for (uint32_t i = 0; i < count && !status; i++)
            for (uint32_t j = 0; j < n; j++)
                if (records[i].correlation == spans[j].correlation)
                    take(&spans[j], &records[i], &c,
                         dev->info.clock == CLV_CLOCK_VIRTUAL);
    }
    return status;
}

/* Of nodes; a node's records follow one another, one for each of its kernels.
 */
typedef struct sums {
    double *ns;
    uint32_t n, most, node; /* node: that of the latest record */
} sums;

static void add_record(sums *s, const clv_trace_record *r, double tick_ns)
{
    const double ns = (double)(r->end - r->begin) * tick_ns;
    if (s->n && s->node == r->node)
        s->ns[s->n - 1] += ns;
    else if (s->n < s->most)
        s->ns[s->n++] = ns;
    else
        return;
    s->node = r->node;
}

uint32_t planner_trial_nodes(clv_device *dev, uint64_t correlation, double *ns,
                             uint32_t most)
{
    clv_trace_record records[RECORDS];
    clv_calibration c = {0};
    uint32_t count = RECORDS;
    sums sum = {.ns = ns, .most = most, .node = CLV_NO_TENSOR};
    if (core_device_calibrate(dev, &c))
        return 0;
    while (count == RECORDS) {
        if (core_device_trace_read(dev, &count, records))
            return sum.n;
        for (uint32_t i = 0; i < count; i++)
            if (records[i].correlation == correlation &&
                records[i].node != CLV_NO_TENSOR)
                add_record(&sum, &records[i], c.tick_ns);
    }
    return sum.n;
}

void planner_trial_forget(clv_device *dev)
{
    clv_trace_record records[RECORDS];
    uint32_t count = RECORDS;
    while (count == RECORDS &&
           core_device_trace_read(dev, &count, records) == CLV_OK)
        ;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double planner_mean(const double *values, uint32_t n)
{
    double sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += values[i];
    return sum / n;
}

double planner_median(double *values, uint32_t n)
{
    qsort(values, n, sizeof *values, ascending);
    return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

double planner_undisturbed(double *values, uint32_t n)
{
    qsort(values, n, sizeof *values, ascending);
    return values[(n - 1) / 4];
}

double planner_typical(bool noisy, double *values, uint32_t n)
{
    return noisy ? planner_mean(values, n) : planner_undisturbed(values, n);
}

double planner_above(bool noisy, double *more, double *less, uint32_t n)
{
    return planner_typical(noisy, more, n) - planner_typical(noisy, less, n);
}
