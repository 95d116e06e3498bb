/* Products and attention, run through OpenCL and compared with sums of doubles.
 * (The conformance kit has more shapes; it runs what a plugin chooses, these
 * cases say what is chosen.) */
#include "runner.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static const gpu_target small = {
    .max_group = 256,
    .max_group_size = {256, 256, 64},
    .local_bytes = 32768,
    .max_binding = 128 << 20,
    .units = 2,
};

static uint32_t seed = 1;

static uint32_t random_bits(void)
{
    seed = seed * 1664525u + 1013904223u;
    return seed >> 8;
}

static float random_float(void)
{
    return (float)(random_bits() & 0xffff) / 32768.0f - 1.0f;
}

static uint16_t half_of(float x) /* of what halves hold exactly or nearly */
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    int32_t e = (int32_t)(u >> 23 & 255) - 112;
    if (e <= 0)
        return (uint16_t)(u >> 16 & 0x8000);
    return (uint16_t)((u >> 16 & 0x8000) | (uint32_t)e << 10 |
                      (u >> 13 & 1023));
}

#define MAX_TENSORS GRAPH_TENSORS

/* A graph of one node with its memory. */
typedef struct bench {
    graph g;
    void *data[MAX_TENSORS];
    size_t size[MAX_TENSORS];
} bench;

static uint32_t add(bench *b, uint32_t dtype, uint32_t usage, int64_t rows,
                    int64_t channels, int64_t stride)
{
    int64_t elements, bytes;
    uint32_t t = graph_tensor(&b->g, dtype, usage, rows, channels);
    clv_block(dtype, &elements, &bytes);
    int64_t row = channels / elements * bytes;
    if (stride) {
        b->g.tensors[t].strides[0] = stride;
        b->g.tensors[t].strides[1] = bytes;
    } else {
        stride = row;
    }
    b->size[t] = (size_t)((rows ? rows - 1 : 0) * stride + row);
    b->data[t] = calloc(1, b->size[t]);
    assert_non_null(b->data[t]);
    for (size_t i = 0; i < b->size[t]; i++)
        ((uint8_t *)b->data[t])[i] = (uint8_t)random_bits();
    return t;
}

static void free_bench(bench *b)
{
    for (uint32_t i = 0; i < b->g.sub.n_tensors; i++)
        free(b->data[i]);
}

static const uint8_t *row_of(const bench *b, uint32_t t, int64_t i)
{
    const clv_tensor_desc *d = &b->g.tensors[t];
    int64_t elements, bytes;
    clv_block(d->dtype, &elements, &bytes);
    int64_t row = d->dims[d->rank - 1] / elements * bytes;
    return (const uint8_t *)b->data[t] +
           i * (d->strides[0] ? d->strides[0] : row);
}

/* The number in row i, channel c, but for scales that lie beside it. */
static double value(const bench *b, uint32_t t, int64_t i, int64_t c)
{
    const uint8_t *row = row_of(b, t, i);
    uint32_t bits = 0;
    float x;
    uint16_t h;
    switch (b->g.tensors[t].dtype) {
    case CLV_DTYPE_F32:
        memcpy(&x, row + 4 * c, 4);
        return x;
    case CLV_DTYPE_F16:
        memcpy(&h, row + 2 * c, 2);
        return clv_half(h);
    case CLV_DTYPE_BF16:
        memcpy((uint8_t *)&bits + 2, row + 2 * c, 2);
        memcpy(&x, &bits, 4);
        return x;
    case CLV_DTYPE_I8:
        return (int8_t)row[c];
    case CLV_DTYPE_I4:
        return (int)((row[c / 2] >> c % 2 * 4 & 15) ^ 8) - 8;
    case CLV_DTYPE_Q8_0:
        memcpy(&h, row + c / 32 * 34, 2);
        return clv_half(h) * (int8_t)row[c / 32 * 34 + 2 + c % 32];
    case CLV_DTYPE_Q4_0:
        memcpy(&h, row + c / 32 * 18, 2);
        return (double)clv_half(h) *
               ((row[c / 32 * 18 + 2 + c % 16] >> c % 32 / 16 * 4 & 15) - 8);
    }
    fail_msg("no such dtype");
    return 0;
}

