/*
 * The tile-level timing model by itself: small products by hand, the staircase
 * at the size of the array, and the effects that HeteroLLM measured (section
 * 3.2): they must come out of the model with the figures of
 * conf/soc/snapdragon-8gen3.ini.
 */
#include "../../plugins/npu_sim/roofline.h"
#include "../../plugins/npu_sim/systolic.h"
#include "../core/test.h"

#include <math.h>

/* The Hexagon of the configuration. */
static const npu_array hexagon = {.rows = 32,
                                  .columns = 32,
                                  .arrays = 16,
                                  .clock = 1.1e9,
                                  .macs = 1,
                                  .element_size = 2,
                                  .swap_cycles = 320,
                                  .sram = 2 << 20,
                                  .bandwidth = 40e9,
                                  .expand = 20.5e9};
static const npu_roofline adreno = {.rate = 0.9e12, .bandwidth = 43.3e9};
static const npu_operand activation = {2, false}, int4 = {0.5, true};

/* One small array with memory that never matters. */
static const npu_array small = {.rows = 4,
                                .columns = 8,
                                .arrays = 1,
                                .clock = 1e9,
                                .macs = 1,
                                .element_size = 2,
                                .sram = 1 << 20,
                                .bandwidth = 1e15};

static double raw(const npu_array *unit, int64_t m, int64_t n, int64_t k)
{
    npu_gemm g = {m, n, k, activation, activation, 2};
    npu_gemm_cost cost = npu_gemm_time(unit, &g);
    return npu_gemm_alone_ns(unit, &cost);
}

static double gpu(int64_t s, int64_t i, int64_t o)
{
    double elements = (double)i * (double)o;
    return npu_roofline_ns(&adreno, 2 * (double)s * elements,
                           elements * int4.bytes +
                               2.0 * (double)s * (double)(i + o));
}

static double npu(int64_t s, int64_t i, int64_t o)
{
    npu_gemm_cost cost =
        npu_matmul_time(&hexagon, s, i, o, activation, int4, 2, NULL);
    return npu_gemm_alone_ns(&hexagon, &cost);
}

/* [8,8] x [8,16] on an array of 4 x 8: 2 x 2 tiles, each loads 4 rows, streams
 * 8 and drains 4 + 8 - 2; the fill before it loads a tile and drains. */
static void test_by_hand(void **state)
{
    (void)state;
    npu_gemm g = {8, 8, 16, activation, activation, 2};
    npu_gemm_cost c = npu_gemm_time(&small, &g);
    assert_int_equal(c.loads, 4);
    assert_int_equal(c.passes, 1);
    assert_true(fabs(c.array_ns - 4 * (4 + 8 + 10)) < 1e-6);
    assert_true(fabs(c.fill_ns - (3 * 4 + 8 - 2)) < 1e-3);
    assert_true(c.bytes == 8 * 8 * 2 + 8 * 16 * 2 + 8 * 16 * 2);
    assert_true(c.sequencer_ns == 0 && c.expand_ns == 0);
}

/* Half of the rate of products is twice the streaming, and nothing else. */
static void test_rate(void **state)
{
    (void)state;
    npu_array slow = small;
    slow.macs = 0.5;
    npu_gemm g = {8, 8, 16, activation, activation, 2};
    assert_true(fabs(npu_gemm_time(&slow, &g).array_ns - 4 * (4 + 16 + 10)) <
                1e-6);
}

static void check_stairs(int64_t step, int axis)
{
    double before = 0;
    for (int64_t x = 1; x <= 6 * step; x++) {
        double time = raw(&small, axis == 0 ? x : 40, axis == 1 ? x : 40,
                          axis == 2 ? x : 40);
        if ((x - 1) % step)
            assert_true(time == before);
        else
            assert_true(time > before);
        before = time;
    }
}

static void test_staircase(void **state)
{
    (void)state;
    check_stairs(small.rows, 0);
    check_stairs(small.rows, 1);
    check_stairs(small.columns, 2);
}

