/* Models from GGUF files and Hugging Face directories. */
#include "files/gguf_kv.h"
#include "sources/source.h"
#include "temp_fixture.h"
#include "tiny_hf.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static llm_source *opened(const char *path)
{
    llm_source *s = NULL;
    if (llm_source_open(path, NULL, NULL, &s))
        fail_msg("%s", clv_last_error());
    return s;
}

static void refused(const char *path, clv_status expected, const char *part)
{
    llm_source *s = NULL;
    clv_status status = llm_source_open(path, NULL, NULL, &s);
    if (status != expected)
        fail_msg("status %d: %s", status, clv_last_error());
    assert_null(s);
    assert_message(part);
    assert_message(path);
}

/* ------------------------------------------------------------------------ */
/* Hugging Face                                                             */

static void assert_tensor(llm_source *s, const char *name, const char *hf,
                          int rows, int columns)
{
    llm_source_tensor t;
    if (s->find(s, name, &t))
        fail_msg("no %s", name);
    assert_int_equal(t.dtype, CLV_DTYPE_F32);
    assert_int_equal(t.rank, columns ? 2 : 1);
    assert_int_equal(t.dims[0], rows);
    if (columns)
        assert_int_equal(t.dims[1], columns);
    int n = rows * (columns ? columns : 1);
    assert_int_equal(t.size, n * 4);
    const float *values = t.data;
    for (int i = 0; i < n; i++)
        if (values[i] != tiny_value(hf, i))
            fail_msg("%s[%d] is %g", name, i, values[i]);
}

static void hf(void **state)
{
    (void)state;
    tiny_write(&tmp, &(tiny_options){.biases = true});
    llm_source *s = opened(tmp.dir);
    assert_string_equal(s->hparams.name, strrchr(tmp.dir, '/') + 1);
    assert_int_equal(s->hparams.rope_mode, CLV_ROPE_HALVES);
    assert_int_equal(s->hparams.n_vocab, TINY_VOCAB);
    assert_tensor(s, "token_embd.weight", "model.embed_tokens.weight", 10, 8);
    assert_tensor(s, "output.weight", "lm_head.weight", 10, 8);
    assert_tensor(s, "output_norm.weight", "model.norm.weight", 8, 0);
    const struct {
        const char *name, *hf;
        int rows, columns;
    } layer[] = {
        {"attn_norm.weight", "input_layernorm.weight", 8, 0},
        {"ffn_norm.weight", "post_attention_layernorm.weight", 8, 0},
        {"attn_q.weight", "self_attn.q_proj.weight", 16, 8},
        {"attn_k.weight", "self_attn.k_proj.weight", 8, 8},
        {"attn_v.weight", "self_attn.v_proj.weight", 8, 8},
        {"attn_output.weight", "self_attn.o_proj.weight", 8, 16},
        {"ffn_gate.weight", "mlp.gate_proj.weight", 12, 8},
        {"ffn_up.weight", "mlp.up_proj.weight", 12, 8},
        {"ffn_down.weight", "mlp.down_proj.weight", 8, 12},
        {"attn_q.bias", "self_attn.q_proj.bias", 16, 0},
        {"attn_v.bias", "self_attn.v_proj.bias", 8, 0},
    };
    for (int i = 0; i < TINY_LAYERS; i++) {
        for (size_t j = 0; j < sizeof layer / sizeof layer[0]; j++) {
            char name[64], long_name[96];
            snprintf(name, sizeof name, "blk.%d.%s", i, layer[j].name);
            snprintf(long_name, sizeof long_name, "model.layers.%d.%s", i,
                     layer[j].hf);
            assert_tensor(s, name, long_name, layer[j].rows, layer[j].columns);
        }
    }
    llm_source_tensor t;
    assert_int_equal(s->find(s, "blk.2.attn_q.weight", &t), CLV_ERR_NOT_FOUND);
    assert_int_equal(s->find(s, "blk.0.ffn_up.bias", &t), CLV_ERR_NOT_FOUND);
    clv_tokenizer *tok = (clv_tokenizer *)&t;
    assert_int_equal(s->tokenizer(s, &tok), CLV_OK);
    assert_null(tok);
    llm_source_destroy(s);
}

