/*
 * Models of time: what they recover of known ones, what they do with samples
 * that tell them little, and that they never answer nonsense.
 */
#include "test.h"

#include "../../planner/profile/fit.h"

#include <math.h>

#define MAX_SAMPLES 400

static double noise(test_random *r, double size)
{
    return 1 + size * test_float(r);
}

static void assert_near(double value, double want, double tolerance)
{
    if (!(fabs(value - want) <= tolerance * fabs(want)))
        fail_msg("%g is not within %g%% of %g", value, 100 * tolerance, want);
}

/* ------------------------------------------------------------------------ */
/* Linear                                                                   */

static void test_known_line(void **state)
{
    (void)state;
    test_random r = {1};
    planner_fit_sample s[100];
    for (int i = 0; i < 100; i++) {
        double a = pow(10, 3 + 4 * fabs(test_float(&r)));
        double b = pow(10, 2 + 4 * fabs(test_float(&r)));
        s[i] = (planner_fit_sample){{a, b}, 500 + 0.02 * a + 0.3 * b};
    }
    planner_linear m;
    assert_ok(planner_linear_fit(s, 100, 2, &m));
    assert_near(m.alpha, 500, 1e-3);
    assert_near(m.beta[0], 0.02, 1e-3);
    assert_near(m.beta[1], 0.3, 1e-3);
    assert_true(m.r2 > 0.99999);

    for (int i = 0; i < 100; i++)
        s[i].ns *= noise(&r, 0.1);
    assert_ok(planner_linear_fit(s, 100, 2, &m));
    assert_near(m.alpha, 500, 0.1);
    assert_near(m.beta[0], 0.02, 0.1);
    assert_near(m.beta[1], 0.3, 0.1);
    assert_true(m.r2 > 0.9);
}

/* ScheInfer's Table I: alpha and beta in seconds of GEMMs of FP16 and INT4 on
 * GPU and CPU by T*M*H, and of copies by bytes, for three testbeds, with the
 * r^2 of what was measured there. */
typedef struct table_row {
    double alpha, beta, r2;
    bool copy;
} table_row;

static const table_row table_1[] = {
    {1.0e-7, 3.2e-12, 0.997, false}, {4.7e-6, 8.1e-13, 0.999, false},
    {7.4e-7, 1.6e-11, 0.988, false}, {1.1e-5, 5.4e-12, 0.998, false},
    {3.0e-6, 2.6e-11, 0.985, true},  {1.9e-7, 2.6e-12, 0.997, false},
    {4.6e-6, 6.5e-13, 0.996, false}, {3.4e-6, 1.5e-11, 0.995, false},
    {1.3e-5, 6.5e-12, 0.998, false}, {5.8e-6, 2.5e-11, 0.994, true},
    {1.4e-7, 3.6e-12, 0.988, false}, {6.4e-6, 9.2e-13, 0.989, false},
    {1.8e-6, 2.5e-11, 0.993, false}, {5.6e-7, 8.4e-12, 0.992, false},
    {3.7e-6, 4.1e-11, 0.999, true},
};

static void test_scheinfer(void **state)
{
    (void)state;
    static const double tokens[] = {1, 4, 16, 64, 256, 1024};
    static const double widths[] = {1024, 4096, 8192, 14336};
    test_random r = {2};
    for (size_t row = 0; row < sizeof table_1 / sizeof *table_1; row++) {
        const table_row *t = &table_1[row];
        planner_fit_sample s[96];
        uint32_t n = 0;
        for (int i = 0; i < 6; i++)
            for (int j = 0; j < 4; j++)
                for (int k = 0; k < (t->copy ? 1 : 4); k++) {
                    double x = t->copy ? 4096 * tokens[i] * widths[j]
                                       : tokens[i] * widths[j] * widths[k];
                    s[n++] = (planner_fit_sample){
                        {x}, 1e9 * (t->alpha + t->beta * x) * noise(&r, 0.05)};
                }
        planner_fit fit;
        assert_ok(planner_fit_make(s, n, 1, &fit));
        assert_near(fit.linear.beta[0], 1e9 * t->beta, 0.05);
        assert_true(fit.linear.r2 >= t->r2 - 0.01);
        assert_null(fit.tree); /* a line is what it is */
        assert_true(fit.held_out.median < 0.05);
        planner_fit_finish(&fit);
    }
}

