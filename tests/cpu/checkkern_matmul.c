#include "checkkern.h"
#include "../../plugins/cpu/prepared.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What the inputs look like. */
enum fill {
    FILL_NORMAL,
    FILL_EXTREME,  /* all products of largest size and equal sign */
    FILL_TINY,     /* x in the denormal range */
    FILL_HUGE,     /* x near the end of f32's range */
    FILL_OUTLIERS, /* a few channels of x a hundred times the others */
    FILL_X_INF,    /* one row of x holds an infinity */
    FILL_X_NAN,
    FILL_W_INF, /* one row of w holds an infinity (blocks: their scale) */
    FILL_COUNT
};

static const char *const fill_names[FILL_COUNT] = {
    "normal",   "extreme",  "tiny",     "huge",
    "outliers", "inf in x", "nan in x", "inf in w",
};

typedef struct problem {
    int dtype;
    enum fill fill;
    int64_t n, k, o; /* o: rows of w there are */
    cpu_matmul_args a;
    uint8_t *w;
    float *x, *y, *bias, *wide; /* wide: w as floats, [o, k] */
    float *scales;              /* [o, k / group] and more, or NULL */
    const cpu_product *product; /* NULL: the kernel for any rows and groups */
    void *prepared;
} problem;

static bool is_block(int dtype)
{
    return clv_format_is((uint32_t)dtype, CLV_FORMAT_BLOCK);
}

static bool is_scaled(int dtype)
{
    return clv_format_is((uint32_t)dtype, CLV_FORMAT_INTEGER);
}

/* Elements of a byte. */
static int64_t odd_unit(int dtype)
{
    return dtype == CLV_DTYPE_I4 ? 2 : 1;
}

static void fill_x(checker *c, problem *p)
{
    for (int64_t i = 0; i < p->n; i++) {
        float *x = p->x + i * p->a.x_stride;
        for (int64_t j = 0; j < p->k; j++) {
            float v = check_normal(c);
            if (p->fill == FILL_EXTREME)
                v = 1;
            else if (p->fill == FILL_TINY)
                v *= 1e-39f;
            else if (p->fill == FILL_HUGE)
                v *= 1e34f;
            else if (p->fill == FILL_OUTLIERS && j % 37 == 5)
                v *= 100;
            x[j] = v;
        }
    }
    if (p->fill == FILL_X_INF || p->fill == FILL_X_NAN)
        p->x[check_range(c, 0, p->n - 1) * p->a.x_stride +
             check_range(c, 0, p->k - 1)] =
            p->fill == FILL_X_INF ? -INFINITY : NAN;
}

static void put_f16(checker *c, float value, uint8_t *to)
{
    uint16_t h;
    c->ref->formats[CLV_DTYPE_F16].from_f32(&value, &h, 1);
    memcpy(to, &h, sizeof h);
}

static float random_factor(checker *c, const clv_format *f)
{
    if (check_range(c, 0, 20) == 0)
        return check_range(c, 0, 1) ? 0 : 1e-7f; /* f16 denormal */
    return check_normal(c) * (f->group < f->elements ? 0.001f : 0.01f);
}

/* Random bits for the quants: every value occurs, -128 too. */
static void fill_blocks(checker *c, problem *p, uint8_t *row)
{
    const clv_format *f = clv_format_of((uint32_t)p->dtype);
    for (int64_t b = 0; b < p->k / f->elements; b++, row += f->bytes) {
        for (size_t i = 0; i < f->bytes; i++)
            row[i] = (uint8_t)check_random(c);
        if (p->fill == FILL_EXTREME)
            memset(row, p->dtype == CLV_DTYPE_Q8_0 ? 0x80 : 0xff, f->bytes);
        put_f16(c, p->fill == FILL_EXTREME ? 65504 : random_factor(c, f),
                row + f->scale_at);
        if (f->minimum_at >= 0)
            put_f16(c, p->fill == FILL_EXTREME ? 0 : random_factor(c, f),
                    row + f->minimum_at);
    }
}

/* One scale for all rows, one a row, or one a group, which is a random whole
 * number of units of the row. */