static void hf_tied(void **state)
{
    (void)state;
    llm_source_tensor t;
    tiny_write(&tmp, &(tiny_options){.tied = true});
    llm_source *s = opened(tmp.dir);
    assert_int_equal(s->find(s, "output.weight", &t), CLV_ERR_NOT_FOUND);
    llm_source_destroy(s);
    tiny_write(&tmp, &(tiny_options){.tied = true, .extra = "lm_head.weight"});
    s = opened(tmp.dir);
    assert_int_equal(s->find(s, "output.weight", &t), CLV_ERR_NOT_FOUND);
    llm_source_destroy(s);
}

static void hf_refused(void **state)
{
    (void)state;
    tiny_write(&tmp, &(tiny_options){.skip = "lm_head.weight"});
    refused(tmp.dir, CLV_ERR_FORMAT, "'lm_head.weight'");
    const char *q = "model.layers.1.self_attn.q_proj.weight";
    tiny_write(&tmp, &(tiny_options){.skip = q});
    refused(tmp.dir, CLV_ERR_FORMAT, q);
    tiny_write(&tmp, &(tiny_options){.skip = q, .extra = q});
    refused(tmp.dir, CLV_ERR_FORMAT,
            "has shape [1], config.json asks for "
            "[16, 8]");
    tiny_write(&tmp, &(tiny_options){.extra = "model.layers.0.extra.weight"});
    refused(tmp.dir, CLV_ERR_UNSUPPORTED, "model.layers.0.extra.weight");
    tiny_write(&tmp, &(tiny_options){.dtype = "I32"});
    refused(tmp.dir, CLV_ERR_UNSUPPORTED, "dtype I32");
    tiny_write(&tmp,
               &(tiny_options){.extra = "model.layers.0.self_attn.rotary_emb."
                                        "inv_freq"});
    llm_source_destroy(opened(tmp.dir));
}

/* ------------------------------------------------------------------------ */
/* GGUF                                                                     */

typedef struct gguf_options {
    const char *architecture;
    bool more; /* optional settings */
    uint32_t n_experts, n_used;
    const char *scaling;
    uint32_t type; /* of the embedding */
    bool no_layers;
} gguf_options;

static void put_setting(bytes *b, uint64_t *n, const char *key, uint32_t value)
{
    put_key(b, key, LLM_GGUF_U32);
    put_u32(b, value);
    ++*n;
}

static const char *write_gguf(const char *file, const gguf_options *o)
{
    bytes b = {0}, kv = {0};
    uint64_t n = 0;
    put_key(&kv, "general.architecture", LLM_GGUF_STRING);
    put_string(&kv, o->architecture ? o->architecture : "llama");
    n++;
    if (!o->no_layers)
        put_setting(&kv, &n, "llama.block_count", 2);
    put_setting(&kv, &n, "llama.context_length", 99);
    put_setting(&kv, &n, "llama.embedding_length", 32);
    put_setting(&kv, &n, "llama.feed_forward_length", 12);
    put_setting(&kv, &n, "llama.attention.head_count", 4);
    put_key(&kv, "llama.attention.layer_norm_rms_epsilon", LLM_GGUF_F32);
    put_f32(&kv, 1e-5f);
    n++;
    if (o->n_experts)
        put_setting(&kv, &n, "llama.expert_count", o->n_experts);
    if (o->n_used)
        put_setting(&kv, &n, "llama.expert_used_count", o->n_used);
    if (o->more) {
        put_setting(&kv, &n, "llama.attention.head_count_kv", 2);
        put_setting(&kv, &n, "llama.attention.key_length", 16);
        put_setting(&kv, &n, "llama.attention.value_length", 16);
        put_setting(&kv, &n, "llama.attention.sliding_window", 7);
        put_setting(&kv, &n, "llama.rope.dimension_count", 12);
        put_setting(&kv, &n, "tokenizer.ggml.bos_token_id", 3);
        put_key(&kv, "llama.rope.freq_base", LLM_GGUF_F32);
        put_f32(&kv, 5e5f);
        put_key(&kv, "general.name", LLM_GGUF_STRING);
        put_string(&kv, "some\nname");
        n += 2;
    }
    if (o->scaling) {
        put_key(&kv, "llama.rope.scaling.type", LLM_GGUF_STRING);
        put_string(&kv, o->scaling);
        put_key(&kv, "llama.rope.scaling.factor", LLM_GGUF_F32);
        put_f32(&kv, 4);
        n += 2;
    }
    put_gguf_head(&b, 2, n);
    put(&b, kv.data, kv.size);
    uint32_t type = o->type ? o->type : 1;
    put_tensor(&b, "token_embd.weight", 2, (uint64_t[]){256, 6}, type, 0);
    put_tensor(&b, "rope_freqs.weight", 1, (uint64_t[]){8}, 0, 4096);
    put_alignment(&b, 32);
    put_zeros(&b, 4096 + 32);
    const char *path = temp_write(&tmp, file, b.data, b.size);
    bytes_free(&b);
    bytes_free(&kv);
    return path;
}

