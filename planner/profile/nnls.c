#include "nnls.h"

#include <math.h>
#include <string.h>

#define SIZE PLANNER_NNLS_SIZE
#define RIDGE 1e-7
#define TOLERANCE 1e-12

void planner_nnls_add(planner_nnls *sums, const planner_fit_sample *sample,
                      uint32_t n_features)
{
    double row[SIZE] = {1 / sample->ns};
    for (uint32_t i = 0; i < n_features; i++)
        row[i + 1] = sample->x[i] / sample->ns;
    for (uint32_t i = 0; i <= n_features; i++) {
        for (uint32_t j = 0; j <= n_features; j++)
            sums->a[i][j] += row[i] * row[j];
        sums->b[i] += row[i];
    }
    sums->n++;
}

void planner_nnls_rest(const planner_nnls *whole, const planner_nnls *part,
                       uint32_t n_features, planner_nnls *rest)
{
    for (uint32_t i = 0; i <= n_features; i++) {
        for (uint32_t j = 0; j <= n_features; j++)
            rest->a[i][j] = whole->a[i][j] - part->a[i][j];
        rest->b[i] = whole->b[i] - part->b[i];
    }
    rest->n = whole->n - part->n;
}

/* The scaled problem: minimise x'Ax/2 - b'x over x >= 0. */
typedef struct problem {
    double a[SIZE][SIZE], b[SIZE], x[SIZE];
    bool passive[SIZE]; /* free to be above 0 */
    uint32_t n;
} problem;

/* Minimises over the passive ones alone, by Cholesky. */
static void solve_passive(const problem *p, double z[SIZE])
{
    double l[SIZE][SIZE], y[SIZE];
    uint32_t at[SIZE], n = 0;
    for (uint32_t i = 0; i < p->n; i++)
        if (p->passive[i])
            at[n++] = i;
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t j = 0; j <= i; j++) {
            double s = p->a[at[i]][at[j]];
            for (uint32_t k = 0; k < j; k++)
                s -= l[i][k] * l[j][k];
            l[i][j] = i == j ? sqrt(fmax(s, RIDGE / 2)) : s / l[j][j];
        }
        y[i] = p->b[at[i]];
        for (uint32_t k = 0; k < i; k++)
            y[i] -= l[i][k] * y[k];
        y[i] /= l[i][i];
    }
    memset(z, 0, SIZE * sizeof *z);
    for (uint32_t i = n; i-- > 0;) {
        for (uint32_t k = i + 1; k < n; k++)
            y[i] -= l[k][i] * y[k];
        z[at[i]] = y[i] /= l[i][i];
    }
}

/* The one whose growth lowers the error fastest; n: none does. */
static uint32_t steepest(const problem *p)
{
    uint32_t best = p->n;
    double most = TOLERANCE * (double)SIZE;
    for (uint32_t i = 0; i < p->n; i++) {
        double w = p->b[i];
        for (uint32_t j = 0; j < p->n; j++)
            w -= p->a[i][j] * p->x[j];
        if (!p->passive[i] && w > most) {
            most = w;
            best = i;
        }
    }
    return best;
}

/* Towards z as far as nothing gets negative; what ends at 0 is passive no more.
 * False if z was reached. */
static bool step(problem *p, const double z[SIZE])
{
    double alpha = 1;
    for (uint32_t i = 0; i < p->n; i++)
        if (p->passive[i] && z[i] <= 0)
            alpha = fmin(alpha, p->x[i] / (p->x[i] - z[i]));
    bool stopped = false;
    for (uint32_t i = 0; i < p->n; i++) {
        if (!p->passive[i])
            continue;
        bool falls = z[i] <= 0;
        p->x[i] += alpha * (z[i] - p->x[i]);
        if (falls && p->x[i] <= TOLERANCE) {
            p->passive[i] = false;
            p->x[i] = 0;
            stopped = true;
        }
    }
    return stopped;
}

/* Rounding may make it go round; the bounds are far above what is needed. */
static void solve(problem *p)
{
    for (uint32_t turn = 0; turn < 4 * SIZE; turn++) {
        double z[SIZE];
        uint32_t next = steepest(p);
        if (next == p->n)
            return;
        p->passive[next] = true;
        p->x[next] = 2 * TOLERANCE; /* not at once taken out again */
        for (uint32_t i = 0; i <= SIZE; i++) {
            solve_passive(p, z);
            if (!step(p, z))
                break;
        }
    }
}

void planner_nnls_solve(const planner_nnls *sums, uint32_t n_features,
                        double c[SIZE])
{
    problem p = {.n = n_features + 1};
    double length[SIZE];
    memset(c, 0, SIZE * sizeof *c);
    for (uint32_t i = 0; i < p.n; i++)
        length[i] = sums->a[i][i] > 0 ? sqrt(sums->a[i][i]) : 0;
    const double scale = sums->n ? sqrt((double)sums->n) : 1;
    for (uint32_t i = 0; i < p.n; i++) {
        if (!(length[i] > 0))
            continue; /* b stays 0: it is never chosen */
        for (uint32_t j = 0; j < p.n; j++)
            if (length[j] > 0)
                p.a[i][j] = sums->a[i][j] / length[i] / length[j];
        p.a[i][i] = 1 + RIDGE;
        p.b[i] = sums->b[i] / length[i] / scale;
    }
    solve(&p);
    for (uint32_t i = 0; i < p.n; i++)
        if (length[i] > 0)
            c[i] = fmax(0, p.x[i] * scale / length[i]);
}

double planner_nnls_error(const planner_nnls *sums, uint32_t n_features,
                          const double c[SIZE])
{
    double e = sums->n;
    for (uint32_t i = 0; i <= n_features; i++) {
        e -= 2 * c[i] * sums->b[i];
        for (uint32_t j = 0; j <= n_features; j++)
            e += c[i] * sums->a[i][j] * c[j];
    }
    return fmax(e, 0);
}