/* Numbers in place of random bytes, where those may be NaN or huge. */
static void fill(bench *b, uint32_t t)
{
    const clv_tensor_desc *d = &b->g.tensors[t];
    const int64_t rows = d->rank < 2 ? 1 : d->dims[0];
    const int64_t channels = d->dims[d->rank - 1];
    for (int64_t i = 0; i < rows; i++) {
        uint8_t *row = (uint8_t *)(uintptr_t)row_of(b, t, i);
        for (int64_t c = 0; c < channels; c++) {
            float x = random_float();
            uint16_t h = half_of(x);
            if (d->dtype == CLV_DTYPE_F32)
                memcpy(row + 4 * c, &x, 4);
            else if (d->dtype == CLV_DTYPE_F16)
                memcpy(row + 2 * c, &h, 2);
            else if (d->dtype == CLV_DTYPE_BF16)
                memcpy(row + 2 * c, (uint8_t *)&x + 2, 2);
            else if (d->dtype == CLV_DTYPE_Q8_0 && c % 32 == 0)
                memcpy(row + c / 32 * 34, &h, 2);
            else if (d->dtype == CLV_DTYPE_Q4_0 && c % 32 == 0)
                memcpy(row + c / 32 * 18, &h, 2);
        }
    }
}

typedef struct judge {
    double error, norm;
} judge;

static void expect(judge *j, double got, double want)
{
    j->error += (got - want) * (got - want);
    j->norm += want * want;
}

static double tolerance = 1e-10;

static void conclude(const judge *j, const char *what)
{
    if (!(j->error <= tolerance * j->norm))
        fail_msg("%s: normalised mean square error %g", what,
                 j->error / j->norm);
}

/* ------------------------------------------------------------------------ */
/* Products                                                                  */

typedef struct product {
    uint32_t dtype, quant, group;
    int64_t n, in, out, pad; /* pad: elements or blocks behind each row */
    bool bias, symbolic;
} product;

static double scale_of(const bench *b, const product *p, uint32_t scales,
                       int64_t o, int64_t c)
{
    if (!p->quant)
        return 1;
    if (p->quant == CLV_QUANT_PER_GROUP)
        return value(b, scales, o, c / p->group);
    return value(b, scales, 0, p->quant == CLV_QUANT_PER_CHANNEL ? o : 0);
}

static void judge_product(const bench *b, const product *p, uint32_t scales,
                          const char *what)
{
    judge j = {0, 0};
    for (int64_t i = 0; i < p->n; i++)
        for (int64_t o = 0; o < p->out; o++) {
            double sum = p->bias ? value(b, 3, 0, o) : 0;
            for (int64_t c = 0; c < p->in; c++)
                sum += value(b, 0, i, c) * value(b, 1, o, c) *
                       scale_of(b, p, scales, o, c);
            expect(&j, value(b, 2, i, o), sum);
        }
    conclude(&j, what);
}

static void run_product(runner *r, const product *p)
{
    bench b = {0};
    char what[120];
    int64_t elements, bytes, symbol = p->n;
    clv_block(p->dtype, &elements, &bytes);
    snprintf(what, sizeof what, "dtype %u, scheme %u, group %u: [%d, %d] x %d",
             p->dtype, p->quant, p->group, (int)p->n, (int)p->in, (int)p->out);
    graph_init(&b.g);
    add(&b, CLV_DTYPE_F32, CLV_USAGE_INPUT, p->n, p->in,
        p->pad ? 4 * (p->in + p->pad) : 0);
    add(&b, p->dtype, CLV_USAGE_WEIGHT, p->out, p->in,
        p->pad ? (p->in / elements + p->pad) * bytes : 0);
    add(&b, CLV_DTYPE_F32, CLV_USAGE_OUTPUT, p->n, p->out,
        p->pad ? 4 * (p->out + p->pad) : 0);
    uint32_t inputs[4] = {0, 1, CLV_NO_TENSOR, CLV_NO_TENSOR};
    if (p->bias)
        inputs[2] = add(&b, CLV_DTYPE_F32, CLV_USAGE_WEIGHT, 0, p->out, 0);
    uint32_t scales = b.g.sub.n_tensors;
    if (p->quant == CLV_QUANT_PER_GROUP)
        add(&b, CLV_DTYPE_F32, CLV_USAGE_WEIGHT, p->out, p->in / p->group, 0);
    else if (p->quant)
        add(&b, CLV_DTYPE_F32, CLV_USAGE_WEIGHT, 0,
            p->quant == CLV_QUANT_PER_CHANNEL ? p->out : 1, 0);
    b.g.tensors[1].quant = p->quant;
    b.g.tensors[1].quant_group = p->group;
    b.g.tensors[1].quant_scales = p->quant ? scales + 1 : 0;
    for (uint32_t t = 0; t < b.g.sub.n_tensors; t++)
        fill(&b, t);
    graph_node(&b.g, CLV_OP_MATMUL, 2, inputs);
    if (p->symbolic)
        graph_symbol(&b.g, p->n);
    runner_run(r, &b.g, b.data, b.size, &symbol);
    judge_product(&b, p, scales, what);
    free_bench(&b);
}