static void test_no_negative_coefficient(void **state)
{
    (void)state;
    planner_fit_sample s[20];
    for (int i = 0; i < 20; i++) /* falls with the second feature */
        s[i] = (planner_fit_sample){{i + 1, i % 5}, 100 + 10 * i - 8 * (i % 5)};
    planner_linear m;
    assert_ok(planner_linear_fit(s, 20, 2, &m));
    assert_true(m.alpha >= 0);
    assert_true(m.beta[0] > 0);
    assert_true(m.beta[1] == 0);
}

/* Features that are the same, or multiples, share what they explain. */
static void test_collinear(void **state)
{
    (void)state;
    planner_fit_sample s[50];
    for (int i = 0; i < 50; i++)
        s[i] = (planner_fit_sample){{i + 1, i + 1, 1e6 * (i + 1)},
                                    10 + 6 * (i + 1)};
    planner_linear m;
    assert_ok(planner_linear_fit(s, 50, 3, &m));
    assert_near(m.beta[0], m.beta[1], 0.01);
    assert_near(m.beta[0] + m.beta[1] + 1e6 * m.beta[2], 6, 1e-3);
    assert_near(m.beta[0], 2, 0.01);
}

static void test_few_samples(void **state)
{
    (void)state;
    planner_fit_sample s[2] = {{{1000, 20, 3, 4, 5, 6}, 700},
                               {{2000, 20, 3, 4, 5, 6}, 1100}};
    planner_linear m;
    planner_fit fit;
    assert_ok(planner_linear_fit(s, 1, 6, &m));
    assert_near(planner_linear_predict(&m, s[0].x, 6), 700, 1e-4);
    assert_ok(planner_linear_fit(s, 2, 6, &m));
    assert_near(planner_linear_predict(&m, s[0].x, 6), 700, 1e-4);
    assert_near(planner_linear_predict(&m, s[1].x, 6), 1100, 1e-4);
    assert_ok(planner_fit_make(s, 1, 6, &fit));
    assert_int_equal(fit.held_out.n, 0);
    assert_near(planner_fit_predict(&fit, s[0].x), 700, 1e-4);
    planner_fit_finish(&fit);
    assert_ok(planner_fit_make(s, 2, 0, &fit)); /* no feature: a constant */
    assert_int_equal(fit.held_out.n, 2);
    assert_true(planner_fit_predict(&fit, NULL) > 700);
    assert_true(planner_fit_predict(&fit, NULL) < 1100);
    planner_fit_finish(&fit);
}

static void test_refused(void **state)
{
    (void)state;
    static const double bad[] = {NAN, INFINITY, -1, 1e80};
    planner_fit_sample s[3] = {{{1}, 1}, {{2}, 2}, {{3}, 3}};
    planner_fit fit;
    planner_tree *tree;
    assert_int_equal(planner_fit_make(s, 0, 1, &fit), CLV_ERR_INVALID);
    assert_int_equal(planner_fit_make(s, 3, PLANNER_FIT_FEATURES + 1, &fit),
                     CLV_ERR_INVALID);
    for (int i = 0; i < 4; i++) {
        s[1] = (planner_fit_sample){{bad[i]}, 2};
        assert_int_equal(planner_fit_make(s, 3, 1, &fit), CLV_ERR_INVALID);
        assert_error_says("sample 1");
        s[1] = (planner_fit_sample){{2}, bad[i]};
        assert_int_equal(planner_tree_fit(s, 3, 1, 1, &tree), CLV_ERR_INVALID);
        assert_null(tree);
    }
    s[1].ns = 0;
    assert_int_equal(planner_fit_make(s, 3, 1, &fit), CLV_ERR_INVALID);
}

/* ------------------------------------------------------------------------ */
/* Trees                                                                    */

/* As an array of 32 columns takes its tokens. */
static double staircase(double n)
{
    return 1000 + 5000 * ceil(n / 32);
}