static void gguf(void **state)
{
    (void)state;
    llm_source *s = opened(write_gguf("plain.bin", &(gguf_options){0}));
    const llm_hparams *h = &s->hparams;
    assert_string_equal(h->arch->name, "llama");
    assert_int_equal(h->n_layers, 2);
    assert_int_equal(h->n_ctx_train, 99);
    assert_int_equal(h->n_embd, 32);
    assert_int_equal(h->n_ff, 12);
    assert_int_equal(h->n_vocab, 6);
    assert_int_equal(h->n_heads, 4);
    assert_int_equal(h->n_kv_heads, 4);
    assert_int_equal(h->head_dim, 8);
    assert_int_equal(h->rope_dim, 8);
    assert_true(h->rope_base == 10000);
    assert_true(h->norm_eps == 1e-5f);
    assert_int_equal(h->rope_mode, CLV_ROPE_PAIRS);
    assert_int_equal(h->rope_scaling, LLM_ROPE_NONE);
    assert_int_equal(h->sliding_window, 0);
    assert_int_equal(h->bos, -1);
    llm_source_tensor t;
    assert_int_equal(s->find(s, "token_embd.weight", &t), CLV_OK);
    assert_int_equal(t.dtype, CLV_DTYPE_F16);
    assert_int_equal(t.dims[0], 6);
    assert_int_equal(t.dims[1], 256);
    assert_int_equal(t.size, 6 * 256 * 2);
    assert_int_equal(s->find(s, "rope_freqs.weight", &t), CLV_OK);
    assert_int_equal(s->find(s, "output.weight", &t), CLV_ERR_NOT_FOUND);
    clv_tokenizer *tok = (clv_tokenizer *)&t;
    assert_int_equal(s->tokenizer(s, &tok), CLV_OK);
    assert_null(tok);
    llm_source_destroy(s);

    s = opened(write_gguf("more.gguf",
                          &(gguf_options){.more = true, .scaling = "linear"}));
    h = &s->hparams;
    assert_int_equal(h->n_kv_heads, 2);
    assert_int_equal(h->head_dim, 16);
    assert_int_equal(h->rope_dim, 12);
    assert_int_equal(h->sliding_window, 7);
    assert_int_equal(h->bos, 3);
    assert_true(h->rope_base == 5e5f);
    assert_int_equal(h->rope_scaling, LLM_ROPE_LINEAR);
    assert_true(h->rope_factor == 4);
    assert_string_equal(h->name, "some?name");
    llm_source_destroy(s);

    s = opened(
        write_gguf("moe.gguf", &(gguf_options){.n_experts = 8, .n_used = 2}));
    assert_int_equal(s->hparams.n_experts, 8);
    assert_int_equal(s->hparams.n_experts_used, 2);
    llm_source_destroy(s);

    s = opened(write_gguf("none.gguf", &(gguf_options){.scaling = "none"}));
    assert_int_equal(s->hparams.rope_scaling, LLM_ROPE_NONE);
    llm_source_destroy(s);
}

