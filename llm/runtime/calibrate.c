/*
 * Ranges of activations. The model runs over a text in a graph in which all
 * that is multiplied with a weight is an output, and each such value is counted
 * by its magnitude. The range is the one at which rounding to int8 gives the
 * least squared error: what lies above it is cut off.
 */
#include "../base/str.h"
#include "../quantize/ranges.h"
#include "../models/rope.h"
#include "runner.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    WINDOW = 128, /* tokens: all activations of a run are in memory */
    STEPS = 8,    /* ranges tried for each power of two */
    LOWEST = -24, /* powers of two that are told apart */
    BINS = 48 * STEPS,
};

/* The power of a column's excess that goes to the weights. */
#define MOVED 0.6f

/* Of what one weight is multiplied with. */
typedef struct counts {
    /* The largest magnitude of each column, then its divisor; NULL where the
     * columns are not divided. */
    float *columns;
    uint64_t bins[BINS];
    float largest;
} counts;

typedef struct calibration {
    clv_model *model;
    llm_kv_cache cache;
    llm_runner *runner;
    counts *counts; /* of each observed product */
} calibration;

/* A row of what is multiplied with a weight. */
typedef void (*see_fn)(counts *c, const float *x, uint64_t n);

typedef struct text {
    const int32_t *ids; /* [n] */
    uint64_t n;
    uint32_t window; /* tokens of a run */
    clv_progress_fn progress;
    void *progress_ctx;
} text;

/* The magnitude in the middle of a bin, or with half 0.5 at its upper end. */
static double magnitude(int bin, double half)
{
    return exp2(LOWEST + (bin + half) / STEPS);
}

static void count(counts *c, const float *x, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        const float size = fabsf(x[i]) / (c->columns ? c->columns[i] : 1);
        const float at = (log2f(size) - LOWEST) * STEPS + 0.5f;
        if (at >= 0) /* smaller ones, and 0, are exact enough */
            c->bins[at < BINS - 1 ? (int)at : BINS - 1]++;
        if (size > c->largest)
            c->largest = size;
    }
}

static void find_largest(counts *c, const float *x, uint64_t n)
{
    for (uint64_t i = 0; i < n && c->columns; i++)
        c->columns[i] = fmaxf(c->columns[i], fabsf(x[i]));
}

