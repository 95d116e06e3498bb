/* Models against the logits and greedy texts of their reference. */
#include "rig.h"
#include "files/safetensors_convert.h"

#include <cJSON.h>
#include <stdio.h>

#define SHORT 12 /* tokens of a text by a driver */

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

/* The ids of an array, freed by the caller; NULL if there is none. */
static int32_t *read_ids(const llm_safetensors *golden, const char *name,
                         uint32_t *n)
{
    const llm_safetensors_tensor *t = llm_safetensors_find(golden, name);
    if (!t)
        return NULL;
    int32_t *ids = malloc(t->count * sizeof *ids);
    assert_non_null(ids);
    assert_ok(llm_safetensors_to_i32(t, ids));
    *n = (uint32_t)t->count;
    return ids;
}

static void compare_logits(clv_session *s, const llm_safetensors *golden,
                           uint32_t i, const int32_t *ids, uint32_t n)
{
    char name[32];
    const float *logits;
    snprintf(name, sizeof name, "logits%u", i);
    const llm_safetensors_tensor *t = llm_safetensors_find(golden, name);
    assert_non_null(t);
    float *want = malloc(t->count * sizeof *want);
    double *wide = malloc(t->count * sizeof *wide);
    assert_true(want && wide);
    assert_ok(llm_safetensors_to_f32(t, want));
    for (uint64_t j = 0; j < t->count; j++)
        wide[j] = want[j];
    assert_ok(clv_session_truncate(s, 0));
    assert_ok(clv_session_eval(s, ids, n, CLV_LOGITS_ALL, &logits));
    assert_true(tiny_error(logits, wide, t->count) < 1e-3);
    free(want);
    free(wide);
}

/* A greedy text that begins with n ids. */
static void compare_greedy(clv_session *s, const llm_safetensors *golden,
                           const char *name, uint32_t n_vocab,
                           const int32_t *ids, uint32_t n)
{
    uint32_t n_text;
    int32_t *text = read_ids(golden, name, &n_text);
    const float *logits;
    if (!text)
        return;
    assert_memory_equal(text, ids, n * sizeof *ids);
    if (rig_on_driver() && n_text > n + SHORT)
        n_text = n + SHORT;
    assert_ok(clv_session_truncate(s, 0));
    assert_ok(clv_session_eval(s, ids, n, CLV_LOGITS_LAST, &logits));
    for (uint32_t i = n; i < n_text; i++) {
        int32_t best = 0;
        for (uint32_t j = 1; j < n_vocab; j++)
            if (logits[j] > logits[best])
                best = (int32_t)j;
        assert_int_equal(best, text[i]);
        assert_ok(clv_session_eval(s, &best, 1, CLV_LOGITS_LAST, &logits));
    }
    free(text);
}

/* weights: a directory or file of the model, golden: its reference. */
static void compare(const char *weights, const char *golden_name)
{
    llm_safetensors *golden;
    clv_model *model;
    assert_ok(llm_safetensors_open(rig_shared(golden_name), &golden));
    assert_ok(clv_model_load(ctx, rig_shared(weights), NULL, &model));
    clv_session *s = rig_session(model, 0, 0, CLV_DTYPE_F32);
    const uint32_t n_vocab = clv_model_describe(model)->n_vocab;
    for (uint32_t i = 0;; i++) {
        char name[32];
        uint32_t n;
        snprintf(name, sizeof name, "ids%u", i);
        int32_t *ids = read_ids(golden, name, &n);
        if (!ids) {
            assert_true(i > 0);
            break;
        }
        compare_logits(s, golden, i, ids, n);
        snprintf(name, sizeof name, "greedy%u", i);
        compare_greedy(s, golden, name, n_vocab, ids, n);
        if (i == 1)
            compare_greedy(s, golden, "greedy", n_vocab, ids, n);
        free(ids);
        if (rig_on_driver())
            break;
    }
    clv_session_destroy(s);
    clv_model_destroy(model);
    llm_safetensors_close(golden);
}

/* On drivers those that are made of the others' parts are left out: kernels
 * take long to compile there. */
static const struct {
    const char *name;
    bool on_drivers;
} goldens[] = {
    {"llama", true},   {"llama3-rope", true}, {"mistral", true},
    {"mixtral", true}, {"qwen2", false},      {"qwen2_moe", true},
    {"qwen3", true},   {"gemma", false},      {"gemma2", true},
    {"gemma3", false}, {"phi2", true},        {"phi3", false},
    {"phimoe", true},
};
enum { N_GOLDENS = sizeof goldens / sizeof *goldens };

