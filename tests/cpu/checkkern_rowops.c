#include "checkkern.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define MAX_N 200

typedef void (*unary_fn)(const float *x, float *y, int64_t n, float arg);
typedef void (*binary_fn)(const float *a, const float *b, float *y, int64_t n);

/* Finite and not, small and large; the rest of a row is random. */
static const float specials[] = {
    0.0f,    -0.0f, 1.0f,   -1.0f,  1e-40f, -1e-40f,  1e-20f,    0.5f,
    -10.0f,  20.0f, -87.0f, -88.5f, 88.7f,  90.0f,    -103.0f,   -104.0f,
    -120.0f, 1e10f, -1e10f, 3e38f,  -3e38f, INFINITY, -INFINITY, NAN,
};
#define N_SPECIALS (int)(sizeof(specials) / sizeof(*specials))

static float *row(checker *c, int64_t n, float spread, bool special)
{
    float *x =
        check_alloc((size_t)n * sizeof(*x), 4 * (size_t)check_range(c, 0, 7));
    for (int64_t i = 0; i < n; i++) {
        x[i] = check_normal(c) * spread;
        if (special && check_range(c, 0, 3) == 0)
            x[i] = specials[check_range(c, 0, N_SPECIALS - 1)];
    }
    return x;
}

static double silu(double x)
{
    return x / (1 + exp(-x));
}

