/*
 * A tree grows by the split that leaves the least squared relative error to
 * the linear models of both sides; afterwards, from the leaves up, a split goes
 * again unless it lowers the error of samples held out in turn.
 */
#include "nnls.h"
#include "../../core/base/error.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MAX_DEPTH 10
#define MAX_CUTS 24      /* tried of a feature */
#define GOOD_ERROR 0.003 /* mean; what is as good is not split */
#define CHANCE 3.0       /* standard errors by which a split has to help */

typedef struct branch {
    double threshold; /* up to it: left, which is the next one */
    uint32_t feature;
    uint32_t right; /* 0: a leaf */
    planner_linear model;
} branch;

struct planner_tree {
    uint32_t n_features, n, capacity;
    branch *branches; /* [0] is the root */
};

typedef struct entry {
    double x;
    uint32_t sample;
} entry;

typedef struct grower {
    const planner_fit_sample *samples;
    uint32_t n, n_features, min_leaf;
    double *errors;          /* [MAX_DEPTH + 1, n] */
    uint32_t *order, *spare; /* a branch has a contiguous range of order */
    entry *sorted;
    planner_tree *tree;
} grower;

/* ------------------------------------------------------------------------ */
/* Splits                                                                   */

static int compare(const void *a, const void *b)
{
    const entry *p = a, *q = b;
    if (p->x != q->x)
        return p->x < q->x ? -1 : 1;
    return (p->sample > q->sample) - (p->sample < q->sample);
}

typedef struct split {
    double threshold, error;
    uint32_t feature;
    uint32_t cut; /* between which of the feature's values, from 1 */
} split;

static double error_of(const planner_nnls *sums, uint32_t n_features)
{
    double c[PLANNER_NNLS_SIZE];
    planner_nnls_solve(sums, n_features, c);
    return planner_nnls_error(sums, n_features, c);
}

/* Sorts a range by a feature; returns the number of its values less one. */
static uint32_t sort_by(const grower *g, uint32_t begin, uint32_t end,
                        uint32_t feature)
{
    uint32_t cuts = 0;
    for (uint32_t i = 0; i < end - begin; i++) {
        uint32_t s = g->order[begin + i];
        g->sorted[i] = (entry){g->samples[s].x[feature], s};
    }
    qsort(g->sorted, end - begin, sizeof *g->sorted, compare);
    for (uint32_t i = 1; i < end - begin; i++)
        cuts += g->sorted[i].x > g->sorted[i - 1].x;
    return cuts;
}

/* Tries every step-th cut from first to last of n sorted samples. */
static void try_cuts(const grower *g, uint32_t n, const planner_nnls *all,
                     uint32_t feature, uint32_t first, uint32_t last,
                     uint32_t step, split *best)
{
    planner_nnls left = {.n = 0}, right;
    uint32_t cut = 0;
    for (uint32_t i = 1; i < n; i++) {
        planner_nnls_add(&left, &g->samples[g->sorted[i - 1].sample],
                         g->n_features);
        double below = g->sorted[i - 1].x, above = g->sorted[i].x;
        if (!(above > below))
            continue;
        cut++;
        if (cut < first || cut > last || (cut - first) % step ||
            i < g->min_leaf || n - i < g->min_leaf)
            continue;
        planner_nnls_rest(all, &left, g->n_features, &right);
        double error =
            error_of(&left, g->n_features) + error_of(&right, g->n_features);
        double middle = below + (above - below) / 2;
        if (error < best->error)
            *best =
                (split){middle < above ? middle : below, error, feature, cut};
    }
}

/* Coarsely over all features, then around the best. False: nowhere. */
static bool find_split(const grower *g, uint32_t begin, uint32_t end,
                       const planner_nnls *all, split *best)
{
    uint32_t best_step = 1;
    *best = (split){.error = INFINITY};
    for (uint32_t f = 0; f < g->n_features; f++) {
        uint32_t cuts = sort_by(g, begin, end, f);
        uint32_t step = (cuts + MAX_CUTS - 1) / MAX_CUTS;
        double before = best->error;
        if (cuts)
            try_cuts(g, end - begin, all, f, step / 2 + 1, cuts, step, best);
        if (best->error < before)
            best_step = step;
    }
    if (isinf(best->error))
        return false;
    if (best_step > 1) {
        uint32_t cut = best->cut;
        sort_by(g, begin, end, best->feature);
        try_cuts(g, end - begin, all, best->feature,
                 cut > best_step ? cut - best_step : 1, cut + best_step, 1,
                 best);
    }
    return true;
}

