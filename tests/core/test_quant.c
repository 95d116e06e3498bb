/* Weights of plain integers with scales beside them: what they may look like,
 * what they mean, and that they reach a device with their scales. */
#include "../plugins/ref/context.h"

#include "message.h"

#include <math.h>

typedef struct weight {
    clv_tensor *q, *scales;
} weight;

/* [rows, columns] with every kind of value; group 0 where it is not by group.
 */
static weight make(clv_context *ctx, uint32_t dtype, uint32_t quant,
                   uint32_t group, int64_t rows, int64_t columns)
{
    weight w;
    test_random r = {dtype * 7 + quant};
    const int64_t dims[] = {rows, columns};
    const int64_t s[] = {quant == CLV_QUANT_PER_TENSOR ? 1 : rows,
                         group ? columns / group : 0};
    assert_ok(clv_tensor_create(ctx, dtype, 2, dims, &w.q));
    assert_ok(
        clv_tensor_create(ctx, CLV_DTYPE_F32, group ? 2 : 1, s, &w.scales));
    uint8_t *q = clv_tensor_data(w.q);
    for (uint64_t i = 0; i < clv_tensor_size(w.q); i++)
        q[i] = (uint8_t)test_bits(&r);
    float *d = clv_tensor_data(w.scales);
    for (uint64_t i = 0; i < clv_tensor_size(w.scales) / sizeof *d; i++)
        d[i] = test_float(&r) / 100;
    assert_ok(clv_tensor_set_quant(w.q, quant, group, w.scales));
    return w;
}

static void weight_free(weight *w)
{
    clv_tensor_destroy(w->q);
    clv_tensor_destroy(w->scales);
}

/* ------------------------------------------------------------------------ */

static void test_values(void **state)
{
    (void)state;
    test_context t = test_context_create("");
    const int64_t dims[] = {2, 4}, two = 2, groups[] = {2, 2}, one = 1;
    const uint8_t i4[] = {0x80, 0x7f, 0x21, 0xe3};
    const float want_i4[2][4] = {{0, -8, -1, 7}, {1, 2, 3, -2}};
    clv_tensor *q, *per_row, *per_group, *single;
    float got[8];
    assert_ok(clv_tensor_create(t.ctx, CLV_DTYPE_F32, 1, &two, &per_row));
    assert_ok(clv_tensor_create(t.ctx, CLV_DTYPE_F32, 2, groups, &per_group));
    assert_ok(clv_tensor_create(t.ctx, CLV_DTYPE_F32, 1, &one, &single));
    memcpy(clv_tensor_data(per_row), (float[]){0.5f, -2}, 8);
    memcpy(clv_tensor_data(per_group), (float[]){1, 10, 100, 1000}, 16);
    memcpy(clv_tensor_data(single), (float[]){4}, 4);
    clv_tensor *const scales[] = {single, per_row, per_group};
    const float factors[3][2][2] = {
        {{4, 4}, {4, 4}}, {{0.5f, 0.5f}, {-2, -2}}, {{1, 10}, {100, 1000}}};
    for (uint32_t quant = 1; quant <= CLV_QUANT_PER_GROUP; quant++) {
        assert_ok(clv_tensor_create(t.ctx, CLV_DTYPE_I4, 2, dims, &q));
        memcpy(clv_tensor_data(q), i4, sizeof i4);
        assert_ok(clv_tensor_set_quant(q, quant, quant == 3 ? 2 : 0,
                                       scales[quant - 1]));
        assert_int_equal(clv_tensor_quant(q), quant);
        assert_int_equal(clv_tensor_quant_group(q), quant == 3 ? 2 : 0);
        assert_ptr_equal(clv_tensor_scales(q), scales[quant - 1]);
        assert_ok(clv_tensor_rows_to_f32(q, 0, 2, got));
        for (int i = 0; i < 2; i++)
            for (int j = 0; j < 4; j++)
                assert_float_equal(got[4 * i + j],
                                   want_i4[i][j] * factors[quant - 1][i][j / 2],
                                   0);
        assert_ok(clv_tensor_rows_to_f32(q, 1, 1, got));
        assert_float_equal(got[1], 2 * factors[quant - 1][1][0], 0);
        assert_int_equal(clv_tensor_rows_to_f32(q, 1, 2, got), CLV_ERR_INVALID);
        assert_message("rows 1..3|i4 [2,4]");
        clv_tensor_destroy(q);
    }
    assert_ok(clv_tensor_create(t.ctx, CLV_DTYPE_I8, 2, dims, &q));
    memcpy(clv_tensor_data(q), (int8_t[]){-128, 127, 0, 1, 2, 3, 4, -5}, 8);
    assert_int_equal(clv_tensor_rows_to_f32(q, 0, 1, got),
                     CLV_ERR_UNSUPPORTED); /* no scales yet */
    assert_ok(clv_tensor_set_quant(q, CLV_QUANT_PER_CHANNEL, 0, per_row));
    assert_ok(clv_tensor_rows_to_f32(q, 0, 2, got));
    assert_float_equal(got[0], -64, 0);
    assert_float_equal(got[7], 10, 0);
    clv_tensor_destroy(q);
    clv_tensor_destroy(per_row);
    clv_tensor_destroy(per_group);
    clv_tensor_destroy(single);
    test_context_destroy(&t);
}

