/* Products that share their x as one kernel, by matrix instructions in plain
 * code, compared with sums of doubles. With the argument "all", in more
 * formats. */
#include "sample.h"
#include "ops/gemv_tensor.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define MOST_OUT 200

static bool all;              /* the argument */
static int64_t group_in = 96; /* channels of x */
static double tolerance = 1e-10;

/* More rows are rounded to halves, of whose products there is an exp(). */
static double bound(int64_t n)
{
    return n > GPU_FINE_ROWS ? 1e-5 : tolerance;
}

/* A product of x normalised, as the team's kernel does on the way. */
static double group_product(const sample *b, uint32_t w, uint32_t bias,
                            int64_t i, int64_t o)
{
    const uint32_t scales = b->g.tensors[w].quant_scales;
    double sum = 0, squares = 0;
    for (int64_t c = 0; c < group_in; c++) {
        const double x = sample_value(b, 0, i, c);
        squares += x * x;
        sum += x * sample_value(b, 1, 0, c) * sample_value(b, w, o, c);
    }
    sum /= sqrt(squares / (double)group_in + 1e-3f);
    if (scales)
        sum *= sample_value(b, scales - 1, 0, o);
    return bias == CLV_NO_TENSOR ? sum : sum + sample_value(b, bias, 0, o);
}

/* Tensors 0 x, 1 weights of the norm, 2 what it makes. */
static void begin_group(sample *b, int64_t n)
{
    graph_init(&b->g);
    sample_add(b, CLV_DTYPE_F32, CLV_USAGE_INPUT, n, group_in, 0);
    sample_add(b, CLV_DTYPE_F32, CLV_USAGE_WEIGHT, 0, group_in, 0);
    sample_add(b, CLV_DTYPE_F32, CLV_USAGE_TRANSIENT, n, group_in, 0);
    graph_node(&b->g, CLV_OP_RMS_NORM, 2,
               (const uint32_t[]){0, 1, CLV_NO_TENSOR})
        ->attr.norm.eps = 1e-3f;
}

/* A product of the norm; returns what it makes. Integers have a scale a row. */
static uint32_t add_product(sample *b, uint32_t dtype, int64_t n, int64_t out,
                            bool bias, uint32_t *w, uint32_t *its_bias)
{
    *w = sample_add(b, dtype, CLV_USAGE_WEIGHT, out, group_in, 0);
    *its_bias = CLV_NO_TENSOR;
    if (dtype == CLV_DTYPE_I8) {
        b->g.tensors[*w].quant = CLV_QUANT_PER_CHANNEL;
        b->g.tensors[*w].quant_scales =
            1 + sample_add(b, CLV_DTYPE_F32, CLV_USAGE_WEIGHT, 0, out, 0);
    }
    if (bias)
        *its_bias = sample_add(b, CLV_DTYPE_F32, CLV_USAGE_WEIGHT, 0, out, 0);
    uint32_t y = sample_add(b, CLV_DTYPE_F32, CLV_USAGE_TRANSIENT, n, out, 0);
    graph_node(&b->g, CLV_OP_MATMUL, y,
               (const uint32_t[]){2, *w, *its_bias, CLV_NO_TENSOR});
    return y;
}

/* So that products are some units: no exp() overflows, and activations bend. */
static void fill_group(sample *b, uint32_t dtype)
{
    const float one = dtype == CLV_DTYPE_Q8_0   ? 128
                      : dtype == CLV_DTYPE_I8   ? 128
                      : dtype == CLV_DTYPE_Q4_0 ? 8
                      : dtype == CLV_DTYPE_Q6_K ? 4096
                                                : 1;
    for (uint32_t t = 0; t < b->g.sub.n_tensors; t++)
        if (b->g.tensors[t].dtype != CLV_DTYPE_I32)
            sample_fill(b, t);
    for (int64_t c = 0; c < group_in; c++)
        ((float *)b->data[1])[c] /= one * sqrtf((float)group_in / 96);
}

/* Three products, the last one, of weights of that type, with its rows into a
 * cache by ids. */
