/* Settings from config.json. */
#include "bytes.h"
#include "sources/hf_config.h"
#include "temp_fixture.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define COUNTS                                                                 \
    "\"vocab_size\":1000,\"hidden_size\":64,\"intermediate_size\":160,"        \
    "\"num_hidden_layers\":3,\"num_attention_heads\":4"
#define LLAMA "\"architectures\":[\"LlamaForCausalLM\"]," COUNTS
#define MISTRAL                                                                \
    "\"architectures\":[\"MistralForCausalLM\"],\"vocab_size\":1000,"          \
    "\"hidden_size\":64,\"intermediate_size\":160,"                            \
    "\"num_hidden_layers\":3,\"num_attention_heads\":16"

static clv_status parse(const char *json, llm_hf_config *out)
{
    uint8_t *copy = exact_copy((const uint8_t *)json, strlen(json));
    clv_status status =
        llm_hf_config_parse(copy, strlen(json), "config.json", out);
    free(copy);
    return status;
}

static llm_hf_config parsed(const char *json)
{
    llm_hf_config c;
    if (parse(json, &c))
        fail_msg("%s", clv_last_error());
    return c;
}

static void defaults(void **state)
{
    (void)state;
    llm_hf_config c = parsed("{" LLAMA "}");
    const llm_hparams *h = &c.hparams;
    assert_string_equal(h->arch->name, "llama");
    assert_int_equal(h->n_layers, 3);
    assert_int_equal(h->n_embd, 64);
    assert_int_equal(h->n_ff, 160);
    assert_int_equal(h->n_vocab, 1000);
    assert_int_equal(h->n_heads, 4);
    assert_int_equal(h->n_kv_heads, 4);
    assert_int_equal(h->head_dim, 16);
    assert_int_equal(h->rope_dim, 16);
    assert_int_equal(h->n_ctx_train, 2048);
    assert_int_equal(h->sliding_window, 0);
    assert_int_equal(h->rope_mode, CLV_ROPE_HALVES);
    assert_int_equal(h->rope_scaling, LLM_ROPE_NONE);
    assert_true(h->rope_base == 10000);
    assert_true(h->norm_eps == 1e-6f);
    assert_int_equal(h->bos, -1);
    assert_int_equal(h->eos, -1);
    assert_false(c.tied);

    c = parsed("{" MISTRAL "}");
    assert_int_equal(c.hparams.sliding_window, 4096);
    assert_int_equal(c.hparams.n_kv_heads, 8);
    c = parsed("{" MISTRAL ",\"sliding_window\":null,"
               "\"num_key_value_heads\":2}");
    assert_int_equal(c.hparams.sliding_window, 0);
    assert_int_equal(c.hparams.n_kv_heads, 2);
}

static void experts(void **state)
{
    (void)state;
#define MIXTRAL                                                                \
    "\"architectures\":[\"MixtralForCausalLM\"],\"vocab_size\":1000,"          \
    "\"hidden_size\":64,\"intermediate_size\":160,\"num_hidden_layers\":3,"    \
    "\"num_attention_heads\":8"
    llm_hf_config c = parsed("{" MIXTRAL "}");
    assert_int_equal(c.hparams.n_experts, 8);
    assert_int_equal(c.hparams.n_experts_used, 2);
    assert_int_equal(c.hparams.n_kv_heads, 8);
    assert_int_equal(c.hparams.sliding_window, 0);
    c = parsed("{" MIXTRAL ",\"num_local_experts\":16,"
               "\"num_experts_per_tok\":4,\"sliding_window\":9}");
    assert_int_equal(c.hparams.n_experts, 16);
    assert_int_equal(c.hparams.n_experts_used, 4);
    assert_int_equal(c.hparams.sliding_window, 9);
    c = parsed("{" LLAMA ",\"num_local_experts\":16}");
    assert_int_equal(c.hparams.n_experts, 0);
}