static void make_scales(checker *c, problem *p, int64_t unit)
{
    cpu_matmul_args *a = &p->a;
    a->group = p->k;
    int64_t scheme = check_range(c, 0, 3);
    for (int64_t tries = 0; scheme > 1 && tries < 8; tries++) {
        int64_t group = unit * check_range(c, 1, p->k / unit);
        if (p->k % group == 0 && group < a->group)
            a->group = group;
    }
    a->scale_stride = scheme ? p->k / a->group + check_range(c, 0, 3) : 0;
    size_t n = (size_t)(p->o * (a->scale_stride + 1) + p->k / a->group);
    p->scales = check_alloc(n * sizeof(*p->scales), 0);
    for (size_t i = 0; i < n; i++) {
        p->scales[i] = check_normal(c) * 0.01f;
        if (p->fill == FILL_EXTREME)
            p->scales[i] = 1000;
        else if (check_range(c, 0, 20) == 0)
            p->scales[i] = 0;
    }
    if (p->fill == FILL_W_INF)
        p->scales[check_range(c, 0, p->o - 1) * a->scale_stride] = INFINITY;
    a->scales = p->scales;
}

/* A row of integers as floats. */
static void widen_scaled(const problem *p, int64_t o)
{
    const uint8_t *row = p->w + o * p->a.w_stride;
    const float *scales = p->scales + o * p->a.scale_stride;
    for (int64_t i = 0; i < p->k; i++) {
        int q = (int8_t)row[p->dtype == CLV_DTYPE_I8 ? i : i / 2];
        if (p->dtype == CLV_DTYPE_I4) {
            q = i % 2 ? q >> 4 & 15 : q & 15;
            q = q > 7 ? q - 16 : q;
        }
        p->wide[o * p->k + i] = (float)q * scales[i / p->a.group];
    }
}

static void fill_integers(checker *c, problem *p, uint8_t *row)
{
    size_t size = check_size(p->dtype, p->k);
    for (size_t i = 0; i < size; i++)
        row[i] = (uint8_t)check_random(c);
    if (p->fill == FILL_EXTREME)
        memset(row, p->dtype == CLV_DTYPE_I8 ? 0x80 : 0x77, size);
}

static void fill_w(checker *c, problem *p)
{
    float *row = check_alloc((size_t)p->k * sizeof(*row), 0);
    for (int64_t o = 0; o < p->o; o++) {
        uint8_t *w = p->w + o * p->a.w_stride;
        if (is_block(p->dtype)) {
            fill_blocks(c, p, w);
        } else if (p->scales) {
            fill_integers(c, p, w);
        } else {
            for (int64_t j = 0; j < p->k; j++)
                row[j] = p->fill == FILL_EXTREME ? 1000 : check_normal(c);
            c->ref->formats[p->dtype].from_f32(row, w, p->k);
        }
    }
    if (p->fill == FILL_W_INF && !p->scales) {
        float inf = INFINITY;
        int dtype = is_block(p->dtype) ? CLV_DTYPE_F16 : p->dtype;
        int at = is_block(p->dtype)
                     ? clv_format_of((uint32_t)p->dtype)->scale_at
                     : 0;
        c->ref->formats[dtype].from_f32(
            &inf, p->w + check_range(c, 0, p->o - 1) * p->a.w_stride + at, 1);
    }
    for (int64_t o = 0; o < p->o; o++) {
        if (p->scales)
            widen_scaled(p, o);
        else
            c->ref->formats[p->dtype].to_f32(p->w + o * p->a.w_stride,
                                             p->wide + o * p->k, p->k);
    }
    check_free(row);
}

