/* Rotary frequencies, compared with the published definitions. */
#include "check.h"
#include "models/rope.h"

#include <math.h>
#include <string.h>

static llm_hparams settings(void)
{
    return (llm_hparams){
        .head_dim = 64,
        .rope_dim = 64,
        .rope_base = 10000,
    };
}

static void assert_close(double x, double y)
{
    assert_true(fabs(x - y) <= 1e-6 * fabs(y));
}

static void test_plain_and_linear(void **state)
{
    (void)state;
    llm_hparams hp = settings();
    float f[32];
    assert_ok(llm_rope_check(&hp));
    assert_ok(llm_rope_frequencies(&hp, NULL, f));
    for (int j = 0; j < 32; j++)
        assert_close(f[j], exp(-j / 32.0 * log(10000)));
    hp.rope_scaling = LLM_ROPE_LINEAR;
    hp.rope_factor = 4;
    assert_ok(llm_rope_frequencies(&hp, NULL, f));
    for (int j = 0; j < 32; j++)
        assert_close(f[j], exp(-j / 32.0 * log(10000)) / 4);
}

static void test_llama3(void **state)
{
    (void)state;
    llm_hparams hp = settings();
    hp.rope_base = 500000;
    hp.rope_scaling = LLM_ROPE_LLAMA3;
    hp.rope_factor = 8;
    hp.rope_low_freq_factor = 1;
    hp.rope_high_freq_factor = 4;
    hp.rope_original_ctx = 8192;
    float f[32];
    assert_ok(llm_rope_check(&hp));
    assert_ok(llm_rope_frequencies(&hp, NULL, f));
    int kept = 0, stretched = 0, between = 0;
    for (int j = 0; j < 32; j++) {
        const double freq = pow(500000, -j / 32.0);
        const double wavelength = 2 * M_PI / freq;
        if (wavelength < 8192.0 / 4) {
            assert_close(f[j], freq);
            kept++;
        } else if (wavelength > 8192.0 / 1) {
            assert_close(f[j], freq / 8);
            stretched++;
        } else {
            const double smooth = (8192 / wavelength - 1) / (4 - 1);
            assert_close(f[j], (1 - smooth) * freq / 8 + smooth * freq);
            between++;
        }
    }
    assert_true(kept && stretched && between);

    hp.rope_high_freq_factor = 1; /* nothing lies between */
    assert_ok(llm_rope_check(&hp));
    assert_ok(llm_rope_frequencies(&hp, NULL, f));
    for (int j = 0; j < 32; j++)
        assert_true(isfinite(f[j]));
}

static void test_divisors(void **state)
{
    (void)state;
    llm_hparams hp = settings();
    float divisors[32], f[32];
    for (int j = 0; j < 32; j++)
        divisors[j] = 1 + (float)j;
    assert_ok(llm_rope_frequencies(&hp, divisors, f));
    for (int j = 0; j < 32; j++)
        assert_close(f[j], pow(10000, -j / 32.0) / (1 + j));
    divisors[5] = 0;
    assert_int_equal(llm_rope_frequencies(&hp, divisors, f), CLV_ERR_FORMAT);
    divisors[5] = NAN;
    assert_int_equal(llm_rope_frequencies(&hp, divisors, f), CLV_ERR_FORMAT);
    assert_non_null(strstr(clv_last_error(), "divisor 5"));
}

static void test_refused(void **state)
{
    (void)state;
    llm_hparams hp = settings();
    hp.rope_dim = 63;
    assert_int_equal(llm_rope_check(&hp), CLV_ERR_FORMAT);
    hp.rope_dim = 66;
    assert_int_equal(llm_rope_check(&hp), CLV_ERR_FORMAT);
    hp.rope_dim = 0;
    assert_int_equal(llm_rope_check(&hp), CLV_ERR_FORMAT);
    hp = settings();
    hp.rope_base = NAN;
    assert_int_equal(llm_rope_check(&hp), CLV_ERR_FORMAT);
    hp = settings();
    hp.rope_scaling = LLM_ROPE_LINEAR;
    assert_int_equal(llm_rope_check(&hp), CLV_ERR_FORMAT);
    hp.rope_factor = 2;
    assert_ok(llm_rope_check(&hp));
    hp.rope_scaling = LLM_ROPE_LLAMA3;
    assert_int_equal(llm_rope_check(&hp), CLV_ERR_FORMAT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain_and_linear),
        cmocka_unit_test(test_llama3),
        cmocka_unit_test(test_divisors),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
