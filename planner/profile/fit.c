#include "../../core/base/error.h"
#include "nnls.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MIN_LEAF 4

clv_status planner_fit_check(const planner_fit_sample *samples, uint32_t n,
                             uint32_t n_features)
{
    if (!n || n_features > PLANNER_FIT_FEATURES)
        return clv_error(CLV_ERR_INVALID,
                         "fit: %u samples of %u features; at "
                         "least 1 and at most %d are needed",
                         n, n_features, PLANNER_FIT_FEATURES);
    for (uint32_t i = 0; i < n; i++) {
        bool good = samples[i].ns > 1 / PLANNER_FIT_MAX &&
                    samples[i].ns < PLANNER_FIT_MAX;
        for (uint32_t j = 0; j < n_features; j++)
            good &= samples[i].x[j] >= 0 && samples[i].x[j] < PLANNER_FIT_MAX;
        if (!good)
            return clv_error(CLV_ERR_INVALID,
                             "fit: sample %u has a time or a "
                             "feature that is not a number, negative or beyond "
                             "1e60",
                             i);
    }
    return CLV_OK;
}

/* ------------------------------------------------------------------------ */
/* Linear                                                                   */

double planner_linear_predict(const planner_linear *model, const double *x,
                              uint32_t n_features)
{
    double t = model->alpha;
    for (uint32_t i = 0; i < n_features; i++)
        t += model->beta[i] * x[i];
    return t;
}

void planner_linear_from(const planner_nnls *sums, uint32_t n_features,
                         planner_linear *out)
{
    double c[PLANNER_NNLS_SIZE];
    planner_nnls_solve(sums, n_features, c);
    *out = (planner_linear){.alpha = c[0]};
    memcpy(out->beta, c + 1, n_features * sizeof *c);
}

/* 1 - (what is left) / (variance); never below 0. */
static double r_squared(const planner_linear *model,
                        const planner_fit_sample *s, uint32_t n,
                        uint32_t n_features)
{
    double mean = 0, left = 0, all = 0;
    for (uint32_t i = 0; i < n; i++)
        mean += s[i].ns / n;
    for (uint32_t i = 0; i < n; i++) {
        double e = planner_linear_predict(model, s[i].x, n_features) - s[i].ns;
        double d = s[i].ns - mean;
        left += e * e / mean / mean;
        all += d * d / mean / mean;
    }
    if (all <= 1e-12 * n)
        return left <= 1e-6 * n;
    return fmax(0, 1 - left / all);
}

clv_status planner_linear_fit(const planner_fit_sample *samples, uint32_t n,
                              uint32_t n_features, planner_linear *out)
{
    clv_status status = planner_fit_check(samples, n, n_features);
    if (status)
        return status;
    planner_nnls sums = {.n = 0};
    for (uint32_t i = 0; i < n; i++)
        planner_nnls_add(&sums, &samples[i], n_features);
    planner_linear_from(&sums, n_features, out);
    out->r2 = r_squared(out, samples, n, n_features);
    return CLV_OK;
}

/* ------------------------------------------------------------------------ */
/* Held-out errors                                                          */

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static planner_fit_error summarise(double *errors, uint32_t n)
{
    qsort(errors, n, sizeof *errors, compare);
    return (planner_fit_error){
        .median =
            n % 2 ? errors[n / 2] : (errors[n / 2 - 1] + errors[n / 2]) / 2,
        .p90 = errors[(uint32_t)((double)(n - 1) * 0.9 + 0.5)],
        .n = n};
}

/* Errors of the samples of one fold, by a model of the others; rest: room for
 * n samples. */
static clv_status try_fold(const planner_fit_sample *samples, uint32_t n,
                           uint32_t n_features, bool tree, uint32_t fold,
                           planner_fit_sample *rest, double *errors)
{
    const uint32_t folds = planner_folds(n);
    uint32_t n_rest = 0;
    planner_linear linear;
    planner_tree *grown = NULL;
    for (uint32_t i = 0; i < n; i++)
        if (planner_fold_of(i, folds) != fold)
            rest[n_rest++] = samples[i];
    clv_status status =
        tree ? planner_tree_fit(rest, n_rest, n_features, MIN_LEAF, &grown)
             : planner_linear_fit(rest, n_rest, n_features, &linear);
    if (status)
        return status;
    for (uint32_t i = 0; i < n; i++)
        if (planner_fold_of(i, folds) == fold) {
            double ns = tree ? planner_tree_predict(grown, samples[i].x)
                             : planner_linear_predict(&linear, samples[i].x,
                                                      n_features);
            errors[i] = fabs(ns / samples[i].ns - 1);
        }
    planner_tree_free(grown);
    return CLV_OK;
}

static clv_status hold_out(const planner_fit_sample *samples, uint32_t n,
                           uint32_t n_features, bool tree,
                           planner_fit_error *out)
{
    *out = (planner_fit_error){0};
    if (n < 2)
        return CLV_OK;
    planner_fit_sample *rest = calloc(n, sizeof *rest);
    double *errors = calloc(n, sizeof *errors);
    clv_status status =
        rest && errors ? CLV_OK : core_no_memory("to fit a model");
    for (uint32_t f = 0; f < planner_folds(n) && !status; f++)
        status = try_fold(samples, n, n_features, tree, f, rest, errors);
    if (!status)
        *out = summarise(errors, n);
    free(rest);
    free(errors);
    return status;
}

/* ------------------------------------------------------------------------ */
/* The better one                                                           */

/* One that is within this everywhere needs no tree. */
#define GOOD_P90 0.01

static bool is_better(const planner_fit_error *a, const planner_fit_error *b)
{
    return a->median + a->p90 < 0.9 * (b->median + b->p90);
}

clv_status planner_fit_make(const planner_fit_sample *samples, uint32_t n,
                            uint32_t n_features, planner_fit *out)
{
    planner_fit_error error = {0};
    planner_fit fit = {.n_features = n_features, .n_samples = n};
    *out = fit;
    clv_status status = planner_linear_fit(samples, n, n_features, &fit.linear);
    if (!status)
        status = hold_out(samples, n, n_features, false, &fit.held_out);
    if (status)
        return status;
    if (n >= 2 * MIN_LEAF && fit.held_out.p90 > GOOD_P90) {
        status = hold_out(samples, n, n_features, true, &error);
        if (!status && is_better(&error, &fit.held_out)) {
            status =
                planner_tree_fit(samples, n, n_features, MIN_LEAF, &fit.tree);
            fit.held_out = error;
        }
    }
    if (!status)
        *out = fit;
    return status;
}

void planner_fit_finish(planner_fit *fit)
{
    planner_tree_free(fit->tree);
    *fit = (planner_fit){0};
}

double planner_fit_predict(const planner_fit *fit, const double *x)
{
    return fit->tree ? planner_tree_predict(fit->tree, x)
                     : planner_linear_predict(&fit->linear, x, fit->n_features);
}
