/* Ops on rows and elements against naive double-precision arithmetic. */
#include "ops.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* --- rows ---------------------------------------------------------------- */

static const uint32_t reals[] = {CLV_DTYPE_F32, CLV_DTYPE_F16, CLV_DTYPE_BF16,
                                 CLV_DTYPE_Q8_0, CLV_DTYPE_Q4_0};
#define N_REALS (sizeof reals / sizeof *reals)

static bool is_block(uint32_t dtype)
{
    return dtype == CLV_DTYPE_Q8_0 || dtype == CLV_DTYPE_Q4_0;
}

static uint32_t add_ids(graph *g, const int32_t *ids, int64_t n)
{
    uint32_t t = add_tensor(g, CLV_DTYPE_I32, CLV_USAGE_INPUT, 0, n, 0);
    for (int64_t i = 0; i < n; i++)
        set_i32(g, t, i, ids[i]);
    return t;
}

static void test_get_rows(void **state)
{
    static const int32_t ids[] = {3, 0, 6, 7, -1, 3, INT32_MAX, INT32_MIN, 5};
    const int64_t n = sizeof ids / sizeof *ids, rows = 7;
    (void)state;
    for (size_t d = 0; d < N_REALS; d++)
        for (int64_t c = 32; c < 20000; c = c * 5 + 32) {
            graph g = {0};
            int64_t pad = d % 2 ? 8 : 0;
            uint32_t table = add_tensor(&g, reals[d], CLV_USAGE_WEIGHT, rows,
                                        c, pad);
            uint32_t t = add_ids(&g, ids, n);
            uint32_t y = add_tensor(&g, CLV_DTYPE_F32, CLV_USAGE_OUTPUT, n, c,
                                    pad);
            NODE(&g, CLV_OP_GET_ROWS, y, table, t);
            run(&g);
            for (int64_t i = 0; i < n; i++)
                for (int64_t j = 0; j < c; j++)
                    if (ids[i] < 0 || ids[i] >= rows)
                        assert_true(isnan(get(&g, y, i, j)));
                    else
                        assert_true(get(&g, y, i, j) ==
                                    (float)get(&g, table, ids[i], j));
            graph_free(&g);
        }
}

/* The most a value may move when it is stored; top: the largest magnitude of
 * its block. */
static double store_error(uint32_t dtype, double value, double top)
{
    switch (dtype) {
    case CLV_DTYPE_F16:
        return fabs(value) * 0x1p-11 + 0x1p-25;
    case CLV_DTYPE_BF16:
        return fabs(value) * 0x1p-8;
    case CLV_DTYPE_Q8_0: /* half a step, and the scale's own rounding */
        return top / 127 * 0.5 + top * 0x1p-10;
    case CLV_DTYPE_Q4_0: /* a whole step at the short end of the range */
        return top / 8 * 1.01 + top * 0x1p-10;
    default:
        return 0;
    }
}

static double block_top(const graph *g, uint32_t t, int64_t i, int64_t j)
{
    double top = 0;
    for (int64_t l = j / 32 * 32; l < j / 32 * 32 + 32; l++)
        top = fmax(top, fabs(get(g, t, i, l)));
    return top;
}

static void check_stored(const graph *g, uint32_t to, int64_t to_row,
                         uint32_t from, int64_t from_row, int64_t j)
{
    uint32_t dtype = g->descs[to].dtype;
    double want = get(g, from, from_row, j);
    double top = is_block(dtype) ? block_top(g, from, from_row, j) : 0;
    double difference = fabs(get(g, to, to_row, j) - want);
    if (!(difference <= store_error(dtype, want, top)))
        fail_msg("dtype %u: %g stored as %g", dtype, want,
                 get(g, to, to_row, j));
}

