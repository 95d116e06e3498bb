/* clv_quantize() against files of the same model by llama.cpp, the mixes, and
 * the encoders' errors. */
#include "files/gguf_kv.h"
#include "quantize/encode.h"
#include "quantize/mix.h"
#include "temp_fixture.h"

#include <cleave/plugin_format.h>

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *const types[] = {
    "q4_0",   "q4_1",   "q5_0",   "q5_1", "q8_0",   "q2_k",
    "q3_k_m", "q4_k_m", "q5_k_m", "q6_k", "iq4_nl", "iq4_xs",
};
enum { N_TYPES = sizeof types / sizeof types[0] };

static void quantize(const char *in, const char *out, const char *type,
                     uint32_t n_threads)
{
    const clv_quantize_params params = {.type = type, .n_threads = n_threads};
    const clv_status status = clv_quantize(in, out, &params);
    if (status)
        assert_message("no error");
}

/* ------------------------------------------------------------------------ */
/* Against llama.cpp's files                                                */

static float *floats_of(const llm_gguf_tensor *t, uint64_t *n)
{
    *n = 1;
    for (uint32_t i = 0; i < t->rank; i++)
        *n *= (uint64_t)t->dims[i];
    float *x = malloc(*n * sizeof *x);
    assert_non_null(x);
    assert_int_equal(clv_dtype_to_f32(t->dtype, t->data, x, *n), CLV_OK);
    return x;
}

/* The sum of squared differences of two tensors. */
static double distance(const llm_gguf_tensor *a, const llm_gguf_tensor *b)
{
    uint64_t n, m;
    float *x = floats_of(a, &n), *y = floats_of(b, &m);
    double sum = 0;
    assert_int_equal(n, m);
    for (uint64_t i = 0; i < n; i++)
        sum += (double)((x[i] - y[i]) * (x[i] - y[i]));
    free(x);
    free(y);
    return sum;
}

/* No larger an error in all, and the same size. */
static void compare(const char *type, const llm_gguf *source,
                    const llm_gguf *ours, const llm_gguf *theirs)
{
    double our_error = 0, their_error = 0, our_size = 0, their_size = 0;
    for (uint64_t i = 0; i < llm_gguf_tensor_count(source); i++) {
        const llm_gguf_tensor *t = llm_gguf_tensor_at(source, i);
        const llm_shown name = llm_str_show(t->name);
        const llm_gguf_tensor *a = llm_gguf_find(ours, name.text);
        const llm_gguf_tensor *b = llm_gguf_find(theirs, name.text);
        assert_non_null(a);
        assert_non_null(b);
        our_error += distance(t, a);
        their_error += distance(t, b);
        our_size += (double)a->size;
        their_size += (double)b->size;
    }
    if (our_error > their_error * 1.001)
        fail_msg("%s: squared error %g, llama.cpp's is %g", type, our_error,
                 their_error);
    if (fabs(our_size / their_size - 1) > 0.01)
        fail_msg("%s: %g bytes, llama.cpp has %g", type, our_size, their_size);
}

/* Between them these have blocks of every type. */
static void as_good_as_llama_cpp(void **state)
{
    (void)state;
    static const char *const some[] = {"q4_1", "q2_k", "q4_k_m", "q5_k_m",
                                       "iq4_xs"};
    llm_gguf *source, *ours, *theirs;
    if (!shared_path(&tmp, "models/types"))
        skip();
    for (int i = 0; i < 5; i++) {
        char name[64];
        snprintf(name, sizeof name, "models/types/nano-%s.gguf", some[i]);
        const char *in = shared_path(&tmp, "models/nano-f16.gguf");
        const char *other = shared_path(&tmp, name);
        const char *out = temp_path(&tmp, "out.gguf");
        assert_non_null(other);
        quantize(in, out, some[i], 0);
        assert_int_equal(llm_gguf_open(in, &source), CLV_OK);
        assert_int_equal(llm_gguf_open(out, &ours), CLV_OK);
        assert_int_equal(llm_gguf_open(other, &theirs), CLV_OK);
        compare(some[i], source, ours, theirs);
        llm_gguf_close(source);
        llm_gguf_close(ours);
        llm_gguf_close(theirs);
    }
}

