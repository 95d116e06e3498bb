#include "checkkern.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define MAX_N 512

static const int dtypes[] = {CLV_DTYPE_F32, CLV_DTYPE_F16, CLV_DTYPE_BF16,
                             CLV_DTYPE_Q8_0, CLV_DTYPE_Q4_0};

/* Any bits, or values of one size, or values that hit the roundings. */
static float value(checker *c, int kind)
{
    uint32_t bits = (uint32_t)check_random(c);
    float f;
    switch (kind) {
    case 0:
        return check_normal(c);
    case 1:
        return (float)check_range(c, -260, 260) * 0.5f;
    case 2:
        return check_normal(c) * 1e-7f; /* f16 denormals */
    case 3:
        return check_normal(c) * 3e4f; /* f16 overflow */
    case 4:
        return check_normal(c) * 1e-40f;
    case 5:
        return 0;
    default:
        memcpy(&f, &bits, sizeof(f));
        return f;
    }
}

static bool same(const float *a, const float *b, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (memcmp(a + i, b + i, sizeof(*a)) && !(isnan(a[i]) && isnan(b[i])))
            return false;
    return true;
}

static void check_from(checker *c, int dtype, int64_t n, int kind)
{
    size_t size = check_size(dtype, n);
    float *x =
        check_alloc((size_t)n * sizeof(*x), 4 * (size_t)check_range(c, 0, 7));
    uint8_t *y = check_alloc(size, dtype == CLV_DTYPE_F32 ? 4 : 2);
    uint8_t *truth = check_alloc(size, 4);
    for (int64_t i = 0; i < n; i++)
        x[i] = value(c, kind);
    c->under->formats[dtype].from_f32(x, y, n);
    c->ref->formats[dtype].from_f32(x, truth, n);
    check_that(c, !memcmp(y, truth, size), "f32 to %s: n %ld, values %d",
               check_dtype(dtype), (long)n, kind);
    check_that(c, check_free(x, y, truth),
               "f32 to %s: n %ld wrote out of bounds", check_dtype(dtype),
               (long)n);
}

static void check_to(checker *c, int dtype, int64_t n)
{
    size_t size = check_size(dtype, n);
    uint8_t *x = check_alloc(size, dtype == CLV_DTYPE_F32 ? 4 : 2);
    float *y =
        check_alloc((size_t)n * sizeof(*y), 4 * (size_t)check_range(c, 0, 7));
    float *truth = check_alloc((size_t)n * sizeof(*y), 0);
    for (size_t i = 0; i < size; i++)
        x[i] = (uint8_t)check_random(c);
    c->under->formats[dtype].to_f32(x, y, n);
    c->ref->formats[dtype].to_f32(x, truth, n);
    check_that(c, same(y, truth, n), "%s to f32: n %ld", check_dtype(dtype),
               (long)n);
    check_that(c, check_free(x, y, truth),
               "%s to f32: n %ld wrote out of bounds", check_dtype(dtype),
               (long)n);
}

static void check(checker *c)
{
    for (size_t d = 0; d < sizeof(dtypes) / sizeof(*dtypes); d++) {
        int dtype = dtypes[d];
        int64_t unit = dtype >= CLV_DTYPE_Q8_0 ? CPU_BLOCK : 1;
        for (int round = 0; round < 300; round++) {
            int64_t n = unit * check_range(c, 1, MAX_N / unit / 4);
            if (c->under->formats[dtype].from_f32 !=
                c->below->formats[dtype].from_f32)
                check_from(c, dtype, n, round % 7);
            if (c->under->formats[dtype].to_f32 !=
                c->below->formats[dtype].to_f32)
                check_to(c, dtype, n);
        }
    }
}

/* -------------------------------------------------------------------------- */

typedef struct timed {
    const cpu_kernels *t;
    int dtype;
    int64_t n;
    float *x;
    void *y;
} timed;

static void call_from(void *arg)
{
    timed *a = arg;
    a->t->formats[a->dtype].from_f32(a->x, a->y, a->n);
}

static void call_to(void *arg)
{
    timed *a = arg;
    a->t->formats[a->dtype].to_f32(a->y, a->x, a->n);
}

static void bench(checker *c, const bench_shape *s)
{
    if (strcmp(s->kernel, "row") || s->n != 2)
        return;
    int64_t n = s->v[0] * s->v[1];
    timed t = {.t = c->under,
               .n = n,
               .x = check_alloc((size_t)n * sizeof(float), 0),
               .y = check_alloc((size_t)n * sizeof(float), 0)};
    for (int64_t i = 0; i < n; i++)
        t.x[i] = check_normal(c);
    for (size_t d = 0; d < sizeof(dtypes) / sizeof(*dtypes); d++) {
        char what[64];
        t.dtype = dtypes[d];
        if (t.t->formats[t.dtype].from_f32 ==
            c->below->formats[t.dtype].from_f32)
            continue;
        double bytes = (double)n * 4 + (double)check_size(t.dtype, n);
        snprintf(what, sizeof(what), "f32 to %s %ld", check_dtype(t.dtype),
                 (long)n);
        bench_report(c, what, bench_time(call_from, &t), (double)n, bytes);
        snprintf(what, sizeof(what), "%s to f32 %ld", check_dtype(t.dtype),
                 (long)n);
        bench_report(c, what, bench_time(call_to, &t), (double)n, bytes);
    }
    check_free(t.x, t.y);
}

const subject check_convert = {"convert", check, bench};
