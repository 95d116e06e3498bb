/* Products, run through OpenCL and compared with sums of doubles. (The
 * conformance kit has more shapes; it runs what a plugin chooses, these cases
 * say what is chosen.) With the argument "all", in more formats and shapes. */
#include "sample.h"
#include "lower/repack.h"
#include "ops/gemv_tensor.h"
#include "tune/tune.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static bool all; /* the argument */
static double tolerance = 1e-10;
static float known; /* the scale of x, which is whole numbers up to 127 times
                       it; 0: it is not known */

typedef struct product {
    uint32_t dtype, quant, group;
    int64_t n, in, out, pad; /* pad: elements or blocks behind each row */
    bool bias, symbolic;
    float times; /* x is so much larger than 1; 0: 1 */
} product;

static double scale_of(const sample *b, const product *p, uint32_t scales,
                       int64_t o, int64_t c)
{
    if (!p->quant)
        return 1;
    if (p->quant == CLV_QUANT_PER_GROUP)
        return sample_value(b, scales, o, c / p->group);
    return sample_value(b, scales, 0,
                        p->quant == CLV_QUANT_PER_CHANNEL ? o : 0);
}

static void judge_product(const sample *b, const product *p, uint32_t scales,
                          const char *what)
{
    judge j = {0, 0};
    double *w = malloc((size_t)p->in * sizeof *w); /* a row, decoded once */
    assert_non_null(w);
    for (int64_t o = 0; o < p->out; o++) {
        for (int64_t c = 0; c < p->in; c++)
            w[c] = sample_value(b, 1, o, c) * scale_of(b, p, scales, o, c);
        for (int64_t i = 0; i < p->n; i++) {
            double sum = p->bias ? sample_value(b, 3, 0, o) : 0;
            for (int64_t c = 0; c < p->in; c++)
                sum += sample_value(b, 0, i, c) * w[c];
            judge_expect(&j, sample_value(b, 2, i, o), sum);
        }
    }
    free(w);
    judge_conclude(&j, tolerance, what);
}

/* The index of the scales, if any. */
static uint32_t build_product(sample *b, const product *p)
{
    int64_t elements, bytes;
    clv_block(p->dtype, &elements, &bytes);
    graph_init(&b->g);
    sample_add(b, CLV_DTYPE_F32, CLV_USAGE_INPUT, p->n, p->in,
               p->pad ? 4 * (p->in + p->pad) : 0);
    sample_add(b, p->dtype, CLV_USAGE_WEIGHT, p->out, p->in,
               p->pad ? (p->in / elements + p->pad) * bytes : 0);
    sample_add(b, CLV_DTYPE_F32, CLV_USAGE_OUTPUT, p->n, p->out,
               p->pad ? 4 * (p->out + p->pad) : 0);
    uint32_t inputs[4] = {0, 1, CLV_NO_TENSOR, CLV_NO_TENSOR};
    if (p->bias)
        inputs[2] =
            sample_add(b, CLV_DTYPE_F32, CLV_USAGE_WEIGHT, 0, p->out, 0);
    uint32_t scales = b->g.sub.n_tensors;
    if (p->quant == CLV_QUANT_PER_GROUP)
        sample_add(b, CLV_DTYPE_F32, CLV_USAGE_WEIGHT, p->out, p->in / p->group,
                   0);
    else if (p->quant)
        sample_add(b, CLV_DTYPE_F32, CLV_USAGE_WEIGHT, 0,
                   p->quant == CLV_QUANT_PER_CHANNEL ? p->out : 1, 0);
    b->g.tensors[1].quant = p->quant;
    b->g.tensors[1].quant_group = p->group;
    b->g.tensors[1].quant_scales = p->quant ? scales + 1 : 0;
    for (uint32_t t = 0; t < b->g.sub.n_tensors; t++)
        sample_fill(b, t);
    for (int64_t i = 0; p->times != 0 && i < p->n * p->in; i++)
        ((float *)b->data[0])[i] *= p->times;
    for (size_t i = 0; known > 0 && i < b->size[0] / sizeof(float); i++) {
        float *x = &((float *)b->data[0])[i];
        *x = known * roundf(127 * fmaxf(fminf(*x, 1), -1));
    }
    graph_node(&b->g, CLV_OP_MATMUL, 2, inputs)->attr.matmul.input_scale =
        known;
    if (p->symbolic)
        graph_symbol(&b->g, p->n);
    return scales;
}