/* Both sides keep their order. Returns where the right one begins. */
static uint32_t divide(const grower *g, uint32_t begin, uint32_t end,
                       const split *s)
{
    uint32_t left = begin, n_right = 0;
    for (uint32_t i = begin; i < end; i++) {
        uint32_t sample = g->order[i];
        if (g->samples[sample].x[s->feature] <= s->threshold)
            g->order[left++] = sample;
        else
            g->spare[n_right++] = sample;
    }
    memcpy(g->order + left, g->spare, n_right * sizeof *g->spare);
    return left;
}

/* ------------------------------------------------------------------------ */
/* Growing                                                                  */

/* Relative errors of a leaf's samples, each by a model of those in other folds.
 * Returns their mean. */
static double hold_out(const grower *g, uint32_t begin, uint32_t end,
                       const planner_nnls *all, double *errors)
{
    const uint32_t folds = planner_folds(end - begin);
    double sum = 0;
    for (uint32_t f = 0; f < folds; f++) {
        planner_nnls fold = {.n = 0}, rest;
        planner_linear model;
        for (uint32_t i = begin; i < end; i++)
            if (planner_fold_of(i - begin, folds) == f)
                planner_nnls_add(&fold, &g->samples[g->order[i]],
                                 g->n_features);
        planner_nnls_rest(all, &fold, g->n_features, &rest);
        planner_linear_from(&rest, g->n_features, &model);
        for (uint32_t i = begin; i < end; i++) {
            const planner_fit_sample *s = &g->samples[g->order[i]];
            if (planner_fold_of(i - begin, folds) != f)
                continue;
            double ns = planner_linear_predict(&model, s->x, g->n_features);
            errors[g->order[i]] = fmin(1, fabs(ns / s->ns - 1));
            sum += errors[g->order[i]];
        }
    }
    return sum / (end - begin);
}

/* Whether errors fell by more than chance explains. */
static bool is_gain(const grower *g, uint32_t begin, uint32_t end,
                    const double *before, const double *after)
{
    const double n = end - begin;
    double mean = 0, spread = 0;
    for (uint32_t i = begin; i < end; i++)
        mean += (before[g->order[i]] - after[g->order[i]]) / n;
    for (uint32_t i = begin; i < end; i++) {
        double d = before[g->order[i]] - after[g->order[i]] - mean;
        spread += d * d / n;
    }
    return mean > CHANCE * sqrt(spread / n);
}

static bool add_branch(planner_tree *tree, const branch *b)
{
    if (tree->n == tree->capacity) {
        uint32_t capacity = tree->capacity ? 2 * tree->capacity : 8;
        branch *grown = reallocarray(tree->branches, capacity, sizeof *grown);
        if (!grown)
            return false;
        tree->branches = grown;
        tree->capacity = capacity;
    }
    tree->branches[tree->n++] = *b;
    return true;
}

/* Appends the tree of a range of samples, and leaves its held-out errors in
 * row depth. False when memory runs out. */
static bool grow(grower *g, uint32_t begin, uint32_t end, uint32_t depth)
{
    planner_tree *tree = g->tree;
    const uint32_t n = end - begin, here = tree->n;
    double *errors = g->errors + (size_t)depth * g->n;
    planner_nnls all = {.n = 0};
    branch leaf = {.right = 0};
    split best;
    for (uint32_t i = begin; i < end; i++)
        planner_nnls_add(&all, &g->samples[g->order[i]], g->n_features);
    planner_linear_from(&all, g->n_features, &leaf.model);
    double error = hold_out(g, begin, end, &all, errors);
    if (!add_branch(tree, &leaf))
        return false;
    if (n < 2 * g->min_leaf || depth == MAX_DEPTH || error < GOOD_ERROR ||
        !find_split(g, begin, end, &all, &best))
        return true;

    uint32_t middle = divide(g, begin, end, &best);
    if (!grow(g, begin, middle, depth + 1))
        return false;
    const uint32_t right = tree->n;
    if (!grow(g, middle, end, depth + 1))
        return false;
    if (!is_gain(g, begin, end, errors, errors + g->n)) {
        tree->n = here + 1;
        return true;
    }
    tree->branches[here].feature = best.feature;
    tree->branches[here].threshold = best.threshold;
    tree->branches[here].right = right;
    for (uint32_t i = begin; i < end; i++)
        errors[g->order[i]] = errors[g->n + g->order[i]];
    return true;
}

