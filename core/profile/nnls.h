/*
 * Least squares of the relative error without negative coefficients.
 *
 * For samples (x, t) it minimises the sum of ((c[0] + sum of c[1+i] * x[i]) / t
 * - 1)^2 by the active-set method of Lawson and Hanson (Solving Least Squares
 * Problems, 1974, chapter 23) on the normal equations. Columns are scaled to
 * length 1, and a tiny ridge makes the answer unique where samples cannot tell
 * features apart: those then share what they explain.
 */
#pragma once

#include "fit.h"

#define CORE_NNLS_SIZE (CORE_FIT_FEATURES + 1)
#define CORE_FIT_MAX 1e60 /* of all numbers: squares of them are summed */

/* Sums over samples of the products of their columns: 1/t, x[0]/t, ... */
typedef struct core_nnls {
    double a[CORE_NNLS_SIZE][CORE_NNLS_SIZE]; /* columns by columns */
    double b[CORE_NNLS_SIZE];                 /* columns by 1 */
    uint32_t n;                               /* samples */
} core_nnls;

void core_nnls_add(core_nnls *sums, const core_fit_sample *sample,
                   uint32_t n_features);
/* whole less part. */
void core_nnls_rest(const core_nnls *whole, const core_nnls *part,
                    uint32_t n_features, core_nnls *rest);
/* c: n_features + 1 coefficients; all 0 without a sample. */
void core_nnls_solve(const core_nnls *sums, uint32_t n_features,
                     double c[CORE_NNLS_SIZE]);
/* The sum of squared relative errors that the coefficients leave. */
double core_nnls_error(const core_nnls *sums, uint32_t n_features,
                       const double c[CORE_NNLS_SIZE]);
/* The same, as a model; r2 is left 0. */
void core_linear_from(const core_nnls *sums, uint32_t n_features,
                      core_linear *out);
/* Samples that fitting takes: at least one, few enough features, and all their
 * numbers finite, of a sane size and not negative. */
clv_status core_fit_check(const core_fit_sample *samples, uint32_t n,
                          uint32_t n_features);
