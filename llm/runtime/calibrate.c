/*
 * Ranges of activations. The model runs over a text in a graph in which all
 * that is multiplied with a weight is an output. First each such value is
 * counted by its magnitude, which gives the ranges; then what lies outside
 * them, the outliers, by its channel.
 */
#include "../base/str.h"
#include "../quantize/ranges.h"
#include "../models/rope.h"
#include "divisors.h"
#include "importance.h"
#include "runner.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    WINDOW = 128, /* tokens: all activations of a run are in memory */
    MEASURED = 2, /* windows on which the importance of a layer is measured */
};

/* A row may have half more outliers than any of the text, in steps of 4. */
enum { BOUND_STEP = 4 };

/* Of what is multiplied: of q, k and v one. */
typedef struct counts {
    clv_value x;
    uint64_t columns;
    const llm_linear *maker; /* of the columns; NULL: they are not divided */
    float *divisors;         /* first the largest magnitudes; NULL: the same */
    float *effects;          /* sums of squares of each column's weights */
    llm_spread spread;
    llm_clamp clamp;
    float largest;  /* before it is divided */
    uint32_t *over; /* outliers of each column */
    uint32_t most;  /* of a row */
} counts;

typedef struct calibration {
    clv_model *model;
    llm_kv_cache cache;
    llm_runner *runner;
    counts *counts; /* of all that is multiplied */
    uint64_t n;
    uint64_t *of; /* which of them each observed product has */
} calibration;

/* A row of what is multiplied with a weight. */
typedef void (*see_fn)(counts *c, const float *x);

typedef struct text {
    const int32_t *ids; /* [n] */
    uint64_t n;
    uint32_t window; /* tokens of a run */
    clv_progress_fn progress;
    void *progress_ctx;
} text;

static float divided(const counts *c, const float *x, uint64_t i)
{
    return c->divisors ? x[i] / c->divisors[i] : x[i];
}

static void count(counts *c, const float *x)
{
    for (uint64_t i = 0; i < c->columns; i++)
        llm_spread_count(&c->spread, divided(c, x, i), (double)c->effects[i]);
}

static void find_largest(counts *c, const float *x)
{
    for (uint64_t i = 0; i < c->columns && c->divisors; i++)
        c->divisors[i] = fmaxf(c->divisors[i], fabsf(x[i]));
}

static void find_outliers(counts *c, const float *x)
{
    uint32_t n = 0;
    for (uint64_t i = 0; i < c->columns; i++)
        if (fabsf(divided(c, x, i)) > c->clamp.range) {
            c->over[i] += c->over[i] < UINT32_MAX;
            n++;
        }
    c->most = n > c->most ? n : c->most;
}

/* ------------------------------------------------------------------------ */

/* Adds the squares of a weight's columns to the effects of what it meets. */
static clv_status add_effects(const llm_weight *w, counts *c)
{
    const int64_t *dims = clv_tensor_dims(w->tensor);
    const uint32_t dtype = clv_tensor_dtype(w->tensor);
    const uint64_t row = clv_tensor_size(w->tensor) / (uint64_t)dims[0];
    const char *data = clv_tensor_data(w->tensor);
    float *values = malloc(c->columns * sizeof *values);
    clv_status status = values ? CLV_OK : llm_no_memory("weights");
    for (int64_t o = 0; o < dims[0] && !status; o++) {
        status = clv_dtype_to_f32(dtype, data + (uint64_t)o * row, values,
                                  c->columns);
        for (uint64_t i = 0; i < c->columns && !status; i++)
            c->effects[i] += values[i] * values[i];
    }
    free(values);
    return status;
}

/* Adds an observed product to the counts of what it multiplies. */
static clv_status add_counts(calibration *c, uint64_t product)
{
    const llm_observed *o = &c->runner->observed.items[product];
    uint64_t at = 0;
    while (at < c->n && c->counts[at].x != o->x)
        at++;
    counts *to = &c->counts[at];
    c->of[product] = at;
    if (at == c->n) {
        c->n++;
        to->x = o->x;
        to->columns = (uint64_t)clv_tensor_dims(o->w->tensor)[1];
        to->maker = llm_maker_of(c->model, o->w);
        to->effects = calloc(to->columns, sizeof *to->effects);
        to->over = calloc(to->columns, sizeof *to->over);
        if (!to->effects || !to->over)
            return llm_no_memory("counts of activations");
    }
    const llm_linear *maker = llm_maker_of(c->model, o->w);
    if (to->maker != maker) /* not all that read it can be changed */
        to->maker = NULL;
    return add_effects(o->w, to);
}

