/* All variants of a node, among which tuning chooses, compute the same. */
#include "tune/context.h"
#include "runner.h"
#include "tune/tune.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const gpu_target small = {
    .max_group = 256,
    .max_group_size = {256, 256, 64},
    .local_bytes = 49152,
    .max_binding = 128 << 20,
    .units = 16,
};

#define MAX_TENSORS 5

typedef struct bench {
    graph g;
    void *data[MAX_TENSORS];
    size_t size[MAX_TENSORS];
} bench;

/* f32 with numbers below 1, or i32 with the position `last`. */
static void add(bench *b, uint32_t dtype, uint32_t usage, int64_t rows,
                int64_t channels, int32_t last)
{
    const uint32_t t = graph_tensor(&b->g, dtype, usage, rows, channels);
    const size_t n = (size_t)((rows ? rows : 1) * channels);
    b->size[t] = 4 * n;
    b->data[t] = calloc(n, 4);
    assert_non_null(b->data[t]);
    for (size_t i = 0; i < n; i++) {
        const float x = (float)((i + 7 * t) * 2654435761u % 1000) / 1000 - 0.5f;
        memcpy((char *)b->data[t] + 4 * i,
               dtype == CLV_DTYPE_I32 ? (const void *)&last : &x, 4);
    }
}

static bool matrix;
static double tolerance = 1e-10;

static void run(const char *choices, const bench *b)
{
    gpu_target target = small;
    target.plain_matrix = matrix;
    target.choices = choices;
    runner *r = runner_open(&target);
    assert_non_null(r);
    runner_run(r, &b->g, b->data, b->size, NULL);
    runner_close(r);
}

/* Each variant's output, or that of every step-th, against the preferred one's.
 */
static void compare(bench *b, uint32_t out, uint32_t at_least, uint32_t step)
{
    gpu_target target = small;
    gpu_variants variants;
    target.plain_matrix = matrix;
    runner *r = runner_open(&target);
    float *want = malloc(b->size[out]);
    assert_non_null(want);
    gpu_list_variants(&target, &b->g.sub, 0, &variants);
    assert_in_range(variants.n, at_least, GPU_MAX_VARIANTS);
    if (r) {
        runner_close(r);
        run(NULL, b);
        memcpy(want, b->data[out], b->size[out]);
    }
    for (uint32_t i = 0; i < variants.n && r; i += step) {
        char choice[GPU_KEY_SIZE + 16];
        snprintf(choice, sizeof choice, "%s=%u", variants.key,
                 (unsigned)variants.id[i]);
        memset(b->data[out], 0xff, b->size[out]);
        run(choice, b);
        const double error =
            gpu_result_error(b->data[out], want, b->size[out] / 4);
        if (!(error <= tolerance))
            fail_msg("%s: normalised mean square error %g", choice, error);
    }
    free(want);
    for (uint32_t i = 0; i < b->g.sub.n_tensors; i++)
        free(b->data[i]);
    if (!r)
        skip();
}

static void run_product(int64_t rows, uint32_t variants)
{
    const uint32_t inputs[] = {0, 1, CLV_NO_TENSOR};
    bench b = {0};
    graph_init(&b.g);
    add(&b, CLV_DTYPE_F32, CLV_USAGE_INPUT, rows, 70, 0);
    add(&b, CLV_DTYPE_F32, CLV_USAGE_WEIGHT, 37, 70, 0);
    add(&b, CLV_DTYPE_F32, CLV_USAGE_OUTPUT, rows, 37, 0);
    graph_node(&b.g, CLV_OP_MATMUL, 2, inputs);
    compare(&b, 2, variants, 2);
}

static void test_products(void **state)
{
    (void)state;
    run_product(1, 5);
    run_product(7, 5);
}

static void fill_halves(bench *b, uint32_t t)
{
    for (size_t i = 0; i < b->size[t] / 2; i++)
        ((uint16_t *)b->data[t])[i] =
            (uint16_t)(0x3000 | (i * 40503u & 0x83ff));
}

/* By matrix instructions. */
static void run_matrix(int64_t rows, uint32_t variants, uint32_t step)
{
    const uint32_t inputs[] = {0, 1, CLV_NO_TENSOR};
    bench b = {0};
    graph_init(&b.g);
    add(&b, CLV_DTYPE_F32, CLV_USAGE_INPUT, rows, 256, 0);
    add(&b, CLV_DTYPE_F16, CLV_USAGE_WEIGHT, 70, 256, 0);
    b.size[1] /= 2;
    fill_halves(&b, 1);
    add(&b, CLV_DTYPE_F32, CLV_USAGE_OUTPUT, rows, 70, 0);
    graph_node(&b.g, CLV_OP_MATMUL, 2, inputs);
    matrix = true;
    compare(&b, 2, variants, step);
    matrix = false;
}

static void test_matrix_products(void **state)
{
    (void)state;
    run_matrix(2, 6, 4);
    run_matrix(70, 5, 3);
}

static void add_attention(bench *b, uint32_t cache, int64_t rows)
{
    const uint32_t inputs[] = {0, 1, 2, 3, CLV_NO_TENSOR};
    graph_init(&b->g);
    add(b, CLV_DTYPE_F32, CLV_USAGE_INPUT, 3, 4 * 24, 0);
    add(b, cache, CLV_USAGE_STATE, rows, 2 * 24, 0);
    add(b, cache, CLV_USAGE_STATE, rows, 2 * 24, 0);
    add(b, CLV_DTYPE_I32, CLV_USAGE_INPUT, 0, 3, (int32_t)rows - 10);
    add(b, CLV_DTYPE_F32, CLV_USAGE_OUTPUT, 3, 4 * 24, 0);
    clv_node *node = graph_node(&b->g, CLV_OP_ATTENTION, 4, inputs);
    node->attr.attention.head_dim = 24;
    node->attr.attention.scale = 1;
}

static void test_attention(void **state)
{
    bench b = {0};
    (void)state;
    add_attention(&b, CLV_DTYPE_F32, 150);
    compare(&b, 4, 6, 5);
}

/* The kernel for few queries, and that for many. */
static void test_matrix_attention(void **state)
{
    bench b = {0};
    (void)state;
    add_attention(&b, CLV_DTYPE_F16, 400);
    for (uint32_t t = 1; t < 3; t++) {
        b.size[t] /= 2;
        fill_halves(&b, t);
    }
    matrix = true;
    tolerance = 1e-6;
    compare(&b, 4, 6, 2);
    tolerance = 1e-10;
    matrix = false;
}

static void test_norm(void **state)
{
    const uint32_t inputs[] = {0, 1, CLV_NO_TENSOR};
    bench b = {0};
    (void)state;
    graph_init(&b.g);
    add(&b, CLV_DTYPE_F32, CLV_USAGE_INPUT, 3, 150, 0);
    add(&b, CLV_DTYPE_F32, CLV_USAGE_INPUT, 0, 150, 0);
    add(&b, CLV_DTYPE_F32, CLV_USAGE_OUTPUT, 3, 150, 0);
    graph_node(&b.g, CLV_OP_RMS_NORM, 2, inputs)->attr.norm.eps = 1e-5f;
    compare(&b, 2, 4, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_products),
        cmocka_unit_test(test_matrix_products),
        cmocka_unit_test(test_attention),
        cmocka_unit_test(test_matrix_attention),
        cmocka_unit_test(test_norm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