static void test_staircase(void **state)
{
    (void)state;
    test_random r = {3};
    planner_fit_sample s[MAX_SAMPLES];
    for (int i = 0; i < 200; i++) {
        double n = 1 + test_below(&r, 512);
        s[i] = (planner_fit_sample){{n}, staircase(n) * noise(&r, 0.01)};
    }
    planner_fit fit;
    assert_ok(planner_fit_make(s, 200, 1, &fit));
    assert_non_null(fit.tree);
    assert_true(planner_tree_leaves(fit.tree) > 4);
    assert_true(fit.held_out.n == 200);
    /* Samples are too few to know every edge to the token. */
    uint32_t tree = 0, linear = 0;
    for (int n = 1; n <= 512; n++) {
        double x[] = {n};
        double line = planner_linear_predict(&fit.linear, x, 1);
        tree += fabs(planner_fit_predict(&fit, x) / staircase(n) - 1) > 0.10;
        linear += fabs(line / staircase(n) - 1) > 0.10;
    }
    if (tree > 10 || linear < 50)
        fail_msg("tree: %u, linear: %u of 512 are off by 10%%", tree, linear);
    planner_fit_finish(&fit);
}

/* Computing against memory: a line with a bend. */
static void test_roofline(void **state)
{
    (void)state;
    test_random r = {4};
    planner_fit_sample s[150];
    for (int i = 0; i < 150; i++) {
        double n = pow(2, test_below(&r, 10)), w = 1e6 + 1e5 * i;
        s[i] = (planner_fit_sample){{n * w, w, n}, 0};
        s[i].ns = 500 + fmax(0.002 * n * w, 0.025 * w);
    }
    planner_fit fit;
    assert_ok(planner_fit_make(s, 150, 3, &fit));
    assert_non_null(fit.tree);
    assert_true(fit.held_out.median < 0.01);
    assert_true(fit.held_out.p90 < 0.10);
    planner_fit_finish(&fit);
}

/* Noise is no reason to split: leaves would learn it. */
static void test_pruned(void **state)
{
    (void)state;
    test_random r = {5};
    planner_fit_sample s[200];
    for (int i = 0; i < 200; i++) {
        double n = 1 + test_below(&r, 1000);
        s[i] = (planner_fit_sample){{n}, (100 + 7 * n) * noise(&r, 0.2)};
    }
    planner_tree *tree;
    assert_ok(planner_tree_fit(s, 200, 1, 4, &tree));
    if (planner_tree_leaves(tree) > 3)
        fail_msg("%u leaves", planner_tree_leaves(tree));
    planner_tree_free(tree);
    planner_tree_free(NULL);
}

static void test_least_leaf(void **state)
{
    (void)state;
    planner_fit_sample s[40];
    planner_tree *tree;
    for (int i = 0; i < 40; i++)
        s[i] = (planner_fit_sample){{i}, i < 20 ? 100 : 9000};
    assert_ok(planner_tree_fit(s, 40, 1, 4, &tree));
    assert_int_equal(planner_tree_leaves(tree), 2);
    planner_tree_free(tree);
    assert_ok(planner_tree_fit(s, 40, 1, 21, &tree));
    assert_int_equal(planner_tree_leaves(tree), 1);
    planner_tree_free(tree);
}

