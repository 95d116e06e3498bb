/* Graphs of the Llama architecture, compared with a naive forward pass: with
 * the argument "all" with weights of every type, else of one of each kind. */
#include "rig.h"

static bool all; /* the argument */
static clv_context *ctx;

static int setup(void **state)
{
    (void)state;
    ctx = rig_context();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    clv_context_destroy(ctx);
    return 0;
}

/* All logits, then the last ones token by token. */
static void compare(const tiny_params *params, double tolerance)
{
    enum { N = 37 };
    llm_source *source;
    clv_model *model = rig_model(ctx, params, &source);
    clv_session *session = rig_session(model, 64, 0, CLV_DTYPE_F32);
    const uint32_t n_vocab = params->n_vocab;
    int32_t ids[N];
    double *expected = malloc(sizeof *expected * N * n_vocab);
    const float *logits;
    assert_non_null(expected);
    tiny_ids(source, params->seed, ids, N);
    tiny_forward(source, ids, N, expected);

    assert_ok(clv_session_eval(session, ids, N, CLV_LOGITS_ALL, &logits));
    assert_true(tiny_error(logits, expected, N * n_vocab) < tolerance);
    assert_ok(clv_session_truncate(session, 0));
    assert_ok(clv_session_eval(session, ids, N - 5, CLV_LOGITS_LAST, &logits));
    for (uint32_t i = N - 6; i < N; i++) {
        assert_true(tiny_error(logits, expected + i * n_vocab, n_vocab) <
                    tolerance);
        if (i + 1 < N)
            assert_ok(clv_session_eval(session, &ids[i + 1], 1, CLV_LOGITS_LAST,
                                       &logits));
    }
    free(expected);
    clv_session_destroy(session);
    clv_model_destroy(model);
}

static void test_heads(void **state)
{
    (void)state;
    static const uint32_t heads[][3] = {
        {4, 4, 16}, {4, 2, 16}, {8, 1, 8}, {6, 3, 32}, {1, 1, 64}};
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
        tiny_params p = tiny_defaults();
        p.n_heads = heads[i][0];
        p.n_kv_heads = heads[i][1];
        p.head_dim = p.rope_dim = heads[i][2];
        p.seed = i;
        compare(&p, 1e-5);
    }
}

static void test_variants(void **state)
{
    (void)state;
    tiny_params p = tiny_defaults();
    p.window = 9;
    compare(&p, 1e-5);
    p = tiny_defaults();
    p.tied = true;
    compare(&p, 1e-5);
    p = tiny_defaults();
    p.biases = true;
    compare(&p, 1e-5);
    p = tiny_defaults();
    p.rope_mode = CLV_ROPE_PAIRS;
    p.divisors = true;
    compare(&p, 1e-5);
    p = tiny_defaults();
    p.rope_dim = 8;
    compare(&p, 1e-5);
    p = tiny_defaults();
    p.n_layers = 1;
    compare(&p, 1e-5);
}

/* Vectors of 16 bits become f32. Quantised matrices may be multiplied with
 * activations rounded to 8 bits. */
static void test_dtypes(void **state)
{
    (void)state;
    static const struct {
        uint32_t dtype;
        double tolerance;
        uint32_t quant;
    } cases[] = {{CLV_DTYPE_I8, 3e-2, CLV_QUANT_PER_CHANNEL},
                 {CLV_DTYPE_Q8_0, 3e-2, 0},
                 {CLV_DTYPE_F32, 1e-5, 0},
                 {CLV_DTYPE_F16, 1e-3, 0},
                 {CLV_DTYPE_BF16, 1e-3, 0},
                 {CLV_DTYPE_Q4_0, 3e-2, 0},
                 {CLV_DTYPE_I8, 3e-2, CLV_QUANT_PER_TENSOR},
                 {CLV_DTYPE_I4, 3e-2, CLV_QUANT_PER_TENSOR},
                 {CLV_DTYPE_I4, 3e-2, CLV_QUANT_PER_CHANNEL}};
    for (size_t i = 0; i < (all ? 9 : 2); i++) {
        tiny_params p = tiny_defaults();
        p.dtype = cases[i].dtype;
        p.quant = cases[i].quant;
        p.divisors = true;
        p.biases = true;
        compare(&p, cases[i].tolerance);
        p.tied = true;
        compare(&p, cases[i].tolerance);
    }
}

/* One expert of one, all of several, and a few of many. Rounded activations may
 * exchange experts with equal scores: there all experts are used. */
static void test_experts(void **state)
{
    (void)state;
    static const struct {
        uint32_t all, used, dtype;
        double tolerance;
    } cases[] = {{4, 2, CLV_DTYPE_F32, 1e-5},  {1, 1, CLV_DTYPE_F32, 1e-5},
                 {3, 3, CLV_DTYPE_F16, 1e-3},  {17, 4, CLV_DTYPE_BF16, 1e-3},
                 {4, 4, CLV_DTYPE_Q8_0, 3e-2}, {5, 5, CLV_DTYPE_Q4_0, 3e-2}};
    for (size_t i = 0; i < 6; i += all ? 1 : 5) {
        tiny_params p = tiny_defaults();
        p.n_experts = cases[i].all;
        p.n_experts_used = cases[i].used;
        p.dtype = cases[i].dtype;
        p.seed = 3 + i;
        compare(&p, cases[i].tolerance);
    }
}