static void run_three(runner *r, uint32_t dtype, uint32_t last, int64_t n,
                      bool bias, int64_t first)
{
    const int64_t outs[] = {first, 16, 33};
    sample b = {0};
    uint32_t w[3], biases[3], y[3], seen[2];
    judge j = {0, 0};
    begin_group(&b, n);
    for (uint32_t i = 0; i < 3; i++)
        y[i] = add_product(&b, i < 2 ? dtype : last, n, outs[i], bias, &w[i],
                           &biases[i]);
    for (uint32_t i = 0; i < 2; i++) {
        seen[i] =
            sample_add(&b, CLV_DTYPE_F32, CLV_USAGE_OUTPUT, n, outs[i], 0);
        graph_node(&b.g, CLV_OP_SOFTMAX, seen[i],
                   (const uint32_t[]){y[i], CLV_NO_TENSOR});
    }
    uint32_t state =
        sample_add(&b, CLV_DTYPE_F32, CLV_USAGE_STATE, n + 2, outs[2], 0);
    uint32_t ids = sample_add(&b, CLV_DTYPE_I32, CLV_USAGE_INPUT, 0, n, 0);
    for (int32_t i = 0; i < n; i++)
        ((int32_t *)b.data[ids])[i] = (int32_t)n - i;
    graph_node(&b.g, CLV_OP_SET_ROWS, CLV_NO_TENSOR,
               (const uint32_t[]){state, y[2], ids, CLV_NO_TENSOR});
    fill_group(&b, dtype);
    runner_run(r, &b.g, b.data, b.size, NULL);
    for (int64_t i = 0; i < n; i++) {
        for (uint32_t k = 0; k < 2; k++) {
            double sum = 0, product[MOST_OUT];
            for (int64_t o = 0; o < outs[k]; o++) {
                product[o] = exp(group_product(&b, w[k], biases[k], i, o));
                sum += product[o];
            }
            for (int64_t o = 0; o < outs[k]; o++)
                judge_expect(&j, sample_value(&b, seen[k], i, o),
                             product[o] / sum);
        }
        for (int64_t o = 0; o < outs[2]; o++)
            judge_expect(&j, sample_value(&b, state, n - i, o),
                         group_product(&b, w[2], biases[2], i, o));
    }
    judge_conclude(&j, bound(n), "three products of a norm");
    sample_free(&b);
}

/* Gate and up, whose GLU is seen through a softmax. */
static void run_glu(runner *r, uint32_t dtype, int64_t n, int64_t out,
                    bool bias, bool gelu)
{
    sample b = {0};
    uint32_t w[2], biases[2];
    judge j = {0, 0};
    begin_group(&b, n);
    uint32_t gate = add_product(&b, dtype, n, out, bias, &w[0], &biases[0]);
    uint32_t up = add_product(&b, dtype, n, out, bias, &w[1], &biases[1]);
    uint32_t both =
        sample_add(&b, CLV_DTYPE_F32, CLV_USAGE_TRANSIENT, n, out, 0);
    uint32_t seen = sample_add(&b, CLV_DTYPE_F32, CLV_USAGE_OUTPUT, n, out, 0);
    graph_node(&b.g, CLV_OP_GLU, both,
               (const uint32_t[]){gate, up, CLV_NO_TENSOR})
        ->attr.glu.activation = gelu ? CLV_ACT_GELU_TANH : CLV_ACT_SILU;
    graph_node(&b.g, CLV_OP_SOFTMAX, seen,
               (const uint32_t[]){both, CLV_NO_TENSOR});
    fill_group(&b, dtype);
    runner_run(r, &b.g, b.data, b.size, NULL);
    for (int64_t i = 0; i < n; i++) {
        double sum = 0, y[MOST_OUT];
        for (int64_t o = 0; o < out; o++) {
            double g = group_product(&b, w[0], biases[0], i, o);
            double z = 0.7978845608 * (g + 0.044715 * g * g * g);
            double a = gelu ? 0.5 * g * (1 + tanh(z)) : g / (1 + exp(-g));
            y[o] = exp(a * group_product(&b, w[1], biases[1], i, o));
            sum += y[o];
        }
        for (int64_t o = 0; o < out; o++)
            judge_expect(&j, sample_value(&b, seen, i, o), y[o] / sum);
    }
    judge_conclude(&j, bound(n), "gate and up of a norm");
    sample_free(&b);
}

/* Queries and keys turned, by pairs of channels `apart`; keys and values into
 * caches. A head has 32 channels, of which 2 * pairs are turned. */
#define HEAD 32