static const struct {
    uint32_t dtype, quant, group;
} formats[] = {
    {CLV_DTYPE_F32, 0, 0},
    {CLV_DTYPE_F16, 0, 0},
    {CLV_DTYPE_BF16, 0, 0},
    {CLV_DTYPE_Q8_0, 0, 0},
    {CLV_DTYPE_Q4_0, 0, 0},
    {CLV_DTYPE_I8, CLV_QUANT_PER_TENSOR, 0},
    {CLV_DTYPE_I8, CLV_QUANT_PER_CHANNEL, 0},
    {CLV_DTYPE_I8, CLV_QUANT_PER_GROUP, 48},
    {CLV_DTYPE_I8, CLV_QUANT_PER_GROUP, 6},
    {CLV_DTYPE_I4, CLV_QUANT_PER_TENSOR, 0},
    {CLV_DTYPE_I4, CLV_QUANT_PER_GROUP, 32},
    {CLV_DTYPE_I4, CLV_QUANT_PER_GROUP, 6},
};

static void run_format(runner *r, uint32_t i)
{
    static const int64_t shapes[][3] = {
        {1, 96, 17}, {1, 1056, 5}, {3, 96, 9}, {2, 64, 1}, {37, 96, 70}};
    const uint32_t group = formats[i].group;
    const bool all = formats[i].dtype == CLV_DTYPE_Q8_0;
    for (uint32_t k = 0; k < 5; k++) {
        if (!all && k > 1 && k < 4)
            continue; /* they are as these, for more rows */
        product p = {formats[i].dtype, formats[i].quant, group, shapes[k][0],
                     shapes[k][1], shapes[k][2], k % 2 ? 3 : 0, true,
                     k > 1};
        if (group)
            p.in = p.in / group * group;
        if (p.in && p.in % 2 == 0)
            run_product(r, &p);
        p.in = group ? 3 * group : p.dtype >= CLV_DTYPE_Q8_0 ? 32 : 62;
        run_product(r, &p);
        p.in = 31;
        if (p.dtype <= CLV_DTYPE_BF16)
            run_product(r, &p);
    }
}

static void test_products(void **state)
{
    gpu_target target = small;
    runner *r = runner_open(&target);
    (void)state;
    if (!r)
        skip();
    for (uint32_t i = 0; i < sizeof formats / sizeof formats[0]; i++)
        run_format(r, i);
    runner_close(r);
}

/* Matrix instructions, here by plain code: few rows as exact as floats, many
 * rounded to halves, sums in parts where there are too few tiles. */
static void test_matrix_products(void **state)
{
    static const uint32_t dtypes[] = {CLV_DTYPE_F16, CLV_DTYPE_Q8_0,
                                      CLV_DTYPE_Q4_0};
    static const int64_t shapes[][3] = {{1, 4160, 17}, {3, 2112, 33},
                                        {8, 1056, 16}, {9, 96, 70},
                                        {140, 544, 150}};
    gpu_target target = small;
    target.units = 16; /* that tiles cannot keep busy */
    target.plain_matrix = true;
    target.local_bytes = 48 * 1024;
    runner *r = runner_open(&target);
    (void)state;
    if (!r)
        skip();
    for (uint32_t i = 0; i < 3; i++)
        for (uint32_t k = 0; k < 5; k++) {
            if (dtypes[i] != CLV_DTYPE_Q8_0 && k != 1 && k != 4)
                continue;
            product p = {dtypes[i], 0, 0, shapes[k][0], shapes[k][1],
                         shapes[k][2], k % 2 ? 3 : 0, k % 3 > 0, k > 1};
            tolerance = p.n <= 8 ? 1e-10 : 1e-6;
            run_product(r, &p);
        }
    tolerance = 1e-10;
    runner_close(r);
}

/* ------------------------------------------------------------------------ */
/* Products that share their x                                               */

