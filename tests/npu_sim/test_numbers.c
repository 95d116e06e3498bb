/* Results, element by element, against plain loops. */
#include "rig.h"

#include <math.h>

#define N 5
#define I 96
#define O 7
#define GROUP 32

static int8_t weights[O][I];

static void fill(product *p, uint64_t seed, int most)
{
    test_random random = {seed};
    float *x = p->data[0];
    int8_t *w = p->data[1];
    const bool nibbles = p->tensors[1].dtype == CLV_DTYPE_I4;
    for (int k = 0; k < N * I; k++)
        x[k] = test_float(&random) * 3;
    for (int o = 0; o < O; o++)
        for (int i = 0; i < I; i++)
            weights[o][i] =
                (int8_t)((int)test_below(&random, 2u * (unsigned)most + 1) -
                         most);
    for (int k = 0; k < O * I; k++) {
        int value = weights[k / I][k % I];
        if (!nibbles)
            w[k] = (int8_t)value;
        else if (k % 2)
            w[k / 2] = (int8_t)((w[k / 2] & 15) | value * 16);
        else
            w[k / 2] = (int8_t)(value & 15);
    }
    float *scales = p->data[3];
    int64_t n = p->tensors[3].dims[0] *
                (p->tensors[3].rank > 1 ? p->tensors[3].dims[1] : 1);
    for (int64_t k = 0; k < n; k++)
        scales[k] = 0.01f + 0.001f * (float)k;
}

static float scale_of(const product *p, int o, int i)
{
    const float *scales = p->data[3];
    switch (p->tensors[1].quant) {
    case CLV_QUANT_PER_CHANNEL:
        return scales[o];
    case CLV_QUANT_PER_GROUP:
        return scales[o * (I / GROUP) + i / GROUP];
    }
    return scales[0];
}

/* Activations rounded to 127 steps either way, whole sums. */
static double by_integers(const product *p, int n, int o)
{
    const float *x = p->data[0];
    float most = 0;
    double sum = 0;
    for (int k = 0; k < N * I; k++)
        most = fabsf(x[k]) > most ? fabsf(x[k]) : most;
    for (int i = 0; i < I; i++)
        sum += (double)lrint((double)x[n * I + i] / (double)most * 127) *
               weights[o][i] * (double)scale_of(p, o, i);
    return sum * (double)most / 127;
}

static double by_reals(const product *p, int n, int o)
{
    const float *x = p->data[0];
    double sum = 0;
    for (int i = 0; i < I; i++)
        sum += (double)x[n * I + i] * weights[o][i] * (double)scale_of(p, o, i);
    return sum;
}

/* The normalised mean square error against a reference. */
static double error(const product *p, double (*want)(const product *, int, int))
{
    const float *y = p->data[2];
    double off = 0, all = 0;
    for (int n = 0; n < N; n++)
        for (int o = 0; o < O; o++) {
            double w = want(p, n, o), d = (double)y[n * O + o] - w;
            off += d * d;
            all += w * w;
        }
    return off / all;
}

static const struct {
    uint32_t dtype, quant;
    int most;
} forms[] = {
    {CLV_DTYPE_I8, CLV_QUANT_PER_TENSOR, 127},
    {CLV_DTYPE_I8, CLV_QUANT_PER_CHANNEL, 127},
    {CLV_DTYPE_I8, CLV_QUANT_PER_GROUP, 127},
    {CLV_DTYPE_I4, CLV_QUANT_PER_TENSOR, 7},
    {CLV_DTYPE_I4, CLV_QUANT_PER_CHANNEL, 7},
    {CLV_DTYPE_I4, CLV_QUANT_PER_GROUP, 7},
};
#define FORMS (sizeof forms / sizeof *forms)

static void test_integers(void **state)
{
    (void)state;
    rig r;
    rig_open(&r, "npu.int8=1\nnpu.fp16=0\n");
    for (size_t f = 0; f < FORMS; f++) {
        product p;
        product_make(&p, &r, 0, N, I, O, forms[f].dtype, forms[f].quant, GROUP);
        fill(&p, f + 1, forms[f].most);
        clv_op_caps caps = product_caps(&p);
        assert_int_equal(caps.answer, CLV_ANSWER_YES);
        assert_int_equal(caps.error_class, CLV_ERROR_Q8_TENSOR);
        product_run(&p);
        /* The integers are the same ones; scales are multiplied as floats. A
         * value halfway between two may go either way. */
        assert_true(error(&p, by_integers) < 1e-5);
        assert_true(error(&p, by_reals) < 1e-2);
        assert_true(error(&p, by_reals) > 1e-7);
        product_free(&p);
    }
    rig_close(&r);
}

