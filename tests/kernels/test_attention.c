/* Attention, run through OpenCL and compared with sums of doubles. With the
 * argument "all", in more types of caches and shapes. */
#include "sample.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static bool all; /* the argument */
static double tolerance = 1e-10;

typedef struct heads {
    uint32_t dtype;
    int64_t n, heads, groups, dim, rows, first, pad;
    int64_t begin; /* of the sequence, in the cache */
    int32_t window;
    float softcap;
    bool bound;  /* by a symbol, below rows */
    bool apart;  /* each query has a part of the cache */
    bool more;   /* with "all" alone */
    bool blocks; /* in CLV_DTYPE_Q8_0, too; with "all", where it can be */
} heads;

static int64_t first_row(const heads *h, int64_t query)
{
    return h->apart ? query * (h->rows / h->n) : h->begin;
}

static int64_t last_row(const heads *h, int64_t query)
{
    return h->apart ? first_row(h, query) + h->first - query % 3
                    : h->first + query;
}

static bool sees(const heads *h, int64_t query, int64_t row)
{
    const int64_t pos = last_row(h, query);
    return row >= first_row(h, query) && row <= pos &&
           (!h->window || row > pos - h->window);
}

/* Blocks have numbers up to 127, not 1. */
static float factor_of(const heads *h)
{
    return h->dtype == CLV_DTYPE_Q8_0 ? 0.7f / 64 : 0.7f;
}

static void judge_head(const sample *b, const heads *h, int64_t i, int64_t head,
                       judge *j)
{
    const int64_t column = head / (h->heads / h->groups) * h->dim;
    double top = -INFINITY, sum = 0;
    double *p = calloc((size_t)h->rows, sizeof *p);
    assert_non_null(p);
    for (int64_t row = 0; row < h->rows; row++) {
        for (int64_t d = 0; d < h->dim; d++)
            p[row] += sample_value(b, 0, i, head * h->dim + d) *
                      sample_value(b, 1, row, column + d);
        p[row] *= factor_of(h);
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
                y += p[row] / sum * sample_value(b, 2, row, column + d);
        judge_expect(j, sample_value(b, 4, i, head * h->dim + d), y);
    }
    free(p);
}

/* Bytes of so many elements of the cache. */
static int64_t size_of(const heads *h, int64_t n)
{
    const clv_format *f = clv_format_of(h->dtype);
    return n / f->elements * f->bytes;
}

/* Some of those whose heads are whole blocks. */
static bool suits_blocks(const heads *h)
{
    return h->dim % 32 == 0 && h->dim <= 128 && (all || h->blocks);
}

/* Rows that no query sees are NaN. */
static void poison(sample *b, const heads *h, uint32_t t)
{
    for (int64_t row = 0; row < h->rows; row++) {
        bool seen = false;
        for (int64_t i = 0; i < h->n; i++)
            seen |= sees(h, i, row);
        if (!seen)
            memset((uint8_t *)(uintptr_t)sample_row(b, t, row), 0xff,
                   (size_t)size_of(h, h->groups * h->dim));
    }
}

static void describe(sample *b, const heads *h)
{
    const clv_format *f = clv_format_of(h->dtype);
    const int64_t row = size_of(h, h->groups * h->dim);
    const int64_t stride = h->pad ? row + h->pad * f->bytes : 0;
    graph_init(&b->g);
    sample_add(b, CLV_DTYPE_F32, CLV_USAGE_INPUT, h->n, h->heads * h->dim, 0);
    sample_add(b, h->dtype, CLV_USAGE_STATE, h->rows, h->groups * h->dim,
               stride);
    sample_add(b, h->dtype, CLV_USAGE_STATE, h->rows, h->groups * h->dim,
               stride);
    sample_add(b, CLV_DTYPE_I32, CLV_USAGE_INPUT, 0, h->n, 0);
    sample_add(b, CLV_DTYPE_F32, CLV_USAGE_OUTPUT, h->n, h->heads * h->dim, 0);
    uint32_t first = CLV_NO_TENSOR;
    if (h->apart || h->begin)
        first = sample_add(b, CLV_DTYPE_I32, CLV_USAGE_INPUT, 0, h->n, 0);
    clv_node *node =
        graph_node(&b->g, CLV_OP_ATTENTION, 4,
                   (const uint32_t[]){0, 1, 2, 3, first, CLV_NO_TENSOR});
    node->attr.attention.apart = h->apart;
    node->attr.attention.head_dim = (uint32_t)h->dim;
    node->attr.attention.scale = factor_of(h);
    node->attr.attention.softcap = h->softcap;
    node->attr.attention.window = h->window;
    if (h->bound) {
        b->g.symbols[0] = (clv_symbol_range){1, h->n};
        b->g.symbols[1] = (clv_symbol_range){1, h->rows};
        b->g.sub.n_symbols = 2;
        node->attr.attention.rows_symbol = 2;
    }
}