static clv_status prepare(calibration *c, uint32_t n)
{
    const llm_shape shape = {
        .n_tokens = n, .fixed = true, .all_logits = true, .observed = true};
    CLV_TRY(llm_kv_cache_init(&c->cache, c->model->ctx, c->model->hp, n, 1,
                              CLV_DTYPE_F32));
    CLV_TRY(llm_runner_create(c->model, &c->cache, &shape, &c->runner));
    CLV_TRY(llm_runner_plan(c->runner, &(llm_runner_params){0}));
    CLV_TRY(llm_runner_compile(c->runner, &(llm_runner_params){0}, &c->cache));
    const uint64_t products = c->runner->observed.n;
    c->counts = calloc(products, sizeof *c->counts);
    c->of = calloc(products, sizeof *c->of);
    if (!c->counts || !c->of)
        return llm_no_memory("counts of activations");
    for (uint64_t i = 0; i < products; i++)
        CLV_TRY(add_counts(c, i));
    for (uint64_t i = 0; i < c->n; i++) {
        counts *to = &c->counts[i];
        if (to->maker && !(to->divisors = calloc(to->columns, sizeof(float))))
            return llm_no_memory("counts of activations");
    }
    return CLV_OK;
}

/* The first weight that these counts are of. */
static const llm_weight *weight_of(const calibration *c, uint64_t at)
{
    uint64_t i = 0;
    while (c->of[i] != at)
        i++;
    return c->runner->observed.items[i].w;
}

/* Calls see() with each row that a weight is multiplied with. */
static clv_status run_window(calibration *c, const int32_t *ids, uint32_t n,
                             see_fn see)
{
    bool far;
    CLV_TRY(llm_rope_reach(c->model->hp, n, &far));
    CLV_TRY(llm_runner_run(c->runner,
                           &(llm_input){.ids = ids, .n = n, .far = far}));
    for (uint64_t i = 0; i < c->n; i++) {
        uint64_t size;
        const float *x = llm_runner_value(c->runner, c->counts[i].x, &size);
        for (uint64_t j = 0; j < size; j++)
            if (!isfinite(x[j]))
                return clv_error(CLV_ERR_FORMAT,
                                 "what '%s' is multiplied with is not finite; "
                                 "the model does not work",
                                 weight_of(c, i)->name);
        for (uint64_t at = 0; at < size; at += c->counts[i].columns)
            see(&c->counts[i], x + at);
    }
    return CLV_OK;
}

static clv_status run_text(calibration *c, const text *t, const char *what,
                           see_fn see)
{
    const int32_t bos = c->model->hp->bos;
    const uint32_t lead = bos >= 0, step = t->window - lead;
    int32_t row[WINDOW] = {bos};
    for (uint64_t at = 0; at + step <= t->n; at += step) {
        if (t->progress &&
            t->progress(t->progress_ctx, what, (double)at / (double)t->n))
            return clv_error(CLV_ERR_CANCELLED, "calibrating: cancelled");
        memcpy(row + lead, t->ids + at, step * sizeof *row);
        CLV_TRY(run_window(c, row, t->window, see));
    }
    return CLV_OK;
}

/* Predictions of the first windows, as they are without rounding. */
static clv_status take_sample(calibration *c, const text *t, llm_sample *s)
{
    const int32_t bos = c->model->hp->bos;
    const uint32_t lead = bos >= 0, step = t->window - lead;
    const uint64_t vocab = c->model->hp->n_vocab, rows = t->window;
    bool far;
    *s = (llm_sample){.model = c->model,
                      .cache = &c->cache,
                      .window = t->window,
                      .n = t->n / step < MEASURED ? t->n / step : MEASURED};
    s->ids = malloc(s->n * rows * sizeof *s->ids);
    s->logits = malloc(s->n * rows * vocab * sizeof *s->logits);
    if (!s->ids || !s->logits)
        return llm_no_memory("predictions");
    CLV_TRY(llm_rope_reach(c->model->hp, t->window, &far));
    for (uint64_t i = 0; i < s->n; i++) {
        int32_t *row = s->ids + i * rows;
        row[0] = bos;
        memcpy(row + lead, t->ids + i * (t->n / s->n), step * sizeof *row);
        CLV_TRY(llm_runner_run(
            c->runner, &(llm_input){.ids = row, .n = t->window, .far = far}));
        memcpy(s->logits + i * rows * vocab, llm_runner_logits(c->runner),
               rows * vocab * sizeof *s->logits);
    }
    return CLV_OK;
}

/* What outliers bring: the divergence without them grows with the error. */
static clv_status measure(calibration *c, const text *t, const llm_sample *s)
{
    for (uint64_t i = 0; i < c->n; i++) {
        counts *at = &c->counts[i];
        double without;
        if (t->progress && t->progress(t->progress_ctx, "measuring layers",
                                       (double)i / (double)c->n))
            return clv_error(CLV_ERR_CANCELLED, "calibrating: cancelled");
        CLV_TRY(llm_importance_of(s, c->of, i, at->clamp.alone / 127,
                                  at->divisors, at->columns, &without));
        at->clamp.importance *= without;
    }
    return CLV_OK;
}