/* The mixes give every tensor the type that it has in llama.cpp's files. */
static void mixes_of_llama_cpp(void **state)
{
    (void)state;
    const llm_mix_model nano = {8, 4, 2, 0, true};
    const llm_mix *mix;
    llm_gguf *g;
    if (!shared_path(&tmp, "models/types"))
        skip();
    for (int i = 0; i < N_TYPES; i++) {
        char name[64];
        uint32_t file_type = 99;
        snprintf(name, sizeof name, "models/types/nano-%s.gguf", types[i]);
        assert_int_equal(llm_gguf_open(shared_path(&tmp, name), &g), CLV_OK);
        assert_int_equal(llm_mix_find(types[i], &mix), CLV_OK);
        for (uint64_t j = 0; j < llm_gguf_tensor_count(g); j++) {
            const llm_gguf_tensor *t = llm_gguf_tensor_at(g, j);
            const llm_target to = llm_mix_target(mix, &nano, t->name, t->rank,
                                                 t->dims[t->rank - 1]);
            if (to.dtype != t->dtype)
                fail_msg("%s: %s is %s, llama.cpp makes it %s", types[i],
                         llm_str_show(t->name).text, clv_dtype_name(to.dtype),
                         clv_dtype_name(t->dtype));
        }
        llm_gguf_get_u32(g, "general.file_type", &file_type);
        assert_int_equal(mix->file_type, file_type);
        llm_gguf_close(g);
    }
}

/* ------------------------------------------------------------------------ */
/* Encoders                                                                 */

enum { N = 1 << 14 };

/* Bell-shaped, by sums. */
static void make_noise(float *x, float size)
{
    uint64_t h = 7;
    for (int i = 0; i < N; i++) {
        float sum = 0;
        for (int k = 0; k < 8; k++) {
            h = h * 6364136223846793005u + 1442695040888963407u;
            sum += (float)(h >> 40) * 0x1p-24f - 0.5f;
        }
        x[i] = size * sum;
    }
}

/* The relative error of what is decoded. */
static double error_of(uint32_t dtype, const float *x)
{
    static float y[N];
    static uint8_t coded[N * 4];
    double error = 0, power = 0;
    llm_encoder_of(dtype)(x, coded, N);
    clv_format_of(dtype)->decode(coded, y, N);
    for (int i = 0; i < N; i++) {
        if (!isfinite(y[i]))
            fail_msg("%s: %g became %g", clv_dtype_name(dtype), x[i], y[i]);
        error += (double)((x[i] - y[i]) * (x[i] - y[i]));
        power += (double)(x[i] * x[i]);
    }
    return power > 0 ? sqrt(error / power) : sqrt(error);
}

static void expect_error(uint32_t dtype, const float *x, double most)
{
    const double error = error_of(dtype, x);
    if (error > most)
        fail_msg("%s: %g, wanted at most %g", clv_dtype_name(dtype), error,
                 most);
}

static void errors_are_bounded(void **state)
{
    (void)state;
    /* By the bits of an element and how many share a scale. */
    static const struct {
        uint32_t dtype;
        double most;
    } bounds[] = {
        {CLV_DTYPE_F16, 0.0004},  {CLV_DTYPE_BF16, 0.003},
        {CLV_DTYPE_Q8_0, 0.006},  {CLV_DTYPE_Q6_K, 0.018},
        {CLV_DTYPE_Q5_1, 0.037},  {CLV_DTYPE_Q5_K, 0.038},
        {CLV_DTYPE_Q5_0, 0.043},  {CLV_DTYPE_Q4_1, 0.076},
        {CLV_DTYPE_Q4_K, 0.078},  {CLV_DTYPE_IQ4_NL, 0.078},
        {CLV_DTYPE_IQ4_XS, 0.08}, {CLV_DTYPE_Q4_0, 0.088},
        {CLV_DTYPE_Q3_K, 0.16},   {CLV_DTYPE_Q2_K, 0.30},
    };
    static float x[N];
    for (size_t i = 0; i < sizeof bounds / sizeof bounds[0]; i++) {
        for (int size = -2; size <= 2; size++) {
            make_noise(x, powf(10, (float)size));
            expect_error(bounds[i].dtype, x, bounds[i].most);
        }
    }
}

