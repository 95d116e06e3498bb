/*
 * Models of time over sizes, fitted to measurements. They know nothing of
 * devices and ops: a sample is a row of features and a time.
 *
 * Linear: t = alpha + sum of beta[i] * x[i] with no negative coefficient, least
 * squares of the relative error (ScheInfer, section 4, has one feature and the
 * absolute error). Tree: a regression tree over the features whose leaves are
 * linear models, for devices whose time is a staircase (HeteroLLM, section 4.3,
 * uses a decision tree).
 */
#pragma once

#include <cleave/cleave.h>

#define CORE_FIT_FEATURES 7

typedef struct core_fit_sample {
    double x[CORE_FIT_FEATURES]; /* >= 0 */
    double ns;                   /* > 0 */
} core_fit_sample;

typedef struct core_linear {
    double alpha, beta[CORE_FIT_FEATURES]; /* >= 0, ns */
    double r2; /* of the samples it was fitted to; 1 is perfect */
} core_linear;

/* n >= 1 samples with the first n_features features. Features that the samples
 * cannot tell apart share what they explain. */
clv_status core_linear_fit(const core_fit_sample *samples, uint32_t n,
                           uint32_t n_features, core_linear *out);
double core_linear_predict(const core_linear *model, const double *x,
                           uint32_t n_features);

typedef struct core_tree core_tree;

/* Leaves hold at least min_leaf samples; a split is kept only if it lowers the
 * held-out error. */
clv_status core_tree_fit(const core_fit_sample *samples, uint32_t n,
                         uint32_t n_features, uint32_t min_leaf,
                         core_tree **out);
void core_tree_free(core_tree *tree); /* NULL is legal */
double core_tree_predict(const core_tree *tree, const double *x);
uint32_t core_tree_leaves(const core_tree *tree);

/* As rows of numbers, to be kept: feature, threshold, row of the right branch
 * (0: a leaf), alpha, betas; the left branch is the next row. */
#define CORE_TREE_ROW (4 + CORE_FIT_FEATURES)
uint32_t core_tree_rows(const core_tree *tree);
void core_tree_row(const core_tree *tree, uint32_t index,
                   double row[CORE_TREE_ROW]);
/* CLV_ERR_FORMAT unless the rows are a tree. */
clv_status core_tree_from_rows(double (*rows)[CORE_TREE_ROW], uint32_t n,
                               uint32_t n_features, core_tree **out);

/* How well models predict samples that they were not fitted to: k-fold, with
 * folds that are the same in every run. Relative errors |predicted / measured
 * - 1|. */
typedef struct core_fit_error {
    double median, p90;
    uint32_t n; /* samples held out in turn; 0: too few to tell */
} core_fit_error;

/* The better of the two by held-out error; linear where there is little between
 * them. */
typedef struct core_fit {
    uint32_t n_features, n_samples;
    core_linear linear;
    core_tree *tree;         /* NULL: linear */
    core_fit_error held_out; /* of the model chosen */
} core_fit;

clv_status core_fit_make(const core_fit_sample *samples, uint32_t n,
                         uint32_t n_features, core_fit *out);
void core_fit_finish(core_fit *fit);
double core_fit_predict(const core_fit *fit, const double *x);