/* Runs what has begun with numbers for h->first, and judges what comes out. */
static void run_at(running *p, sample *b, const heads *h)
{
    char what[120];
    int64_t symbols[2] = {h->n, h->first + h->n};
    snprintf(what, sizeof what,
             "attention, dtype %u: %d x %d/%d x %d, %d rows, "
             "at %d",
             h->dtype, (int)h->n, (int)h->heads, (int)h->groups, (int)h->dim,
             (int)h->rows, (int)h->first);
    for (uint32_t t = 0; t < 3; t++)
        sample_fill(b, t);
    for (int64_t i = 0; i < h->n; i++) {
        ((int32_t *)b->data[3])[i] = (int32_t)last_row(h, i);
        if (h->apart || h->begin)
            ((int32_t *)b->data[5])[i] = (int32_t)first_row(h, i);
    }
    poison(b, h, 1);
    poison(b, h, 2);
    runner_once(p, symbols);
    judge j = {0, 0};
    for (int64_t i = 0; i < h->n; i++)
        for (int64_t head = 0; head < h->heads; head++)
            judge_head(b, h, i, head, &j);
    judge_conclude(&j, tolerance, what);
}

static void run_heads(runner *r, const heads *h)
{
    sample b = {0};
    describe(&b, h);
    running *p = runner_begin(r, &b.g, b.data, b.size);
    run_at(p, &b, h);
    runner_end(p);
    sample_free(&b);
}

static const heads attention_cases[] = {
    {.n = 1, .heads = 1, .groups = 1, .dim = 1, .rows = 1},
    {.n = 1, .heads = 8, .groups = 2, .dim = 64, .rows = 64, .first = 50},
    {.n = 1, .heads = 6, .groups = 3, .dim = 80, .rows = 700, .first = 699},
    {.n = 1,
     .heads = 4,
     .groups = 2,
     .dim = 32,
     .rows = 700,
     .first = 320,
     .bound = true,
     .blocks = true},
    {.n = 37, .heads = 4, .groups = 4, .dim = 32, .rows = 37},
    {.n = 33,
     .heads = 2,
     .groups = 1,
     .dim = 128,
     .rows = 400,
     .first = 300,
     .window = 100,
     .pad = 3},
    {.n = 5,
     .heads = 2,
     .groups = 2,
     .dim = 40,
     .rows = 20,
     .first = 3,
     .window = 1},
    {.n = 9,
     .heads = 4,
     .groups = 2,
     .dim = 256,
     .rows = 64,
     .first = 20,
     .softcap = 2},
    {.n = 6,
     .heads = 2,
     .groups = 1,
     .dim = 23,
     .rows = 10,
     .first = -3,
     .pad = 1},
    {.n = 6, .heads = 2, .groups = 1, .dim = 24, .rows = 10, .first = 8},
    {.n = 3,
     .heads = 2,
     .groups = 1,
     .dim = 24,
     .rows = 10,
     .first = 1000,
     .window = 7},
    {.n = 2,
     .heads = 3,
     .groups = 1,
     .dim = 7,
     .rows = 10,
     .first = INT32_MAX - 2},
    {.n = 3, .heads = 2, .groups = 2, .dim = 1024, .rows = 30, .first = 20},
};

static void test_attention(void **state)
{
    gpu_target target = sample_target;
    runner *r = runner_open(&target);
    (void)state;
    if (!r)
        skip();
    for (uint32_t i = 0; i < sizeof attention_cases / sizeof attention_cases[0];
         i++) {
        heads h = attention_cases[i];
        h.dtype = CLV_DTYPE_F32;
        if (all || i % 2)
            run_heads(r, &h);
        h.dtype = CLV_DTYPE_F16;
        if (all || i % 2 == 0)
            run_heads(r, &h);
        h.dtype = CLV_DTYPE_Q8_0;
        if (suits_blocks(&h))
            run_heads(r, &h);
    }
    runner_close(r);
}

static gpu_target matrix_target(uint32_t units)
{
    gpu_target target = sample_target;
    target.plain_matrix = true;
    target.local_bytes = 48 * 1024;
    target.units = units;
    return target;
}

/* Many queries, by matrix instructions in plain code. */
static void test_matrix_attention(void **state)
{
    static const heads cases[] = {
        {.n = 37, .heads = 4, .groups = 4, .dim = 32, .rows = 37, .more = true},
        {.n = 70,
         .heads = 6,
         .groups = 2,
         .dim = 128,
         .rows = 300,
         .first = 201,
         .bound = true,
         .blocks = true},
        {.n = 33,
         .heads = 2,
         .groups = 1,
         .dim = 72,
         .rows = 400,
         .first = 300,
         .window = 100,
         .pad = 3},
        {.n = 40,
         .heads = 2,
         .groups = 2,
         .dim = 64,
         .rows = 64,
         .first = 10,
         .softcap = 2},
        {.n = 40,
         .heads = 2,
         .groups = 1,
         .dim = 24,
         .rows = 30,
         .first = 1000,
         .window = 990},
        {.n = 34, .heads = 1, .groups = 1, .dim = 8, .rows = 70, .first = -3},
        {.n = 37,
         .heads = 4,
         .groups = 1,
         .dim = 32,
         .rows = 400,
         .first = 260,
         .begin = 250},
    };
    gpu_target target = matrix_target(2);
    target.disabled = "attention_decode_tensor";
    runner *r = runner_open(&target);
    (void)state;
    if (!r)
        skip();
    tolerance = 1e-6;
    for (uint32_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        heads h = cases[i];
        if (h.more && !all)
            continue;
        h.dtype = CLV_DTYPE_F16;
        run_heads(r, &h);
        h.dtype = CLV_DTYPE_Q8_0;
        if (suits_blocks(&h))
            run_heads(r, &h);
    }
    tolerance = 1e-10;
    runner_close(r);
}