static void test_set_rows(void **state)
{
    /* Row 4 is written twice: the last one stays. */
    static const int32_t ids[] = {4, 1, -1, 9, 4, INT32_MAX};
    static const int32_t source[9] = {-1, 1, -1, -1, 4, -1, -1, -1, -1};
    (void)state;
    for (size_t d = 0; d < N_REALS; d++)
        for (int64_t c = 32; c < 9000; c = c * 4 + 32) {
            graph g = {0}, old = {0};
            uint32_t s = add_tensor(&g, reals[d], CLV_USAGE_STATE, 9, c,
                                    d % 2 * 4);
            uint32_t x = add_tensor(&g, CLV_DTYPE_F32, CLV_USAGE_INPUT, 6, c,
                                    8);
            uint32_t t = add_ids(&g, ids, 6);
            NODE(&g, CLV_OP_SET_ROWS, CLV_NO_TENSOR, s, x, t);
            old = g;
            old.tensors[s].data = malloc(g.tensors[s].size);
            memcpy(old.tensors[s].data, g.tensors[s].data, g.tensors[s].size);
            run(&g);
            for (int64_t i = 0; i < 9; i++)
                for (int64_t j = 0; j < c; j++)
                    if (source[i] < 0)
                        assert_true(get(&g, s, i, j) == get(&old, s, i, j));
                    else
                        check_stored(&g, s, i, x, source[i], j);
            free(old.tensors[s].data);
            graph_free(&g);
        }
}

static void convert_case(uint32_t from, uint32_t to, int64_t n, int64_t c)
{
    graph g = {0};
    int64_t pad = n % 2 ? 0 : 4;
    uint32_t x = add_tensor(&g, from, CLV_USAGE_INPUT, n, c, pad);
    uint32_t y = add_tensor(&g, to, CLV_USAGE_OUTPUT, n, c, 2 * pad);
    NODE(&g, CLV_OP_CONVERT, y, x);
    run(&g);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < c; j++)
            if (from == to)
                assert_true(get(&g, x, i, j) == get(&g, y, i, j));
            else
                check_stored(&g, y, i, x, i, j);
    graph_free(&g);
}

static void test_convert(void **state)
{
    (void)state;
    for (size_t a = 0; a < N_REALS; a++)
        for (size_t b = 0; b < N_REALS; b++) {
            convert_case(reals[a], reals[b], 3, 64);
            convert_case(reals[a], reals[b], 2, 40000);
            if (!is_block(reals[a]) && !is_block(reals[b]))
                for (int64_t c = 1; c < 40; c += 2)
                    convert_case(reals[a], reals[b], 2, c);
        }
    convert_case(CLV_DTYPE_I32, CLV_DTYPE_I32, 4, 9);
}

/* A transposed view read into a dense f16 tensor of rank 3. */
static void test_convert_strides(void **state)
{
    const int64_t a = 3, b = 5, c = 7;
    graph g = {0};
    (void)state;
    uint32_t x = add_tensor(&g, CLV_DTYPE_F32, CLV_USAGE_INPUT, 0, a * b * c,
                            0);
    uint32_t y = add_tensor(&g, CLV_DTYPE_F16, CLV_USAGE_OUTPUT, 0, a * b * c,
                            0);
    clv_tensor_desc *in = &g.descs[x], *out = &g.descs[y];
    in->rank = out->rank = 3;
    const int64_t dims[] = {a, b, c}, strides[] = {4, 4 * a * c, 4 * a};
    for (int i = 0; i < 3; i++) {
        in->dims[i] = out->dims[i] = dims[i];
        in->strides[i] = strides[i];
    }
    NODE(&g, CLV_OP_CONVERT, y, x);
    run(&g);
    in->rank = out->rank = 1;
    in->strides[0] = in->strides[1] = in->strides[2] = 0;
    in->dims[0] = out->dims[0] = a * b * c;
    for (int64_t i = 0; i < a; i++)
        for (int64_t j = 0; j < b; j++)
            for (int64_t l = 0; l < c; l++) {
                double want = get(&g, x, 0, i + j * a * c + l * a);
                double got = get(&g, y, 0, (i * b + j) * c + l);
                assert_true(fabs(got - want) <=
                            store_error(CLV_DTYPE_F16, want, 0));
            }
    graph_free(&g);
}

/* --- elementwise --------------------------------------------------------- */