static void describe(const product *p, char *out, size_t size)
{
    snprintf(out, size, "dtype %u, scheme %u, group %u: [%d, %d] x %d",
             p->dtype, p->quant, p->group, (int)p->n, (int)p->in, (int)p->out);
}

static void run_product(runner *r, const product *p)
{
    sample b = {0};
    char what[120];
    int64_t symbol = p->n;
    const uint32_t scales = build_product(&b, p);
    describe(p, what, sizeof what);
    runner_run(r, &b.g, b.data, b.size, &symbol);
    judge_product(&b, p, scales, what);
    sample_free(&b);
}

/* Row 1 of x has infinity, row 2 a NaN, and the others are as without. */
static void run_not_finite(runner *r, const product *p)
{
    sample b = {0};
    int64_t symbol = p->n;
    const uint32_t scales = build_product(&b, p);
    float *x = b.data[0], *y = b.data[2];
    x[p->in + 3] = INFINITY;
    x[2 * p->in + 5] = NAN;
    runner_run(r, &b.g, b.data, b.size, &symbol);
    for (int64_t o = 0; o < p->out; o++) {
        const double w =
            sample_value(&b, 1, o, 3) * scale_of(&b, p, scales, o, 3);
        assert_true(isnan(y[2 * p->out + o]));
        if (w != 0)
            assert_true(isinf(y[p->out + o]) && (y[p->out + o] > 0) == (w > 0));
        y[p->out + o] = y[2 * p->out + o] = 0;
    }
    memset(x + p->in, 0, 2 * (size_t)p->in * sizeof *x);
    if (p->bias)
        for (int64_t o = 0; o < p->out; o++)
            y[p->out + o] = y[2 * p->out + o] =
                (float)sample_value(&b, 3, 0, o);
    judge_product(&b, p, scales, "rows beside those that are not finite");
    sample_free(&b);
}

static bool has_kernel(const gpu_target *target, const graph *g,
                       const char *name)
{
    gpu_code *code = NULL;
    bool has = false;
    assert_int_equal(gpu_lower(&test_host, target, &g->sub, &code), CLV_OK);
    for (uint32_t i = 0; i < code->n_kernels; i++)
        has = has || !strcmp(code->kernels[i].name, name);
    gpu_code_free(&test_host, code);
    return has;
}

/* By every variant that is that kernel: so many. one: by the first of them. */
static void run_variants(runner *r, const gpu_target *target, const product *p,
                         const char *kernel, uint32_t count, bool one)
{
    sample b = {0};
    gpu_variants variants;
    int64_t symbol = p->n;
    uint32_t seen = 0;
    const uint32_t scales = build_product(&b, p);
    gpu_list_variants(target, &b.g.sub, 0, &variants);
    for (uint32_t i = 0; i < variants.n; i++) {
        char choice[GPU_KEY_SIZE + 16], said[120], what[240];
        gpu_target chosen = *target;
        snprintf(choice, sizeof choice, "%s=%u", variants.key,
                 (unsigned)variants.id[i]);
        chosen.choices = choice;
        if (!has_kernel(&chosen, &b.g, kernel) || (seen++ && one))
            continue;
        describe(p, said, sizeof said);
        snprintf(what, sizeof what, "%s, %s", said, choice);
        memset(b.data[2], 0xff, b.size[2]);
        runner_set(r, &chosen);
        runner_run(r, &b.g, b.data, b.size, &symbol);
        judge_product(&b, p, scales, what);
    }
    runner_set(r, target);
    assert_int_equal(seen, count);
    sample_free(&b);
}

static const struct {
    uint32_t dtype, quant, group;
} formats[] = {
    {CLV_DTYPE_F32, 0, 0},
    {CLV_DTYPE_F16, 0, 0},
    {CLV_DTYPE_Q8_0, 0, 0},
    {CLV_DTYPE_Q4_0, 0, 0},
    {CLV_DTYPE_I8, CLV_QUANT_PER_CHANNEL, 0},
    {CLV_DTYPE_I8, CLV_QUANT_PER_GROUP, 6},
    {CLV_DTYPE_I4, CLV_QUANT_PER_TENSOR, 0},
    {CLV_DTYPE_I4, CLV_QUANT_PER_GROUP, 32},
    {CLV_DTYPE_BF16, 0, 0},
    {CLV_DTYPE_I8, CLV_QUANT_PER_TENSOR, 0},
    {CLV_DTYPE_I8, CLV_QUANT_PER_GROUP, 48},
    {CLV_DTYPE_I4, CLV_QUANT_PER_GROUP, 6},
};

