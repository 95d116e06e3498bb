/* What a plan takes, rule by rule. */
#include "solve_exact.h"
#include "solve_problem.h"

#include <math.h>

#define NONE UINT32_MAX

static void assert_ns(double got, double want)
{
    if (!(fabs(got - want) <= 1e-6 * (1 + fabs(want))))
        fail_msg("%.6f ns, not %.6f", got, want);
}

static void finish_case(problem *q, double want)
{
    assert_ns(first_makespan(q), want);
    free(q);
}

/* Two nodes in one step: one submit, one dispatch, one wait. */
static void test_step(void **state)
{
    (void)state;
    problem *q = problem_new(1);
    q->devices[0] = problem_device(1, 10, 100, 1000, true);
    problem_whole(q, 0, 20000, NONE);
    problem_whole(q, 0, 30000, 0);
    finish_case(q, 10 + 100 + 50000 + 1000);
}

/* The host waits for device 0, submits to an idle queue, waits for 1. */
static void test_host_wait(void **state)
{
    (void)state;
    problem *q = problem_new(2);
    q->devices[0] = problem_device(1, 10, 100, 1000, true);
    q->devices[1] = problem_device(2, 20, 200, 2000, true);
    problem_whole(q, 0, 50000, NONE);
    problem_whole(q, 1, 70000, 0);
    finish_case(q, 10 + 100 + 50000 + 1000 + 20 + 200 + 70000 + 2000);
}

/* Device 1 waits by itself: it was submitted long before. */
static void test_device_wait(void **state)
{
    (void)state;
    problem *q = problem_new(2);
    q->devices[0] = problem_device(1, 10, 100, 1000, true);
    q->devices[1] = problem_device(2, 20, 200, 2000, false);
    problem_whole(q, 0, 50000, NONE);
    problem_whole(q, 1, 70000, 0);
    finish_case(q, 10 + 100 + 50000 + 200 + 70000 + 2000);
}

/* A wait that finds its work done costs nothing: device 1 was busy longer, and
 * the host waited for that. */
static void test_wait_for_done(void **state)
{
    (void)state;
    problem *q = problem_new(3);
    for (int d = 0; d < 3; d++)
        q->devices[d] = problem_device(0, 0, 0, 1000, true);
    problem_whole(q, 0, 50000, NONE);
    problem_whole(q, 1, 60000, NONE);
    problem_whole(q, 2, 5, 1);
    problem_dep(&q->nodes[2], 0);
    finish_case(q, 60000 + 1000 + 5 + 1000);
}

/* A step goes on until another device needs something of it, and is waited for
 * as a whole. */
static void test_end_of_step(void **state)
{
    (void)state;
    problem *q = problem_new(2);
    q->devices[0] = problem_device(1, 10, 100, 1000, true);
    q->devices[1] = problem_device(2, 20, 200, 2000, true);
    problem_whole(q, 0, 50000, NONE);
    problem_whole(q, 0, 40000, NONE);
    problem_whole(q, 1, 5, 0);
    problem_whole(q, 0, 70000, NONE); /* sent at once, as the queue has work */
    double end = 10 + 100 + 90000;
    finish_case(q, end + 100 + 70000 + 1000);
}

/* Node 2 needs node 0 on another device: that does not wait for its own part of
 * node 2. */
static void test_end_before_own_part(void **state)
{
    (void)state;
    problem *q = problem_new(2);
    q->devices[0] = problem_device(1, 10, 100, 1000, true);
    q->devices[1] = problem_device(2, 20, 200, 2000, true);
    problem_whole(q, 0, 50000, NONE);
    problem_dep(problem_node(q), 0);
    problem_option(q);
    problem_piece(q, 0, 30000, columns(0, 8));
    problem_piece(q, 1, 60000, columns(8, 16));
    finish_case(q, 10 + 100 + 50000 + 1000 + 20 + 200 + 60000 + 2000);
}

/* The host waits for device 0 and then submits to device 1; device 2 gets its
 * work before that, though it comes later. */
static void test_order(void **state)
{
    (void)state;
    problem *q = problem_new(3);
    for (int d = 0; d < 3; d++)
        q->devices[d] = problem_device(1, 10, 100, 1000, true);
    problem_whole(q, 0, 50000, NONE);
    problem_whole(q, 1, 5, 0);
    problem_whole(q, 2, 80000, NONE);
    uint32_t options[] = {0, 1, 2};
    double begin[3], end[3], ns;
    assert_ok(planner_solve_evaluate(&q->p, options, begin, end, &ns));
    assert_ns(begin[0], 10 + 100);
    assert_ns(begin[1], 10 + 100 + 50000 + 1000 + 10 + 100);
    assert_ns(begin[2], 20 + 100);
    finish_case(q, 20 + 100 + 80000 + 1000);
}

/* What a step that is open already waited for does not begin another one. */
static void test_covered(void **state)
{
    (void)state;
    problem *q = problem_new(2);
    q->devices[0] = problem_device(0, 0, 0, 1000, true);
    q->devices[1] = problem_device(7, 20, 200, 2000, true);
    problem_whole(q, 0, 50000, NONE);
    problem_whole(q, 1, 5, 0);
    problem_whole(q, 1, 6, 0);
    finish_case(q, 50000 + 1000 + 20 + 200 + 11 + 2000);
}