/* A tree that was kept answers the same, and what is no tree is refused. */
static void test_rows(void **state)
{
    (void)state;
    planner_fit_sample s[200];
    planner_tree *tree, *again;
    for (int i = 0; i < 200; i++)
        s[i] = (planner_fit_sample){{i + 1, i % 7}, staircase(i + 1) + i % 7};
    assert_ok(planner_tree_fit(s, 200, 2, 4, &tree));
    uint32_t n = planner_tree_rows(tree);
    double rows[100][PLANNER_TREE_ROW];
    assert_true(n > 5 && n < 100);
    for (uint32_t i = 0; i < n; i++)
        planner_tree_row(tree, i, rows[i]);
    assert_ok(planner_tree_from_rows(rows, n, 2, &again));
    assert_int_equal(planner_tree_leaves(again), planner_tree_leaves(tree));
    for (int i = 0; i < 200; i++)
        assert_true(planner_tree_predict(tree, s[i].x) ==
                    planner_tree_predict(again, s[i].x));
    planner_tree_free(again);
    planner_tree_free(tree);
    assert_true(rows[0][2] > 1);
    static const struct {
        int column;
        double value;
    } bad[] = {{0, 2},   {0, -1}, {0, 1e300},    {1, NAN},
               {1, -1},  {2, 1},  {2, -1},       {2, 1e9},
               {2, NAN}, {3, -1}, {3, INFINITY}, {5, NAN}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        double was = rows[0][bad[i].column];
        rows[0][bad[i].column] = bad[i].value;
        assert_int_equal(planner_tree_from_rows(rows, n, 2, &again),
                         CLV_ERR_FORMAT);
        assert_null(again);
        rows[0][bad[i].column] = was;
    }
    assert_int_equal(planner_tree_from_rows(rows, 0, 2, &again),
                     CLV_ERR_FORMAT);
    assert_int_equal(planner_tree_from_rows(rows, 1, 2, &again),
                     CLV_ERR_FORMAT);
}

static void test_same_in_every_run(void **state)
{
    (void)state;
    test_random r = {6};
    planner_fit_sample s[120];
    for (int i = 0; i < 120; i++) {
        double n = 1 + test_below(&r, 300), w = 1 + test_below(&r, 50);
        s[i] = (planner_fit_sample){{n, w, n * w},
                                    staircase(n) * w * noise(&r, 0.1)};
    }
    planner_fit a, b;
    assert_ok(planner_fit_make(s, 120, 3, &a));
    assert_ok(planner_fit_make(s, 120, 3, &b));
    for (int i = 0; i < 120; i++)
        assert_true(planner_fit_predict(&a, s[i].x) ==
                    planner_fit_predict(&b, s[i].x));
    assert_true(a.held_out.median == b.held_out.median);
    planner_fit_finish(&a);
    planner_fit_finish(&b);
}

/* Any samples: no NaN, nothing negative, wherever it is asked. */
static void test_random_samples(void **state)
{
    (void)state;
    test_random r = {7};
    planner_fit_sample s[60];
    for (int turn = 0; turn < 300; turn++) {
        uint32_t n = 1 + test_below(&r, 60);
        uint32_t features = test_below(&r, PLANNER_FIT_FEATURES + 1);
        uint32_t sort = test_below(&r, 4);
        for (uint32_t i = 0; i < n; i++) {
            for (uint32_t j = 0; j < features; j++)
                s[i].x[j] = sort == 0   ? test_below(&r, 3)
                            : sort == 1 ? pow(10, 20 * test_float(&r))
                            : sort == 2 ? (double)(j * 1000)
                                        : test_below(&r, 2) * 1e18;
            s[i].ns = pow(10, (sort == 1 ? 30 : 6) * test_float(&r));
        }
        planner_fit fit;
        assert_ok(planner_fit_make(s, n, features, &fit));
        assert_true(isfinite(fit.linear.r2));
        assert_true(isfinite(fit.held_out.median) &&
                    fit.held_out.median <= fit.held_out.p90);
        for (int i = 0; i < 20; i++) {
            double x[PLANNER_FIT_FEATURES];
            for (uint32_t j = 0; j < features; j++)
                x[j] = pow(10, 20 * test_float(&r));
            double ns = planner_fit_predict(&fit, i ? x : s[0].x);
            assert_true(isfinite(ns) && ns >= 0);
        }
        planner_fit_finish(&fit);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_line),
        cmocka_unit_test(test_scheinfer),
        cmocka_unit_test(test_no_negative_coefficient),
        cmocka_unit_test(test_collinear),
        cmocka_unit_test(test_few_samples),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_staircase),
        cmocka_unit_test(test_roofline),
        cmocka_unit_test(test_pruned),
        cmocka_unit_test(test_least_leaf),
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_same_in_every_run),
        cmocka_unit_test(test_random_samples),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