static clv_status measure_layers(calibration *c, const text *t)
{
    llm_sample s;
    clv_status status = take_sample(c, t, &s);
    if (!status)
        status = measure(c, t, &s);
    free(s.ids);
    free(s.logits);
    return status;
}

/* The name in the file: rows of one matrix may be several weights. */
static llm_str file_name(const llm_weight *w)
{
    const char *end = strstr(w->name, ".weight");
    llm_str name = llm_str_of(w->name);
    if (end)
        name.size = (uint64_t)(end - w->name) + strlen(".weight");
    return name;
}

/* "blk.0.attn_norm": what its weight and its bias have in common. */
static llm_str stem_of(const llm_linear *maker)
{
    llm_str name = maker ? file_name(maker->weight) : llm_str_of("");
    if (maker)
        name.size -= strlen(".weight");
    return name;
}

/* Of rows that had so many at most: with room for others. */
static uint32_t bound_of(const counts *c)
{
    const uint64_t most = c->most + c->most / 2;
    const uint64_t bound = (most + BOUND_STEP - 1) / BOUND_STEP * BOUND_STEP;
    return (uint32_t)(bound < c->columns ? bound : c->columns);
}

static clv_status take_ranges(const calibration *c, clv_ranges **out)
{
    clv_status status = llm_ranges_create(out);
    for (uint64_t i = 0; i < c->runner->observed.n && !status; i++) {
        const counts *from = &c->counts[c->of[i]];
        const llm_input_range range = {.clamp = from->clamp,
                                       .layer = (uint32_t)c->of[i],
                                       .columns = from->columns,
                                       .divisors = from->divisors,
                                       .maker = stem_of(from->maker),
                                       .over = from->over,
                                       .bound = bound_of(from)};
        status = llm_ranges_add(*out, file_name(c->runner->observed.items[i].w),
                                &range);
    }
    if (!status)
        return CLV_OK;
    clv_ranges_destroy(*out);
    *out = NULL;
    return status;
}

/* Values that are divided meet weights that are as much larger. */
static clv_status choose_all_divisors(calibration *c)
{
    for (uint64_t i = 0; i < c->n; i++) {
        counts *to = &c->counts[i];
        if (!to->divisors)
            continue;
        for (uint64_t j = 0; j < to->columns; j++)
            to->largest = fmaxf(to->largest, to->divisors[j]);
        CLV_TRY(llm_choose_divisors(to->divisors, to->effects, to->columns));
        for (uint64_t j = 0; j < to->columns; j++)
            to->effects[j] *= to->divisors[j] * to->divisors[j];
    }
    return CLV_OK;
}

static clv_status calibrate(calibration *c, const text *t, clv_ranges **out)
{
    CLV_TRY(prepare(c, t->window));
    CLV_TRY(run_text(c, t, "calibrating columns", find_largest));
    CLV_TRY(choose_all_divisors(c));
    CLV_TRY(run_text(c, t, "calibrating ranges", count));
    for (uint64_t i = 0; i < c->n; i++) {
        counts *at = &c->counts[i];
        at->clamp = llm_spread_choose(&at->spread);
        at->clamp.largest = fmaxf(at->clamp.largest, at->largest);
    }
    CLV_TRY(run_text(c, t, "calibrating outliers", find_outliers));
    CLV_TRY(measure_layers(c, t));
    return take_ranges(c, out);
}

static void finish(calibration *c)
{
    for (uint64_t i = 0; i < c->n; i++) {
        free(c->counts[i].divisors);
        free(c->counts[i].effects);
        free(c->counts[i].over);
    }
    free(c->counts);
    free(c->of);
    llm_runner_destroy(c->runner);
    llm_kv_cache_finish(&c->cache);
}

clv_status clv_calibrate(clv_model *model, const int32_t *ids, uint64_t n,
                         clv_progress_fn progress, void *progress_ctx,
                         clv_ranges **out)
{
    calibration c = {.model = model};
    const uint32_t lead = model->hp->bos >= 0;
    const uint32_t window = n + lead < WINDOW ? (uint32_t)n + lead : WINDOW;
    if (n < 2)
        return clv_error(CLV_ERR_INVALID,
                         "a text of %d tokens is too short to calibrate with; "
                         "take at least some hundred",
                         (int)n);
    for (uint64_t i = 0; i < n; i++)
        if (ids[i] < 0 || (uint32_t)ids[i] >= model->hp->n_vocab)
            return clv_error(CLV_ERR_INVALID,
                             "id %d is not in the vocabulary of %u", ids[i],
                             model->hp->n_vocab);
    const text t = {ids, n, window, progress, progress_ctx};
    const clv_status status = calibrate(&c, &t, out);
    finish(&c);
    return status;
}