static double turned(const sample *b, const uint32_t *w, uint32_t freq,
                     int64_t pairs, bool halves, int64_t i, int64_t o)
{
    const int64_t c = o % HEAD, apart = halves ? pairs : 1;
    const int64_t j = halves ? c % pairs : c / 2;
    const bool second = halves ? c >= pairs : c % 2;
    const double x = group_product(b, w[0], w[1], i, o);
    if (j >= pairs || c >= 2 * pairs)
        return x;
    const double angle = (3.0 + 5 * i) * sample_value(b, freq, 0, j);
    const double y =
        group_product(b, w[0], w[1], i, second ? o - apart : o + apart);
    return 0.5 * (second ? y * sin(angle) + x * cos(angle)
                         : x * cos(angle) - y * sin(angle));
}

/* A ROPE of x; returns what it makes. */
static uint32_t add_rope(sample *b, uint32_t x, uint32_t pos, uint32_t freq,
                         int64_t n, int64_t out, bool halves)
{
    uint32_t y = sample_add(b, CLV_DTYPE_F32, CLV_USAGE_TRANSIENT, n, out, 0);
    clv_node *node = graph_node(
        &b->g, CLV_OP_ROPE, y, (const uint32_t[]){x, pos, freq, CLV_NO_TENSOR});
    node->attr.rope.head_dim = HEAD;
    node->attr.rope.mode = halves ? CLV_ROPE_HALVES : CLV_ROPE_PAIRS;
    node->attr.rope.scale = 0.5f;
    return y;
}

static uint32_t add_cache(sample *b, uint32_t rows, uint32_t ids, int64_t n,
                          int64_t channels)
{
    uint32_t state =
        sample_add(b, CLV_DTYPE_F32, CLV_USAGE_STATE, n + 2, channels, 0);
    graph_node(&b->g, CLV_OP_SET_ROWS, CLV_NO_TENSOR,
               (const uint32_t[]){state, rows, ids, CLV_NO_TENSOR});
    return state;
}

typedef struct turning {
    int64_t n, pairs;
    bool halves, bias;
    bool two_freqs, two_ids; /* keys, values have their own */
    uint32_t values;         /* type of the values' weights; 0: the others' */
    uint32_t dispatches;     /* that it takes */
} turning;

static void run_turned(runner *r, const gpu_target *target, turning c)
{
    static const int64_t outs[] = {3 * HEAD, HEAD, HEAD};
    sample b = {0};
    uint32_t w[3][2], y[3], freq[2], ids[2];
    gpu_code *code = NULL;
    judge j = {0, 0};
    begin_group(&b, c.n);
    for (uint32_t i = 0; i < 3; i++)
        y[i] = add_product(&b, i == 2 && c.values ? c.values : CLV_DTYPE_Q8_0,
                           c.n, outs[i], c.bias, &w[i][0], &w[i][1]);
    uint32_t pos = sample_add(&b, CLV_DTYPE_I32, CLV_USAGE_INPUT, 0, c.n, 0);
    for (uint32_t i = 0; i < 2; i++) {
        freq[i] = i && !c.two_freqs
                      ? freq[0]
                      : sample_add(&b, CLV_DTYPE_F32, CLV_USAGE_WEIGHT, 0,
                                   c.pairs, 0);
        ids[i] = i && !c.two_ids ? ids[0]
                                 : sample_add(&b, CLV_DTYPE_I32,
                                              CLV_USAGE_INPUT, 0, c.n, 0);
    }
    for (int32_t i = 0; i < c.n; i++) {
        ((int32_t *)b.data[pos])[i] = 3 + 5 * i;
        ((int32_t *)b.data[ids[1]])[i] = i + 1;
        ((int32_t *)b.data[ids[0]])[i] = (int32_t)c.n - i;
    }
    y[0] = add_rope(&b, y[0], pos, freq[0], c.n, outs[0], c.halves);
    y[1] = add_rope(&b, y[1], pos, freq[1], c.n, outs[1], c.halves);
    uint32_t keys = add_cache(&b, y[1], ids[0], c.n, outs[1]);
    uint32_t values = add_cache(&b, y[2], ids[1], c.n, outs[2]);
    uint32_t seen =
        sample_add(&b, CLV_DTYPE_F32, CLV_USAGE_OUTPUT, c.n, outs[0], 0);
    graph_node(&b.g, CLV_OP_SOFTMAX, seen,
               (const uint32_t[]){y[0], CLV_NO_TENSOR});
    fill_group(&b, CLV_DTYPE_Q8_0);
    assert_int_equal(gpu_lower(&test_host, target, &b.g.sub, &code), CLV_OK);
    assert_int_equal(code->n_dispatches, c.dispatches);
    gpu_code_free(&test_host, code);
    runner_run(r, &b.g, b.data, b.size, NULL);
    for (int64_t i = 0; i < c.n; i++) {
        double sum = 0;
        for (int64_t o = 0; o < outs[0]; o++)
            sum += exp(turned(&b, w[0], freq[0], c.pairs, c.halves, i, o));
        for (int64_t o = 0; o < outs[0]; o++)
            judge_expect(
                &j, sample_value(&b, seen, i, o),
                exp(turned(&b, w[0], freq[0], c.pairs, c.halves, i, o)) / sum);
        for (int64_t o = 0; o < HEAD; o++) {
            judge_expect(&j, sample_value(&b, keys, c.n - i, o),
                         turned(&b, w[1], freq[1], c.pairs, c.halves, i, o));
            judge_expect(
                &j, sample_value(&b, values, c.two_ids ? i + 1 : c.n - i, o),
                group_product(&b, w[2][0], w[2][1], i, o));
        }
    }
    judge_conclude(&j, bound(c.n), "queries and keys that are turned");
    sample_free(&b);
}