static void test_describe(void **state)
{
    (void)state;
    tiny_params p = tiny_defaults();
    p.dtype = CLV_DTYPE_F16;
    clv_model *model = rig_model(ctx, &p, NULL);
    const clv_model_info *info = clv_model_describe(model);
    assert_string_equal(info->architecture, "llama");
    assert_string_equal(info->name, "tiny");
    assert_string_equal(info->quant, "f16");
    assert_int_equal(info->n_layers, 2);
    assert_int_equal(info->n_vocab, 160);
    assert_int_equal(info->n_ctx_train, 128);
    /* table and output; q and o; k and v; feed forward; norms */
    const uint64_t n_params =
        2 * 160 * 64 + 2 * (2 * 64 * 64 + 2 * 32 * 64 + 3 * 96 * 64) + 5 * 64;
    assert_int_equal(info->n_params, n_params);
    assert_int_equal(info->size, 2 * n_params);
    assert_null(clv_model_tokenizer(model));
    clv_model_destroy(model);
    clv_model_destroy(NULL);
}

static void refuse(llm_source *source, clv_status status, const char *text)
{
    clv_model *model = NULL;
    assert_fails(llm_model_create(ctx, source, NULL, &model), status, text);
    assert_null(model);
}

/* Scales count as bytes of the weights; a source with too few is refused. */
static void test_scales(void **state)
{
    (void)state;
    tiny_params p = tiny_defaults();
    p.dtype = CLV_DTYPE_I4;
    p.quant = CLV_QUANT_PER_CHANNEL;
    clv_model *model = rig_model(ctx, &p, NULL);
    const clv_model_info *info = clv_model_describe(model);
    const uint64_t rows = 2 * 160 + 2 * (64 + 32 + 32 + 64 + 96 + 96 + 64);
    const uint64_t vectors = 5 * 64;
    assert_string_equal(info->quant, "i4");
    assert_int_equal(info->size,
                     (info->n_params - vectors) / 2 + 4 * vectors + 4 * rows);
    clv_model_destroy(model);
    llm_source *source = tiny_create(&p);
    tiny_spoil_scales(source, "output.weight");
    refuse(source, CLV_ERR_INVALID, "tensor 'output.weight'");
}

static void test_refused(void **state)
{
    (void)state;
    const tiny_params p = tiny_defaults();
    llm_source *source = tiny_create(&p);
    tiny_remove(source, "blk.1.ffn_up.weight");
    refuse(source, CLV_ERR_FORMAT,
           "'blk.1.ffn_up.weight' of shape [96, 64] is missing");

    source = tiny_create(&p);
    tiny_reshape(source, "blk.0.attn_k.weight", 2, 64, 32);
    refuse(source, CLV_ERR_FORMAT,
           "'blk.0.attn_k.weight' has shape [64, 32] where the model's "
           "settings want [32, 64]");

    source = tiny_create(&p);
    tiny_reshape(source, "output_norm.weight", 2, 64, 1);
    refuse(source, CLV_ERR_FORMAT, "[64, 1]");

    tiny_params chosen = p;
    chosen.n_experts = 4;
    chosen.n_experts_used = 2;
    source = tiny_create(&chosen);
    tiny_reshape(source, "blk.1.ffn_up_exps.weight", 2, 4 * 96, 64);
    refuse(source, CLV_ERR_FORMAT,
           "[384, 64] where the model's settings want "
           "[4, 96, 64]");
    source = tiny_create(&chosen);
    tiny_remove(source, "blk.1.ffn_gate_inp.weight");
    refuse(source, CLV_ERR_FORMAT, "ffn_gate_inp");

    const llm_arch *arch;
    assert_fails(llm_arch_find("mamba", "a file", &arch), CLV_ERR_UNSUPPORTED,
                 "'mamba' is not supported; supported: llama");

    source = tiny_create(&p);
    source->hparams.rope_dim = 32;
    refuse(source, CLV_ERR_FORMAT, "rope rotates 32 channels of a head of 16");
}

static void test_load_refused(void **state)
{
    (void)state;
    clv_model *model;
    assert_fails(clv_model_load(ctx, NULL, NULL, &model), CLV_ERR_INVALID,
                 "NULL");
    assert_fails(clv_model_load(ctx, "synth:none", NULL, &model),
                 CLV_ERR_NOT_FOUND, "none");
    assert_null(model);
    assert_fails(clv_model_load(ctx, "/nonexistent.gguf", NULL, &model),
                 CLV_ERR_NOT_FOUND, "/nonexistent.gguf");
}

int main(int argc, char **argv)
{
    all = argc > 1 && !strcmp(argv[1], "all");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_heads),   cmocka_unit_test(test_variants),
        cmocka_unit_test(test_dtypes),  cmocka_unit_test(test_describe),
        cmocka_unit_test(test_refused), cmocka_unit_test(test_load_refused),
        cmocka_unit_test(test_scales),  cmocka_unit_test(test_experts),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