clv_status planner_tree_fit(const planner_fit_sample *samples, uint32_t n,
                            uint32_t n_features, uint32_t min_leaf,
                            planner_tree **out)
{
    *out = NULL;
    clv_status status = planner_fit_check(samples, n, n_features);
    if (status)
        return status;
    grower g = {.samples = samples,
                .n = n,
                .n_features = n_features,
                .errors = calloc((size_t)n * (MAX_DEPTH + 1), sizeof *g.errors),
                .min_leaf = min_leaf ? min_leaf : 1,
                .order = calloc(n, sizeof *g.order),
                .spare = calloc(n, sizeof *g.spare),
                .sorted = calloc(n, sizeof *g.sorted),
                .tree = calloc(1, sizeof *g.tree)};
    bool good = g.errors && g.order && g.spare && g.sorted && g.tree;
    if (good) {
        g.tree->n_features = n_features;
        for (uint32_t i = 0; i < n; i++)
            g.order[i] = i;
        good = grow(&g, 0, n, 0);
    }
    free(g.errors);
    free(g.order);
    free(g.spare);
    free(g.sorted);
    if (!good) {
        planner_tree_free(g.tree);
        return core_no_memory("to fit a model");
    }
    *out = g.tree;
    return CLV_OK;
}

void planner_tree_free(planner_tree *tree)
{
    if (!tree)
        return;
    free(tree->branches);
    free(tree);
}

double planner_tree_predict(const planner_tree *tree, const double *x)
{
    const branch *b = tree->branches;
    while (b->right)
        b = x[b->feature] <= b->threshold ? b + 1 : tree->branches + b->right;
    return planner_linear_predict(&b->model, x, tree->n_features);
}

uint32_t planner_tree_leaves(const planner_tree *tree)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < tree->n; i++)
        n += !tree->branches[i].right;
    return n;
}

/* ------------------------------------------------------------------------ */
/* Rows                                                                     */

uint32_t planner_tree_rows(const planner_tree *tree)
{
    return tree->n;
}

void planner_tree_row(const planner_tree *tree, uint32_t index,
                      double row[PLANNER_TREE_ROW])
{
    const branch *b = &tree->branches[index];
    row[0] = b->feature;
    row[1] = b->threshold;
    row[2] = b->right;
    row[3] = b->model.alpha;
    memcpy(row + 4, b->model.beta, sizeof b->model.beta);
}

static bool is_sane(double x, double most)
{
    return x >= 0 && x <= most; /* not a NaN */
}

/* Both branches lie behind, so that every way ends. */
static bool read_row(const double *row, uint32_t index, uint32_t n,
                     uint32_t n_features, branch *out)
{
    bool good = is_sane(row[1], PLANNER_FIT_MAX) && is_sane(row[2], n - 1.0);
    for (int i = 3; i < PLANNER_TREE_ROW; i++)
        good &= is_sane(row[i], PLANNER_FIT_MAX);
    if (!good || !is_sane(row[0], PLANNER_FIT_FEATURES))
        return false;
    *out = (branch){.feature = (uint32_t)row[0],
                    .threshold = row[1],
                    .right = (uint32_t)row[2],
                    .model.alpha = row[3]};
    memcpy(out->model.beta, row + 4, sizeof out->model.beta);
    return !out->right || (out->right > index + 1 && out->feature < n_features);
}

clv_status planner_tree_from_rows(double (*rows)[PLANNER_TREE_ROW], uint32_t n,
                                  uint32_t n_features, planner_tree **out)
{
    planner_tree *tree = calloc(1, sizeof *tree);
    bool good = n > 0;
    *out = NULL;
    for (uint32_t i = 0; i < n && good && tree; i++) {
        branch b;
        good = read_row(rows[i], i, n, n_features, &b);
        if (good && !add_branch(tree, &b)) {
            planner_tree_free(tree);
            tree = NULL;
        }
    }
    if (!tree)
        return core_no_memory("for a model");
    if (!good) {
        planner_tree_free(tree);
        return clv_error(CLV_ERR_FORMAT, "these rows are no tree");
    }
    tree->n_features = n_features;
    *out = tree;
    return CLV_OK;
}