static void test_refused(void **state)
{
    (void)state;
    test_context t = test_context_create(""), other = test_context_create("");
    clv_tensor *q8, *q4, *f, *s, *s1, *sg, *half, *foreign, *flat;
    const int64_t dims[] = {6, 64}, rows = 6, one = 1, groups[] = {6, 2};
    assert_ok(clv_tensor_create(t.ctx, CLV_DTYPE_I8, 2, dims, &q8));
    assert_ok(clv_tensor_create(t.ctx, CLV_DTYPE_I4, 2, dims, &q4));
    assert_ok(clv_tensor_create(t.ctx, CLV_DTYPE_F32, 2, dims, &f));
    assert_ok(clv_tensor_create(t.ctx, CLV_DTYPE_I8, 1, dims + 1, &flat));
    assert_ok(clv_tensor_create(t.ctx, CLV_DTYPE_F32, 1, &rows, &s));
    assert_ok(clv_tensor_create(t.ctx, CLV_DTYPE_F32, 1, &one, &s1));
    assert_ok(clv_tensor_create(t.ctx, CLV_DTYPE_F32, 2, groups, &sg));
    assert_ok(clv_tensor_create(t.ctx, CLV_DTYPE_F16, 1, &rows, &half));
    assert_ok(clv_tensor_create(other.ctx, CLV_DTYPE_F32, 1, &rows, &foreign));
#define REFUSE(parts, ...)                                                     \
    do {                                                                       \
        assert_int_equal(clv_tensor_set_quant(__VA_ARGS__), CLV_ERR_INVALID);  \
        assert_message(parts);                                                 \
    } while (0)
    REFUSE("i8 and i4|f32 [6,64]", f, CLV_QUANT_PER_CHANNEL, 0, s);
    REFUSE("i8 and i4|i8 [64]", flat, CLV_QUANT_PER_CHANNEL, 0, s);
    REFUSE("quantisation 0", q8, CLV_QUANT_NONE, 0, s);
    REFUSE("quantisation 4", q8, 4, 0, s);
    REFUSE("a group of 32", q8, CLV_QUANT_PER_CHANNEL, 32, s);
    REFUSE("groups of 0", q8, CLV_QUANT_PER_GROUP, 0, sg);
    REFUSE("groups of 24", q8, CLV_QUANT_PER_GROUP, 24, sg);
    REFUSE("groups of 1", q4, CLV_QUANT_PER_GROUP, 1, sg);
    REFUSE("f16 [6]|f32 [6]", q8, CLV_QUANT_PER_CHANNEL, 0, half);
    REFUSE("f32 [1]|f32 [6]", q8, CLV_QUANT_PER_CHANNEL, 0, s1);
    REFUSE("f32 [6]|f32 [1]", q8, CLV_QUANT_PER_TENSOR, 0, s);
    REFUSE("f32 [6,2]|f32 [6,4]", q4, CLV_QUANT_PER_GROUP, 16, sg);
    REFUSE("another context", q8, CLV_QUANT_PER_CHANNEL, 0, foreign);
    REFUSE("scales are NULL", q8, CLV_QUANT_PER_CHANNEL, 0, NULL);
    assert_int_equal(clv_tensor_quant(q8), CLV_QUANT_NONE);
    assert_null(clv_tensor_scales(q8));
    assert_ok(clv_tensor_set_quant(q8, CLV_QUANT_PER_GROUP, 32, sg));
    REFUSE("already", q8, CLV_QUANT_PER_CHANNEL, 0, s);
#undef REFUSE
    clv_tensor *const all[] = {q8, q4, f, s, s1, sg, half, foreign, flat};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        clv_tensor_destroy(all[i]);
    test_context_destroy(&t);
    test_context_destroy(&other);
}

/* ------------------------------------------------------------------------ */
/* In graphs                                                                 */