static void run_format(runner *r, uint32_t i)
{
    static const int64_t shapes[][3] = {
        {1, 96, 17}, {1, 1056, 5}, {3, 96, 9}, {2, 64, 1}, {37, 96, 70}};
    const uint32_t group = formats[i].group;
    const bool every = formats[i].dtype == CLV_DTYPE_Q8_0;
    for (uint32_t k = 0; k < 5; k++) {
        if (!every && k > (all ? 1 : 0) && k < 4)
            continue; /* they are as these, for more rows or channels */
        product p = {formats[i].dtype,
                     formats[i].quant,
                     group,
                     shapes[k][0],
                     shapes[k][1],
                     shapes[k][2],
                     k % 2 ? 3 : 0,
                     true,
                     k > 1,
                     0};
        if (group)
            p.in = p.in / group * group;
        if (p.in && p.in % 2 == 0)
            run_product(r, &p);
        p.in = group ? 3 * group : p.dtype >= CLV_DTYPE_Q8_0 ? 32 : 62;
        if (all || k == 0)
            run_product(r, &p);
        p.in = 31;
        if (p.dtype <= CLV_DTYPE_BF16 && (all || k == 4))
            run_product(r, &p);
    }
}

static void test_products(void **state)
{
    gpu_target target = sample_target;
    runner *r = runner_open(&target);
    (void)state;
    if (!r)
        skip();
    for (uint32_t i = 0; i < (all ? 12 : 8); i++)
        run_format(r, i);
    runner_close(r);
}

/* Matrix instructions, here by plain code: two rows as exact as floats, more
 * rounded to halves, sums in parts where there are too few tiles. */
static void test_matrix_products(void **state)
{
    static const uint32_t dtypes[] = {CLV_DTYPE_F16, CLV_DTYPE_Q8_0,
                                      CLV_DTYPE_Q4_0};
    static const int64_t shapes[][3] = {{1, 4160, 17},
                                        {3, 2112, 33},
                                        {8, 1056, 16},
                                        {9, 96, 70},
                                        {140, 544, 150}};
    gpu_target target = sample_target;
    target.units = 16; /* that tiles cannot keep busy */
    target.plain_matrix = true;
    target.local_bytes = 48 * 1024;
    runner *r = runner_open(&target);
    (void)state;
    if (!r)
        skip();
    for (uint32_t i = 0; i < 3; i++)
        for (uint32_t k = 0; k < 5; k++) {
            if (dtypes[i] != CLV_DTYPE_Q8_0 && k != 4 && !(all && k == 1))
                continue;
            if (!all && (k == 2 || k == 3))
                continue; /* as three rows, and as large ones below */
            product p = {dtypes[i],
                         0,
                         0,
                         shapes[k][0],
                         shapes[k][1],
                         shapes[k][2],
                         k % 2 ? 3 : 0,
                         k % 3 > 0,
                         k > 1,
                         0};
            tolerance = p.n <= GPU_FINE_ROWS ? 1e-10 : 1e-6;
            run_product(r, &p);
        }
    /* Of rows far past what halves reach. Two rows have no halves. */
    for (int64_t n = all ? 2 : 3; n <= 9; n += n == 2 ? 1 : 6) {
        tolerance = n <= GPU_FINE_ROWS ? 1e-10 : 1e-6;
        run_product(r, &(product){.dtype = CLV_DTYPE_Q8_0,
                                  .n = n,
                                  .in = n == 9 ? 96 : 2112,
                                  .out = n == 9 ? 70 : 33,
                                  .times = 1e6f});
    }
    tolerance = 1e-10;
    runner_close(r);
}