/* Strides are longer than rows; what lies between reads as NaN. */
static void make(checker *c, problem *p)
{
    cpu_matmul_args *a = &p->a;
    size_t row = check_size(p->dtype, p->k);

    *a = (cpu_matmul_args){.dtype = (uint32_t)p->dtype,
                           .n = p->n,
                           .k = p->k,
                           .scratch = c->scratch};
    a->x_stride = p->k + check_range(c, 0, 5);
    a->y_stride = p->o + check_range(c, 0, 5);
    a->w_stride = (int64_t)row;
    if (check_range(c, 0, 1))
        a->w_stride += (is_scaled(p->dtype) ? 1 : 4) * check_range(c, 0, 5);
    p->x = check_alloc((size_t)(p->n * a->x_stride) * sizeof(float),
                       4 * (size_t)check_range(c, 0, 3));
    p->y = check_alloc((size_t)(p->n * a->y_stride) * sizeof(float),
                       4 * (size_t)check_range(c, 0, 3));
    p->w = check_alloc((size_t)(p->o * a->w_stride),
                       is_scaled(p->dtype)  ? (size_t)check_range(c, 0, 5)
                       : is_block(p->dtype) ? 2 * (size_t)check_range(c, 0, 5)
                                            : 4);
    p->bias = check_alloc((size_t)p->o * sizeof(float), 0);
    p->wide = check_alloc((size_t)(p->o * p->k) * sizeof(float), 0);
    fill_x(c, p);
    if (is_scaled(p->dtype))
        make_scales(c, p, p->product ? CPU_BLOCK : odd_unit(p->dtype));
    fill_w(c, p);
    for (int64_t i = 0; i < p->o; i++)
        p->bias[i] = p->fill == FILL_NORMAL ? check_normal(c) : 0;
    a->x = p->x;
    a->w = p->w;
    a->y = p->y;
    a->bias = check_range(c, 0, 1) ? p->bias : NULL;
    a->o_begin = check_range(c, 0, p->o - 1);
    a->o_end = check_range(c, a->o_begin, p->o);
    if (p->n * p->o > 200) { /* mostly all of it */
        a->o_begin = a->o_begin / 8;
        a->o_end = p->o;
    }
}

/* Prepares `before` copies of the first row and the n rows of x. */
static void prepare_rows(const cpu_prepare *prepare, const cpu_matmul_args *a,
                         int64_t before, int64_t cut, uint8_t *out)
{
    const int64_t n = before + a->n;
    const float *x[CPU_PREPARE_ROWS];
    for (int64_t row = 0; row < n; row += CPU_PREPARE_ROWS) {
        cpu_prepare_args args = {.x = x, .k = a->k, .end = cut};
        for (; args.n < CPU_PREPARE_ROWS && row + args.n < n; args.n++) {
            const int64_t at = row + args.n - before;
            x[args.n] = a->x + (at > 0 ? at : 0) * a->x_stride;
        }
        args.out = out + (size_t)row * prepare->row_size(a->k);
        if (cut)
            prepare->rows(&args);
        args.begin = cut < a->k ? cut : 0;
        args.end = a->k;
        prepare->rows(&args);
    }
}

static void run(checker *c, problem *p)
{
    const cpu_prepare *prepare = p->product ? &p->product->prepare : NULL;
    if (!p->product) {
        c->under->matmul_any(&p->a);
        return;
    }
    if (prepare->rows) {
        const size_t size = prepare->row_size(p->k);
        const bool apart = prepare->together;
        const int64_t before = check_range(c, 0, 2 * CPU_PREPARE_ROWS);
        const int64_t cut =
            apart ? check_range(c, 0, p->k / CPU_BLOCK) * CPU_BLOCK : 0;
        check_that(c, size % 64 == 0, "%s: prepared rows of %zu bytes",
                   check_dtype(p->dtype), size);
        p->prepared =
            check_alloc(cpu_rows_size(p->product, before + p->n, p->k), 0);
        prepare_rows(prepare, &p->a, before, cut, p->prepared);
        p->a.xp = (uint8_t *)p->prepared + (size_t)before * size;
        p->a.xp_row = before;
        p->a.x = NULL;
    }
    p->product->matmul(&p->a);
}

/* Normalised error allowed: see judge(). */
static double bound(const problem *p)
{
    const cpu_prepare *prepare = p->product ? &p->product->prepare : NULL;
    if (!prepare || !prepare->rows)
        return 1e-11;
    /* Activations rounded to 13 bits, or to 8: of each number, or of the
     * largest in a block. */
    double limit = prepare->together                ? 1e-5
                   : prepare->row_size(1024) > 2048 ? 1e-6
                                                    : 1e-4;
    /* Their neighbours lose what outliers gain; and few values scatter. */
    if (p->fill == FILL_OUTLIERS)
        limit *= 100;
    if (p->n * (p->a.o_end - p->a.o_begin) < 32)
        limit *= 10;
    return limit;
}

/*
 * Squared error against the squares of what was summed, over all values: that
 * is the normalised mean square error of uncorrelated inputs, and does not
 * blame a kernel for cancellation.
 */