static void test_goldens(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < N_GOLDENS; i++) {
        char weights[64], golden[96];
        if (rig_on_driver() && !goldens[i].on_drivers)
            continue;
        snprintf(weights, sizeof weights, "goldens/%s", goldens[i].name);
        snprintf(golden, sizeof golden, "%s/golden.safetensors", weights);
        print_message("%s\n", weights);
        compare(weights, golden);
    }
}

static void test_moe(void **state)
{
    (void)state;
    compare("models/moe", "models/moe/golden.safetensors");
}

static void test_nano(void **state)
{
    (void)state;
    compare("models/nano", "models/nano/golden.safetensors");
}

static void test_nano_gguf(void **state)
{
    (void)state;
    compare("models/nano-f16.gguf", "models/nano/golden.safetensors");
}

static void test_pico(void **state)
{
    (void)state;
    if (rig_on_driver())
        skip();
    compare("models/pico/pico-f16.gguf", "models/pico/golden.safetensors");
}

/* ------------------------------------------------------------------------ */
/* Text                                                                     */

typedef struct text {
    char data[4096];
    size_t length;
    uint32_t n_tokens;
} text;

static int append(void *arg, int32_t id, const char *part, uint32_t length)
{
    text *t = arg;
    assert_true(t->length + length < sizeof t->data);
    memcpy(t->data + t->length, part, length);
    t->length += length;
    t->n_tokens += id >= 0;
    return 0;
}

/* The 64 tokens that follow prompt, streamed, as text; or its beginning. */
static void compare_text(clv_model *model, const char *prompt, const char *want)
{
    const clv_tokenizer *tok = clv_model_tokenizer(model);
    clv_sampler_params sampling = clv_sampler_defaults();
    const uint32_t n_text = rig_on_driver() ? SHORT : 64;
    clv_generate_params p = {.n_predict = n_text, .on_token = append};
    clv_session *s = rig_session(model, 0, 0, CLV_DTYPE_F32);
    clv_sampler *sampler;
    int32_t *ids;
    uint64_t n;
    text t = {.length = strlen(prompt)};
    memcpy(t.data, prompt, t.length);
    assert_non_null(tok);
    assert_ok(clv_tokenize(
        tok, prompt, t.length,
        clv_tokenizer_describe(tok).add_bos ? CLV_TOKENIZE_BOS : 0, &ids, &n));
    sampling.temperature = 0;
    assert_ok(clv_sampler_create(&sampling, clv_model_describe(model)->n_vocab,
                                 &sampler));
    p.prompt = ids;
    p.n_prompt = (uint32_t)n;
    p.on_token_ctx = &t;
    assert_ok(clv_generate(s, sampler, &p, NULL));
    assert_int_equal(t.n_tokens, n_text);
    t.data[t.length] = '\0';
    if (rig_on_driver())
        assert_memory_equal(t.data, want, t.length);
    else
        assert_string_equal(t.data, want);
    clv_tokens_free(ids);
    clv_sampler_destroy(sampler);
    clv_session_destroy(s);
}

static void test_text(void **state)
{
    (void)state;
    clv_model *model;
    clv_file_map file;
    assert_ok(clv_file_map_open(rig_shared("models/nano/golden.json"), &file));
    cJSON *json = cJSON_ParseWithLength((const char *)file.data, file.size);
    const cJSON *prompts = cJSON_GetObjectItem(json, "prompts");
    const cJSON *texts = cJSON_GetObjectItem(json, "greedy_text");
    assert_ok(
        clv_model_load(ctx, rig_shared("models/nano-f16.gguf"), NULL, &model));
    assert_true(cJSON_GetArraySize(prompts) > 0);
    for (int i = 0; i < cJSON_GetArraySize(prompts); i++)
        compare_text(model, cJSON_GetArrayItem(prompts, i)->valuestring,
                     cJSON_GetArrayItem(texts, i)->valuestring);
    clv_model_destroy(model);
    cJSON_Delete(json);
    clv_file_map_close(&file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_goldens), cmocka_unit_test(test_moe),
        cmocka_unit_test(test_nano),    cmocka_unit_test(test_nano_gguf),
        cmocka_unit_test(test_pico),    cmocka_unit_test(test_text),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