/* Two groups of the same weights and x, whose ropes have frequencies of their
 * own. */
static void run_two_turned(runner *r)
{
    const int64_t out = 2 * HEAD, pairs = HEAD / 2;
    sample b = {0};
    uint32_t w[2], freq[2], seen[2];
    judge j = {0, 0};
    begin_group(&b, 1);
    uint32_t y = add_product(&b, CLV_DTYPE_Q8_0, 1, out, false, &w[0], &w[1]);
    uint32_t pos = sample_add(&b, CLV_DTYPE_I32, CLV_USAGE_INPUT, 0, 1, 0);
    ((int32_t *)b.data[pos])[0] = 3;
    for (uint32_t i = 0; i < 2; i++) {
        freq[i] = sample_add(&b, CLV_DTYPE_F32, CLV_USAGE_WEIGHT, 0, pairs, 0);
        y = add_rope(&b, y, pos, freq[i], 1, out, false);
        seen[i] = sample_add(&b, CLV_DTYPE_F32, CLV_USAGE_OUTPUT, 1, out, 0);
        graph_node(&b.g, CLV_OP_SOFTMAX, seen[i],
                   (const uint32_t[]){y, CLV_NO_TENSOR});
        if (i)
            break;
        uint32_t norm =
            sample_add(&b, CLV_DTYPE_F32, CLV_USAGE_TRANSIENT, 1, group_in, 0);
        graph_node(&b.g, CLV_OP_RMS_NORM, norm,
                   (const uint32_t[]){0, 1, CLV_NO_TENSOR})
            ->attr.norm.eps = 1e-3f;
        y = sample_add(&b, CLV_DTYPE_F32, CLV_USAGE_TRANSIENT, 1, out, 0);
        graph_node(&b.g, CLV_OP_MATMUL, y,
                   (const uint32_t[]){norm, w[0], CLV_NO_TENSOR});
    }
    fill_group(&b, CLV_DTYPE_Q8_0);
    runner_run(r, &b.g, b.data, b.size, NULL);
    for (uint32_t i = 0; i < 2; i++) {
        double sum = 0;
        for (int64_t o = 0; o < out; o++)
            sum += exp(turned(&b, w, freq[i], pairs, false, 0, o));
        for (int64_t o = 0; o < out; o++)
            judge_expect(&j, sample_value(&b, seen[i], 0, o),
                         exp(turned(&b, w, freq[i], pairs, false, 0, o)) / sum);
    }
    judge_conclude(&j, 1e-10, "two groups that are turned");
    sample_free(&b);
}

/* Rows of the caches, sines and cosines, the fused, what is seen. */
static void run_all_turned(runner *r, const gpu_target *target)
{
    const int64_t half = HEAD / 2;
    run_turned(r, target, (turning){.n = 1, .pairs = half, .dispatches = 4});
    run_turned(
        r, target,
        (turning){.n = 3, .pairs = half - 3, .bias = true, .dispatches = 4});
    run_turned(r, target,
               (turning){.n = 2,
                         .pairs = half,
                         .halves = true,
                         .bias = true,
                         .dispatches = 4});
    run_turned(
        r, target,
        (turning){.n = 2, .pairs = half, .two_ids = true, .dispatches = 5});
    /* The norm is in both kernels. */
    run_turned(
        r, target,
        (turning){
            .n = 1, .pairs = half, .values = CLV_DTYPE_Q4_0, .dispatches = 5});
    /* Ropes of their own: halves that no group has both of, frequencies that
     * differ. */
    run_turned(
        r, target,
        (turning){.n = 1, .pairs = half - 4, .halves = true, .dispatches = 5});
    run_turned(
        r, target,
        (turning){.n = 1, .pairs = half, .two_freqs = true, .dispatches = 5});
}

