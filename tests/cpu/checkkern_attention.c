#include "checkkern.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct problem {
    int dtype;
    int64_t n;
    cpu_attention_args a;
    float *q, *y;
    uint8_t *k, *v;
    float *k32, *v32; /* the same as floats, dense */
    int32_t *pos;
    bool poison; /* the last cache row holds infinities */
} problem;

static uint8_t *cache(checker *c, problem *p, float **wide)
{
    const cpu_attention_args *a = &p->a;
    int64_t width = a->kv_heads * a->head_dim;
    uint8_t *out = check_alloc((size_t)(a->rows * a->kv_stride), 4);
    *wide = check_alloc((size_t)(a->rows * width) * sizeof(float), 0);
    for (int64_t j = 0; j < a->rows; j++) {
        float *row = *wide + j * width;
        uint8_t *stored = out + j * a->kv_stride;
        for (int64_t i = 0; i < width; i++)
            row[i] = p->poison && j == a->rows - 1 ? INFINITY : check_normal(c);
        c->ref->formats[p->dtype].from_f32(row, stored, width);
        c->ref->formats[p->dtype].to_f32(stored, row, width);
    }
    return out;
}

static void make(checker *c, problem *p)
{
    cpu_attention_args *a = &p->a;
    int64_t width = a->heads * a->head_dim;
    a->scale = 1 / sqrtf((float)a->head_dim);
    a->q_stride = width + check_range(c, 0, 3);
    a->y_stride = width + check_range(c, 0, 3);
    /* Rows, and some blocks between them. */
    const bool blocks = p->dtype == CLV_DTYPE_Q8_0;
    a->kv_stride = (int64_t)check_size(
        p->dtype,
        a->kv_heads * a->head_dim + check_range(c, 0, 3) * (blocks ? 32 : 1));
    a->scratch = c->scratch;
    p->q = check_alloc((size_t)(p->n * a->q_stride) * sizeof(float), 4);
    p->y = check_alloc((size_t)(p->n * a->y_stride) * sizeof(float), 4);
    p->pos = check_alloc((size_t)p->n * sizeof(*p->pos), 0);
    for (int64_t i = 0; i < p->n; i++)
        for (int64_t j = 0; j < width; j++)
            p->q[i * a->q_stride + j] = 2 * check_normal(c);
    p->k = cache(c, p, &p->k32);
    p->v = cache(c, p, &p->v32);
    a->q = p->q;
    a->y = p->y;
    a->k = p->k;
    a->v = p->v;
    a->pos = p->pos;
}

static bool sees(const problem *p, int64_t i, int64_t j)
{
    return j <= p->pos[i] && (!p->a.window || j > p->pos[i] - p->a.window);
}

/* One query and head in doubles. */
static void truth(const problem *p, int64_t i, int64_t h, double *y)
{
    const cpu_attention_args *a = &p->a;
    int64_t g = h / (a->heads / a->kv_heads), width = a->kv_heads * a->head_dim;
    double s[1024], top = -INFINITY, sum = 0;
    const float *q = p->q + i * a->q_stride + h * a->head_dim;

    for (int64_t j = 0; j < a->rows; j++) {
        if (!sees(p, i, j))
            continue;
        s[j] = 0;
        for (int64_t d = 0; d < a->head_dim; d++)
            s[j] += (double)q[d] * p->k32[j * width + g * a->head_dim + d];
        s[j] *= a->scale;
        if (a->softcap != 0)
            s[j] = a->softcap * tanh(s[j] / a->softcap);
        top = fmax(top, s[j]);
    }
    memset(y, 0, (size_t)a->head_dim * sizeof(*y));
    if (top == -INFINITY)
        return;
    for (int64_t j = 0; j < a->rows; j++) {
        if (!sees(p, i, j))
            continue;
        double w = exp(s[j] - top);
        sum += w;
        for (int64_t d = 0; d < a->head_dim; d++)
            y[d] += w * p->v32[j * width + g * a->head_dim + d];
    }
    for (int64_t d = 0; d < a->head_dim; d++)
        y[d] /= sum;
}

static void judge(checker *c, const problem *p)
{
    const cpu_attention_args *a = &p->a;
    double error = 0, scale = 1e-30, y[512];
    long outside = 0, kinds = 0;

    for (int64_t i = 0; i < p->n; i++) {
        for (int64_t h = 0; h < a->heads; h++) {
            const float *out = p->y + i * a->y_stride + h * a->head_dim;
            bool ours = h >= a->h_begin && h < a->h_end && i >= a->q_begin &&
                        i < a->q_end;
            if (ours)
                truth(p, i, h, y);
            for (int64_t d = 0; d < a->head_dim; d++) {
                uint32_t bits;
                memcpy(&bits, &out[d], sizeof(bits));
                if (!ours) {
                    outside += bits != 0xffffffff;
                } else if (!isfinite(y[d]) || !isfinite(out[d])) {
                    kinds += isfinite(y[d]) != isfinite(out[d]);
                } else {
                    error += (out[d] - y[d]) * (out[d] - y[d]);
                    scale += y[d] * y[d];
                }
            }
        }
    }
    check_that(c, !outside && !kinds && error <= 1e-10 * scale,
               "attention %s: n %ld (%ld..%ld) heads %ld (%ld..%ld) kv %ld "
               "dim %ld rows %ld window %ld softcap %g pos %d..: error %.2g, "
               "%ld not finite only on one side, %ld written outside",
               check_dtype(p->dtype), (long)p->n, (long)a->q_begin,
               (long)a->q_end, (long)a->heads, (long)a->h_begin, (long)a->h_end,
               (long)a->kv_heads, (long)a->head_dim, (long)a->rows,
               (long)a->window, (double)a->softcap, p->pos[0], error / scale,
               kinds, outside);
}