static int compare(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* From the largest magnitudes of columns to divisors: those above the usual one
 * come nearer to it. A part of the excess stays, as the weights that make these
 * columns are rounded more coarsely. */
static clv_status choose_divisors(float *columns, uint64_t n)
{
    float *sorted = malloc(n * sizeof *sorted);
    if (!sorted)
        return llm_no_memory("counts of activations");
    memcpy(sorted, columns, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, compare);
    const float usual = sorted[n / 2];
    for (uint64_t i = 0; i < n; i++)
        columns[i] = usual > 0 && columns[i] > usual
                         ? powf(columns[i] / usual, MOVED)
                         : 1;
    free(sorted);
    return CLV_OK;
}

/* Squared error if values above the range are cut off. */
static double error_of(const counts *c, double range)
{
    const double step = range / 127;
    double sum = 0;
    for (int i = 0; i < BINS; i++) {
        const double x = magnitude(i, 0), over = x - range;
        sum += (double)c->bins[i] *
               (over > 0 ? over * over : fmin(x * x, step * step / 12));
    }
    return sum;
}

static float best_range(const counts *c)
{
    double best = c->largest, least = error_of(c, best);
    for (int i = 0; i < BINS && magnitude(i, 0.5) < c->largest; i++) {
        const double range = magnitude(i, 0.5), error = error_of(c, range);
        if (error < least) {
            least = error;
            best = range;
        }
    }
    return (float)best;
}

/* ------------------------------------------------------------------------ */

static bool ends_with(const char *name, const char *end)
{
    const size_t n = strlen(name), m = strlen(end);
    return n >= m && !strcmp(name + n - m, end);
}

/* Whether the columns that a weight reads may be divided: they are products of
 * a gate and of a matrix's outputs, which can be divided instead. */
static bool is_divisible(const clv_model *model, const llm_weight *w)
{
    for (uint32_t i = 0; i < model->hp->n_layers; i++) {
        const llm_linear *layer = model->weights.layers[i];
        const llm_weight *gate = layer[LLM_FFN_GATE].weight;
        const llm_weight *up = layer[LLM_FFN_UP].weight;
        if (layer[LLM_FFN_DOWN].weight == w)
            return gate && ends_with(gate->name, ".ffn_gate.weight") && up &&
                   ends_with(up->name, ".ffn_up.weight") &&
                   !layer[LLM_FFN_UP].bias;
    }
    return false;
}

static clv_status prepare(calibration *c, uint32_t n)
{
    const llm_shape shape = {.n_tokens = n, .fixed = true, .observed = true};
    CLV_TRY(llm_kv_cache_init(&c->cache, c->model->ctx, c->model->hp, n,
                              CLV_DTYPE_F32));
    CLV_TRY(llm_runner_create(c->model, &c->cache, &shape, &c->runner));
    CLV_TRY(llm_runner_plan(c->runner, &(llm_runner_params){0}));
    CLV_TRY(llm_runner_compile(c->runner, &(llm_runner_params){0}, &c->cache));
    c->counts = calloc(c->runner->observed.n, sizeof *c->counts);
    if (!c->counts)
        return llm_no_memory("counts of activations");
    for (uint64_t i = 0; i < c->runner->observed.n; i++) {
        const llm_observed *o = &c->runner->observed.items[i];
        if (!is_divisible(c->model, o->w))
            continue;
        c->counts[i].columns = calloc(c->model->hp->n_ff, sizeof(float));
        if (!c->counts[i].columns)
            return llm_no_memory("counts of activations");
    }
    return CLV_OK;
}

/* Calls see() with each row that a weight is multiplied with. */
static clv_status run_window(calibration *c, const int32_t *ids, uint32_t n,
                             see_fn see)
{
    bool far;
    CLV_TRY(llm_rope_reach(c->model->hp, n, &far));
    CLV_TRY(llm_runner_run(c->runner, ids, n, 0, far));
    for (uint64_t i = 0; i < c->runner->observed.n; i++) {
        const llm_observed *o = &c->runner->observed.items[i];
        uint64_t size;
        const float *x = llm_runner_value(c->runner, o->x, &size);
        for (uint64_t j = 0; j < size; j++)
            if (!isfinite(x[j]))
                return clv_error(CLV_ERR_FORMAT,
                                 "what '%s' is multiplied with is not finite; "
                                 "the model does not work",
                                 o->w->name);
        for (uint64_t at = 0; at < size; at += size / n)
            see(&c->counts[i], x + at, size / n);
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

/* The name in the file: rows of one matrix may be several weights. */
static llm_str file_name(const llm_weight *w)
{
    const char *end = strstr(w->name, ".weight");
    llm_str name = llm_str_of(w->name);
    if (end)
        name.size = (uint64_t)(end - w->name) + strlen(".weight");
    return name;
}

static clv_status take_ranges(const calibration *c, clv_ranges **out)
{
    clv_status status = llm_ranges_create(out);
    for (uint64_t i = 0; i < c->runner->observed.n && !status; i++)
        status = llm_ranges_add(*out, file_name(c->runner->observed.items[i].w),
                                best_range(&c->counts[i]), c->counts[i].columns,
                                c->model->hp->n_ff);
    if (!status)
        return CLV_OK;
    clv_ranges_destroy(*out);
    *out = NULL;
    return status;
}

/* Twice over the text: the ranges are those of values that are divided. */
static clv_status calibrate(calibration *c, const text *t, clv_ranges **out)
{
    CLV_TRY(prepare(c, t->window));
    CLV_TRY(run_text(c, t, "calibrating columns", find_largest));
    for (uint64_t i = 0; i < c->runner->observed.n; i++)
        if (c->counts[i].columns)
            CLV_TRY(choose_divisors(c->counts[i].columns, c->model->hp->n_ff));
    CLV_TRY(run_text(c, t, "calibrating", count));
    return take_ranges(c, out);
}

static void finish(calibration *c)
{
    for (uint64_t i = 0; c->counts && i < c->runner->observed.n; i++)
        free(c->counts[i].columns);
    free(c->counts);
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