/* The chip of the configuration has the stairs too: 32 in all dimensions. */
static void test_staircase_of_chip(void **state)
{
    (void)state;
    for (int64_t x = 1; x <= 257; x += 32) {
        int64_t m = 2048 + x;
        assert_true(raw(&hexagon, m, 4096, 64) ==
                    raw(&hexagon, m + 31, 4096, 64));
        assert_true(raw(&hexagon, m, 4096, 64) <
                    raw(&hexagon, m + 32, 4096, 64));
        assert_true(raw(&hexagon, 4096, x, 64) ==
                    raw(&hexagon, 4096, x + 31, 64));
        assert_true(raw(&hexagon, 4096, x, 64) <
                    raw(&hexagon, 4096, x + 32, 64));
        assert_true(npu(x, 14336, 4096) == npu(x + 31, 14336, 4096));
        assert_true(npu(x, 14336, 4096) < npu(x + 32, 14336, 4096));
    }
}

/* What does not fit in the SRAM is fetched again. */
static void test_refetch(void **state)
{
    (void)state;
    npu_array unit = small;
    npu_gemm g = {4096, 1024, 64, activation, activation, 2};
    unit.bandwidth = 1e9;
    unit.sram = 2 * 1024 * 32 * 2; /* half: 1024 x 32 elements */
    npu_gemm_cost c = npu_gemm_time(&unit, &g);
    assert_int_equal(c.panel, 32);
    assert_int_equal(c.passes, 2);
    assert_true(c.bytes ==
                2 * 4096.0 * 1024 * 2 + 1024 * 64 * 2 + 4096 * 64 * 2);
    unit.sram *= 2;
    c = npu_gemm_time(&unit, &g);
    assert_int_equal(c.passes, 1);
    unit.sram = 2 * 256 * 8 * 2; /* not even a tile's columns: sums spill */
    c = npu_gemm_time(&unit, &g);
    assert_int_equal(c.panel, 8);
    assert_true(c.bytes == 8 * 4096.0 * 1024 * 2 + 1024 * 64 * 2 +
                               4096 * 64 * 2 + 3 * 2 * 4096.0 * 64 * 4);
}

/* [14336,4096] x [4096,K] against [K,4096] x [4096,14336]. */
static void test_order(void **state)
{
    (void)state;
    for (int64_t k = 1; k <= 128; k++) {
        npu_gemm good = {14336, 4096, k, int4, activation, 2};
        npu_gemm bad = {k, 4096, 14336, activation, int4, 2};
        npu_gemm_cost a = npu_gemm_time(&hexagon, &good);
        npu_gemm_cost b = npu_gemm_time(&hexagon, &bad);
        bool swapped = true;
        double best = npu_gemm_alone_ns(&hexagon, &a);
        assert_true(npu_gemm_alone_ns(&hexagon, &b) >= 4 * best);
        npu_gemm_cost chosen = npu_matmul_time(&hexagon, k, 4096, 14336,
                                               activation, int4, 2, &swapped);
        assert_false(swapped);
        assert_true(npu_gemm_alone_ns(&hexagon, &chosen) == best);
    }
    /* With more tokens than rows of the weight it is the other way round. */
    bool swapped = false;
    npu_matmul_time(&hexagon, 16384, 4096, 32, activation, activation, 2,
                    &swapped);
    assert_true(swapped);
}

/* FFN-down gains little over the GPU, the others much more. */
static void test_shape(void **state)
{
    (void)state;
    for (int64_t s = 32; s <= 1024; s *= 2) {
        double down = gpu(s, 14336, 4096) / npu(s, 14336, 4096);
        assert_true(down >= 0.5 && down <= 1.5);
        if (s < 128)
            continue;
        assert_true(gpu(s, 4096, 4096) / npu(s, 4096, 4096) > 2.5 * down);
        assert_true(gpu(s, 4096, 1024) / npu(s, 4096, 1024) > 2.5 * down);
        assert_true(gpu(s, 4096, 14336) / npu(s, 4096, 14336) > 2.5 * down);
    }
}

/* Small products are bound by memory on a GPU, large ones by computing. */
static void test_roofline(void **state)
{
    (void)state;
    double bytes = 4096.0 * 4096 * int4.bytes;
    assert_true(gpu(1, 4096, 4096) >= bytes / adreno.bandwidth * 1e9);
    assert_true(gpu(1, 4096, 4096) < 1.01 * bytes / adreno.bandwidth * 1e9);
    assert_true(fabs(gpu(512, 4096, 4096) / gpu(256, 4096, 4096) - 2) < 1e-9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_by_hand),
        cmocka_unit_test(test_rate),
        cmocka_unit_test(test_staircase),
        cmocka_unit_test(test_staircase_of_chip),
        cmocka_unit_test(test_refetch),
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_shape),
        cmocka_unit_test(test_roofline),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
