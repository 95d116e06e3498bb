/* Made-up models: published shapes, weights as large as trained ones. */
#include "check.h"
#include "sources/synth.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

/* n weights from row 0 on. */
static void read_weights(const llm_source_tensor *t, float *x, int64_t n)
{
    const int8_t *q = t->data;
    const float *scales = t->scales;
    if (!t->quant) {
        assert_ok(clv_dtype_to_f32(t->dtype, t->data, x, (uint64_t)n));
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        const int nibble = q[i / 2] >> i % 2 * 4 & 15;
        const int value = t->dtype == CLV_DTYPE_I8 ? q[i]
                          : nibble > 7             ? nibble - 16
                                                   : nibble;
        x[i] = (float)value * scales[t->n_scales > 1 ? i / t->dims[1] : 0];
    }
}

/* The first n weights of a tensor: mean near 0, deviation near 0.02. */
static void expect_noise(llm_source *source, const char *name)
{
    enum { N = 1 << 16 };
    llm_source_tensor t;
    float *x = malloc(N * sizeof *x);
    double sum = 0, squares = 0;
    assert_non_null(x);
    assert_ok(source->find(source, name, &t));
    read_weights(&t, x, N);
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

/* Integers, with the scales of the named scheme. */
static void test_integers(void **state)
{
    (void)state;
    llm_source *source;
    llm_source_tensor t;
    assert_ok(llm_source_open_synth("llama-1b:w4a16", NULL, NULL, &source));
    assert_string_equal(source->hparams.name, "synth:llama-1b:w4a16");
    expect(source, "token_embd.weight", CLV_DTYPE_I8, 32000, 2048);
    expect(source, "output.weight", CLV_DTYPE_I4, 32000, 2048);
    expect(source, "blk.15.ffn_down.weight", CLV_DTYPE_I4, 2048, 8192);
    expect(source, "blk.3.ffn_norm.weight", CLV_DTYPE_F32, 2048, 0);
    assert_ok(source->find(source, "blk.15.ffn_down.weight", &t));
    assert_int_equal(t.quant, CLV_QUANT_PER_CHANNEL);
    assert_int_equal(t.n_scales, 2048);
    assert_int_equal((uintptr_t)t.scales % 64, 0);
    const float *scales = t.scales;
    assert_true(scales[0] > 0 && scales[0] != scales[1]);
    assert_ok(source->find(source, "blk.3.ffn_norm.weight", &t));
    assert_int_equal(t.quant, CLV_QUANT_NONE);
    assert_int_equal(t.n_scales, 0);
    assert_float_equal(((const float *)t.data)[2047], 1, 0);
    expect_noise(source, "token_embd.weight");
    expect_noise(source, "output.weight");
    expect_noise(source, "blk.15.ffn_down.weight");
    llm_source_destroy(source);

    assert_ok(llm_source_open_synth("llama-1b:W8A8", NULL, NULL, &source));
    expect(source, "token_embd.weight", CLV_DTYPE_I8, 32000, 2048);
    expect(source, "output.weight", CLV_DTYPE_I8, 32000, 2048);
    assert_ok(source->find(source, "output.weight", &t));
    assert_int_equal(t.quant, CLV_QUANT_PER_TENSOR);
    assert_int_equal(t.n_scales, 1);
    expect_noise(source, "blk.0.attn_q.weight");
    llm_source_destroy(source);
}

/* The same bytes twice, whichever thread filled a piece. */
static void test_same_bytes(void **state)
{
    (void)state;
    llm_source *a, *b;
    llm_source_tensor x, y;
    assert_ok(llm_source_open_synth("llama-1b:w4a16", NULL, NULL, &a));
    assert_ok(llm_source_open_synth("llama-1b:w4a16", NULL, NULL, &b));
    const char *const names[] = {"token_embd.weight", "blk.7.ffn_up.weight",
                                 "output.weight"};
    for (int i = 0; i < 3; i++) {
        assert_ok(a->find(a, names[i], &x));
        assert_ok(b->find(b, names[i], &y));
        assert_memory_equal(x.data, y.data, x.size);
        assert_memory_equal(x.scales, y.scales, x.n_scales * sizeof(float));
    }
    llm_source_destroy(a);
    llm_source_destroy(b);
}

static uint64_t resident_bytes(void)
{
    uint64_t size, pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%" SCNu64 " %" SCNu64, &size, &pages), 2);
    fclose(file);
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* A model larger than most memories, of zeros. */
static void test_zero(void **state)
{
    (void)state;
    llm_source *source;
    llm_source_tensor t;
    int calls = 0;
    const uint64_t before = resident_bytes();
    assert_ok(llm_source_open_synth("llama2-70b:f16:zero", count_calls, &calls,
                                    &source));
    assert_string_equal(source->hparams.name, "synth:llama2-70b:f16:zero");
    assert_ok(source->find(source, "output.weight", &t));
    assert_int_equal(t.dims[1], 8192);
    const uint8_t *data = t.data;
    for (uint64_t i = 0; i < t.size; i += 1 << 20)
        assert_int_equal(data[i], 0);
    assert_int_equal(calls, 0);
    assert_true(resident_bytes() < before + (64 << 20));
    llm_source_destroy(source);
}

/* Every name can be opened. */
static void test_names(void **state)
{
    (void)state;
    static const struct {
        const char *name, *arch;
        uint32_t n_layers, n_ff, n_kv_heads;
        bool tied, biases;
    } models[] = {{"llama2-7b", "llama", 32, 11008, 32, false, false},
                  {"llama2-13b", "llama", 40, 13824, 40, false, false},
                  {"llama2-70b", "llama", 80, 28672, 8, false, false},
                  {"llama3-8b", "llama", 32, 14336, 8, false, false},
                  {"llama3-70b", "llama", 80, 28672, 8, false, false},
                  {"llama3.2-3b", "llama", 28, 8192, 8, true, false},
                  {"internlm2-1.8b", "internlm2", 24, 8192, 8, false, false},
                  {"qwen1.5-1.8b", "qwen2", 24, 5504, 16, false, true},
                  {"qwen2-7b", "qwen2", 28, 18944, 4, false, true},
                  {"qwen3-4b", "qwen3", 36, 9728, 8, true, false},
                  {"gemma-2b", "gemma", 18, 16384, 1, true, false},
                  {"gemma2-2b", "gemma2", 26, 9216, 4, true, false},
                  {"gemma3-4b", "gemma3", 34, 10240, 4, true, false},
                  {"phi-2", "phi2", 32, 10240, 32, false, true},
                  {"phi3-mini", "phi3", 32, 8192, 32, false, false},
                  {"mistral-7b", "llama", 32, 14336, 8, false, false},
                  {"llama-1b", "llama", 16, 8192, 8, false, false}};
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        char spec[64];
        llm_source *source;
        llm_source_tensor t;
        snprintf(spec, sizeof spec, "%s:w4a16:zero", models[i].name);
        assert_ok(llm_source_open_synth(spec, NULL, NULL, &source));
        const llm_hparams *hp = &source->hparams;
        assert_string_equal(hp->arch->name, models[i].arch);
        assert_int_equal(hp->n_layers, models[i].n_layers);
        assert_int_equal(hp->n_ff, models[i].n_ff);
        assert_int_equal(hp->n_kv_heads, models[i].n_kv_heads);
        assert_int_equal(source->find(source, "output.weight", &t),
                         models[i].tied ? CLV_ERR_NOT_FOUND : CLV_OK);
        assert_ok(source->find(source, "token_embd.weight", &t));
        assert_int_equal(t.dtype, models[i].tied ? CLV_DTYPE_I4 : CLV_DTYPE_I8);
        assert_int_equal(source->find(source, "blk.0.attn_k.bias", &t),
                         models[i].biases ? CLV_OK : CLV_ERR_NOT_FOUND);
        if (models[i].biases)
            assert_int_equal(t.dims[0], hp->n_kv_heads * hp->head_dim);
        llm_source_destroy(source);
    }
}

static void test_experts(void **state)
{
    (void)state;
    llm_source *source;
    llm_source_tensor t;
    assert_ok(
        llm_source_open_synth("mixtral-8x7b:q4_0:zero", NULL, NULL, &source));
    assert_int_equal(source->hparams.n_experts, 8);
    assert_int_equal(source->hparams.n_experts_used, 2);
    expect(source, "blk.31.ffn_gate_inp.weight", CLV_DTYPE_F32, 8, 4096);
    assert_ok(source->find(source, "blk.31.ffn_down_exps.weight", &t));
    assert_int_equal(t.rank, 3);
    assert_int_equal(t.dims[0], 8);
    assert_int_equal(t.dims[1], 4096);
    assert_int_equal(t.dims[2], 14336);
    assert_int_equal(t.size, (uint64_t)8 * 4096 * 14336 / 32 * 18);
    assert_int_equal(source->find(source, "blk.0.ffn_gate.weight", &t),
                     CLV_ERR_NOT_FOUND);
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
    assert_fails(llm_source_open_synth("llama-1b:q7_k", NULL, NULL, &source),
                 CLV_ERR_UNSUPPORTED, "q7_k");
    assert_fails(llm_source_open_synth("llama-1b:", NULL, NULL, &source),
                 CLV_ERR_UNSUPPORTED, "BF16");
    assert_fails(llm_source_open_synth("llama-1b:i32", NULL, NULL, &source),
                 CLV_ERR_UNSUPPORTED, "i32");
    assert_fails(
        llm_source_open_synth("llama-1b:w4a16:one", NULL, NULL, &source),
        CLV_ERR_UNSUPPORTED, "w4a16:one");
    assert_fails(llm_source_open_synth(":zero", NULL, NULL, &source),
                 CLV_ERR_NOT_FOUND, "internlm2-1.8b");
    assert_fails(
        llm_source_open_synth("mixtral-8x7b:w4a16:zero", NULL, NULL, &source),
        CLV_ERR_UNSUPPORTED, "weights of experts are of floats");
    assert_null(source);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_llama_1b),   cmocka_unit_test(test_integers),
        cmocka_unit_test(test_same_bytes), cmocka_unit_test(test_zero),
        cmocka_unit_test(test_names),      cmocka_unit_test(test_experts),
        cmocka_unit_test(test_cancel),     cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