static double gelu(double x)
{
    return x / (1 + exp(-2 * sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

static double scale(double x)
{
    return 0.5 * x;
}

static double rounded(double x)
{
    return isnan(x) ? x : 0.5 * fmin(fmax(rint(x / 0.5), -127), 127);
}

static double softcap(double x)
{
    return 0.5 * tanh(x / 0.5);
}

/* f32 overflows where the formula in doubles does not; both are right. */
static bool activation_near(double y, double truth, double x)
{
    return check_near(y, truth, fabs(truth) * 1e-6 + fabs(x) * 2e-7) ||
           (isnan(y) && isinf(x));
}

static void check_unary(checker *c, const char *name, unary_fn fn,
                        double (*truth)(double))
{
    for (int round = 0; round < 60; round++) {
        int64_t n = check_range(c, 1, MAX_N);
        float *x = row(c, n, 8, true);
        float *y = round & 1 ? row(c, n, 0, false) : x;
        float copy[MAX_N];
        memcpy(copy, x, (size_t)n * sizeof(*x));
        fn(x, y, n, 0.5f);
        for (int64_t i = 0; i < n; i++)
            check_that(c, activation_near(y[i], truth(copy[i]), copy[i]),
                       "%s: n %ld i %ld: f(%.9g) = %.9g, not %.9g", name,
                       (long)n, (long)i, copy[i], y[i], truth(copy[i]));
        check_that(c, check_free(x, y != x ? y : NULL),
                   "%s: n %ld wrote out of bounds", name, (long)n);
    }
}

static void check_glu(checker *c, const char *name, binary_fn fn,
                      double (*truth)(double))
{
    for (int round = 0; round < 40; round++) {
        int64_t n = check_range(c, 1, MAX_N);
        float *gate = row(c, n, 8, false), *up = row(c, n, 3, false);
        float copy[MAX_N];
        memcpy(copy, gate, (size_t)n * sizeof(*gate));
        fn(gate, up, gate, n);
        for (int64_t i = 0; i < n; i++) {
            double t = truth(copy[i]) * up[i];
            check_that(
                c,
                check_near(gate[i], t,
                           fabs(t) * 1e-6 + fabs(copy[i] * up[i]) * 2e-7),
                "%s: n %ld i %ld: f(%.9g) * %.9g = %.9g, not %.9g", name,
                (long)n, (long)i, copy[i], up[i], gate[i], t);
        }
        check_that(c, check_free(gate, up), "%s: n %ld wrote out of bounds",
                   name, (long)n);
    }
}

static void check_binary(checker *c, const char *name, binary_fn fn,
                         binary_fn ref)
{
    for (int round = 0; round < 40; round++) {
        int64_t n = check_range(c, 1, MAX_N);
        float *a = row(c, n, 3, true), *b = row(c, n, 3, true);
        float *y = round & 1 ? row(c, n, 0, false) : b;
        float truth[MAX_N];
        ref(a, b, truth, n);
        fn(a, b, y, n);
        for (int64_t i = 0; i < n; i++)
            check_that(c, check_near(y[i], truth[i], 0),
                       "%s: n %ld i %ld: %.9g, not %.9g", name, (long)n,
                       (long)i, y[i], truth[i]);
        check_that(c, check_free(a, b, y != b ? y : NULL),
                   "%s: n %ld wrote out of bounds", name, (long)n);
    }
}

/* -------------------------------------------------------------------------- */

static void norm_truth(const float *x, const float *w, const float *b,
                       double *y, int64_t n, double eps, bool centred)
{
    double mean = 0, square = 0;
    for (int64_t i = 0; centred && i < n; i++)
        mean += x[i] / (double)n;
    for (int64_t i = 0; i < n; i++)
        square += (x[i] - mean) * (x[i] - mean) / (double)n;
    for (int64_t i = 0; i < n; i++)
        y[i] = (x[i] - mean) / sqrt(square + eps) * w[i] + (b ? b[i] : 0);
}

static void check_norms(checker *c, bool centred)
{
    static const float spreads[] = {1, 100, 1e-12f, 1e25f};
    const char *name = centred ? "layer_norm" : "rms_norm";

    for (int round = 0; round < 60; round++) {
        int64_t n = check_range(c, 1, MAX_N);
        float *x = row(c, n, spreads[round % 4], false);
        float *w = row(c, n, 1, false), *b = row(c, n, 1, false);
        float *bias = centred && round & 4 ? b : NULL;
        double truth[MAX_N];
        norm_truth(x, w, bias, truth, n, 1e-5f, centred);
        if (centred)
            c->under->layer_norm(x, w, bias, x, n, 1e-5f);
        else
            c->under->rms_norm(x, w, x, n, 1e-5f);
        for (int64_t i = 0; i < n; i++)
            check_that(c,
                       check_near(x[i], truth[i],
                                  1e-6 * (fabs(truth[i]) + fabs(w[i]) + 1e-6)),
                       "%s: n %ld i %ld spread %g: %.9g, not %.9g", name,
                       (long)n, (long)i, (double)spreads[round % 4], x[i],
                       truth[i]);
        check_that(c, check_free(x, w, b), "%s: n %ld wrote out of bounds",
                   name, (long)n);
    }
}

static void check_softmax(checker *c)
{
    for (int round = 0; round < 80; round++) {
        int64_t n = check_range(c, 1, MAX_N);
        float *x = row(c, n, round & 1 ? 40 : 2, false);
        double truth[MAX_N], sum = 0, top = -INFINITY;
        if (round & 2)
            x[check_range(c, 0, n - 1)] = -INFINITY;
        if (round >= 72)
            x[check_range(c, 0, n - 1)] = round & 4 ? NAN : INFINITY;
        for (int64_t i = 0; i < n; i++)
            top = fmax(top, x[i]);
        for (int64_t i = 0; i < n; i++)
            sum += truth[i] = exp(x[i] - top);
        c->under->softmax(x, x, n);
        for (int64_t i = 0; i < n; i++)
            /* x - top is rounded to f32, which shows in e^(x - top) */
            check_that(
                c,
                check_near(x[i], truth[i] / sum,
                           truth[i] / sum * (1e-6 - 1e-7 * log(truth[i])) +
                               1e-44),
                "softmax: n %ld i %ld round %d: %.9g, not %.9g", (long)n,
                (long)i, round, x[i], truth[i] / sum);
        check_that(c, check_free(x), "softmax: n %ld wrote out of bounds",
                   (long)n);
    }
}

static void check_rope(checker *c)
{
    for (int round = 0; round < 80; round++) {
        int64_t heads = check_range(c, 1, 3), dim = check_range(c, 2, 80);
        int64_t half = check_range(c, 1, dim / 2), n = heads * dim;
        uint32_t mode = round & 1 ? CLV_ROPE_HALVES : CLV_ROPE_PAIRS;
        float *x = row(c, n, 2, false), *turns = row(c, 2 * half, 1, false);
        float *y = round & 2 ? row(c, n, 0, false) : x, copy[240];
        memcpy(copy, x, (size_t)n * sizeof(*x));
        c->under->rope(x, turns, y, heads, dim, 2 * half, mode);
        for (int64_t i = 0; i < n; i++) {
            const float *head = copy + i / dim * dim;
            int64_t at = i % dim,
                    j = mode == CLV_ROPE_HALVES ? at % half : at / 2;
            int64_t a = mode == CLV_ROPE_HALVES ? j : 2 * j;
            int64_t b = mode == CLV_ROPE_HALVES ? j + half : 2 * j + 1;
            double truth = copy[i], scale = 0;
            if (at < 2 * half) {
                double s = turns[2 * j], k = turns[2 * j + 1];
                truth = at == a ? head[a] * k - head[b] * s
                                : head[a] * s + head[b] * k;
                scale = fabs(s) + fabs(k);
            }
            check_that(c, check_near(y[i], truth, 1e-6 * scale * 12),
                       "rope: mode %u heads %ld dim %ld rotated %ld i %ld: "
                       "%.9g, not %.9g",
                       mode, (long)heads, (long)dim, (long)half * 2, (long)i,
                       y[i], truth);
        }
        check_that(c, check_free(x, turns, y != x ? y : NULL),
                   "rope: dim %ld wrote out of bounds", (long)dim);
    }
}

static void check(checker *c)
{
    const cpu_kernels *t = c->under, *b = c->below;
    if (t->add != b->add)
        check_binary(c, "add", t->add, c->ref->add);
    if (t->mul != b->mul)
        check_binary(c, "mul", t->mul, c->ref->mul);
    if (t->silu != b->silu)
        check_unary(c, "silu", t->silu, silu);
    if (t->gelu != b->gelu)
        check_unary(c, "gelu", t->gelu, gelu);
    if (t->sigmoid != b->sigmoid)
        check_unary(c, "sigmoid", t->sigmoid, sigmoid);
    if (t->scale != b->scale)
        check_unary(c, "scale", t->scale, scale);
    if (t->round != b->round)
        check_unary(c, "round", t->round, rounded);
    if (t->softcap != b->softcap)
        check_unary(c, "softcap", t->softcap, softcap);
    if (t->glu_silu != b->glu_silu)
        check_glu(c, "glu_silu", t->glu_silu, silu);
    if (t->glu_gelu != b->glu_gelu)
        check_glu(c, "glu_gelu", t->glu_gelu, gelu);
    if (t->rms_norm != b->rms_norm)
        check_norms(c, false);
    if (t->layer_norm != b->layer_norm)
        check_norms(c, true);
    if (t->softmax != b->softmax)
        check_softmax(c);
    if (t->rope != b->rope)
        check_rope(c);
}

/* -------------------------------------------------------------------------- */

typedef struct timed {
    const cpu_kernels *t;
    int64_t n, c;
    float *x, *w, *y;
    int which;
} timed;

static const char *const timed_names[] = {
    "add",      "mul",         "silu",       "gelu",
    "glu_silu", "glu_gelu",    "rms_norm",   "layer_norm",
    "softmax",  "rope halves", "rope pairs",
};
#define N_TIMED (int)(sizeof(timed_names) / sizeof(*timed_names))

static void call(void *arg)
{
    timed *a = arg;
    for (int64_t i = 0; i < a->n; i++) {
        const float *x = a->x + i * a->c;
        float *y = a->y + i * a->c;
        switch (a->which) {
        case 0:
            a->t->add(x, a->w, y, a->c);
            break;
        case 1:
            a->t->mul(x, a->w, y, a->c);
            break;
        case 2:
            a->t->silu(x, y, a->c, 0);
            break;
        case 3:
            a->t->gelu(x, y, a->c, 0);
            break;
        case 4:
            a->t->glu_silu(x, a->w, y, a->c);
            break;
        case 5:
            a->t->glu_gelu(x, a->w, y, a->c);
            break;
        case 6:
            a->t->rms_norm(x, a->w, y, a->c, 1e-5f);
            break;
        case 7:
            a->t->layer_norm(x, a->w, a->w, y, a->c, 1e-5f);
            break;
        case 8:
            a->t->softmax(x, y, a->c);
            break;
        default:
            a->t->rope(x, a->w, y, a->c / 64, 64, 64,
                       a->which == 9 ? CLV_ROPE_HALVES : CLV_ROPE_PAIRS);
        }
    }
}

static void bench(checker *c, const bench_shape *s)
{
    if (strcmp(s->kernel, "row") || s->n != 2 || c->under->add == c->below->add)
        return;
    int64_t n = s->v[0], size = n * s->v[1];
    timed t = {c->under,
               n,
               s->v[1],
               row(c, size, 1, false),
               row(c, s->v[1] + 64, 1, false),
               row(c, size, 1, false),
               0};
    for (; t.which < N_TIMED; t.which++) {
        char what[64];
        snprintf(what, sizeof(what), "%s %ldx%ld", timed_names[t.which],
                 (long)n, (long)s->v[1]);
        bench_report(c, what, bench_time(call, &t), (double)size,
                     (double)size * 8);
    }
    check_free(t.x, t.w, t.y);
}

const subject check_rowops = {"rowops", check, bench};
