/* A converted model gives the logits of the directory. */
#include "rig.h"
#include "tiny_hf.h"

static clv_context *ctx;
static temp tmp;

static int setup(void **state)
{
    (void)state;
    temp_init(&tmp);
    ctx = rig_context();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    clv_context_destroy(ctx);
    temp_finish(&tmp);
    return 0;
}

/* [n, n_vocab]; freed by the caller. */
static float *logits_of(const char *path, const int32_t *ids, uint32_t n,
                        uint64_t *size)
{
    clv_model *model;
    const float *logits;
    assert_ok(clv_model_load(ctx, path, NULL, &model));
    clv_session *s = rig_session(model, 64, 0, CLV_DTYPE_F32);
    assert_ok(clv_session_eval(s, ids, n, CLV_LOGITS_ALL, &logits));
    *size = (uint64_t)n * clv_model_describe(model)->n_vocab;
    float *copy = malloc(*size * sizeof *copy);
    assert_non_null(copy);
    memcpy(copy, logits, *size * sizeof *copy);
    clv_session_destroy(s);
    clv_model_destroy(model);
    return copy;
}

static void same_logits(const char *dir, const int32_t *ids, uint32_t n)
{
    const char *out = temp_path(&tmp, "out.gguf");
    uint64_t size, other;
    assert_ok(clv_convert(dir, out, NULL));
    float *x = logits_of(dir, ids, n, &size);
    float *y = logits_of(out, ids, n, &other);
    double error = 0, power = 0;
    assert_int_equal(size, other);
    for (uint64_t i = 0; i < size; i++) {
        error += (x[i] - y[i]) * (double)(x[i] - y[i]);
        power += x[i] * (double)x[i];
    }
    if (!(sqrt(error / power) < 1e-5))
        fail_msg("%s: relative error %g", dir, sqrt(error / power));
    free(x);
    free(y);
}

static void tiny_models(void **state)
{
    (void)state;
    static const tiny_options cases[] = {
        {.biases = true},
        {.tied = true, .config = ",\"rope_theta\":50"},
        {.config = ",\"rope_scaling\":{\"type\":\"linear\",\"factor\":3}"},
        {.config = ",\"rope_theta\":1000,\"rope_scaling\":{"
                   "\"rope_type\":\"llama3\",\"factor\":8,"
                   "\"low_freq_factor\":1,\"high_freq_factor\":4,"
                   "\"original_max_position_embeddings\":400}"},
        {.architecture = "MistralForCausalLM",
         .config = ",\"sliding_window\":5"},
    };
    int32_t ids[24];
    for (int i = 0; i < 24; i++)
        ids[i] = i * 7 % TINY_VOCAB;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tiny_write(&tmp, &cases[i]);
        same_logits(tmp.dir, ids, 24);
    }
}

static void goldens(void **state)
{
    (void)state;
    static const char *const names[] = {"llama", "llama3-rope", "mistral",
                                        "mixtral"};
    int32_t ids[40];
    for (int i = 0; i < 40; i++)
        ids[i] = 3 + i * 11;
    for (int i = 0; i < 4; i++) {
        char name[64];
        snprintf(name, sizeof name, "goldens/%s", names[i]);
        same_logits(rig_shared(name), ids, 40);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tiny_models),
        cmocka_unit_test(goldens),
    };
    return cmocka_run_group_tests_name("convert_model", tests, setup, teardown);
}