static void all_keys(void **state)
{
    (void)state;
    llm_hf_config c = parsed(
        "{" LLAMA ",\"num_key_value_heads\":2,\"head_dim\":32,"
        "\"max_position_embeddings\":77,\"rms_norm_eps\":1e-05,"
        "\"rope_theta\":5e5,\"rope_scaling\":null,\"hidden_act\":\"silu\","
        "\"sliding_window\":9,\"tie_word_embeddings\":true,"
        "\"bos_token_id\":1,\"eos_token_id\":[7,8]}");
    const llm_hparams *h = &c.hparams;
    assert_int_equal(h->n_kv_heads, 2);
    assert_int_equal(h->head_dim, 32);
    assert_int_equal(h->rope_dim, 32);
    assert_int_equal(h->n_ctx_train, 77);
    assert_true(h->norm_eps == 1e-5f);
    assert_true(h->rope_base == 5e5f);
    assert_int_equal(h->sliding_window, 0); /* a Llama has none */
    assert_int_equal(h->bos, 1);
    assert_int_equal(h->eos, 7);
    assert_true(c.tied);
}

static void rope(void **state)
{
    (void)state;
    llm_hf_config c = parsed("{" LLAMA ",\"rope_theta\":20000,"
                             "\"rope_scaling\":{\"type\":\"linear\","
                             "\"factor\":4}}");
    assert_int_equal(c.hparams.rope_scaling, LLM_ROPE_LINEAR);
    assert_true(c.hparams.rope_factor == 4);
    assert_true(c.hparams.rope_base == 20000);
    const char *const forms[] = {
        "{" LLAMA ",\"rope_theta\":500000,\"rope_scaling\":{"
        "\"rope_type\":\"llama3\",\"factor\":8,\"low_freq_factor\":1,"
        "\"high_freq_factor\":4,\"original_max_position_embeddings\":32}}",
        "{" LLAMA ",\"rope_parameters\":{\"rope_theta\":500000,"
        "\"rope_type\":\"llama3\",\"factor\":8,\"low_freq_factor\":1,"
        "\"high_freq_factor\":4,\"original_max_position_embeddings\":32}}",
    };
    for (int i = 0; i < 2; i++) {
        c = parsed(forms[i]);
        assert_int_equal(c.hparams.rope_scaling, LLM_ROPE_LLAMA3);
        assert_true(c.hparams.rope_base == 500000);
        assert_true(c.hparams.rope_factor == 8);
        assert_true(c.hparams.rope_low_freq_factor == 1);
        assert_true(c.hparams.rope_high_freq_factor == 4);
        assert_int_equal(c.hparams.rope_original_ctx, 32);
    }
}