static void one(checker *c, problem *p, int round)
{
    cpu_attention_args *a = &p->a;
    make(c, p);
    a->q_end = p->n;
    a->h_end = a->heads;
    if (round % 4 == 1) {
        a->q_begin = check_range(c, 0, p->n - 1);
        a->q_end = check_range(c, a->q_begin, p->n);
        a->h_begin = check_range(c, 0, a->heads - 1);
        a->h_end = check_range(c, a->h_begin, a->heads);
    }
    /* A sequence that ends at the last row, or positions from anywhere. */
    for (int64_t i = 0; i < p->n; i++)
        p->pos[i] = round % 3 ? (int32_t)(a->rows - p->n + i)
                              : (int32_t)check_range(c, -1, a->rows + 3);
    c->under->attention[p->dtype](a);
    judge(c, p);
    check_that(c, check_free(p->q, p->y, p->k, p->v, p->k32, p->v32, p->pos),
               "attention %s: dim %ld wrote out of bounds",
               check_dtype(p->dtype), (long)a->head_dim);
}

static void check(checker *c)
{
    static const int64_t dims[] = {64, 16, 80, 7, 128, 300, 32, 1};
    static const int dtypes[] = {CLV_DTYPE_F32, CLV_DTYPE_F16, CLV_DTYPE_Q8_0};
    for (int d = 0; d < 3; d++) {
        if (c->under->attention[dtypes[d]] == c->below->attention[dtypes[d]])
            continue;
        for (int round = 0; round < 64; round++) {
            const bool blocks = dtypes[d] == CLV_DTYPE_Q8_0;
            problem p = {.dtype = dtypes[d],
                         .poison = !blocks && round % 5 == 4};
            p.n = round % 2 ? check_range(c, 1, 24) : 1;
            p.a.head_dim = dims[round % 8];
            if (blocks)
                p.a.head_dim = (p.a.head_dim + 31) / 32 * 32;
            p.a.kv_heads = check_range(c, 1, 2);
            p.a.heads =
                p.a.kv_heads * (round == 33 ? 70 : check_range(c, 1, 5));
            p.a.rows = p.n + check_range(c, 0, 200);
            p.a.window = round % 7 == 3 ? check_range(c, 1, 90) : 0;
            /* A softmax of -INFINITY alone is not defined. */
            p.poison &= p.a.rows > 1 && !p.a.window;
            p.a.softcap = round % 6 == 2 ? 5 : 0;
            one(c, &p, round);
        }
    }
}

/* -------------------------------------------------------------------------- */

typedef struct timed {
    cpu_attention_fn fn;
    cpu_attention_args a;
} timed;

static void call(void *arg)
{
    timed *t = arg;
    t->fn(&t->a);
}

static void bench_one(checker *c, int dtype, const bench_shape *s)
{
    problem p = {.dtype = dtype, .n = s->v[0]};
    char what[64];

    p.a = (cpu_attention_args){.rows = s->v[1],
                               .heads = s->v[2],
                               .kv_heads = s->v[3],
                               .head_dim = s->v[4]};
    make(c, &p);
    p.a.q_end = p.n;
    p.a.h_end = p.a.heads;
    double pairs = 0;
    for (int64_t i = 0; i < p.n; i++) {
        p.pos[i] = (int32_t)(p.a.rows - p.n + i);
        pairs += (double)(p.pos[i] + 1) * (double)p.a.heads;
    }
    timed t = {c->under->attention[dtype], p.a};
    snprintf(what, sizeof(what), "attention %s %ldx%ld %ld/%ld x %ld",
             check_dtype(dtype), (long)s->v[0], (long)s->v[1], (long)s->v[2],
             (long)s->v[3], (long)s->v[4]);
    bench_report(
        c, what, bench_time(call, &t), pairs * 4 * (double)p.a.head_dim,
        2 * (double)check_size(dtype, p.a.rows * p.a.kv_heads * p.a.head_dim));
    check_free(p.q, p.y, p.k, p.v, p.k32, p.v32, p.pos);
}

static void bench(checker *c, const bench_shape *s)
{
    if (strcmp(s->kernel, "attention") || s->n != 5)
        return;
    if (c->under->attention[CLV_DTYPE_F32] !=
        c->below->attention[CLV_DTYPE_F32])
        bench_one(c, CLV_DTYPE_F32, s);
    if (c->under->attention[CLV_DTYPE_F16] !=
        c->below->attention[CLV_DTYPE_F16])
        bench_one(c, CLV_DTYPE_F16, s);
}

const subject check_attention = {"attention", check, bench};