#define TEAM_IN 96

/* x normalised, as the team's kernel does on the way. */
static double normalised(const bench *b, int64_t i, int64_t c)
{
    double sum = 0;
    for (int64_t k = 0; k < TEAM_IN; k++)
        sum += value(b, 0, i, k) * value(b, 0, i, k);
    return value(b, 0, i, c) / sqrt(sum / TEAM_IN + 1e-3f) * value(b, 1, 0, c);
}

static double team_product(const bench *b, uint32_t w, uint32_t bias,
                           int64_t i, int64_t o)
{
    double sum = bias == CLV_NO_TENSOR ? 0 : value(b, bias, 0, o);
    for (int64_t c = 0; c < TEAM_IN; c++)
        sum += normalised(b, i, c) * value(b, w, o, c);
    return sum;
}

/* Tensors 0 x, 1 weights of the norm, 2 what it makes. */
static void begin_team(bench *b, int64_t n)
{
    graph_init(&b->g);
    add(b, CLV_DTYPE_F32, CLV_USAGE_INPUT, n, TEAM_IN, 0);
    add(b, CLV_DTYPE_F32, CLV_USAGE_WEIGHT, 0, TEAM_IN, 0);
    add(b, CLV_DTYPE_F32, CLV_USAGE_TRANSIENT, n, TEAM_IN, 0);
    graph_node(&b->g, CLV_OP_RMS_NORM, 2,
               (const uint32_t[]){0, 1, CLV_NO_TENSOR})->attr.norm.eps = 1e-3f;
}

/* A product of the norm; returns what it makes. */
static uint32_t add_product(bench *b, uint32_t dtype, int64_t n, int64_t out,
                            bool bias, uint32_t *w, uint32_t *its_bias)
{
    *w = add(b, dtype, CLV_USAGE_WEIGHT, out, TEAM_IN, 0);
    *its_bias = CLV_NO_TENSOR;
    if (bias)
        *its_bias = add(b, CLV_DTYPE_F32, CLV_USAGE_WEIGHT, 0, out, 0);
    uint32_t y = add(b, CLV_DTYPE_F32, CLV_USAGE_TRANSIENT, n, out, 0);
    graph_node(&b->g, CLV_OP_MATMUL, y,
               (const uint32_t[]){2, *w, *its_bias, CLV_NO_TENSOR});
    return y;
}

static void fill_team(bench *b)
{
    for (uint32_t t = 0; t < b->g.sub.n_tensors; t++)
        if (b->g.tensors[t].dtype != CLV_DTYPE_I32)
            fill(b, t);
    for (int64_t c = 0; c < TEAM_IN; c++)
        ((float *)b->data[1])[c] /= 256; /* so that no exp() overflows */
}

/* Three products, the last one's rows into a cache by ids. */
static void run_three(runner *r, uint32_t dtype, int64_t n, bool bias)
{
    static const int64_t outs[] = {40, 16, 33};
    bench b = {0};
    uint32_t w[3], biases[3], y[3], seen[2];
    judge j = {0, 0};
    begin_team(&b, n);
    for (uint32_t i = 0; i < 3; i++)
        y[i] = add_product(&b, dtype, n, outs[i], bias, &w[i], &biases[i]);
    for (uint32_t i = 0; i < 2; i++) {
        seen[i] = add(&b, CLV_DTYPE_F32, CLV_USAGE_OUTPUT, n, outs[i], 0);
        graph_node(&b.g, CLV_OP_SOFTMAX, seen[i],
                   (const uint32_t[]){y[i], CLV_NO_TENSOR});
    }
    uint32_t state = add(&b, CLV_DTYPE_F32, CLV_USAGE_STATE, n + 2, outs[2], 0);
    uint32_t ids = add(&b, CLV_DTYPE_I32, CLV_USAGE_INPUT, 0, n, 0);
    for (int32_t i = 0; i < n; i++)
        ((int32_t *)b.data[ids])[i] = (int32_t)n - i;
    graph_node(&b.g, CLV_OP_SET_ROWS, CLV_NO_TENSOR,
               (const uint32_t[]){state, y[2], ids, CLV_NO_TENSOR});
    fill_team(&b);
    runner_run(r, &b.g, b.data, b.size, NULL);
    for (int64_t i = 0; i < n; i++) {
        for (uint32_t k = 0; k < 2; k++) {
            double sum = 0;
            for (int64_t o = 0; o < outs[k]; o++)
                sum += exp(team_product(&b, w[k], biases[k], i, o));
            for (int64_t o = 0; o < outs[k]; o++)
                expect(&j, value(&b, seen[k], i, o),
                       exp(team_product(&b, w[k], biases[k], i, o)) / sum);
        }
        for (int64_t o = 0; o < outs[2]; o++)
            expect(&j, value(&b, state, n - i, o),
                   team_product(&b, w[2], biases[2], i, o));
    }
    conclude(&j, "three products of a norm");
    free_bench(&b);
}

