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

#define PLANNER_NNLS_SIZE (PLANNER_FIT_FEATURES + 1)
#define PLANNER_FIT_MAX 1e60 /* of all numbers: squares of them are summed */

/* Sums over samples of the products of their columns: 1/t, x[0]/t, ... */
typedef struct planner_nnls {
    double a[PLANNER_NNLS_SIZE][PLANNER_NNLS_SIZE]; /* columns by columns */
    double b[PLANNER_NNLS_SIZE];                    /* columns by 1 */
    uint32_t n;                                     /* samples */
} planner_nnls;

void planner_nnls_add(planner_nnls *sums, const planner_fit_sample *sample,
                      uint32_t n_features);
/* whole less part. */
void planner_nnls_rest(const planner_nnls *whole, const planner_nnls *part,
                       uint32_t n_features, planner_nnls *rest);
/* c: n_features + 1 coefficients; all 0 without a sample. */
void planner_nnls_solve(const planner_nnls *sums, uint32_t n_features,
                        double c[PLANNER_NNLS_SIZE]);
/* The sum of squared relative errors that the coefficients leave. */
double planner_nnls_error(const planner_nnls *sums, uint32_t n_features,
                          const double c[PLANNER_NNLS_SIZE]);
/* The same, as a model; r2 is left 0. */
void planner_linear_from(const planner_nnls *sums, uint32_t n_features,
                         planner_linear *out);
/* Samples that fitting takes: at least one, few enough features, and all their
 * numbers finite, of a sane size and not negative. */
clv_status planner_fit_check(const planner_fit_sample *samples, uint32_t n,
                             uint32_t n_features);