/* Part of what a step made is another value: a step of its own. */
static void test_renamed(void **state)
{
    (void)state;
    problem *q = problem_new(1);
    q->devices[0] = problem_device(1, 10, 100, 1000, true);
    problem_node(q);
    problem_option(q);
    problem_piece(q, 0, 400, columns(0, 8));
    problem_piece(q, 0, 500, columns(8, 16));
    problem_whole(q, 0, 30, 0);
    finish_case(q, 10 + 100 + 900 + 100 + 30 + 1000);
}

/* Columns whose parts stay where they are: no wait in between. */
static void test_rows_then_channels(void **state)
{
    (void)state;
    problem *q = problem_new(2);
    for (int d = 0; d < 2; d++)
        q->devices[d] = problem_device(1, 10, 100, 1000, true);
    problem_node(q);
    problem_option(q);
    problem_piece(q, 0, 40000, columns(0, 8));
    problem_piece(q, 1, 40000, columns(8, 16));
    problem_dep(problem_node(q), 0);
    problem_option(q);
    planner_solve_piece *a = problem_piece(q, 0, 30000, whole_box);
    planner_solve_piece *b = problem_piece(q, 1, 30000, whole_box);
    planner_solve_piece *sum = problem_piece(q, 0, 500, whole_box);
    a->partial = b->partial = sum->joins = true;
    a->needs[0] = columns(0, 8);
    b->needs[0] = columns(8, 16);
    sum->needs[0] = no_box;
    /* Device 1 begins 10 later; the host waits for it, and submits the sum. */
    finish_case(q, 20 + 100 + 70000 + 1000 + 10 + 100 + 500 + 1000);
}

/* Without the join on another device, partial sums end no step. */
static void test_own_join(void **state)
{
    (void)state;
    problem *q = problem_new(1);
    q->devices[0] = problem_device(1, 10, 100, 1000, true);
    problem_node(q);
    problem_option(q);
    problem_piece(q, 0, 40, whole_box)->partial = true;
    problem_piece(q, 0, 50, whole_box)->partial = true;
    problem_piece(q, 0, 7, whole_box)->joins = true;
    finish_case(q, 10 + 100 + 97 + 1000);
}

/* A node whose weight device 1 copies, 1,000 ns and 10 bytes of its ring, for
 * device 0, which takes 10 ns. */
static void streamed(problem *q, uint32_t dep)
{
    planner_solve_node *node = problem_node(q);
    if (dep != NONE)
        problem_dep(node, dep);
    problem_option(q);
    planner_solve_piece *copy = problem_piece(q, 1, 1000, no_box);
    for (int k = 0; k < PLANNER_SOLVE_DEPS; k++)
        copy->needs[k] = no_box;
    copy->ring_bytes = 10;
    problem_piece(q, 0, 10, whole_box)->after = 1;
}

/* While device 2 works, as many copies run ahead as the ring holds. */
static void test_ring(void **state)
{
    const struct {
        uint64_t bytes;
        double ns;
    } cases[] = {{0, 6010 + 30}, {30, 6010 + 30}, {29, 7030}, {10, 8040}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        problem *q = problem_new(3);
        for (int d = 0; d < 3; d++)
            q->devices[d] = problem_device(0, 0, 0, 0, false);
        q->devices[1].ring = cases[i].bytes;
        streamed(q, NONE);
        problem_whole(q, 2, 5000, 0);
        for (uint32_t k = 1; k < 4; k++)
            streamed(q, k);
        finish_case(q, cases[i].ns);
    }
}

/* When pieces run, in node order. */
static void test_times(void **state)
{
    (void)state;
    problem *q = problem_new(2);
    q->devices[0] = problem_device(1, 10, 100, 1000, true);
    q->devices[1] = problem_device(2, 20, 200, 2000, true);
    problem_whole(q, 0, 50000, NONE);
    problem_whole(q, 1, 70000, 0);
    uint32_t options[] = {0, 1};
    double begin[2], end[2], ns;
    assert_ok(planner_solve_evaluate(&q->p, options, begin, end, &ns));
    assert_ns(begin[0], 110);
    assert_ns(end[0], 50110);
    assert_ns(begin[1], 50110 + 1000 + 20 + 200);
    assert_ns(end[1], begin[1] + 70000);
    assert_ns(ns, end[1] + 2000);
    options[1] = 0; /* not of node 1 */
    assert_int_equal(planner_solve_evaluate(&q->p, options, begin, end, &ns),
                     CLV_ERR_INVALID);
    free(q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_step),
        cmocka_unit_test(test_host_wait),
        cmocka_unit_test(test_device_wait),
        cmocka_unit_test(test_wait_for_done),
        cmocka_unit_test(test_end_of_step),
        cmocka_unit_test(test_end_before_own_part),
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_covered),
        cmocka_unit_test(test_renamed),
        cmocka_unit_test(test_rows_then_channels),
        cmocka_unit_test(test_own_join),
        cmocka_unit_test(test_ring),
        cmocka_unit_test(test_times),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