/* Gate and up, whose GLU is seen through a softmax. */
static void run_glu(runner *r, uint32_t dtype, int64_t n, bool gelu)
{
    bench b = {0};
    uint32_t w[2], none;
    judge j = {0, 0};
    begin_team(&b, n);
    uint32_t gate = add_product(&b, dtype, n, 50, false, &w[0], &none);
    uint32_t up = add_product(&b, dtype, n, 50, false, &w[1], &none);
    uint32_t both = add(&b, CLV_DTYPE_F32, CLV_USAGE_TRANSIENT, n, 50, 0);
    uint32_t seen = add(&b, CLV_DTYPE_F32, CLV_USAGE_OUTPUT, n, 50, 0);
    graph_node(&b.g, CLV_OP_GLU, both,
               (const uint32_t[]){gate, up, CLV_NO_TENSOR})
        ->attr.glu.activation = gelu ? CLV_ACT_GELU_TANH : CLV_ACT_SILU;
    graph_node(&b.g, CLV_OP_SOFTMAX, seen,
               (const uint32_t[]){both, CLV_NO_TENSOR});
    fill_team(&b);
    runner_run(r, &b.g, b.data, b.size, NULL);
    for (int64_t i = 0; i < n; i++) {
        double sum = 0, y[50];
        for (int64_t o = 0; o < 50; o++) {
            double g = team_product(&b, w[0], CLV_NO_TENSOR, i, o);
            double z = 0.7978845608 * (g + 0.044715 * g * g * g);
            double a = gelu ? 0.5 * g * (1 + tanh(z)) : g / (1 + exp(-g));
            y[o] = exp(a * team_product(&b, w[1], CLV_NO_TENSOR, i, o));
            sum += y[o];
        }
        for (int64_t o = 0; o < 50; o++)
            expect(&j, value(&b, seen, i, o), y[o] / sum);
    }
    conclude(&j, "gate and up of a norm");
    free_bench(&b);
}

static void test_teams(void **state)
{
    gpu_target target = small;
    target.plain_matrix = true;
    target.local_bytes = 48 * 1024;
    runner *r = runner_open(&target);
    (void)state;
    if (!r)
        skip();
    run_three(r, CLV_DTYPE_Q8_0, 1, false);
    run_three(r, CLV_DTYPE_Q4_0, 5, true);
    run_glu(r, CLV_DTYPE_Q8_0, 1, false);
    run_glu(r, CLV_DTYPE_F16, 3, true);
    runner_close(r);
}

/* Large tiles, as devices with many units have; weights read in parts where a
 * binding reaches few of them. */
static void test_tiles_and_parts(void **state)
{
    gpu_target target = small;
    target.units = 10;
    target.max_binding = 80000;
    runner *r = runner_open(&target);
    (void)state;
    if (!r)
        skip();
    const product large = {CLV_DTYPE_Q8_0, 0, 0, 70, 64, 230, 0, true, true};
    const product parts = {CLV_DTYPE_Q8_0, 0, 0, 2, 512, 300, 0, true, false};
    const product groups = {CLV_DTYPE_I8, CLV_QUANT_PER_GROUP, 32, 2, 512, 300,
                            0, true, false};
    const product channels = {CLV_DTYPE_I8, CLV_QUANT_PER_CHANNEL, 0, 9, 512,
                              300, 0, false, false};
    run_product(r, &large);
    run_product(r, &parts);
    run_product(r, &groups);
    run_product(r, &channels);
    runner_close(r);
}

