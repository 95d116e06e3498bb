/* Properties of the memory planner over random lifetimes. */
#include "test.h"

#include "../../planner/memory/memplan.h"

#include <stdlib.h>

#define MAX_TENSORS 120

static uint64_t round_up(uint64_t size, uint64_t align)
{
    return (size + align - 1) / align * align;
}

static bool live_together(const planner_lifetime *a, const planner_lifetime *b)
{
    return a->first <= b->last && b->first <= a->last;
}

static void check_no_overlap(const planner_lifetime *t, const uint64_t *place,
                             uint32_t n, uint64_t align)
{
    for (uint32_t i = 0; i < n; i++) {
        assert_int_equal(place[i] % align, 0);
        for (uint32_t j = 0; j < i; j++)
            if (live_together(&t[i], &t[j]))
                assert_true(place[i] + t[i].size <= place[j] ||
                            place[j] + t[j].size <= place[i]);
    }
}

/* The most bytes live at any node, node by node. */
static uint64_t lower_bound(const planner_lifetime *t, uint32_t n,
                            uint32_t nodes, uint64_t align)
{
    uint64_t most = 0;
    for (uint32_t node = 0; node < nodes; node++) {
        uint64_t live = 0;
        for (uint32_t i = 0; i < n; i++)
            if (t[i].first <= node && node <= t[i].last)
                live += round_up(t[i].size, align);
        most = live > most ? live : most;
    }
    return most;
}

static void test_random_lifetimes(void **state)
{
    (void)state;
    test_random r = {11};
    for (int round = 0; round < 400; round++) {
        planner_lifetime t[MAX_TENSORS];
        uint64_t place[MAX_TENSORS], naive = 0;
        uint32_t n = test_below(&r, MAX_TENSORS),
                 nodes = 1 + test_below(&r, 60);
        uint64_t align = 1ull << test_below(&r, 9);
        for (uint32_t i = 0; i < n; i++) {
            t[i].size =
                test_below(&r, round % 2 ? 10000 : 4) * (round % 2 ? 1 : 1000);
            t[i].first = test_below(&r, nodes);
            t[i].last = t[i].first + test_below(&r, nodes - t[i].first);
            naive += round_up(t[i].size, align);
        }
        core_memplan plan;
        assert_ok(planner_memplan_make(t, n, align, NULL, NULL, place, &plan));
        check_no_overlap(t, place, n, align);
        uint64_t bound = lower_bound(t, n, nodes, align);
        assert_int_equal(plan.live, bound);
        assert_int_equal(plan.naive, naive);
        assert_in_range(plan.offsets, bound, naive);
        assert_in_range(plan.objects, bound, naive);
        assert_int_equal(plan.size, plan.offsets < plan.objects ? plan.offsets
                                                                : plan.objects);
        for (uint32_t i = 0; i < n; i++)
            assert_true(place[i] + t[i].size <= plan.size);
    }
}

/* A chain needs two neighbours at a time, whatever its length. */
static void test_chain(void **state)
{
    (void)state;
    planner_lifetime t[50];
    uint64_t place[50];
    core_memplan plan;
    for (uint32_t i = 0; i < 50; i++)
        t[i] = (planner_lifetime){1000, i, i + 1};
    assert_ok(planner_memplan_make(t, 50, 64, NULL, NULL, place, &plan));
    assert_int_equal(plan.naive, 50 * 1024);
    assert_int_equal(plan.offsets, 2 * 1024);
    assert_int_equal(plan.objects, 2 * 1024);
}

/* Offsets beat objects where small tensors share one large one's place. */
static void test_offsets_fill_gaps(void **state)
{
    (void)state;
    const planner_lifetime t[] = {{4096, 0, 1}, {2048, 2, 3}, {2048, 2, 3}};
    uint64_t place[3];
    core_memplan plan;
    assert_ok(planner_memplan_make(t, 3, 64, NULL, NULL, place, &plan));
    assert_int_equal(plan.offsets, 4096);
    assert_int_equal(plan.objects, 6144);
    assert_int_equal(plan.size, 4096);
}

static const int same_parity_ctx;

/* Odd ones have nothing to do with even ones. */
static bool same_parity(const void *ctx, uint32_t a, uint32_t b)
{
    assert_ptr_equal(ctx, &same_parity_ctx);
    return a % 2 == b % 2;
}

static void test_forbidden_sharing(void **state)
{
    (void)state;
    test_random r = {12};
    planner_lifetime t[50];
    uint64_t place[50];
    core_memplan plan;
    for (uint32_t i = 0; i < 50; i++)
        t[i] = (planner_lifetime){1000 + test_below(&r, 64), i, i};
    assert_ok(planner_memplan_make(t, 50, 64, same_parity, &same_parity_ctx,
                                   place, &plan));
    for (uint32_t i = 0; i < 50; i++)
        for (uint32_t j = 0; j < i; j++)
            if (i % 2 != j % 2)
                assert_true(place[i] + t[i].size <= place[j] ||
                            place[j] + t[j].size <= place[i]);
    assert_int_equal(plan.size, plan.live * 2);
    assert_int_equal(plan.offsets, plan.objects);
}

static void test_empty_and_overflow(void **state)
{
    (void)state;
    core_memplan plan;
    uint64_t place[2];
    const planner_lifetime huge[] = {{UINT64_MAX / 2, 0, 1},
                                     {UINT64_MAX, 2, 3}};
    assert_ok(planner_memplan_make(NULL, 0, 64, NULL, NULL, NULL, &plan));
    assert_int_equal(plan.size, 0);
    assert_int_equal(
        planner_memplan_make(huge, 2, 64, NULL, NULL, place, &plan),
        CLV_ERR_LIMIT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_lifetimes),
        cmocka_unit_test(test_chain),
        cmocka_unit_test(test_offsets_fill_gaps),
        cmocka_unit_test(test_forbidden_sharing),
        cmocka_unit_test(test_empty_and_overflow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
