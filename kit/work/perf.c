/*
 * How fast a device is: ops in shapes of real models, run again and again. Runs
 * are submitted in batches that last long enough for the clock; what a run
 * takes is the median of the batches, or of the device's own records.
 */
#include "perf.h"
#include "element.h"
#include "../plugin/child.h"
#include "fit.h"
#include "shapes.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(list) (sizeof(list) / sizeof(list)[0])
#define MAX_SPECS 2048
#define MAX_SAMPLES 512
#define MAX_BATCH 64u
#define BATCH_NS 500000u       /* a batch lasts at least this long, */
#define SPEC_NS 120000000u     /* all of a shape about so long, */
#define THOROUGH_NS 600000000u /* or so; */
#define MIN_BATCHES 3          /* even then measure this many */

typedef struct entry {
    kit_spec spec;
    char model[48]; /* "llama3-8b.ffn_down", or "" */
} entry;

typedef struct perf {
    kit *k;
    const kit_perf_options *options;
    entry *entries;
    uint32_t n, at;
} perf;

/* ------------------------------------------------------------------------ */
/* What is measured                                                          */

static bool is_wanted(const kit_perf_options *options, uint32_t op)
{
    for (uint32_t i = 0; i < options->n_ops; i++)
        if (!strcmp(options->ops[i], clv_op_name(op)))
            return true;
    return !options->n_ops;
}

static bool is_model_wanted(const kit_perf_options *options, const char *model)
{
    for (uint32_t i = 0; i < options->n_models; i++)
        if (!fnmatch(options->models[i], model, 0))
            return true;
    return !options->n_models;
}

static void add(perf *p, const kit_spec *spec, const char *model)
{
    if (!is_wanted(p->options, spec->op) ||
        !is_model_wanted(p->options, model) || p->n == MAX_SPECS)
        return;
    entry *e = &p->entries[p->n++];
    e->spec = *spec;
    snprintf(e->model, sizeof e->model, "%s", model);
}

static void add_matmuls(perf *p, const int64_t *rows, uint32_t n_rows)
{
    static const struct {
        uint32_t dtype, quant, form;
    } weights[] = {{CLV_DTYPE_F32, 0, 0},
                   {CLV_DTYPE_F16, 0, 0},
                   {CLV_DTYPE_BF16, 0, 0},
                   {CLV_DTYPE_Q8_0, 0, 0},
                   {CLV_DTYPE_Q4_0, 0, 0},
                   {CLV_DTYPE_Q4_K, 0, 0},
                   {CLV_DTYPE_I8, CLV_QUANT_PER_CHANNEL, 0},
                   {CLV_DTYPE_I8, CLV_QUANT_PER_CHANNEL, KIT_FORM_ROUNDED},
                   {CLV_DTYPE_I4, CLV_QUANT_PER_CHANNEL, 0}};
    const bool thorough = kit_thorough(p->k);
    for (uint32_t i = 0; i < kit_n_matmul_shapes; i++)
        for (size_t d = 0; d < COUNT(weights); d++)
            for (uint32_t j = 0; j < n_rows; j++) {
                const kit_matmul_shape *shape = &kit_matmul_shapes[i];
                kit_spec s = {.op = CLV_OP_MATMUL,
                              .dtype = weights[d].dtype,
                              .quant = weights[d].quant,
                              .form = weights[d].form,
                              .n = rows[j],
                              .in = shape->in,
                              .out = shape->out};
                bool small = shape->in * shape->out < 1 << 20;
                if (shape->in % kit_spec_unit(&s) ||
                    ((shape->large || small) && !thorough))
                    continue;
                add(p, &s, shape->name);
            }
}

static void add_attentions(perf *p, const int64_t *rows, uint32_t n_rows)
{
    const int64_t cache = kit_thorough(p->k) ? 4096 : 512;
    for (uint32_t i = 0; i < kit_n_attention_shapes; i++)
        for (uint32_t dtype = CLV_DTYPE_F32; dtype <= CLV_DTYPE_F16; dtype++)
            for (uint32_t j = 0; j < n_rows; j++) {
                const kit_attention_shape *shape = &kit_attention_shapes[i];
                bool one = dtype == CLV_DTYPE_F32 || shape->head_dim < 64;
                if ((one || shape->large) && !kit_thorough(p->k))
                    continue;
                kit_spec s = {.op = CLV_OP_ATTENTION,
                              .dtype = dtype,
                              .n = rows[j],
                              .out = cache,
                              .first = (int32_t)(cache - rows[j]),
                              .heads = shape->heads,
                              .groups = shape->groups,
                              .dim = shape->head_dim,
                              .window = shape->window,
                              .softcap = shape->softcap};
                add(p, &s, shape->name);
            }
}