/* Activations as bytes, where the device has products of those. */
static void test_bytes(void **state)
{
    gpu_target target = small;
    target.int_dot = true;
    runner *r = runner_open(&target);
    (void)state;
    if (!r)
        skip();
    const product cases[] = {
        {CLV_DTYPE_Q8_0, 0, 0, 37, 96, 70, 3, true, true},
        {CLV_DTYPE_Q4_0, 0, 0, 37, 96, 70, 0, true, true},
        {CLV_DTYPE_I8, CLV_QUANT_PER_CHANNEL, 0, 9, 64, 70, 1, true, true},
        {CLV_DTYPE_I4, CLV_QUANT_PER_GROUP, 32, 9, 64, 70, 0, true, true}};
    tolerance = 1e-4;
    for (uint32_t i = 0; i < 4; i++)
        run_product(r, &cases[i]);
    tolerance = 1e-10;
    runner_close(r);
}

/* ------------------------------------------------------------------------ */
/* Attention                                                                 */

typedef struct heads {
    uint32_t dtype;
    int64_t n, heads, groups, dim, rows, first, pad;
    int32_t window;
    float softcap;
    bool bound; /* by a symbol, below rows */
} heads;

static bool sees(const heads *h, int64_t query, int64_t row)
{
    int64_t pos = h->first + query;
    return row <= pos && (!h->window || row > pos - h->window);
}

static void judge_head(const bench *b, const heads *h, int64_t i, int64_t head,
                       judge *j)
{
    const int64_t column = head / (h->heads / h->groups) * h->dim;
    double top = -INFINITY, sum = 0;
    double *p = calloc((size_t)h->rows, sizeof *p);
    assert_non_null(p);
    for (int64_t row = 0; row < h->rows; row++) {
        for (int64_t d = 0; d < h->dim; d++)
            p[row] += value(b, 0, i, head * h->dim + d) *
                      value(b, 1, row, column + d);
        p[row] *= 0.7f;
        if (h->softcap)
            p[row] = h->softcap * tanh(p[row] / h->softcap);
        if (sees(h, i, row))
            top = fmax(top, p[row]);
    }
    for (int64_t row = 0; row < h->rows; row++)
        sum += p[row] = sees(h, i, row) ? exp(p[row] - top) : 0;
    for (int64_t d = 0; d < h->dim; d++) {
        double y = 0;
        for (int64_t row = 0; row < h->rows && sum != 0; row++)
            if (p[row] != 0)
                y += p[row] / sum * value(b, 2, row, column + d);
        expect(j, value(b, 4, i, head * h->dim + d), y);
    }
    free(p);
}

/* Rows that no query sees are NaN. */
static void poison(bench *b, const heads *h, uint32_t t)
{
    for (int64_t row = 0; row < h->rows; row++) {
        bool seen = false;
        for (int64_t i = 0; i < h->n; i++)
            seen |= sees(h, i, row);
        if (!seen)
            memset((uint8_t *)(uintptr_t)row_of(b, t, row), 0xff,
                   (size_t)(h->groups * h->dim) *
                       (h->dtype == CLV_DTYPE_F32 ? 4 : 2));
    }
}

static void run_heads(runner *r, const heads *h)
{
    bench b = {0};
    char what[120];
    int64_t symbols[2] = {h->n, h->first + h->n};
    const int64_t size = h->dtype == CLV_DTYPE_F32 ? 4 : 2;
    const int64_t stride = h->pad ? (h->groups * h->dim + h->pad) * size : 0;
    snprintf(what, sizeof what, "attention, dtype %u: %d x %d/%d x %d, %d rows",
             h->dtype, (int)h->n, (int)h->heads, (int)h->groups, (int)h->dim,
             (int)h->rows);
    graph_init(&b.g);
    add(&b, CLV_DTYPE_F32, CLV_USAGE_INPUT, h->n, h->heads * h->dim, 0);
    add(&b, h->dtype, CLV_USAGE_STATE, h->rows, h->groups * h->dim, stride);
    add(&b, h->dtype, CLV_USAGE_STATE, h->rows, h->groups * h->dim, stride);
    add(&b, CLV_DTYPE_I32, CLV_USAGE_INPUT, 0, h->n, 0);
    add(&b, CLV_DTYPE_F32, CLV_USAGE_OUTPUT, h->n, h->heads * h->dim, 0);
    for (uint32_t t = 0; t < 3; t++)
        fill(&b, t);
    for (int64_t i = 0; i < h->n; i++)
        ((int32_t *)b.data[3])[i] = (int32_t)(h->first + i);
    poison(&b, h, 1);
    poison(&b, h, 2);
    clv_node *node = graph_node(&b.g, CLV_OP_ATTENTION, 4,
                                (const uint32_t[]){0, 1, 2, 3, CLV_NO_TENSOR});
    node->attr.attention.head_dim = (uint32_t)h->dim;
    node->attr.attention.scale = 0.7f;
    node->attr.attention.softcap = h->softcap;
    node->attr.attention.window = h->window;
    if (h->bound) {
        b.g.symbols[0] = (clv_symbol_range){1, h->n};
        b.g.symbols[1] = (clv_symbol_range){1, h->rows};
        b.g.sub.n_symbols = 2;
        node->attr.attention.rows_symbol = 2;
    }
    runner_run(r, &b.g, b.data, b.size, symbols);
    judge j = {0, 0};
    for (int64_t i = 0; i < h->n; i++)
        for (int64_t head = 0; head < h->heads; head++)
            judge_head(&b, h, i, head, &j);
    conclude(&j, what);
    free_bench(&b);
}