static void refused(void **state)
{
    (void)state;
    const struct {
        const char *json;
        clv_status status;
        const char *part;
    } cases[] = {
        {"", CLV_ERR_FORMAT, "JSON"},
        {"{", CLV_ERR_FORMAT, "JSON"},
        {"[]", CLV_ERR_FORMAT, "object"},
        {"{}", CLV_ERR_FORMAT, "architectures"},
        {"{\"architectures\":[\"GPT2LMHeadModel\"]}", CLV_ERR_UNSUPPORTED,
         "'GPT2LMHeadModel' is not supported; supported: LlamaForCausalLM"},
        {"{\"architectures\":[\"LlamaForCausalLM\"]}", CLV_ERR_FORMAT,
         "num_hidden_layers"},
        {"{" LLAMA ",\"hidden_act\":\"gelu\"}", CLV_ERR_UNSUPPORTED, "'gelu'"},
        {"{" LLAMA ",\"quantization_config\":{}}", CLV_ERR_UNSUPPORTED,
         "quantization_config"},
        {"{" LLAMA ",\"rope_scaling\":{\"type\":\"ntk\",\"factor\":4}}",
         CLV_ERR_UNSUPPORTED, "'ntk' is not supported; supported: default"},
        {"{" LLAMA ",\"rope_scaling\":{\"type\":\"linear\"}}", CLV_ERR_FORMAT,
         "factor"},
        {"{" LLAMA ",\"rope_scaling\":{\"type\":\"linear\",\"factor\":-1}}",
         CLV_ERR_FORMAT, "factor"},
        {"{" LLAMA ",\"rope_scaling\":{\"type\":\"llama3\",\"factor\":8}}",
         CLV_ERR_FORMAT, "original_max_position_embeddings"},
        {"{" LLAMA ",\"rope_scaling\":7}", CLV_ERR_FORMAT, "rope_scaling"},
        {"{" LLAMA ",\"rope_theta\":0}", CLV_ERR_FORMAT, "base"},
        {"{" LLAMA ",\"num_key_value_heads\":3}", CLV_ERR_FORMAT, "multiple"},
        {"{" LLAMA ",\"num_key_value_heads\":0}", CLV_ERR_FORMAT,
         "key-value heads is 0"},
        {"{" LLAMA ",\"num_key_value_heads\":-2}", CLV_ERR_FORMAT,
         "num_key_value_heads"},
        {"{" LLAMA ",\"num_key_value_heads\":1.5}", CLV_ERR_FORMAT,
         "num_key_value_heads"},
        {"{" LLAMA ",\"num_key_value_heads\":\"2\"}", CLV_ERR_FORMAT,
         "num_key_value_heads"},
        {"{" LLAMA ",\"head_dim\":15}", CLV_ERR_FORMAT, "even"},
        {"{" LLAMA ",\"head_dim\":1e18}", CLV_ERR_FORMAT, "head_dim"},
        {"{" LLAMA ",\"head_dim\":65536}", CLV_ERR_FORMAT, "head dimension"},
        {"{" LLAMA ",\"rms_norm_eps\":2}", CLV_ERR_FORMAT, "epsilon"},
        {"{" LLAMA ",\"rms_norm_eps\":\"x\"}", CLV_ERR_FORMAT, "rms_norm_eps"},
        {"{" LLAMA ",\"max_position_embeddings\":0}", CLV_ERR_FORMAT,
         "context length"},
        {"{" LLAMA ",\"eos_token_id\":[[]]}", CLV_ERR_FORMAT, "eos_token_id"},
        {"{" LLAMA ",\"tie_word_embeddings\":1}", CLV_ERR_FORMAT,
         "tie_word_embeddings"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        llm_hf_config c;
        clv_status status = parse(cases[i].json, &c);
        if (status != cases[i].status)
            fail_msg("%s: status %d (%s)", cases[i].json, status,
                     clv_last_error());
        assert_message(cases[i].part);
        assert_message("config.json");
    }
}

static void directory(void **state)
{
    (void)state;
    llm_hf_config c;
    assert_int_equal(llm_hf_config_load(tmp.dir, &c), CLV_ERR_NOT_FOUND);
    assert_message("config.json");
    temp_write_text(&tmp, "config.json", "{" LLAMA ",\"bos_token_id\":5}");
    assert_int_equal(llm_hf_config_load(tmp.dir, &c), CLV_OK);
    assert_int_equal(c.hparams.eos, -1);
    temp_write_text(&tmp, "generation_config.json",
                    "{\"bos_token_id\":6,\"eos_token_id\":[9,10]}");
    assert_int_equal(llm_hf_config_load(tmp.dir, &c), CLV_OK);
    assert_int_equal(c.hparams.bos, 5);
    assert_int_equal(c.hparams.eos, 9);
}

static void damaged(void **state)
{
    (void)state;
    const char json[] = "{" MISTRAL ",\"rope_scaling\":{\"type\":\"linear\","
                        "\"factor\":2},\"eos_token_id\":[1,2]}";
    char copy[sizeof json];
    memcpy(copy, json, sizeof json);
    llm_hf_config c;
    for (size_t at = 0; at + 1 < sizeof json; at++) {
        for (unsigned flip = 1; flip < 256; flip <<= 1) {
            copy[at] = (char)(json[at] ^ (char)flip);
            llm_hf_config_parse(copy, sizeof json - 1, "c", &c);
            copy[at] = json[at];
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults), cmocka_unit_test(all_keys),
        cmocka_unit_test(experts),  cmocka_unit_test(rope),
        cmocka_unit_test(refused),  cmocka_unit_test(directory),
        cmocka_unit_test(damaged),
    };
    return cmocka_run_group_tests_name("hf_config", tests, make_temp,
                                       remove_temp);
}