static double silu(double x)
{
    return x / (1 + exp(-x));
}

static double gelu(double x)
{
    return 0.5 * x *
           (1 + tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x)));
}

static double elementwise(uint32_t op, uint32_t activation, double a, double b)
{
    switch (op) {
    case CLV_OP_ADD:
        return a + b;
    case CLV_OP_MUL:
        return a * b;
    case CLV_OP_SILU:
        return silu(a);
    case CLV_OP_GELU:
        return gelu(a);
    default:
        return (activation == CLV_ACT_SILU ? silu(a) : gelu(a)) * b;
    }
}

static void spread(graph *g, uint32_t t, int64_t n, int64_t c)
{
    static const float extremes[] = {0, -0.0f, 1e-30f, -20, 20, -90, 90, 1e4f,
                                     -1e4f};
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < c; j++)
            set_f32(g, t, i, j,
                    random_below(8) ? (float)(8 * random_real())
                                    : extremes[random_below(9)]);
}

static void elementwise_case(uint32_t op, uint32_t activation, int64_t n,
                             int64_t c, bool vector, int64_t pad)
{
    graph g = {0};
    bool unary = op == CLV_OP_SILU || op == CLV_OP_GELU;
    uint32_t b = CLV_NO_TENSOR;
    uint32_t a = add_tensor(&g, CLV_DTYPE_F32, CLV_USAGE_INPUT, n, c, pad);
    if (!unary)
        b = add_tensor(&g, CLV_DTYPE_F32, CLV_USAGE_INPUT, vector ? 0 : n, c,
                       vector ? 0 : pad);
    uint32_t y = add_tensor(&g, CLV_DTYPE_F32, CLV_USAGE_OUTPUT, n, c, 2 * pad);
    spread(&g, a, n, c);
    clv_node *node = unary ? NODE(&g, op, y, a) : NODE(&g, op, y, a, b);
    node->attr.glu.activation = activation;
    uint32_t error_class = run(&g);
    error e = {0};
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < c; j++)
            compare(&e, get(&g, y, i, j),
                    elementwise(op, activation, get(&g, a, i, j),
                                unary ? 0 : get(&g, b, vector ? 0 : i, j)));
    check_error(&e, error_class, "elementwise");
    graph_free(&g);
}

static void test_elementwise(void **state)
{
    static const uint32_t ops[] = {CLV_OP_ADD, CLV_OP_MUL, CLV_OP_SILU,
                                   CLV_OP_GELU, CLV_OP_GLU};
    (void)state;
    for (size_t o = 0; o < sizeof ops / sizeof *ops; o++) {
        for (int64_t c = 1; c < 40; c++)
            elementwise_case(ops[o], c % 2, 2, c, false, c % 3 * 4);
        elementwise_case(ops[o], CLV_ACT_SILU, 1, 50001, false, 0);
        elementwise_case(ops[o], CLV_ACT_GELU_TANH, 45, 777, false, 4);
        elementwise_case(ops[o], CLV_ACT_SILU, 45, 777, false, 0);
    }
    elementwise_case(CLV_OP_ADD, 0, 9, 100, true, 0);
    elementwise_case(CLV_OP_MUL, 0, 300, 129, true, 8);
}

/* Outputs may lie where the capabilities say an input lies. */
static void test_aliases(void **state)
{
    (void)state;
    for (uint32_t which = 0; which < 2; which++) {
        graph g = {0};
        uint32_t a = add_tensor(&g, CLV_DTYPE_F32, CLV_USAGE_STATE, 20, 999, 0);
        uint32_t b = add_tensor(&g, CLV_DTYPE_F32, CLV_USAGE_STATE, 20, 999, 0);
        double want[20];
        for (int i = 0; i < 20; i++)
            want[i] = silu(get(&g, a, i, 998)) * get(&g, b, i, 998);
        NODE(&g, CLV_OP_GLU, which ? b : a, a, b);
        assert_true(graph_caps(shared, &g, 0).alias_inputs & 1u << which);
        run(&g);
        for (int i = 0; i < 20; i++)
            assert_true(fabs(get(&g, which ? b : a, i, 998) - want[i]) < 1e-6);
        graph_free(&g);
    }
}