static void test_groups(void **state)
{
    gpu_target target = sample_target;
    target.plain_matrix = true;
    target.local_bytes = 48 * 1024;
    runner *r = runner_open(&target);
    (void)state;
    if (!r)
        skip();
    if (all) {
        run_three(r, CLV_DTYPE_Q8_0, CLV_DTYPE_Q8_0, 1, false, 40);
        run_glu(r, CLV_DTYPE_Q8_0, 1, 50, false, false);
    }
    run_three(r, CLV_DTYPE_Q8_0, CLV_DTYPE_Q4_0, 1, false, 40);
    run_three(r, CLV_DTYPE_Q4_0, CLV_DTYPE_Q4_0, 5, true, 40);
    run_all_turned(r, &target);
    run_two_turned(r);
    run_glu(r, CLV_DTYPE_I8, 1, 50, false, false);
    run_glu(r, CLV_DTYPE_F16, 3, 50, false, true);
    runner_close(r);
}

/* Dispatches of gate and up behind a norm. */
static uint32_t count_dispatches(const gpu_target *target, int64_t n)
{
    sample b = {0};
    gpu_code *code = NULL;
    uint32_t w, none;
    begin_group(&b, n);
    uint32_t gate = add_product(&b, CLV_DTYPE_Q8_0, n, 64, false, &w, &none);
    uint32_t up = add_product(&b, CLV_DTYPE_Q8_0, n, 64, false, &w, &none);
    uint32_t y = sample_add(&b, CLV_DTYPE_F32, CLV_USAGE_OUTPUT, n, 64, 0);
    graph_node(&b.g, CLV_OP_GLU, y,
               (const uint32_t[]){gate, up, CLV_NO_TENSOR});
    assert_int_equal(gpu_lower(&test_host, target, &b.g.sub, &code), CLV_OK);
    const uint32_t n_dispatches = code->n_dispatches;
    gpu_code_free(&test_host, code);
    sample_free(&b);
    return n_dispatches;
}

/* Many rows of x, by warp groups: outputs past whole tiles and groups, few and
 * many rows, one with weights of another type, units of x that are read again.
 */
static void test_warp_groups(void **state)
{
    gpu_target target = sample_warp_groups;
    runner *r = runner_open(&target);
    (void)state;
    if (!r)
        skip();
    tolerance = 1e-5; /* exp() of products of halves */
    for (group_in = 128; group_in <= 4352; group_in += 4224) {
        if (all || group_in == 128)
            run_three(r, CLV_DTYPE_Q8_0, CLV_DTYPE_Q8_0, 19, false, 150);
        if (all || group_in > 128)
            run_glu(r, CLV_DTYPE_Q4_0, 10, 70, true, false);
    }
    group_in = 256;
    run_three(r, CLV_DTYPE_F16, CLV_DTYPE_Q4_K, 9, true, 40);
    run_glu(r, CLV_DTYPE_BF16, 37, 50, false, true);
    run_glu(r, CLV_DTYPE_I8, 10, 70, true, false);
    if (all) {
        run_three(r, CLV_DTYPE_BF16, CLV_DTYPE_BF16, 40, true, 130);
        run_glu(r, CLV_DTYPE_Q6_K, 9, 140, true, false);
        run_three(r, CLV_DTYPE_I8, CLV_DTYPE_I8, 19, false, 150);
    }
    assert_int_equal(count_dispatches(&target, 12), 3);
    target.disabled = "fuse_rms_norm";
    assert_int_equal(count_dispatches(&target, 12), 4);
    target.disabled = "gemm_wgmma_fused";
    assert_int_equal(count_dispatches(&target, 12), 5);
    runner_close(r);
}

int main(int argc, char **argv)
{
    all = argc > 1 && !strcmp(argv[1], "all");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_groups),
        cmocka_unit_test(test_warp_groups),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