static void add_rest(perf *p, const int64_t *rows, uint32_t n_rows)
{
    static const kit_spec specs[] = {
        {.op = CLV_OP_GET_ROWS, .dtype = CLV_DTYPE_F16, .out = 1000},
        {.op = CLV_OP_GET_ROWS, .dtype = CLV_DTYPE_Q8_0, .out = 1000},
        {.op = CLV_OP_GET_ROWS, .dtype = CLV_DTYPE_Q4_0, .out = 1000},
        {.op = CLV_OP_SET_ROWS, .dtype = CLV_DTYPE_F16, .out = 1000},
        {.op = CLV_OP_ROPE, .dtype = CLV_DTYPE_F32, .heads = 32, .dim = 128},
        {.op = CLV_OP_CONVERT, .dtype = CLV_DTYPE_F32, .to = CLV_DTYPE_F16},
        {.op = CLV_OP_CONVERT, .dtype = CLV_DTYPE_F16, .to = CLV_DTYPE_F32},
        {.op = CLV_OP_TOP_K, .dtype = CLV_DTYPE_F32, .in = 128, .out = 8},
        {.op = CLV_OP_MATMUL_EXPERTS,
         .dtype = CLV_DTYPE_Q4_0,
         .in = 2048,
         .out = 768,
         .experts = 128,
         .used = 8},
        {.op = CLV_OP_MATMUL_EXPERTS,
         .dtype = CLV_DTYPE_Q4_0,
         .in = 768,
         .out = 2048,
         .experts = 128,
         .used = 8,
         .form = KIT_FORM_EACH | KIT_FORM_SCORES}};
    for (uint32_t op = 1; clv_op_find(op); op++)
        for (uint32_t j = 0; j < n_rows && kit_is_plain_op(op); j++) {
            const kit_spec s = {
                .op = op, .dtype = CLV_DTYPE_F32, .n = rows[j], .in = 4096};
            add(p, &s, "");
        }
    for (size_t i = 0; i < COUNT(specs); i++)
        for (uint32_t j = 0; j < n_rows; j++) {
            kit_spec s = specs[i];
            s.n = rows[j];
            if (!s.in)
                s.in = s.heads ? 0 : 4096;
            add(p, &s, "");
        }
}

/* ------------------------------------------------------------------------ */
/* Runs                                                                      */

/* A program that is run in batches. */
typedef struct bench {
    perf *p;
    kit_program program;
    clv_plugin_timeline *tl;
    uint64_t value; /* of the timeline, by the latest submit */
    double tick_ns; /* of the device's clock; 0: not used */
    double host[MAX_SAMPLES], device[MAX_SAMPLES]; /* ns of one run */
    uint32_t n_host, n_device, runs;
} bench;

static void submit(bench *b, uint64_t correlation)
{
    const kit_plugin *s = kit_under_test(b->p->k);
    clv_command command = kit_program_command(&b->program);
    clv_timeline_point done = {.timeline = b->tl, .value = ++b->value};
    clv_submit submit = CLV_INIT(clv_submit, CLV_STRUCT_SUBMIT);
    submit.commands = &command;
    submit.n_commands = 1;
    submit.command_stride = sizeof command;
    submit.signals = &done;
    submit.n_signals = 1;
    submit.correlation = correlation;
    KIT_OK(b->p->k, s->api.submit(s->dev, &submit), "submit");
}

/* Moves the device's records out; times of whole commands become samples. */
static void read_trace(bench *b)
{
    const kit_plugin *s = kit_under_test(b->p->k);
    clv_trace_record records[32];
    uint32_t count = COUNT(records);
    while (b->tick_ns > 0 && count == COUNT(records)) {
        for (uint32_t i = 0; i < COUNT(records); i++)
            records[i] = (clv_trace_record)CLV_INIT(clv_trace_record,
                                                    CLV_STRUCT_TRACE_RECORD);
        KIT_OK(b->p->k,
               s->api.trace_read(s->dev, &count, records, sizeof *records),
               "trace_read");
        KIT_CHECK(b->p->k, count <= COUNT(records),
                  "trace_read gave %u records, room was for %zu", count,
                  COUNT(records));
        for (uint32_t i = 0; i < count; i++)
            if (records[i].node == CLV_NO_TENSOR && records[i].correlation &&
                records[i].end >= records[i].begin && b->n_device < MAX_SAMPLES)
                b->device[b->n_device++] =
                    (double)(records[i].end - records[i].begin) * b->tick_ns;
    }
}

/* Nanoseconds of n runs, from the first submit to the end of the wait. */
static double run_batch(bench *b, uint32_t n, bool traced)
{
    kit *k = b->p->k;
    uint64_t begin = kit_now();
    for (uint32_t i = 0; i < n; i++)
        submit(b, traced ? b->value + 1 : 0);
    KIT_OK(k, kit_wait(k, b->tl, b->value), "timeline_wait");
    double ns = (double)(kit_now() - begin);
    if (traced)
        read_trace(b);
    return ns;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *samples, uint32_t n)
{
    qsort(samples, n, sizeof *samples, ascending);
    return n % 2 ? samples[n / 2] : (samples[n / 2 - 1] + samples[n / 2]) / 2;
}

