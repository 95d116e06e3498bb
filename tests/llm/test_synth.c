/* Made-up models: shapes as published, weights of a trained model's size. */
#include "check.h"
#include "files/source.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void expect(llm_source *source, const char *name, uint32_t dtype,
                   int64_t out, int64_t in)
{
    llm_source_tensor t;
    uint64_t size;
    assert_ok(source->find(source, name, &t));
    assert_int_equal(t.dtype, dtype);
    assert_int_equal(t.rank, in ? 2 : 1);
    assert_int_equal(t.dims[0], out);
    if (in)
        assert_int_equal(t.dims[1], in);
    assert_ok(clv_dtype_size(dtype, (uint64_t)(in ? out * in : out), &size));
    assert_int_equal(t.size, size);
    assert_int_equal((uintptr_t)t.data % 64, 0);
}

/* The first n weights of a tensor: mean near 0, deviation near 0.02. */
static void expect_noise(llm_source *source, const char *name)
{
    enum { N = 1 << 16 };
    llm_source_tensor t;
    float *x = malloc(N * sizeof(*x));
    double sum = 0, squares = 0;
    assert_non_null(x);
    assert_ok(source->find(source, name, &t));
    assert_ok(clv_dtype_to_f32(t.dtype, t.data, x, N));
    for (int i = 0; i < N; i++) {
        assert_true(isfinite(x[i]));
        sum += x[i];
        squares += (double)x[i] * x[i];
    }
    assert_true(fabs(sum / N) < 0.001);
    assert_true(fabs(sqrt(squares / N) - 0.02) < 0.001);
    free(x);
}

static int count_calls(void *ctx, const char *what, double fraction)
{
    assert_non_null(what);
    assert_true(fraction > 0 && fraction <= 1);
    return ++*(int *)ctx == -1;
}

static void test_llama_1b(void **state)
{
    (void)state;
    llm_source *source;
    clv_tokenizer *tokenizer = (clv_tokenizer *)&source;
    int calls = 0;
    assert_ok(
        llm_source_open_synth("llama-1b:q4_0", count_calls, &calls, &source));
    assert_true(calls > 16);
    expect(source, "token_embd.weight", CLV_DTYPE_Q4_0, 32000, 2048);
    expect(source, "output.weight", CLV_DTYPE_Q4_0, 32000, 2048);
    expect(source, "output_norm.weight", CLV_DTYPE_F32, 2048, 0);
    expect(source, "blk.15.attn_k.weight", CLV_DTYPE_Q4_0, 512, 2048);
    expect(source, "blk.15.attn_output.weight", CLV_DTYPE_Q4_0, 2048, 2048);
    expect(source, "blk.0.ffn_down.weight", CLV_DTYPE_Q4_0, 2048, 8192);
    expect_noise(source, "token_embd.weight");
    expect_noise(source, "blk.15.ffn_down.weight");
    llm_source_tensor t;
    assert_int_equal(source->find(source, "blk.16.attn_k.weight", &t),
                     CLV_ERR_NOT_FOUND);
    assert_ok(source->tokenizer(source, &tokenizer));
    assert_null(tokenizer);
    llm_source_destroy(source);
}

static int stop_soon(void *ctx, const char *what, double fraction)
{
    (void)what;
    *(double *)ctx = fraction;
    return 1;
}

static void test_cancel(void **state)
{
    (void)state;
    llm_source *source = NULL;
    double fraction = 1;
    assert_int_equal(
        llm_source_open_synth("llama3-8b", stop_soon, &fraction, &source),
        CLV_ERR_CANCELLED);
    assert_true(fraction < 0.1);
    assert_null(source);
}

static void test_refused(void **state)
{
    (void)state;
    llm_source *source = NULL;
    assert_fails(llm_source_open_synth("lama3-8b", NULL, NULL, &source),
                 CLV_ERR_NOT_FOUND, "nearest is llama3-8b");
    assert_fails(llm_source_open_synth("", NULL, NULL, &source),
                 CLV_ERR_NOT_FOUND, "internlm2-1.8b");
    assert_fails(llm_source_open_synth("gemma2-2b:q4_0", NULL, NULL, &source),
                 CLV_ERR_UNSUPPORTED, "gemma2");
    assert_fails(llm_source_open_synth("llama-1b:q3_k", NULL, NULL, &source),
                 CLV_ERR_UNSUPPORTED, "q3_k");
    assert_fails(llm_source_open_synth("llama-1b:", NULL, NULL, &source),
                 CLV_ERR_UNSUPPORTED, "bf16");
    assert_fails(llm_source_open_synth("llama-1b:i32", NULL, NULL, &source),
                 CLV_ERR_UNSUPPORTED, "i32");
    assert_null(source);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_llama_1b),
        cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
