/* Every op and dtype against naive double-precision arithmetic. */
#include "harness.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static plugin *shared;

/* Sum of squares of the reference and of the difference from it. */
typedef struct error {
    double square, difference;
} error;

static void compare(error *e, double got, double want)
{
    if (isnan(want) || isinf(want)) {
        assert_true(isnan(want) ? isnan(got) : got == want);
        return;
    }
    assert_true(isfinite(got));
    e->square += want * want;
    e->difference += (got - want) * (got - want);
}

static void check_error(const error *e, uint32_t error_class, const char *what)
{
    double nmse = e->square > 0 ? e->difference / e->square : e->difference;
    if (nmse > error_bound(error_class))
        fail_msg("%s: error %g passes %g", what, nmse,
                 error_bound(error_class));
}

/* Runs a graph whose nodes the plugin claims; the class of the last one. */
static uint32_t run(graph *g)
{
    clv_op_caps caps = {.answer = CLV_ANSWER_NO};
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        caps = graph_caps(shared, g, i);
        if (caps.answer != CLV_ANSWER_YES)
            fail_msg("%s", caps.reason);
    }
    if (graph_run(shared, g))
        fail_msg("%s", shared->host.error);
    return caps.error_class;
}

/* --- matmul -------------------------------------------------------------- */

static void matmul_case(uint32_t dtype, int64_t n, int64_t k, int64_t o,
                        bool bias, int64_t pad)
{
    graph g = {0};
    int64_t block = dtype == CLV_DTYPE_Q8_0 || dtype == CLV_DTYPE_Q4_0 ? 2 : 4;
    uint32_t x = add_tensor(&g, CLV_DTYPE_F32, CLV_USAGE_INPUT, n, k, pad);
    uint32_t w = add_tensor(&g, dtype, CLV_USAGE_WEIGHT, o, k,
                            pad / 4 * block);
    uint32_t b = bias ? add_tensor(&g, CLV_DTYPE_F32, CLV_USAGE_WEIGHT, 0, o, 0)
                      : CLV_NO_TENSOR;
    uint32_t y = add_tensor(&g, CLV_DTYPE_F32, CLV_USAGE_OUTPUT, n, o, pad);
    NODE(&g, CLV_OP_MATMUL, y, x, w, b);
    uint32_t error_class = run(&g);
    error e = {0};
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < o; j++) {
            double sum = bias ? get(&g, b, 0, j) : 0, square = 0;
            for (int64_t l = 0; l < k; l++) {
                double term = get(&g, x, i, l) * get(&g, w, j, l);
                sum += term;
                square += term * term;
            }
            compare(&e, get(&g, y, i, j), sum);
            if (square > sum * sum) /* a sum that happens to be near zero */
                e.square += square - sum * sum;
        }
    char what[80];
    snprintf(what, sizeof what, "matmul dtype %u, [%d, %d] x [%d, %d]", dtype,
             (int)n, (int)k, (int)o, (int)k);
    check_error(&e, error_class, what);
    graph_free(&g);
}

static void test_matmul(void **state)
{
    static const uint32_t dtypes[] = {CLV_DTYPE_F32, CLV_DTYPE_F16,
                                      CLV_DTYPE_BF16, CLV_DTYPE_Q8_0,
                                      CLV_DTYPE_Q4_0};
    static const int64_t shapes[][3] = {
        {1, 32, 1},   {1, 64, 17},  {2, 96, 33},  {3, 32, 16},
        {5, 256, 40}, {17, 64, 65}, {33, 160, 7}, {1, 1056, 130},
        {4, 2080, 3}, {67, 32, 31}, {530, 32, 5}};
    (void)state;
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++)
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
            matmul_case(dtypes[d], shapes[s][0], shapes[s][1], shapes[s][2],
                        s % 2, 0);
            matmul_case(dtypes[d], shapes[s][0], shapes[s][1], shapes[s][2],
                        s % 2 == 0, 12);
        }
    for (size_t d = 0; d < 3; d++)
        for (int64_t k = 1; k < 40; k += 3)
            matmul_case(dtypes[d], 3, k, k + 2, false, 4);
}

static int setup(void **state)
{
    static plugin p;
    (void)state;
    plugin_open(&p, getenv("CPU_TEST_THREADS"), getenv("CPU_TEST_FEATURES"));
    shared = &p;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    plugin_close(shared);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_matmul),
    };
    return cmocka_run_group_tests_name("cpu ops", tests, setup, teardown);
}