static uint32_t batch_size(const bench *b, double run_ns)
{
    uint32_t depth = kit_under_test(b->p->k)->info.queue_depth;
    double n = run_ns > 0 ? BATCH_NS / run_ns : MAX_BATCH;
    uint32_t most = depth && depth < MAX_BATCH ? depth : MAX_BATCH;
    return n < 1 ? 1 : n > most ? most : (uint32_t)n;
}

static void use_device_clock(bench *b)
{
    const kit_plugin *s = kit_under_test(b->p->k);
    clv_calibration c = CLV_INIT(clv_calibration, CLV_STRUCT_CALIBRATION);
    if (s->api.trace_read && s->api.calibrate &&
        s->api.calibrate(s->dev, &c) == CLV_OK)
        b->tick_ns = c.tick_ns;
}

static void measure(bench *b)
{
    kit *k = b->p->k;
    const uint64_t limit = kit_thorough(k) ? THOROUGH_NS : SPEC_NS;
    use_device_clock(b);
    const uint64_t begin = kit_now();
    run_batch(b, 1, false);
    double once = run_batch(b, 1, false);
    uint32_t n = batch_size(b, once);
    while (b->n_host < MAX_SAMPLES &&
           (b->n_host < MIN_BATCHES || kit_now() - begin < limit)) {
        b->host[b->n_host++] = run_batch(b, n, b->tick_ns > 0) / n;
        b->runs += n;
    }
}

/* ------------------------------------------------------------------------ */
/* Rows                                                                      */

static void describe(const entry *e, kit_perf_row *row)
{
    const kit_spec *s = &e->spec;
    const char *space = e->model[0] ? " " : "";
    snprintf(row->op, sizeof row->op, "%s", clv_op_name(s->op));
    snprintf(row->dtype, sizeof row->dtype, "%s%s%s%s",
             kit_dtype_name(s->dtype), s->to ? "-" : "",
             s->to ? kit_dtype_name(s->to) : "",
             s->form & KIT_FORM_ROUNDED ? " rounded x" : "");
    if (s->op == CLV_OP_MATMUL)
        snprintf(row->shape, sizeof row->shape, "%s%s%lldx%lldx%lld", e->model,
                 space, (long long)s->n, (long long)s->in, (long long)s->out);
    else if (s->op == CLV_OP_ATTENTION)
        snprintf(row->shape, sizeof row->shape,
                 "%s%s%lld of %lld, %lld/%lld heads of %lld", e->model, space,
                 (long long)s->n, (long long)s->out, (long long)s->heads,
                 (long long)s->groups, (long long)s->dim);
    else
        snprintf(row->shape, sizeof row->shape, "%s%s%lldx%lld", e->model,
                 space, (long long)s->n, (long long)kit_spec_width(s));
    row->flops = kit_spec_flops(s);
    row->bytes = kit_spec_bytes(s);
}

/* At the shape that the device offers nearest to it. */
static bool fit(perf *p, kit_spec *spec)
{
    clv_op_caps caps;
    kit_fit_spec(p->k, spec, NULL);
    kit_spec_caps(p->k, spec, &caps);
    return caps.answer == CLV_ANSWER_YES;
}

static void measure_entry(perf *p, entry *e)
{
    static bench b;
    kit_perf_row row = {.done = ++p->at, .all = p->n};
    kit_graph g;
    p->k->begin_ns = kit_now(); /* the time limit is a shape's */
    if (fit(p, &e->spec)) {
        const kit_plugin *s = kit_under_test(p->k);
        memset(&b, 0, sizeof b);
        b.p = p;
        kit_graph_init(p->k, &g);
        kit_spec_build(&e->spec, &g);
        kit_program_make(&g, 0, false, &b.program);
        KIT_OK(p->k, s->api.timeline_create(s->dev, 0, &b.tl),
               "timeline_create");
        measure(&b);
        row.runs = b.runs;
        row.us = (b.n_device ? median(b.device, b.n_device)
                             : median(b.host, b.n_host)) /
                 1e3;
        snprintf(row.clock, sizeof row.clock, "%s",
                 b.n_device ? "device" : "host");
        s->api.timeline_destroy(b.tl);
        kit_program_free(&b.program);
        kit_graph_free(&g);
    }
    describe(e, &row);
    p->options->tell(p->k, &row);
}

void kit_perf_run(kit *k, const void *arg)
{
    static const int64_t quick[] = {1, 64}, all[] = {1, 4, 16, 64, 512, 1024};
    const bool thorough = kit_thorough(k);
    const int64_t *rows = thorough ? all : quick;
    const uint32_t n = thorough ? COUNT(all) : COUNT(quick);
    perf p = {.k = k, .options = arg};
    p.entries = calloc(MAX_SPECS, sizeof *p.entries);
    KIT_CHECK(k, p.entries, "the kit has no memory for its list of shapes");
    add_matmuls(&p, rows, n);
    add_attentions(&p, rows, n);
    add_rest(&p, rows, n);
    for (uint32_t i = 0; i < p.n; i++)
        measure_entry(&p, &p.entries[i]);
    free(p.entries);
}