/* Tiles of formats with minimums, and with scales for 16 channels. */
static void test_matrix_formats(void **state)
{
    static const product cases[] = {
        {CLV_DTYPE_Q4_K, 0, 0, 3, 768, 33, 2, true, true, 0},
        {CLV_DTYPE_Q4_K, 0, 0, 70, 512, 70, 0, false, false, 0},
        {CLV_DTYPE_Q6_K, 0, 0, 1, 1280, 33, 3, true, true, 0},
        {CLV_DTYPE_BF16, 0, 0, 3, 768, 33, 2, true, true, 0},
        {CLV_DTYPE_Q5_1, 0, 0, 5, 544, 33, 3, true, false, 1e6f},
        {CLV_DTYPE_BF16, 0, 0, 20, 96, 33, 2, true, false, 0},
        {CLV_DTYPE_Q5_K, 0, 0, 1, 1280, 33, 2, true, false, 0},
        {CLV_DTYPE_Q5_K, 0, 0, 20, 512, 70, 0, false, false, 0},
        {CLV_DTYPE_Q2_K, 0, 0, 1, 512, 17, 0, true, false, 0},
        {CLV_DTYPE_Q6_K, 0, 0, 20, 512, 33, 0, false, false, 0}};
    gpu_target target = sample_target;
    target.units = 16;
    target.plain_matrix = true;
    target.local_bytes = 48 * 1024;
    runner *r = runner_open(&target);
    (void)state;
    if (!r)
        skip();
    for (uint32_t i = 0; i < (all ? 10 : 3); i++) {
        tolerance = cases[i].n <= GPU_FINE_ROWS ? 1e-10 : 1e-6;
        run_product(r, &cases[i]);
    }
    tolerance = 1e-10;
    runner_close(r);
}

/* By warp groups, in plain code: stages that come round, sums in parts, rows
 * and channels past whole tiles. */
static void test_warp_groups(void **state)
{
    static const product cases[] = {
        {CLV_DTYPE_F16, 0, 0, 37, 256, 70, 3, true, true, 0},
        {CLV_DTYPE_Q8_0, 0, 0, 9, 1152, 150, 3, true, true, 0},
        {CLV_DTYPE_Q4_0, 0, 0, 70, 384, 130, 0, false, false, 1e6f},
        {CLV_DTYPE_Q4_K, 0, 0, 20, 512, 33, 0, false, true, 0},
        {CLV_DTYPE_I8, CLV_QUANT_PER_GROUP, 64, 20, 384, 70, 0, false, true, 0},
        {CLV_DTYPE_BF16, 0, 0, 37, 256, 150, 0, true, false, 0},
        {CLV_DTYPE_Q5_K, 0, 0, 20, 768, 33, 3, true, false, 0},
        {CLV_DTYPE_Q6_K, 0, 0, 33, 512, 70, 2, true, false, 0},
        {CLV_DTYPE_I8, CLV_QUANT_PER_CHANNEL, 0, 20, 384, 150, 3, true, false,
         0},
        {CLV_DTYPE_I4, CLV_QUANT_PER_TENSOR, 0, 33, 256, 70, 0, true, false,
         0}};
    gpu_target target = sample_warp_groups;
    runner *r = runner_open(&target);
    (void)state;
    if (!r)
        skip();
    tolerance = 1e-6;
    for (uint32_t units = 1; units <= 16; units += 15) {
        target.units = units;
        runner_set(r, &target);
        for (uint32_t i = 0; i < (all ? 10 : 5); i++)
            if (all || i == 0 || (units > 1) == i % 2)
                run_product(r, &cases[i]);
    }
    tolerance = 1e-10;
    runner_close(r);
}

/* Bytes of x, whose scale is known, and integers as weights: as exact as
 * floats. With a row that has infinity, and one that has a NaN. */
static void test_warp_group_bytes(void **state)
{
    static const product cases[] = {
        {CLV_DTYPE_I8, CLV_QUANT_PER_TENSOR, 0, 37, 512, 70, 3, true, true, 0},
        {CLV_DTYPE_I8, CLV_QUANT_PER_CHANNEL, 0, 9, 1536, 150, 0, true, false,
         0},
        {CLV_DTYPE_I4, CLV_QUANT_PER_CHANNEL, 0, 20, 768, 130, 0, true, true,
         0},
        {CLV_DTYPE_I8, CLV_QUANT_PER_CHANNEL, 0, 140, 256, 33, 1, false, true,
         0},
        {CLV_DTYPE_I4, CLV_QUANT_PER_TENSOR, 0, 70, 512, 33, 0, false, false,
         0}};
    gpu_target target = sample_warp_groups;
    runner *r = runner_open(&target);
    (void)state;
    if (!r)
        skip();
    known = 0.003f;
    for (uint32_t units = 1; units <= 16; units += 15) {
        target.units = units;
        runner_set(r, &target);
        for (uint32_t i = 0; i < (all ? 5 : 3); i++) {
            sample b = {0};
            build_product(&b, &cases[i]);
            assert_true(has_kernel(&target, &b.g, "gemm_wgmma_int8"));
            sample_free(&b);
            if (all || i == 0 || units > 1)
                run_product(r, &cases[i]);
        }
    }
    run_not_finite(r, &cases[1]);
    known = 0;
    runner_close(r);
}