static void judge(checker *c, problem *p)
{
    const cpu_matmul_args *a = &p->a;
    double error = 0, scale = 1e-60;
    int64_t outside = 0, kinds = 0;

    for (int64_t i = 0; i < p->n; i++) {
        for (int64_t o = 0; o < a->y_stride; o++) {
            float y = p->y[i * a->y_stride + o];
            if (o < a->o_begin || o >= a->o_end) {
                uint32_t bits;
                memcpy(&bits, &y, sizeof(bits));
                outside += bits != 0xffffffff;
                continue;
            }
            double sum = a->bias ? p->bias[o] : 0, squares = sum * sum;
            for (int64_t j = 0; j < p->k; j++) {
                double v =
                    (double)p->x[i * a->x_stride + j] * p->wide[o * p->k + j];
                sum += v;
                squares += v * v;
            }
            if (!isfinite(sum) || !isfinite(y)) {
                kinds += isfinite(sum) != isfinite(y);
                continue;
            }
            error += (sum - y) * (sum - y);
            scale += fmax(squares, sum * sum);
        }
    }
    check_that(c, !outside && !kinds && error <= bound(p) * scale,
               "matmul %s, %s: n %ld k %ld o %ld (%ld..%ld), w stride %ld, "
               "groups of %ld, %ld apart%s: "
               "error %.2g of %.2g, %ld not finite only on one side, "
               "%ld written outside",
               check_dtype(p->dtype), fill_names[p->fill], (long)p->n,
               (long)p->k, (long)p->o, (long)a->o_begin, (long)a->o_end,
               (long)a->w_stride, (long)a->group, (long)a->scale_stride,
               a->bias ? ", bias" : "", error / scale, bound(p), (long)kinds,
               (long)outside);
}

static void finish(checker *c, problem *p)
{
    bool whole =
        check_free(p->x, p->y, p->w, p->bias, p->wide, p->prepared, p->scales);
    check_that(c, whole, "matmul %s: n %ld k %ld o %ld wrote out of bounds",
               check_dtype(p->dtype), (long)p->n, (long)p->k, (long)p->o);
}

static void one(checker *c, int dtype, const cpu_product *product,
                enum fill fill, int64_t n, int64_t k, int64_t o)
{
    problem p = {.dtype = dtype,
                 .product = product,
                 .fill = fill,
                 .n = n,
                 .k = k,
                 .o = o};
    make(c, &p);
    run(c, &p);
    judge(c, &p);
    finish(c, &p);
}

/* Rows and groups that are no whole blocks: the reference alone has these. */
static void check_odd(checker *c, int dtype)
{
    if (c->below->matmul_any == c->under->matmul_any)
        return;
    int64_t unit = odd_unit(dtype);
    for (int i = 0; i < 60; i++) {
        problem p = {.dtype = dtype,
                     .fill = (enum fill)(i % FILL_COUNT),
                     .n = check_range(c, 1, 5),
                     .k = unit * check_range(c, 1, 600),
                     .o = check_range(c, 1, 20)};
        make(c, &p);
        run(c, &p);
        judge(c, &p);
        finish(c, &p);
    }
}

static void check_product(checker *c, int dtype, const cpu_product *product)
{
    static const int64_t rows[] = {1, 2, 3, 4, 5, 7, 8, 9, 13, 26};
    bool blocks = is_block(dtype) || is_scaled(dtype);
    int64_t elements = clv_format_of((uint32_t)dtype)->elements;
    int64_t unit = is_scaled(dtype) ? CPU_BLOCK : elements;
    /* several panels */
    int64_t deep = unit > CPU_BLOCK ? 1280 : blocks ? 1056 : 1043;
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
        for (int fill = 0; fill < FILL_COUNT; fill++) {
            int64_t k = unit * check_range(c, 1, blocks ? 9 : 150);
            one(c, dtype, product, (enum fill)fill, rows[i], k,
                check_range(c, 1, 75));
        }
    /* Every number of rows that kernels divide into groups of theirs, and both
     * sides of those from which they take another way. */
    for (int64_t n = 1; n <= 66; n++)
        one(c, dtype, product, FILL_NORMAL, n, unit * check_range(c, 1, 9),
            check_range(c, 1, 50));
    one(c, dtype, product, FILL_NORMAL, 1, deep, 37);
    one(c, dtype, product, FILL_NORMAL, 14, deep, 170);
    one(c, dtype, product, FILL_EXTREME, 14, 2 * deep - deep % 32 * 2, 35);
    one(c, dtype, product, FILL_OUTLIERS, 31, 512, 33);
    one(c, dtype, product, FILL_NORMAL, 131, 512, 20);
    if (blocks) { /* more of x, and more sums, than the scratch has room for */
        one(c, dtype, product, FILL_NORMAL, 64, 40960, 3);
        one(c, dtype, product, FILL_NORMAL, 4100, unit, 3);
    }
    one(c, dtype, product, FILL_NORMAL, 25, unit > CPU_BLOCK ? 256 : 128, 290);
}