static const heads few_cases[] = {
    {.n = 1,
     .heads = 8,
     .groups = 2,
     .dim = 64,
     .rows = 700,
     .first = 640,
     .begin = 300},
    {.n = 8,
     .heads = 8,
     .groups = 2,
     .dim = 64,
     .rows = 1600,
     .first = 190,
     .apart = true,
     .blocks = true},
    {.n = 3,
     .heads = 20,
     .groups = 1,
     .dim = 32,
     .rows = 600,
     .first = 150,
     .window = 60,
     .apart = true,
     .more = true},
    {.n = 1,
     .heads = 8,
     .groups = 2,
     .dim = 128,
     .rows = 900,
     .first = 897,
     .bound = true,
     .blocks = true},
    {.n = 4,
     .heads = 8,
     .groups = 2,
     .dim = 64,
     .rows = 500,
     .first = 450,
     .more = true},
    {.n = 2,
     .heads = 7,
     .groups = 1,
     .dim = 80,
     .rows = 700,
     .first = 600,
     .window = 300,
     .pad = 3},
    {.n = 11, .heads = 4, .groups = 2, .dim = 32, .rows = 600, .first = 580},
    {.n = 5,
     .heads = 3,
     .groups = 1,
     .dim = 104,
     .rows = 40,
     .first = -2,
     .softcap = 2},
    {.n = 3,
     .heads = 4,
     .groups = 2,
     .dim = 24,
     .rows = 10,
     .first = 1000,
     .window = 7},
    {.n = 1,
     .heads = 3,
     .groups = 3,
     .dim = 8,
     .rows = 700,
     .first = 350,
     .more = true},
};

/* What is not there is not looked at: the text is that of few queries. */
static void must_be_few(const gpu_target *target, const graph *g)
{
    gpu_code *code = NULL;
    gpu_target own = *target;
    own.language = GPU_OPENCL_C;
    assert_int_equal(gpu_lower(&test_host, &own, &g->sub, &code), CLV_OK);
    assert_int_equal(code->n_dispatches, 1);
    assert_string_equal(code->kernels[code->dispatches[0].kernel].variant,
                        "attention_decode_tensor");
    gpu_code_free(&test_host, code);
}

static void run_few(runner *r, const gpu_target *target, const heads *h)
{
    sample b = {0};
    describe(&b, h);
    must_be_few(target, &b.g);
    running *p = runner_begin(r, &b.g, b.data, b.size);
    run_at(p, &b, h);
    runner_end(p);
    sample_free(&b);
}

static void test_few(void **state)
{
    gpu_target target = matrix_target(16);
    runner *r = runner_open(&target);
    (void)state;
    if (!r)
        skip();
    tolerance = 1e-6;
    for (uint32_t i = 0; i < sizeof few_cases / sizeof few_cases[0]; i++) {
        heads h = few_cases[i];
        if (h.more && !all)
            continue;
        h.dtype = CLV_DTYPE_F16;
        run_few(r, &target, &h);
        h.dtype = CLV_DTYPE_Q8_0;
        if (suits_blocks(&h))
            run_few(r, &target, &h);
    }
    tolerance = 1e-10;
    runner_close(r);
}

/* A context that grows, and one that is shorter again, by one program: over
 * one, three and all parts of the cache, each time joined anew. */
static void test_growth(void **state)
{
    static const int64_t firsts[] = {5,    255, 256, 300, 1020,
                                     1021, 400, 12,  700};
    heads h = {.dtype = CLV_DTYPE_F16,
               .n = 2,
               .heads = 4,
               .groups = 2,
               .dim = 40,
               .rows = 1024,
               .bound = true};
    gpu_target target = matrix_target(16);
    runner *r = runner_open(&target);
    sample b = {0};
    (void)state;
    if (!r)
        skip();
    describe(&b, &h);
    must_be_few(&target, &b.g);
    tolerance = 1e-6;
    running *p = runner_begin(r, &b.g, b.data, b.size);
    for (uint32_t i = 0; i < sizeof firsts / sizeof *firsts; i++) {
        h.first = firsts[i];
        run_at(p, &b, &h);
    }
    runner_end(p);
    sample_free(&b);
    tolerance = 1e-10;
    runner_close(r);
}

int main(int argc, char **argv)
{
    all = argc > 1 && !strcmp(argv[1], "all");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_attention),
        cmocka_unit_test(test_matrix_attention),
        cmocka_unit_test(test_few),
        cmocka_unit_test(test_growth),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