/* The same with integers: many rows rounded to bytes, in blocks that no scale
 * of the weights ends in. */
static void test_matrix_integers(void **state)
{
    static const product cases[] = {
        {CLV_DTYPE_I8, CLV_QUANT_PER_TENSOR, 0, 1, 544, 17, 1, true, true, 0},
        {CLV_DTYPE_I4, CLV_QUANT_PER_GROUP, 96, 8, 576, 33, 2, true, false, 0},
        {CLV_DTYPE_I8, CLV_QUANT_PER_GROUP, 96, 140, 192, 150, 0, true, true,
         0},
        {CLV_DTYPE_I8, CLV_QUANT_PER_CHANNEL, 0, 140, 1088, 150, 1, true, true,
         0},
        {CLV_DTYPE_I4, CLV_QUANT_PER_CHANNEL, 0, 37, 512, 70, 1, false, true,
         1e6f},
        {CLV_DTYPE_I4, CLV_QUANT_PER_GROUP, 128, 20, 256, 33, 0, true, true,
         0}};
    gpu_target target = sample_target;
    target.units = 16;
    target.plain_matrix = true;
    target.local_bytes = 48 * 1024;
    runner *r = runner_open(&target);
    (void)state;
    if (!r)
        skip();
    for (uint32_t i = 0; i < (all ? 6 : 3); i++) {
        tolerance = cases[i].n <= GPU_FINE_ROWS ? 1e-10
                    : cases[i].n <= 8           ? 1e-6
                                                : 1e-4;
        run_product(r, &cases[i]);
    }
    tolerance = 1e-10;
    runner_close(r);
}

/* Large tiles, as devices with many units have; weights read in parts where a
 * binding reaches few of them. */
static void test_tiles_and_parts(void **state)
{
    gpu_target target = sample_target;
    target.units = 10;
    target.max_binding = 80000;
    runner *r = runner_open(&target);
    (void)state;
    if (!r)
        skip();
    const product large = {CLV_DTYPE_Q8_0, 0, 0, 70, 64, 230, 0, true, true, 0};
    const product parts = {CLV_DTYPE_Q8_0, 0,     0, 2, 512, 300, 0,
                           true,           false, 0};
    const product groups = {
        CLV_DTYPE_I8, CLV_QUANT_PER_GROUP, 32, 2, 512, 300, 0, true, false, 0};
    const product channels = {CLV_DTYPE_I8,
                              CLV_QUANT_PER_CHANNEL,
                              0,
                              9,
                              512,
                              300,
                              0,
                              false,
                              false,
                              0};
    run_product(r, &large);
    run_product(r, &parts);
    run_product(r, &groups);
    run_product(r, &channels);
    runner_close(r);
}

/* Weights that the setup repacks, of three products. */
static uint32_t count_kept(const gpu_target *target, const graph *g)
{
    gpu_code *code = NULL;
    uint32_t n = 0;
    assert_int_equal(gpu_lower(&test_host, target, &g->sub, &code), CLV_OK);
    for (uint32_t i = 0; i < code->n_privates; i++)
        n += code->privates[i].weights;
    gpu_code_free(&test_host, code);
    return n;
}

/* Where memory for second copies is limited the first products have them. */
static void test_some_repacked(void **state)
{
    static const uint32_t dtypes[] = {CLV_DTYPE_Q8_0, CLV_DTYPE_Q4_K,
                                      CLV_DTYPE_Q8_0};
    /* As large as the rows in the file. */
    const uint64_t q8_0 = 96 * (1024 / 32) * 34, q4_k = 96 * (1024 / 256) * 144;
    const struct {
        uint64_t size;
        uint32_t n;
    } cases[] = {{0, 0},           {q8_0 - 1, 0},
                 {q8_0, 1},        {q8_0 + q4_k - 1, 1},
                 {q8_0 + q4_k, 2}, {2 * q8_0 + q4_k, 3},
                 {UINT64_MAX, 3}};
    gpu_target target = sample_target;
    graph g;
    (void)state;
    target.plain_matrix = true;
    target.local_bytes = 48 * 1024;
    graph_init(&g);
    for (uint32_t i = 0; i < 3; i++) {
        uint32_t x = graph_tensor(&g, CLV_DTYPE_F32, CLV_USAGE_INPUT, 1, 1024);
        uint32_t w = graph_tensor(&g, dtypes[i], CLV_USAGE_WEIGHT, 96, 1024);
        uint32_t y = graph_tensor(&g, CLV_DTYPE_F32, CLV_USAGE_OUTPUT, 1, 96);
        graph_node(&g, CLV_OP_MATMUL, y,
                   (uint32_t[]){x, w, CLV_NO_TENSOR, CLV_NO_TENSOR});
    }
    for (uint32_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        target.n_repacked = gpu_count_repacked(&target, &g.sub, cases[i].size);
        target.scarce = true;
        assert_int_equal(target.n_repacked, cases[i].n);
        assert_int_equal(count_kept(&target, &g), cases[i].n);
    }
}