static const heads attention_cases[] = {
    {.n = 1, .heads = 1, .groups = 1, .dim = 1, .rows = 1},
    {.n = 1, .heads = 8, .groups = 2, .dim = 64, .rows = 64, .first = 50},
    {.n = 1, .heads = 6, .groups = 3, .dim = 80, .rows = 700, .first = 699},
    {.n = 1, .heads = 4, .groups = 2, .dim = 32, .rows = 700, .first = 320,
     .bound = true},
    {.n = 37, .heads = 4, .groups = 4, .dim = 32, .rows = 37},
    {.n = 33, .heads = 2, .groups = 1, .dim = 128, .rows = 400, .first = 300,
     .window = 100, .pad = 3},
    {.n = 5, .heads = 2, .groups = 2, .dim = 40, .rows = 20, .first = 3,
     .window = 1},
    {.n = 9, .heads = 4, .groups = 2, .dim = 256, .rows = 64, .first = 20,
     .softcap = 2},
    {.n = 6, .heads = 2, .groups = 1, .dim = 23, .rows = 10, .first = -3,
     .pad = 1},
    {.n = 6, .heads = 2, .groups = 1, .dim = 24, .rows = 10, .first = 8},
    {.n = 3, .heads = 2, .groups = 1, .dim = 24, .rows = 10, .first = 1000,
     .window = 7},
    {.n = 2, .heads = 3, .groups = 1, .dim = 7, .rows = 10,
     .first = INT32_MAX - 2},
    {.n = 3, .heads = 2, .groups = 2, .dim = 1024, .rows = 30, .first = 20},
};

static void test_attention(void **state)
{
    gpu_target target = small;
    runner *r = runner_open(&target);
    (void)state;
    if (!r)
        skip();
    for (uint32_t i = 0;
         i < sizeof attention_cases / sizeof attention_cases[0]; i++) {
        heads h = attention_cases[i];
        h.dtype = CLV_DTYPE_F32;
        run_heads(r, &h);
        h.dtype = CLV_DTYPE_F16;
        run_heads(r, &h);
    }
    runner_close(r);
}

/* Many queries, by matrix instructions in plain code. */
static void test_matrix_attention(void **state)
{
    static const heads cases[] = {
        {.n = 37, .heads = 4, .groups = 4, .dim = 32, .rows = 37},
        {.n = 70, .heads = 6, .groups = 2, .dim = 128, .rows = 300,
         .first = 201, .bound = true},
        {.n = 33, .heads = 2, .groups = 1, .dim = 72, .rows = 400,
         .first = 300, .window = 100, .pad = 3},
        {.n = 40, .heads = 2, .groups = 2, .dim = 64, .rows = 64, .first = 10,
         .softcap = 2},
        {.n = 40, .heads = 2, .groups = 1, .dim = 24, .rows = 30, .first = 1000,
         .window = 990},
        {.n = 34, .heads = 1, .groups = 1, .dim = 8, .rows = 70, .first = -3},
    };
    gpu_target target = small;
    target.plain_matrix = true;
    target.local_bytes = 48 * 1024;
    runner *r = runner_open(&target);
    (void)state;
    if (!r)
        skip();
    tolerance = 1e-6;
    for (uint32_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        heads h = cases[i];
        h.dtype = CLV_DTYPE_F16;
        run_heads(r, &h);
    }
    tolerance = 1e-10;
    runner_close(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_products),
        cmocka_unit_test(test_matrix_products),
        cmocka_unit_test(test_teams),
        cmocka_unit_test(test_tiles_and_parts),
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_attention),
        cmocka_unit_test(test_matrix_attention),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
