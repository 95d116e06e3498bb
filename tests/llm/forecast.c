#include "forecast.h"

#include "check.h"

#include <math.h>
#include <stdlib.h>

/*
 * A class bounds the error of one node's result. How much of it reaches the
 * logits depends on the model, the text and the position: a norm divides by
 * what may be small, a softmax turns differences of scores into ratios, and an
 * early layer's error passes through all later ones. So it is measured, by
 * DRAWS forward passes with noise of the stated size on each row of each
 * result.
 *
 * Small errors add up linearly, and there are thousands of them. So the
 * differences of a row's n_vocab logits are about normal, with a covariance C,
 * and their sum of squares is one of independent normal numbers with the
 * eigenvalues of C as weights. Its mean is tr C. With s = sqrt(tr C^2) / tr C,
 * which is at least the largest weight relative to the mean, it exceeds
 *
 *     tr C (1 + 2 s sqrt(x) + 2 s x)
 *
 * with a probability of at most exp(-x) (Laurent and Massart, Adaptive
 * estimation of a quadratic functional by model selection, 2000, lemma 1).
 * x = 16 makes it 1e-7 a row: the long tests compare 1e5 of them.
 *
 * Of draws d and e, the mean of d.d is tr C, and the mean of (d.e)^2 is tr C^2
 * if d and e are independent. The mean of DRAWS squares has a standard error of
 * s sqrt(2 / DRAWS) of itself; the bound has four of these for it.
 *
 * A choice of experts is not linear. Where one is so near that a draw makes
 * another, the bound of the rows from there on is large.
 *
 * The noise of nodes is independent. Products of one x share what rounds it,
 * but their weights are independent and 0 on average, and so is what they make
 * of it.
 */
#define DRAWS 32
#define X 16.0

static double dot(const double *a, const double *b, uint32_t n)
{
    double sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

/* The largest sum of squares of a row of n differences, of which draws are
 * `stride` apart. */
static double bound_of_row(const double *draws, size_t stride, uint32_t n)
{
    double trace = 0, squares = 0; /* of C, and of C^2 */
    for (uint32_t i = 0; i < DRAWS; i++) {
        const double *d = draws + i * stride;
        trace += dot(d, d, n) / DRAWS;
        for (uint32_t j = 0; j < i; j++) {
            const double product = dot(d, draws + j * stride, n);
            squares += product * product * 2 / (DRAWS * (DRAWS - 1));
        }
    }
    if (!(trace > 0))
        return 0;
    const double s = sqrt(squares) / trace;
    return trace * (1 + 4 * s * sqrt(2.0 / DRAWS)) *
           (1 + 2 * s * sqrt(X) + 2 * s * X);
}

void forecast_make(forecast *f, llm_source *source, const int32_t *ids,
                   uint32_t n, const tiny_errors *errors)
{
    const uint32_t n_vocab = source->hparams.n_vocab;
    const size_t size = (size_t)n * n_vocab;
    double *want = malloc(size * sizeof *want);
    double *draws = malloc(DRAWS * size * sizeof *draws);
    f->logits = malloc(size * sizeof *f->logits);
    f->bounds = malloc(n * sizeof *f->bounds);
    assert_true(want && draws && f->logits && f->bounds);
    tiny_forward(source, ids, n, want);
    for (size_t i = 0; i < size; i++)
        f->logits[i] = (float)want[i];
    for (uint32_t d = 0; d < DRAWS; d++) {
        double *draw = draws + d * size;
        tiny_forward_disturbed(source, ids, n, errors, 1 + d, draw);
        for (size_t i = 0; i < size; i++)
            draw[i] -= want[i];
    }
    for (uint32_t r = 0; r < n; r++) {
        const double *row = want + (size_t)r * n_vocab;
        f->bounds[r] =
            bound_of_row(draws + (size_t)r * n_vocab, size, n_vocab) /
            dot(row, row, n_vocab);
    }
    free(want);
    free(draws);
}

void forecast_free(forecast *f)
{
    free(f->logits);
    free(f->bounds);
}