/* x in local memory: a last step of a few channels, channels behind it, a last
 * group of a few outputs, what an item reads at a time in 4 to 32 channels. */
static void test_staged(void **state)
{
    static const product cases[] = {
        {CLV_DTYPE_Q4_0, 0, 0, 1, 2112, 37, 3, true, true, 0},
        {CLV_DTYPE_Q4_K, 0, 0, 1, 1280, 33, 2, false, false, 0},
        {CLV_DTYPE_F32, 0, 0, 1, 399, 37, 1, true, false, 0},
        {CLV_DTYPE_I8, CLV_QUANT_PER_CHANNEL, 0, 1, 1046, 17, 3, true, true, 0},
        {CLV_DTYPE_Q8_0, 0, 0, 1, 1056, 70, 0, true, false, 0},
        {CLV_DTYPE_Q6_K, 0, 0, 1, 1280, 5, 0, true, false, 0},
        {CLV_DTYPE_BF16, 0, 0, 1, 783, 9, 0, false, false, 0},
        {CLV_DTYPE_I4, CLV_QUANT_PER_GROUP, 6, 1, 390, 17, 0, true, false, 0}};
    gpu_target target = sample_target;
    target.units = 16; /* that groups of a few teams keep busy */
    runner *r = runner_open(&target);
    (void)state;
    if (!r)
        skip();
    for (uint32_t i = 0; i < (all ? 8 : 4); i++)
        run_variants(r, &target, &cases[i], "gemv_staged", 5, !all && i > 0);
    runner_close(r);
}

static void check_default(uint32_t dtype, uint32_t units, const char *kernel)
{
    const product p = {.dtype = dtype, .n = 1, .in = 512, .out = 64};
    gpu_target target = sample_target;
    sample b = {0};
    target.units = units;
    build_product(&b, &p);
    assert_true(has_kernel(&target, &b.g, kernel));
    sample_free(&b);
}

/* Untried, only where there are many units and weights in blocks. */
static void test_staged_default(void **state)
{
    (void)state;
    check_default(CLV_DTYPE_Q4_0, 16, "gemv_staged");
    check_default(CLV_DTYPE_Q4_K, 16, "gemv_staged");
    check_default(CLV_DTYPE_Q4_0, 2, "gemv");
    check_default(CLV_DTYPE_F16, 16, "gemv");
}

/* Activations as bytes, where the device has products of those. */
static void test_bytes(void **state)
{
    gpu_target target = sample_target;
    target.int_dot = true;
    runner *r = runner_open(&target);
    (void)state;
    if (!r)
        skip();
    const product cases[] = {
        {CLV_DTYPE_Q8_0, 0, 0, 37, 96, 70, 3, true, true, 0},
        {CLV_DTYPE_Q4_0, 0, 0, 37, 96, 70, 0, true, true, 0},
        {CLV_DTYPE_I8, CLV_QUANT_PER_CHANNEL, 0, 9, 64, 70, 1, true, true, 0},
        {CLV_DTYPE_I4, CLV_QUANT_PER_GROUP, 32, 9, 64, 70, 0, true, true, 0}};
    tolerance = 1e-4;
    for (uint32_t i = 0; i < 4; i++)
        run_product(r, &cases[i]);
    tolerance = 1e-10;
    runner_close(r);
}

int main(int argc, char **argv)
{
    all = argc > 1 && !strcmp(argv[1], "all");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_products),
        cmocka_unit_test(test_matrix_products),
        cmocka_unit_test(test_matrix_formats),
        cmocka_unit_test(test_warp_groups),
        cmocka_unit_test(test_warp_group_bytes),
        cmocka_unit_test(test_matrix_integers),
        cmocka_unit_test(test_tiles_and_parts),
        cmocka_unit_test(test_some_repacked),
        cmocka_unit_test(test_staged),
        cmocka_unit_test(test_staged_default),
        cmocka_unit_test(test_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