static void test_graph(void **state)
{
    (void)state;
    test_context t = test_context_create("");
    weight w = make(t.ctx, CLV_DTYPE_I4, CLV_QUANT_PER_GROUP, 16, 6, 64);
    clv_tensor *plain;
    const int64_t dims[] = {6, 64};
    assert_ok(clv_tensor_create(t.ctx, CLV_DTYPE_I8, 2, dims, &plain));
    for (int i = 0; i < 5; i++) {
        clv_graph *g;
        assert_ok(clv_graph_create(&g));
        clv_value v = clv_graph_weight(g, "w", w.q);
        const clv_tensor_desc *d = clv_graph_value_desc(g, v);
        assert_int_equal(d->quant, CLV_QUANT_PER_GROUP);
        assert_int_equal(d->quant_group, 16);
        const clv_tensor_desc *s = clv_graph_value_desc(g, d->quant_scales - 1);
        assert_int_equal(s->dtype, CLV_DTYPE_F32);
        assert_int_equal(s->usage, CLV_USAGE_WEIGHT);
        assert_int_equal(s->dims[1], 4);
        const clv_dim n = clv_dim_fixed(2), x[] = {n, clv_dim_fixed(64)};
        clv_value a = clv_graph_input(g, "x", CLV_DTYPE_F32, 2, x);
        clv_value ids = clv_graph_input(g, "ids", CLV_DTYPE_I32, 1, &n);
        switch (i) {
        case 0:
            clv_graph_matmul(g, a, v, CLV_NO_TENSOR);
            clv_graph_get_rows(g, v, ids);
            assert_ok(clv_graph_check(g));
            break;
        case 1: /* integers that mean nothing */
            clv_graph_matmul(g, a, clv_graph_weight(g, "p", plain),
                             CLV_NO_TENSOR);
            assert_int_equal(clv_graph_check(g), CLV_ERR_INVALID);
            assert_message("matmul: w is i8 [6,64]|scales");
            break;
        case 2:
            clv_graph_get_rows(g, clv_graph_weight(g, "p", plain), ids);
            assert_int_equal(clv_graph_check(g), CLV_ERR_INVALID);
            assert_message("get_rows: table is i8 [6,64]|scales");
            break;
        case 3:
            clv_graph_convert(g, v, CLV_DTYPE_F32);
            assert_int_equal(clv_graph_check(g), CLV_ERR_INVALID);
            break;
        case 4:
            clv_graph_add(g, a, v);
            assert_int_equal(clv_graph_check(g), CLV_ERR_INVALID);
            break;
        }
        clv_graph_destroy(g);
    }
    clv_tensor_destroy(plain);
    weight_free(&w);
    test_context_destroy(&t);
}

/* A matmul and a lookup in the same weight, on the first device. */
static void run_on_first(const test_context *t, const weight *w)
{
    enum { N = 3 };
    const int64_t *dims = clv_tensor_dims(w->q);
    const int64_t out = dims[0], in = dims[1];
    clv_device *device = clv_context_device(t->ctx, 0);
    const clv_plan_params params = {.devices = &device, .n_devices = 1};
    const clv_dim n = clv_dim_fixed(N), shape[] = {n, clv_dim_fixed(in)};
    clv_graph *g;
    clv_plan *plan;
    clv_exec *exec;
    assert_ok(clv_graph_create(&g));
    clv_value x = clv_graph_input(g, "x", CLV_DTYPE_F32, 2, shape);
    clv_value ids = clv_graph_input(g, "ids", CLV_DTYPE_I32, 1, &n);
    clv_value v = clv_graph_weight(g, "w", w->q);
    clv_value y = clv_graph_matmul(g, x, v, CLV_NO_TENSOR);
    clv_value rows = clv_graph_get_rows(g, v, ids);
    clv_graph_output(g, y, "y");
    clv_graph_output(g, rows, "rows");
    assert_ok(clv_plan_create(t->ctx, g, &params, &plan));
    assert_ok(clv_exec_create(plan, &exec));
    float *wide = malloc((size_t)(out * in) * sizeof *wide);
    assert_ok(clv_tensor_rows_to_f32(w->q, 0, out, wide));
    test_random r = {5};
    float *a = clv_tensor_data(clv_exec_tensor(exec, x));
    for (int64_t i = 0; i < N * in; i++)
        a[i] = test_float(&r);
    int32_t *id = clv_tensor_data(clv_exec_tensor(exec, ids));
    for (int i = 0; i < N; i++)
        id[i] = (int32_t)((i * 5 + 1) % out);
    assert_ok(clv_exec_run(exec, NULL, 0));
    const float *got = clv_tensor_data(clv_exec_tensor(exec, y));
    const float *row = clv_tensor_data(clv_exec_tensor(exec, rows));
    for (int64_t i = 0; i < N; i++) {
        for (int64_t o = 0; o < out; o++) {
            double sum = 0;
            for (int64_t j = 0; j < in; j++)
                sum += (double)a[i * in + j] * (double)wide[o * in + j];
            assert_true(fabs((double)got[i * out + o] - sum) <
                        1e-5 * (1 + fabs(sum)));
        }
        for (int64_t j = 0; j < in; j++)
            assert_float_equal(row[i * in + j], wide[id[i] * in + j], 1e-6f);
    }
    free(wide);
    clv_exec_destroy(exec);
    clv_plan_destroy(plan);
    clv_graph_destroy(g);
}

static void test_run(void **state)
{
    (void)state;
    test_context t = test_context_create("");
    static const uint32_t dtypes[] = {CLV_DTYPE_I8, CLV_DTYPE_I4};
    for (int d = 0; d < 2; d++)
        for (uint32_t quant = 1; quant <= CLV_QUANT_PER_GROUP; quant++) {
            weight w = make(t.ctx, dtypes[d], quant,
                            quant == CLV_QUANT_PER_GROUP ? 16 : 0, 11, 48);
            run_on_first(&t, &w);
            weight_free(&w);
        }
    test_context_destroy(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_graph),
        cmocka_unit_test(test_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
