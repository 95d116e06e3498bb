#include "test.h"

#include <math.h>
#include <stdlib.h>

#define BLOCK 32

static float from_bits(uint32_t u)
{
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

static uint32_t to_bits(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

/* The value of f16 bits, by the definition of the format. */
static double f16_value(uint16_t h)
{
    int exponent = h >> 10 & 31;
    double m = h & 1023;
    double x = exponent == 31  ? (m ? NAN : INFINITY)
               : exponent == 0 ? ldexp(m, -24)
                               : ldexp(1024 + m, exponent - 25);
    return h & 0x8000 ? -x : x;
}

/* Nearest f16, ties to even: in units of the last place, by nearbyint. */
static uint16_t f16_nearest(float x)
{
    uint16_t sign = signbit(x) ? 0x8000 : 0;
    double a = fabs((double)x);
    int e;
    if (a == 0)
        return sign;
    frexp(a, &e);
    int ulp = (e - 11 < -24) ? -24 : e - 11;
    double rounded = ldexp(nearbyint(ldexp(a, -ulp)), ulp);
    if (rounded >= 65536)
        return sign | 0x7c00;
    for (uint16_t low = 0, high = 0x7c00;;) {
        uint16_t mid = (uint16_t)((low + high) / 2);
        if (f16_value(mid) == rounded)
            return sign | mid;
        if (f16_value(mid) < rounded)
            low = mid;
        else
            high = mid;
    }
}

static void test_names(void **state)
{
    (void)state;
    for (uint32_t t = 1; t < CLV_DTYPE_COUNT; t++)
        assert_int_equal(clv_dtype_parse(clv_dtype_name(t)), t);
    assert_int_equal(clv_dtype_parse("Q8_0"), CLV_DTYPE_Q8_0);
    assert_int_equal(clv_dtype_parse("f33"), CLV_DTYPE_NONE);
    assert_null(clv_dtype_name(CLV_DTYPE_NONE));
    assert_null(clv_dtype_name(CLV_DTYPE_COUNT));
}

static void test_sizes(void **state)
{
    (void)state;
    uint32_t elements, bytes;
    uint64_t size = 7;
    assert_true(clv_dtype_block(CLV_DTYPE_I4, &elements, &bytes));
    assert_int_equal(elements, 2);
    assert_int_equal(bytes, 1);
    assert_false(clv_dtype_block(99, &elements, &bytes));
    assert_ok(clv_dtype_size(CLV_DTYPE_Q8_0, 64, &size));
    assert_int_equal(size, 68);
    assert_ok(clv_dtype_size(CLV_DTYPE_Q4_0, 64, &size));
    assert_int_equal(size, 36);
    assert_ok(clv_dtype_size(CLV_DTYPE_F32, UINT64_MAX / 4, &size));
    assert_int_equal(size, UINT64_MAX / 4 * 4);
    size = 7;
    assert_int_equal(clv_dtype_size(CLV_DTYPE_F32, UINT64_MAX / 4 + 1, &size),
                     CLV_ERR_INVALID);
    assert_int_equal(clv_dtype_size(CLV_DTYPE_Q8_0, 33, &size),
                     CLV_ERR_INVALID);
    assert_int_equal(clv_dtype_size(0, 1, &size), CLV_ERR_INVALID);
    assert_int_equal(size, 7);
}

static void test_f16_all_values(void **state)
{
    (void)state;
    uint16_t *h = malloc(65536 * sizeof *h), *back = malloc(65536 * sizeof *h);
    float *x = malloc(65536 * sizeof *x);
    for (uint32_t i = 0; i < 65536; i++)
        h[i] = (uint16_t)i;
    assert_ok(clv_dtype_to_f32(CLV_DTYPE_F16, h, x, 65536));
    assert_ok(clv_dtype_from_f32(CLV_DTYPE_F16, x, back, 65536));
    for (uint32_t i = 0; i < 65536; i++) {
        if (isnan(f16_value(h[i]))) {
            assert_true(isnan(x[i]));
            assert_true((back[i] & 0x7c00) == 0x7c00 && (back[i] & 0x3ff));
        } else {
            assert_true((double)x[i] == f16_value(h[i]));
            assert_int_equal(signbit(x[i]) != 0, h[i] >> 15);
            assert_int_equal(back[i], h[i]);
        }
    }
    free(h);
    free(back);
    free(x);
}

/* Random floats, of all magnitudes and close to where rounding turns. */
static void test_f16_rounding(void **state)
{
    (void)state;
    enum { N = 40000 };
    float *x = malloc(N * sizeof *x);
    uint16_t *h = malloc(N * sizeof *h);
    test_random r = {1};
    for (int i = 0; i < N; i++) {
        uint32_t near = (test_below(&r, 0x8000) + 0x37000) << 12;
        x[i] = i % 2 ? from_bits(near + test_below(&r, 5) - 2)
                     : from_bits(test_bits(&r));
        if (isnan(x[i]))
            x[i] = 1;
    }
    assert_ok(clv_dtype_from_f32(CLV_DTYPE_F16, x, h, N));
    for (int i = 0; i < N; i++)
        if (h[i] != f16_nearest(x[i]))
            fail_msg("%a gives %04x, not %04x", (double)x[i], h[i],
                     f16_nearest(x[i]));
    free(x);
    free(h);
}

static void test_bf16(void **state)
{
    (void)state;
    test_random r = {2};
    for (int i = 0; i < 20000; i++) {
        uint32_t u = test_bits(&r);
        if (i % 2)
            u = (u & 0xffff0000) + 0x7ffe + test_below(&r, 5);
        float x = from_bits(u), back;
        uint16_t h;
        assert_ok(clv_dtype_from_f32(CLV_DTYPE_BF16, &x, &h, 1));
        assert_ok(clv_dtype_to_f32(CLV_DTYPE_BF16, &h, &back, 1));
        if (isnan(x)) {
            assert_true(isnan(back));
            continue;
        }
        double low = (double)from_bits(u & 0xffff0000);
        uint32_t next = (u & 0xffff0000) + 0x10000;
        double high = (next & 0x7fffffff) == 0x7f800000
                          ? copysign(0x1p128, (double)x)
                          : (double)from_bits(next);
        double a = fabs((double)x - low), b = fabs(high - (double)x);
        bool up = a > b || (a == b && (u >> 16 & 1));
        assert_int_equal(to_bits(back), up ? next : u & 0xffff0000);
    }
}

/* ------------------------------------------------------------------------ */
/* Blocks, by the formulas in the order GGUF files are made with.            */

static void q8_reference(const float *x, uint8_t out[34])
{
    float amax = 0;
    for (int i = 0; i < BLOCK; i++)
        amax = fmaxf(amax, fabsf(x[i]));
    float d = amax / 127.0f, id = d != 0 ? 1.0f / d : 0;
    uint16_t h = f16_nearest(d);
    memcpy(out, &h, 2);
    for (int i = 0; i < BLOCK; i++)
        out[2 + i] = (uint8_t)(int8_t)roundf(x[i] * id);
}

static void q4_reference(const float *x, uint8_t out[18])
{
    float amax = 0, max = 0;
    for (int i = 0; i < BLOCK; i++) {
        if (fabsf(x[i]) > amax) {
            amax = fabsf(x[i]);
            max = x[i];
        }
    }
    float d = max / -8, id = d != 0 ? 1.0f / d : 0;
    uint16_t h = f16_nearest(d);
    memcpy(out, &h, 2);
    for (int i = 0; i < BLOCK / 2; i++) {
        int a = (int8_t)(x[i] * id + 8.5f);
        int b = (int8_t)(x[i + BLOCK / 2] * id + 8.5f);
        out[2 + i] = (uint8_t)((a < 15 ? a : 15) | (b < 15 ? b : 15) << 4);
    }
}

static void make_block(test_random *r, int kind, float x[BLOCK])
{
    float scale = ldexpf(1, (int)test_below(r, 40) - 25);
    for (int i = 0; i < BLOCK; i++) {
        x[i] = scale * test_float(r);
        if (kind == 1) /* halves: where rounding turns */
            x[i] = (float)((int)test_below(r, 255) - 127) * 0.5f;
        if (kind == 2) /* equal magnitudes of both signs */
            x[i] = test_below(r, 2) ? scale : -scale;
        if (kind == 3)
            x[i] = test_below(r, 2) ? 0.0f : -0.0f;
        if (kind == 4) /* the scale is no normal f16 */
            x[i] *= 0x1p-20f;
    }
    if (kind == 1)
        x[test_below(r, BLOCK)] = 127;
}

static void check_decoded(uint32_t dtype, const uint8_t *block, const float *y)
{
    uint16_t h;
    memcpy(&h, block, 2);
    for (int i = 0; i < BLOCK; i++) {
        int nibble = block[2 + i % 16] >> (i < 16 ? 0 : 4) & 15;
        int q = dtype == CLV_DTYPE_Q8_0 ? (int8_t)block[2 + i] : nibble - 8;
        assert_true(y[i] == (float)f16_value(h) * (float)q);
    }
}

static void test_blocks(void **state)
{
    (void)state;
    test_random r = {3};
    for (int i = 0; i < 5000; i++) {
        float x[BLOCK], y[BLOCK];
        uint8_t q8[34], q4[18], expected[34];
        make_block(&r, i % 5, x);
        assert_ok(clv_dtype_from_f32(CLV_DTYPE_Q8_0, x, q8, BLOCK));
        q8_reference(x, expected);
        assert_memory_equal(q8, expected, 34);
        assert_ok(clv_dtype_to_f32(CLV_DTYPE_Q8_0, q8, y, BLOCK));
        check_decoded(CLV_DTYPE_Q8_0, q8, y);
        assert_ok(clv_dtype_from_f32(CLV_DTYPE_Q4_0, x, q4, BLOCK));
        q4_reference(x, expected);
        assert_memory_equal(q4, expected, 18);
        assert_ok(clv_dtype_to_f32(CLV_DTYPE_Q4_0, q4, y, BLOCK));
        check_decoded(CLV_DTYPE_Q4_0, q4, y);
    }
}

static void test_refusals(void **state)
{
    (void)state;
    float x[64] = {0};
    uint8_t out[128];
    x[40] = NAN;
    assert_int_equal(clv_dtype_from_f32(CLV_DTYPE_Q8_0, x, out, 64),
                     CLV_ERR_INVALID);
    assert_error_says("32..63");
    x[40] = INFINITY;
    assert_int_equal(clv_dtype_from_f32(CLV_DTYPE_Q4_0, x, out, 64),
                     CLV_ERR_INVALID);
    x[40] = 1e9f;
    assert_int_equal(clv_dtype_from_f32(CLV_DTYPE_Q8_0, x, out, 64),
                     CLV_ERR_INVALID);
    assert_int_equal(clv_dtype_from_f32(CLV_DTYPE_Q8_0, x, out, 31),
                     CLV_ERR_INVALID);
    assert_int_equal(clv_dtype_to_f32(CLV_DTYPE_I32, out, x, 1),
                     CLV_ERR_UNSUPPORTED);
    assert_int_equal(clv_dtype_from_f32(77, x, out, 1), CLV_ERR_UNSUPPORTED);
}

/* Lengths that are no multiple of a vector, at unaligned places. */
static void test_tails(void **state)
{
    (void)state;
    test_random r = {4};
    float x[70];
    for (int i = 0; i < 70; i++)
        x[i] = test_float(&r);
    for (uint64_t n = 0; n < 64; n++) {
        uint16_t h[72];
        memset(h, 0xee, sizeof h);
        assert_ok(clv_dtype_from_f32(CLV_DTYPE_F16, x + 1, h + 1, n));
        for (uint64_t i = 0; i < n; i++)
            assert_int_equal(h[1 + i], f16_nearest(x[1 + i]));
        assert_int_equal(h[0], 0xeeee);
        assert_int_equal(h[1 + n], 0xeeee);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_f16_all_values),
        cmocka_unit_test(test_f16_rounding),
        cmocka_unit_test(test_bf16),
        cmocka_unit_test(test_blocks),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_tails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
