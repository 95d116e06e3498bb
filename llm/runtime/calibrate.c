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

/* Of what one weight is multiplied with. */
typedef struct counts {
    double bins[BINS];
    float largest;
} counts;

typedef struct calibration {
    clv_model *model;
    llm_kv_cache cache;
    llm_runner *runner;
    counts *counts; /* of each observed product */
} calibration;

/* The magnitude in the middle of a bin, or with half 0.5 at its upper end. */
static double magnitude(int bin, double half)
{
    return exp2(LOWEST + (bin + half) / STEPS);
}

/* Counts a row of values. Its squared errors are divided by its own size: a few
 * tokens have values so large that nothing else would count beside them, but
 * the products of these tokens matter too, so their squares would be too much.
 */
static void count(counts *c, const float *x, uint64_t n)
{
    double power = 0;
    for (uint64_t i = 0; i < n; i++)
        power += (double)(x[i] * x[i]);
    const double weight = power > 0 ? 1 / sqrt(power) : 0;
    for (uint64_t i = 0; i < n; i++) {
        const float size = fabsf(x[i]);
        const float at = (log2f(size) - LOWEST) * STEPS + 0.5f;
        if (at >= 0) /* smaller ones, and 0, are exact enough */
            c->bins[at < BINS - 1 ? (int)at : BINS - 1] += weight;
        if (size > c->largest)
            c->largest = size;
    }
}

/* Squared error if values above the range are cut off. */
static double error_of(const counts *c, double range)
{
    const double step = range / 127;
    double sum = 0;
    for (int i = 0; i < BINS; i++) {
        const double x = magnitude(i, 0), over = x - range;
        sum += c->bins[i] *
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

static clv_status prepare(calibration *c, uint32_t n)
{
    const llm_shape shape = {.n_tokens = n, .fixed = true, .observed = true};
    CLV_TRY(llm_kv_cache_init(&c->cache, c->model->ctx, c->model->hp, n,
                              CLV_DTYPE_F32));
    CLV_TRY(llm_runner_create(c->model, &c->cache, &shape, &c->runner));
    CLV_TRY(llm_runner_plan(c->runner, &(llm_runner_params){0}));
    CLV_TRY(llm_runner_compile(c->runner, &c->cache));
    c->counts = calloc(c->runner->observed.n, sizeof *c->counts);
    return c->counts ? CLV_OK : llm_no_memory("counts of activations");
}

static clv_status run_window(calibration *c, const int32_t *ids, uint32_t n)
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
            count(&c->counts[i], x + at, size / n);
    }
    return CLV_OK;
}

static clv_status run_text(calibration *c, const int32_t *ids, uint64_t n,
                           uint32_t window, clv_progress_fn progress,
                           void *progress_ctx)
{
    const int32_t bos = c->model->hp->bos;
    const uint32_t lead = bos >= 0;
    int32_t row[WINDOW] = {bos};
    for (uint64_t at = 0; at + window - lead <= n; at += window - lead) {
        if (progress &&
            progress(progress_ctx, "calibrating", (double)at / (double)n))
            return clv_error(CLV_ERR_CANCELLED, "calibrating: cancelled");
        memcpy(row + lead, ids + at, (window - lead) * sizeof *row);
        CLV_TRY(run_window(c, row, window));
    }
    return CLV_OK;
}

static clv_status take_ranges(const calibration *c, clv_ranges **out)
{
    clv_status status = llm_ranges_create(out);
    for (uint64_t i = 0; i < c->runner->observed.n && !status; i++)
        status = llm_ranges_add(*out, c->runner->observed.items[i].w->name,
                                best_range(&c->counts[i]));
    if (!status)
        return CLV_OK;
    clv_ranges_destroy(*out);
    *out = NULL;
    return status;
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
    clv_status status = prepare(&c, window);
    if (!status)
        status = run_text(&c, ids, n, window, progress, progress_ctx);
    if (!status)
        status = take_ranges(&c, out);
    llm_runner_destroy(c.runner);
    llm_kv_cache_finish(&c.cache);
    free(c.counts);
    return status;
}