/* Blocks of zeros, of one number, of an outlier among zeros, and of numbers
 * whose scales are no normal f16. */
static void odd_blocks(void **state)
{
    (void)state;
    static float x[N];
    for (uint32_t dtype = 1; dtype < CLV_DTYPE_COUNT; dtype++) {
        if (!clv_format_is(dtype, CLV_FORMAT_BLOCK) || !llm_encoder_of(dtype))
            continue;
        memset(x, 0, sizeof x);
        expect_error(dtype, x, 0);
        for (int i = 0; i < N; i++)
            x[i] = i / 256 % 2 ? 0.75f : -3;
        expect_error(dtype, x, 0.05);
        for (int i = 0; i < N; i++)
            x[i] = i % 256 == 37 ? 100 : 0;
        expect_error(dtype, x, 0.05);
        make_noise(x, 1e-7f);
        error_of(dtype, x);
        make_noise(x, 1e-30f);
        error_of(dtype, x);
        make_noise(x, 1e3f);
        expect_error(dtype, x, 0.4);
    }
}

/* ------------------------------------------------------------------------ */
/* Mixes                                                                    */

static void expect(const char *mix, const llm_mix_model *model,
                   const char *name, uint32_t rank, int64_t columns,
                   uint32_t dtype)
{
    const llm_mix *m;
    assert_int_equal(llm_mix_find(mix, &m), CLV_OK);
    const llm_target to =
        llm_mix_target(m, model, llm_str_of(name), rank, columns);
    if (to.dtype != dtype)
        fail_msg("%s: %s is %s, wanted %s", mix, name, clv_dtype_name(to.dtype),
                 clv_dtype_name(dtype));
}