static void test_halves(void **state)
{
    (void)state;
    rig r;
    rig_open(&r, "npu.int8=0\nnpu.fp16=1\nsums.fp16=1\nsums.sums=f16\n"
                 "gpu.model=roofline\n");
    for (uint32_t device = 0; device < 3; device++)
        for (size_t f = 0; f < FORMS; f++) {
            product p;
            product_make(&p, &r, device, N, I, O, forms[f].dtype,
                         forms[f].quant, GROUP);
            fill(&p, f + 1, forms[f].most);
            clv_op_caps caps = product_caps(&p);
            product_run(&p);
            double off = error(&p, by_reals);
            if (device == 2) {
                assert_int_equal(caps.error_class, CLV_ERROR_F32);
                assert_true(off < 1e-12);
            } else if (device == 0) {
                assert_int_equal(caps.error_class, CLV_ERROR_F16);
                assert_int_equal(caps.accumulate, CLV_DTYPE_F32);
                assert_true(off < 1e-6 && off > 1e-10);
            } else if (r.api && forms[f].quant == CLV_QUANT_PER_GROUP) {
                assert_int_equal(caps.accumulate, CLV_DTYPE_F16);
                assert_true(off < 1e-3 && off > 1e-8);
            }
            product_free(&p);
        }
    rig_close(&r);
}

/* Float weights need a float array. */
static void test_refusals(void **state)
{
    (void)state;
    rig r;
    product p;
    rig_open(&r, "npu.int8=1\nnpu.fp16=0\n");
    product_make(&p, &r, 0, N, I, O, CLV_DTYPE_F16, CLV_QUANT_NONE, 0);
    clv_op_caps caps = product_caps(&p);
    assert_int_equal(caps.answer, CLV_ANSWER_NO);
    assert_non_null(strstr(caps.reason, "no FP16 array"));
    assert_int_equal(product_compile(&p), CLV_ERR_UNSUPPORTED);
    assert_says(&r, "no FP16 array");
    product_free(&p);
    rig_close(&r);
}

/* A product of few tokens takes the INT8 array where it is told to. */
static void test_int8_rows(void **state)
{
    (void)state;
    rig r;
    product one, two;
    rig_open(&r, "npu.int8=1\nnpu.fp16=1\nnpu.int8_rows=1\n");
    product_make(&one, &r, 0, 1, I, O, CLV_DTYPE_I4, CLV_QUANT_PER_CHANNEL, 0);
    product_make(&two, &r, 0, 2, I, O, CLV_DTYPE_I4, CLV_QUANT_PER_CHANNEL, 0);
    assert_int_equal(product_caps(&one).error_class, CLV_ERROR_Q8_TENSOR);
    assert_int_equal(product_caps(&two).error_class, CLV_ERROR_F16);
    product_free(&one);
    product_free(&two);
    rig_close(&r);
}

/* Groups cost what their many small products do. */
static void test_groups_are_slow(void **state)
{
    (void)state;
    rig r;
    uint64_t times[2];
    rig_open(&r, "compute=off\nnpu.arrays=4\nnpu.int8=1\nnpu.fp16=0\n"
                 "npu.rows=64\nnpu.columns=64\nnpu.swap_cycles=256\n");
    for (int grouped = 0; grouped < 2; grouped++) {
        product p;
        product_make(&p, &r, 0, 256, 2048, 2048, CLV_DTYPE_I8,
                     grouped ? CLV_QUANT_PER_GROUP : CLV_QUANT_PER_TENSOR,
                     GROUP);
        uint64_t begin = rig_now(&r);
        product_run(&p);
        times[grouped] = rig_now(&r) - begin;
        product_free(&p);
    }
    assert_true(times[1] > 4 * times[0]);
    rig_close(&r);
}

static void test_compute_off(void **state)
{
    (void)state;
    rig on, off;
    uint64_t times[2];
    rig_open(&on, "npu.fp16=1\n");
    rig_open(&off, "compute=off\nnpu.fp16=1\n");
    for (int i = 0; i < 2; i++) {
        product p;
        rig *r = i ? &off : &on;
        product_make(&p, r, 0, N, I, O, CLV_DTYPE_I8, CLV_QUANT_PER_TENSOR, 0);
        fill(&p, 1, 127);
        product_run(&p);
        times[i] = rig_now(r);
        assert_true((((float *)p.data[2])[0] == 0) == i);
        product_free(&p);
    }
    assert_int_equal(times[0], times[1]);
    rig_close(&on);
    rig_close(&off);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_integers),
        cmocka_unit_test(test_halves),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_int8_rows),
        cmocka_unit_test(test_groups_are_slow),
        cmocka_unit_test(test_compute_off),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