static void check(checker *c)
{
    for (int dtype = 1; dtype < CLV_DTYPE_COUNT; dtype++) {
        const cpu_format *below = &c->below->formats[dtype];
        const cpu_format *under = &c->under->formats[dtype];
        if (is_scaled(dtype))
            check_odd(c, dtype);
        if (below->product.matmul != under->product.matmul)
            check_product(c, dtype, &under->product);
        if (under->many_from && below->many.matmul != under->many.matmul)
            check_product(c, dtype, &under->many);
    }
}

/* -------------------------------------------------------------------------- */

typedef struct timed {
    const cpu_product *product;
    cpu_matmul_args a;
    void *xp;
} timed;

static void call(void *arg)
{
    timed *t = arg;
    if (t->product->prepare.rows)
        prepare_rows(&t->product->prepare, &t->a, 0, 0, t->xp);
    t->product->matmul(&t->a);
}

static void bench_one(checker *c, int dtype, const cpu_product *product,
                      int64_t n, int64_t k, int64_t o)
{
    char what[64];
    size_t row = check_size(dtype, k);
    timed t = {.product = product};
    float *x = check_alloc((size_t)(n * k) * sizeof(*x), 0);
    float *y = check_alloc((size_t)(n * o) * sizeof(*y), 0);
    float *wide = check_alloc((size_t)k * sizeof(*wide), 0);
    float *scales = check_alloc((size_t)o * sizeof(*scales), 0);
    uint8_t *w = check_alloc((size_t)o * row, 0);

    for (int64_t i = 0; i < n * k; i++)
        x[i] = check_normal(c);
    for (int64_t i = 0; i < o; i++) {
        for (int64_t j = 0; j < k; j++)
            wide[j] = (float)(int32_t)check_random(c) * 0x1p-31f;
        if (is_scaled(dtype))
            for (size_t j = 0; j < row; j++)
                w[(size_t)i * row + j] = (uint8_t)check_random(c);
        else if (is_block(dtype))
            fill_blocks(c, &(problem){.dtype = dtype, .k = k},
                        w + (size_t)i * row);
        else
            c->under->formats[dtype].from_f32(wide, w + (size_t)i * row, k);
        scales[i] = 0.01f;
    }
    if (product->prepare.rows)
        t.xp = check_alloc(cpu_rows_size(product, n, k), 0);
    t.a = (cpu_matmul_args){
        .dtype = (uint32_t)dtype,
        .x = x,
        .xp = t.xp,
        .w = w,
        .y = y,
        .n = n,
        .k = k,
        .o_end = o,
        .x_stride = k,
        .y_stride = o,
        .w_stride = (int64_t)row,
        .scales = is_scaled(dtype) ? scales : NULL,
        .scale_stride = 1,
        .group = k,
        .scratch = c->scratch,
    };
    snprintf(what, sizeof(what), "matmul %s %ldx%ldx%ld", check_dtype(dtype),
             (long)n, (long)k, (long)o);
    bench_report(c, what, bench_time(call, &t),
                 2.0 * (double)n * (double)k * (double)o,
                 (double)row * (double)o + 4.0 * (double)(n * (k + o)));
    check_free(x, y, wide, w, scales, t.xp);
}

static void bench(checker *c, const bench_shape *s)
{
    if (strcmp(s->kernel, "matmul") || s->n != 3)
        return;
    for (int dtype = 1; dtype < CLV_DTYPE_COUNT; dtype++) {
        const cpu_format *below = &c->below->formats[dtype];
        const cpu_format *under = &c->under->formats[dtype];
        /* the reference's rate does not depend on n */
        const int64_t n = c->under == c->ref && s->v[0] > 8 ? 8 : s->v[0];
        if (below->product.matmul != under->product.matmul)
            bench_one(c, dtype, &under->product, n, s->v[1], s->v[2]);
        if (under->many_from && below->many.matmul != under->many.matmul)
            bench_one(c, dtype, &under->many, n, s->v[1], s->v[2]);
    }
}

const subject check_matmul = {"matmul", check, bench};
