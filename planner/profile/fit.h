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

#define PLANNER_FIT_FEATURES 7

typedef struct planner_fit_sample {
    double x[PLANNER_FIT_FEATURES]; /* >= 0 */
    double ns;                      /* > 0 */
} planner_fit_sample;

typedef struct planner_linear {
    double alpha, beta[PLANNER_FIT_FEATURES]; /* >= 0, ns */
    double r2; /* of the samples it was fitted to; 1 is perfect */
} planner_linear;

/* n >= 1 samples with the first n_features features. Features that the samples
 * cannot tell apart share what they explain. */
clv_status planner_linear_fit(const planner_fit_sample *samples, uint32_t n,
                              uint32_t n_features, planner_linear *out);
double planner_linear_predict(const planner_linear *model, const double *x,
                              uint32_t n_features);

typedef struct planner_tree planner_tree;

/* Leaves hold at least min_leaf samples; a split is kept only if it lowers the
 * held-out error. */
clv_status planner_tree_fit(const planner_fit_sample *samples, uint32_t n,
                            uint32_t n_features, uint32_t min_leaf,
                            planner_tree **out);
void planner_tree_free(planner_tree *tree); /* NULL is legal */
double planner_tree_predict(const planner_tree *tree, const double *x);
uint32_t planner_tree_leaves(const planner_tree *tree);

/* As rows of numbers, to be kept: feature, threshold, row of the right branch
 * (0: a leaf), alpha, betas; the left branch is the next row. */
#define PLANNER_TREE_ROW (4 + PLANNER_FIT_FEATURES)
uint32_t planner_tree_rows(const planner_tree *tree);
void planner_tree_row(const planner_tree *tree, uint32_t index,
                      double row[PLANNER_TREE_ROW]);
/* CLV_ERR_FORMAT unless the rows are a tree. */
clv_status planner_tree_from_rows(double (*rows)[PLANNER_TREE_ROW], uint32_t n,
                                  uint32_t n_features, planner_tree **out);

/* How well models predict samples that they were not fitted to: k-fold, with
 * folds that are the same in every run. Relative errors |predicted / measured
 * - 1|. */
typedef struct planner_fit_error {
    double median, p90;
    uint32_t n; /* samples held out in turn; 0: too few to tell */
} planner_fit_error;

/* The better of the two by held-out error; linear where there is little between
 * them. */
typedef struct planner_fit {
    uint32_t n_features, n_samples;
    planner_linear linear;
    planner_tree *tree;         /* NULL: linear */
    planner_fit_error held_out; /* of the model chosen */
} planner_fit;

clv_status planner_fit_make(const planner_fit_sample *samples, uint32_t n,
                            uint32_t n_features, planner_fit *out);
void planner_fit_finish(planner_fit *fit);
double planner_fit_predict(const planner_fit *fit, const double *x);

/* Cross-validation: samples are dealt to folds in the same way in every run,
 * and not in step with the grid on which they may lie. */
#define PLANNER_FOLDS 5

/* Of n samples: each in turn where there are few. */
static inline uint32_t planner_folds(uint32_t n)
{
    return n < PLANNER_FOLDS ? n : PLANNER_FOLDS;
}

/* Every PLANNER_FOLDS neighbours are in as many folds, in an order of their
 * own.
 */
static inline uint32_t planner_fold_of(uint32_t index, uint32_t n_folds)
{
    uint32_t turn = index / PLANNER_FOLDS * 2654435761u >> 16;
    return (index + turn) % n_folds;
}