/* --- rows: norms, softmax ------------------------------------------------ */

static void norm_row(const graph *g, const clv_node *node, int64_t i,
                     int64_t c, double *out)
{
    double mean = 0, square = 0, top = -INFINITY, sum = 0;
    bool layer = node->op == CLV_OP_LAYER_NORM;
    for (int64_t j = 0; j < c; j++) {
        double x = get(g, node->inputs[0], i, j);
        mean += layer ? x / (double)c : 0;
        top = fmax(top, x);
    }
    for (int64_t j = 0; j < c; j++) {
        double x = get(g, node->inputs[0], i, j);
        square += (x - mean) * (x - mean) / (double)c;
        sum += exp(x - top);
    }
    for (int64_t j = 0; j < c; j++) {
        double x = get(g, node->inputs[0], i, j);
        if (node->op == CLV_OP_SOFTMAX) {
            out[j] = exp(x - top) / sum;
            continue;
        }
        out[j] = (x - mean) / sqrt(square + node->attr.norm.eps) *
                 get(g, node->inputs[1], 0, j);
        if (layer && node->n_inputs == 3)
            out[j] += get(g, node->inputs[2], 0, j);
    }
}

static void norm_case(uint32_t op, bool bias, int64_t n, int64_t c, int64_t pad)
{
    graph g = {0};
    uint32_t w = CLV_NO_TENSOR, b = CLV_NO_TENSOR;
    uint32_t x = add_tensor(&g, CLV_DTYPE_F32, CLV_USAGE_INPUT, n, c, pad);
    if (op != CLV_OP_SOFTMAX)
        w = add_tensor(&g, CLV_DTYPE_F32, CLV_USAGE_WEIGHT, 0, c, 0);
    if (bias)
        b = add_tensor(&g, CLV_DTYPE_F32, CLV_USAGE_WEIGHT, 0, c, 0);
    uint32_t y = add_tensor(&g, CLV_DTYPE_F32, CLV_USAGE_OUTPUT, n, c, pad);
    clv_node *node = op == CLV_OP_SOFTMAX ? NODE(&g, op, y, x)
                     : bias               ? NODE(&g, op, y, x, w, b)
                                          : NODE(&g, op, y, x, w);
    node->attr.norm.eps = 1e-5f;
    uint32_t error_class = run(&g);
    error e = {0};
    double *want = malloc((size_t)c * sizeof *want);
    for (int64_t i = 0; i < n; i++) {
        norm_row(&g, node, i, c, want);
        for (int64_t j = 0; j < c; j++)
            compare(&e, get(&g, y, i, j), want[j]);
    }
    free(want);
    check_error(&e, error_class, "norm");
    graph_free(&g);
}

static void test_norms(void **state)
{
    (void)state;
    for (int64_t c = 1; c < 70; c += 3)
        for (int64_t n = 1; n < 4; n += 2) {
            norm_case(CLV_OP_RMS_NORM, false, n, c, 0);
            norm_case(CLV_OP_LAYER_NORM, c % 2, n, c, 4);
            norm_case(CLV_OP_SOFTMAX, false, n, c, 0);
        }
    norm_case(CLV_OP_RMS_NORM, false, 40, 2048, 64);
    norm_case(CLV_OP_LAYER_NORM, true, 40, 2048, 0);
    norm_case(CLV_OP_SOFTMAX, false, 40, 2048, 64);
    norm_case(CLV_OP_SOFTMAX, false, 1, 151936, 0);
}

int main(void)
{
    if (!shared_possible())
        return 77; /* skipped */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_get_rows),
        cmocka_unit_test(test_set_rows),
        cmocka_unit_test(test_convert),
        cmocka_unit_test(test_convert_strides),
        cmocka_unit_test(test_elementwise),
        cmocka_unit_test(test_aliases),
        cmocka_unit_test(test_norms),
    };
    return cmocka_run_group_tests_name("cpu rows", tests, shared_open,
                                       shared_close);
}