static void gguf_refused(void **state)
{
    (void)state;
    refused(write_gguf("a.gguf", &(gguf_options){.architecture = "falcon"}),
            CLV_ERR_UNSUPPORTED, "'falcon' is not supported; supported: llama");
    refused(write_gguf("e.gguf", &(gguf_options){.n_experts = 8}),
            CLV_ERR_FORMAT, "experts used for a token");
    refused(write_gguf("u.gguf", &(gguf_options){.n_experts = 8, .n_used = 9}),
            CLV_ERR_FORMAT, "experts used for a token");
    refused(
        write_gguf("m.gguf", &(gguf_options){.n_experts = 513, .n_used = 2}),
        CLV_ERR_FORMAT, "number of experts");
    refused(write_gguf("y.gguf", &(gguf_options){.scaling = "ntk"}),
            CLV_ERR_UNSUPPORTED, "'ntk' is not supported");
    refused(write_gguf("t.gguf", &(gguf_options){.type = 16}),
            CLV_ERR_UNSUPPORTED, "type IQ2_XXS, supported: F32");
    refused(write_gguf("l.gguf", &(gguf_options){.no_layers = true}),
            CLV_ERR_NOT_FOUND, "llama.block_count");
}

static void other_paths(void **state)
{
    (void)state;
    refused(temp_path(&tmp, "absent"), CLV_ERR_NOT_FOUND, "give a GGUF file");
    refused(temp_write_text(&tmp, "text", "hello"), CLV_ERR_FORMAT,
            "not a GGUF file");
    refused(temp_write_text(&tmp, "empty", ""), CLV_ERR_FORMAT, "empty");
    refused("/dev/null", CLV_ERR_INVALID, "neither a file nor a directory");
    temp other;
    temp_init(&other);
    refused(other.dir, CLV_ERR_NOT_FOUND, "config.json");
    temp_write_text(&other, "a.gguf", "");
    refused(other.dir, CLV_ERR_FORMAT, "a.gguf: the file is empty");
    temp_write_text(&other, "b.gguf", "");
    refused(other.dir, CLV_ERR_INVALID, "holds 2 GGUF files");
    unlink(temp_path(&other, "a.gguf"));
    rename(temp_path(&other, "b.gguf"),
           temp_path(&other, "b-00001-of-00002.gguf"));
    temp_write_text(&other, "b-00002-of-00002.gguf", "");
    refused(other.dir, CLV_ERR_FORMAT, "b-00001-of-00002.gguf: the file is");
    temp_finish(&other);
    llm_source *s = NULL;
    assert_int_not_equal(llm_source_open("synth:nothing", NULL, NULL, &s),
                         CLV_OK);
    assert_message("nothing");
    llm_source_destroy(NULL);
}

static void shared_models(void **state)
{
    (void)state;
    static const char *const names[] = {
        "models/nano",     "goldens/llama",        "goldens/llama3-rope",
        "goldens/mistral", "models/nano-f16.gguf", "models/pico/pico-f16.gguf",
        "models/pico",     "goldens/qwen2_moe",    "goldens/gemma3",
        "goldens/phimoe",
    };
    if (!shared_path(&tmp, names[0]))
        skip();
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        llm_source_destroy(opened(shared_path(&tmp, names[i])));
    llm_source *s = opened(shared_path(&tmp, "goldens/mistral"));
    assert_int_equal(s->hparams.sliding_window, 16);
    llm_source_destroy(s);
    s = opened(shared_path(&tmp, "models/moe"));
    assert_int_equal(s->hparams.n_experts, 8);
    assert_int_equal(s->hparams.n_experts_used, 2);
    llm_source_destroy(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hf),
        cmocka_unit_test(hf_tied),
        cmocka_unit_test(hf_refused),
        cmocka_unit_test(gguf),
        cmocka_unit_test(gguf_refused),
        cmocka_unit_test(other_paths),
        cmocka_unit_test(shared_models),
    };
    return cmocka_run_group_tests_name("source", tests, make_temp, remove_temp);
}