static void mixes(void **state)
{
    (void)state;
    static const llm_mix_model llama = {32, 32, 8, 0, false};
    static const llm_mix_model large = {80, 64, 8, 0, false};
    static const llm_mix_model mixtral = {32, 32, 8, 8, false};
    static const llm_mix_model tied = {28, 24, 8, 0, true};
    static const struct {
        const char *mix;
        const llm_mix_model *model;
        const char *name;
        uint32_t rank;
        int64_t columns;
        uint32_t dtype;
    } rows[] = {
#define ROW(mix, model, name, rank, columns, type)                             \
    {mix, &model, name, rank, columns, CLV_DTYPE_##type}
        ROW("Q4_K_M", llama, "output.weight", 2, 4096, Q6_K),
        ROW("Q4_K_M", llama, "token_embd.weight", 2, 4096, Q4_K),
        ROW("Q4_K_M", tied, "token_embd.weight", 2, 3072, Q6_K),
        ROW("Q8_0", tied, "token_embd.weight", 2, 3072, Q8_0),
        ROW("F16", tied, "token_embd.weight", 2, 3072, F16),
        ROW("Q4_K_M", llama, "blk.3.attn_v.weight", 2, 4096, Q6_K),
        ROW("Q4_K_M", llama, "blk.4.attn_v.weight", 2, 4096, Q4_K),
        ROW("Q4_K_M", llama, "blk.6.ffn_down.weight", 2, 14336, Q6_K),
        ROW("Q4_K_M", llama, "blk.27.ffn_down.weight", 2, 14336, Q6_K),
        ROW("Q4_K_M", llama, "blk.28.ffn_down.weight", 2, 14336, Q6_K),
        ROW("Q4_K_M", llama, "blk.26.ffn_down.weight", 2, 14336, Q4_K),
        ROW("Q4_K_M", llama, "blk.6.attn_qkv.weight", 2, 4096, Q6_K),
        ROW("Q4_K_M", mixtral, "blk.9.attn_k.weight", 2, 4096, Q8_0),
        ROW("Q4_K_M", mixtral, "blk.9.attn_output.weight", 2, 4096, Q5_K),
        ROW("Q4_K_M", mixtral, "blk.0.ffn_down_exps.weight", 3, 14336, Q6_K),
        ROW("Q4_K_M", mixtral, "blk.0.ffn_gate_inp.weight", 2, 4096, F32),
        ROW("Q4_K_M", large, "blk.20.attn_v.weight", 2, 8192, Q5_K),
        ROW("Q4_K_S", llama, "blk.3.attn_v.weight", 2, 4096, Q5_K),
        ROW("Q4_K_S", llama, "blk.4.ffn_down.weight", 2, 14336, Q4_K),
        ROW("Q5_K_M", llama, "blk.31.ffn_down.weight", 2, 14336, Q6_K),
        ROW("Q5_K_S", llama, "blk.31.ffn_down.weight", 2, 14336, Q5_K),
        ROW("Q3_K_L", llama, "blk.9.ffn_down.weight", 2, 14336, Q5_K),
        ROW("Q3_K_M", llama, "blk.1.ffn_down.weight", 2, 14336, Q5_K),
        ROW("Q3_K_M", llama, "blk.2.ffn_down.weight", 2, 14336, Q4_K),
        ROW("Q2_K", llama, "blk.9.attn_v.weight", 2, 4096, Q4_K),
        ROW("IQ4_XS", llama, "blk.9.attn_v.weight", 2, 4096, Q5_K),
        ROW("IQ4_XS", tied, "blk.9.attn_v.weight", 2, 3072, IQ4_XS),
        ROW("Q4_0", mixtral, "blk.9.attn_v.weight", 2, 4096, Q8_0),
        /* Rows that are not whole blocks. */
        ROW("Q4_K_M", llama, "blk.9.attn_q.weight", 2, 288, Q5_0),
        ROW("Q5_K_S", llama, "blk.9.attn_q.weight", 2, 288, Q5_1),
        ROW("Q6_K", llama, "blk.9.attn_q.weight", 2, 288, Q8_0),
        ROW("Q3_K_S", llama, "blk.9.attn_q.weight", 2, 288, Q4_0),
        ROW("IQ4_XS", llama, "blk.9.attn_q.weight", 2, 288, IQ4_NL),
        ROW("Q2_K", llama, "blk.9.attn_q.weight", 2, 33, F16),
        ROW("q8", llama, "blk.9.attn_q.weight", 2, 33, I8),
        ROW("w4a16", llama, "blk.9.attn_q.weight", 2, 33, F16),
        /* Schemes. */
        ROW("8/4/4", llama, "blk.9.attn_v.weight", 2, 4096, I8),
        ROW("8/4/4", llama, "blk.9.ffn_up.weight", 2, 4096, I4),
        ROW("8/4/4", llama, "token_embd.weight", 2, 4096, I4),
        ROW("w4a16", llama, "token_embd.weight", 2, 4096, I8),
        ROW("w8a8", mixtral, "blk.9.ffn_up_exps.weight", 3, 4096, Q8_0),
        ROW("w8a8", llama, "blk.9.attn_norm.weight", 1, 4096, F32),
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        expect(rows[i].mix, rows[i].model, rows[i].name, rows[i].rank,
               rows[i].columns, rows[i].dtype);
}

/* ------------------------------------------------------------------------ */

static void assert_same_files(const char *a, const char *b)
{
    FILE *x = fopen(a, "rb"), *y = fopen(b, "rb");
    int c, d;
    assert_non_null(x);
    assert_non_null(y);
    do {
        c = getc(x);
        d = getc(y);
        assert_int_equal(c, d);
    } while (c != EOF);
    fclose(x);
    fclose(y);
}

static void same_bytes(void **state)
{
    (void)state;
    const char *in = shared_path(&tmp, "models/nano-f16.gguf");
    if (!in)
        skip();
    const char *a = temp_path(&tmp, "a.gguf"), *b = temp_path(&tmp, "b.gguf");
    quantize(in, a, "w4a16_g32", 1);
    quantize(in, b, "w4a16_g32", 5);
    assert_same_files(a, b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_good_as_llama_cpp),
        cmocka_unit_test(mixes_of_llama_cpp),
        cmocka_unit_test(errors_are_bounded),
        cmocka_unit_test(odd_blocks),
        cmocka_unit_test(mixes),
        cmocka_unit_test(same_bytes),
    };
    return cmocka_run_group_tests_name("quantize types", tests, make_temp,
                                       remove_temp);
}
