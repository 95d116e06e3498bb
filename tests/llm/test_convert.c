/* clv_convert(): the GGUF file is equivalent to the directory. */
#include "convert/tokenizer.h"
#include "files/gguf_kv.h"
#include "sources/source.h"
#include "temp_fixture.h"
#include "tiny_hf.h"
#include "tokenizer/gguf.h"
#include "tokenizer/json.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static llm_gguf *converted(const char *dir, uint32_t dtype)
{
    llm_gguf *g = NULL;
    const char *out = temp_path(&tmp, "out.gguf");
    const clv_convert_params params = {.type = dtype ? clv_dtype_name(dtype)
                                                     : NULL};
    if (clv_convert(dir, out, &params))
        fail_msg("%s", clv_last_error());
    assert_int_equal(llm_gguf_open(out, &g), CLV_OK);
    return g;
}

static llm_source *opened(const char *path)
{
    llm_source *s = NULL;
    if (llm_source_open(path, NULL, NULL, &s))
        fail_msg("%s", clv_last_error());
    return s;
}

static uint32_t get_u32(const llm_gguf *g, const char *key)
{
    uint32_t value = 0;
    if (llm_gguf_get_u32(g, key, &value))
        fail_msg("%s", clv_last_error());
    return value;
}

/* ------------------------------------------------------------------------ */
/* Tensors                                                                  */

/* Element (row, column) of a GGUF tensor equals that of Hugging Face, where the
 * rotated rows 2j and 2j + 1 of a head are rows j and j + head / 2. */
static void assert_tensor(const llm_gguf *g, const char *name, const char *hf,
                          int rows, int columns, bool rotary)
{
    const llm_gguf_tensor *t = llm_gguf_find(g, name);
    if (!t)
        fail_msg("no %s", name);
    assert_int_equal(t->rank, columns ? 2 : 1);
    assert_int_equal(t->dims[0], rows);
    assert_int_equal(t->type, 0);
    int width = columns ? columns : 1;
    for (int row = 0; row < rows; row++) {
        int from = row;
        if (rotary) {
            int head = row / TINY_HEAD, j = row % TINY_HEAD / 2;
            from = head * TINY_HEAD + j + row % 2 * TINY_HEAD / 2;
        }
        for (int column = 0; column < width; column++) {
            float value;
            memcpy(&value, t->data + (row * width + column) * 4, 4);
            if (value != tiny_value(hf, from * width + column))
                fail_msg("%s[%d, %d] is %g", name, row, column, value);
        }
    }
}

static void tensors(void **state)
{
    (void)state;
    tiny_write(&tmp, &(tiny_options){.biases = true});
    llm_gguf *g = converted(tmp.dir, CLV_DTYPE_NONE);
    assert_tensor(g, "token_embd.weight", "model.embed_tokens.weight", 10, 8,
                  false);
    assert_tensor(g, "output.weight", "lm_head.weight", 10, 8, false);
    assert_tensor(g, "output_norm.weight", "model.norm.weight", 8, 0, false);
    const struct {
        const char *name, *hf;
        int rows, columns;
        bool rotary;
    } layer[] = {
        {"attn_norm.weight", "input_layernorm.weight", 8, 0, false},
        {"attn_q.weight", "self_attn.q_proj.weight", 16, 8, true},
        {"attn_k.weight", "self_attn.k_proj.weight", 8, 8, true},
        {"attn_v.weight", "self_attn.v_proj.weight", 8, 8, false},
        {"attn_output.weight", "self_attn.o_proj.weight", 8, 16, false},
        {"ffn_norm.weight", "post_attention_layernorm.weight", 8, 0, false},
        {"ffn_gate.weight", "mlp.gate_proj.weight", 12, 8, false},
        {"ffn_up.weight", "mlp.up_proj.weight", 12, 8, false},
        {"ffn_down.weight", "mlp.down_proj.weight", 8, 12, false},
        {"attn_q.bias", "self_attn.q_proj.bias", 16, 0, true},
        {"attn_k.bias", "self_attn.k_proj.bias", 8, 0, true},
        {"attn_v.bias", "self_attn.v_proj.bias", 8, 0, false},
        {"attn_output.bias", "self_attn.o_proj.bias", 8, 0, false},
    };
    const int n = sizeof layer / sizeof layer[0];
    assert_int_equal(llm_gguf_tensor_count(g), 3 + TINY_LAYERS * n);
    for (int i = 0; i < TINY_LAYERS; i++) {
        for (int j = 0; j < n; j++) {
            char name[64], hf[96];
            snprintf(name, sizeof name, "blk.%d.%s", i, layer[j].name);
            snprintf(hf, sizeof hf, "model.layers.%d.%s", i, layer[j].hf);
            assert_tensor(g, name, hf, layer[j].rows, layer[j].columns,
                          layer[j].rotary);
        }
    }
    llm_gguf_close(g);
}

static void other_types(void **state)
{
    (void)state;
    tiny_write(&tmp, &(tiny_options){.tied = true});
    llm_gguf *g = converted(tmp.dir, CLV_DTYPE_F16);
    const llm_gguf_tensor *t = llm_gguf_find(g, "token_embd.weight");
    assert_int_equal(t->type, 1);
    uint16_t h;
    memcpy(&h, t->data + 6, 2);
    float x = tiny_value("model.embed_tokens.weight", 3), y;
    assert_int_equal(clv_dtype_to_f32(CLV_DTYPE_F16, &h, &y, 1), CLV_OK);
    assert_true(x == y);
    assert_int_equal(llm_gguf_find(g, "output_norm.weight")->type, 0);
    assert_null(llm_gguf_find(g, "output.weight"));
    assert_int_equal(get_u32(g, "general.file_type"), 1);
    assert_false(llm_gguf_has(g, "general.quantization_version"));
    llm_gguf_close(g);
    g = converted(tmp.dir, CLV_DTYPE_BF16);
    assert_int_equal(llm_gguf_find(g, "token_embd.weight")->type, 30);
    assert_int_equal(get_u32(g, "general.file_type"), 32);
    llm_gguf_close(g);
    /* Rows of 8 are no blocks. */
    g = converted(tmp.dir, CLV_DTYPE_Q8_0);
    assert_int_equal(llm_gguf_find(g, "token_embd.weight")->type, 1);
    assert_int_equal(get_u32(g, "general.file_type"), 7);
    assert_int_equal(get_u32(g, "general.quantization_version"), 2);
    llm_gguf_close(g);
}

/* ------------------------------------------------------------------------ */
/* Settings                                                                 */

static void same_settings(const llm_hparams *a, const llm_hparams *b)
{
    assert_ptr_equal(a->arch, b->arch);
    assert_string_equal(a->name, b->name);
    assert_int_equal(a->n_layers, b->n_layers);
    assert_int_equal(a->n_embd, b->n_embd);
    assert_int_equal(a->n_ff, b->n_ff);
    assert_int_equal(a->n_vocab, b->n_vocab);
    assert_int_equal(a->n_heads, b->n_heads);
    assert_int_equal(a->n_kv_heads, b->n_kv_heads);
    assert_int_equal(a->head_dim, b->head_dim);
    assert_int_equal(a->n_ctx_train, b->n_ctx_train);
    assert_int_equal(a->sliding_window, b->sliding_window);
    assert_true(a->norm_eps == b->norm_eps);
    assert_int_equal(a->rope_dim, b->rope_dim);
    assert_true(a->rope_base == b->rope_base);
    assert_int_equal(a->bos, b->bos);
    assert_int_equal(a->eos, b->eos);
}

static void settings(void **state)
{
    (void)state;
    static const tiny_options cases[] = {
        {.config = ""},
        {.tied = true,
         .config = ",\"rms_norm_eps\":1e-5,\"max_position_embeddings\":64,"
                   "\"bos_token_id\":1,\"eos_token_id\":2"},
        {.architecture = "MistralForCausalLM",
         .config = ",\"sliding_window\":16,\"rope_theta\":1e6"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tiny_write(&tmp, &cases[i]);
        llm_gguf_close(converted(tmp.dir, CLV_DTYPE_F16));
        llm_source *a = opened(tmp.dir);
        llm_source *b = opened(temp_path(&tmp, "out.gguf"));
        same_settings(&a->hparams, &b->hparams);
        assert_int_equal(a->hparams.rope_mode, CLV_ROPE_HALVES);
        assert_int_equal(b->hparams.rope_mode, CLV_ROPE_PAIRS);
        clv_tokenizer *tok = (clv_tokenizer *)&tmp;
        assert_int_equal(b->tokenizer(b, &tok), CLV_OK);
        assert_null(tok);
        llm_source_destroy(a);
        llm_source_destroy(b);
    }
}

static void linear_scaling(void **state)
{
    (void)state;
    tiny_write(&tmp, &(tiny_options){
                         .config = ",\"rope_scaling\":{\"type\":\"linear\","
                                   "\"factor\":2.5}"});
    llm_gguf_close(converted(tmp.dir, CLV_DTYPE_NONE));
    llm_source *s = opened(temp_path(&tmp, "out.gguf"));
    assert_int_equal(s->hparams.rope_scaling, LLM_ROPE_LINEAR);
    assert_true(s->hparams.rope_factor == 2.5f);
    llm_source_destroy(s);
}

/* Base 500000 and 4 channels: wavelengths 6.28 and 4443. The first stays; in a
 * context of 2000 the second makes less than one cycle and is divided by the
 * whole factor, in one of 8192 it makes 1.84 and is between the bounds. */
static void llama3_scaling(void **state)
{
    (void)state;
    const struct {
        int context;
        double divisor;
    } cases[] = {
        {2000, 8},
        {8192, 0},
    };
    for (int i = 0; i < 2; i++) {
        char config[256];
        snprintf(config, sizeof config,
                 ",\"rope_theta\":500000,\"rope_scaling\":{"
                 "\"rope_type\":\"llama3\",\"factor\":8,\"low_freq_factor\":1,"
                 "\"high_freq_factor\":4,"
                 "\"original_max_position_embeddings\":%d}",
                 cases[i].context);
        tiny_write(&tmp, &(tiny_options){.config = config});
        llm_gguf *g = converted(tmp.dir, CLV_DTYPE_F16);
        const llm_gguf_tensor *t = llm_gguf_find(g, "rope_freqs.weight");
        assert_non_null(t);
        assert_int_equal(t->type, 0);
        assert_int_equal(t->rank, 1);
        assert_int_equal(t->dims[0], TINY_HEAD / 2);
        float divisors[2];
        memcpy(divisors, t->data, sizeof divisors);
        double expected = cases[i].divisor;
        if (expected == 0) {
            double wavelength = 2 * M_PI * sqrt(500000);
            double smooth = (cases[i].context / wavelength - 1) / (4 - 1);
            expected = 1 / ((1 - smooth) / 8 + smooth);
            assert_true(smooth > 0 && smooth < 1);
        }
        assert_true(divisors[0] == 1);
        assert_true(fabs(divisors[1] / expected - 1) < 1e-5);
        llm_gguf_close(g);
        llm_source *s = opened(temp_path(&tmp, "out.gguf"));
        assert_int_equal(s->hparams.rope_scaling, LLM_ROPE_NONE);
        llm_source_destroy(s);
    }
}

/* ------------------------------------------------------------------------ */
/* Tokenizers                                                               */

static void put_json(bytes *b, const char *data, size_t size)
{
    put_text(b, "\"");
    for (size_t i = 0; i < size; i++) {
        char text[8];
        uint8_t c = (uint8_t)data[i];
        snprintf(text, sizeof text, "\\u%04x", c);
        if (c < 32 || c == '"' || c == '\\')
            put_text(b, text);
        else
            put(b, &c, 1);
    }
    put_text(b, "\"");
}

/* The tokenizer of dir, and its form in a GGUF file of n_vocab ids. */
static void through_gguf(const char *dir, uint32_t n_vocab,
                         clv_tokenizer **before, clv_tokenizer **after)
{
    llm_gguf_writer *w;
    llm_gguf *g;
    const char *path = temp_path(&tmp, "vocab.gguf");
    if (llm_tokenizer_from_dir(dir, before))
        fail_msg("%s", clv_last_error());
    assert_int_equal(llm_gguf_writer_create(&w), CLV_OK);
    if (llm_convert_tokenizer(*before, dir, n_vocab, w))
        fail_msg("%s", clv_last_error());
    assert_int_equal(llm_gguf_writer_open(w, path, NULL), CLV_OK);
    assert_int_equal(llm_gguf_writer_commit(w), CLV_OK);
    llm_gguf_writer_destroy(w);
    assert_int_equal(llm_gguf_open(path, &g), CLV_OK);
    if (llm_tokenizer_from_gguf(g, after))
        fail_msg("%s", clv_last_error());
    llm_gguf_close(g);
}

static void same_ids(const clv_tokenizer *a, const clv_tokenizer *b,
                     const char *text, uint64_t size)
{
    int32_t *x, *y;
    uint64_t n, m;
    const uint32_t flags = CLV_TOKENIZE_BOS | CLV_TOKENIZE_SPECIAL;
    assert_int_equal(clv_tokenize(a, text, size, flags, &x, &n), CLV_OK);
    assert_int_equal(clv_tokenize(b, text, size, flags, &y, &m), CLV_OK);
    assert_int_equal(n, m);
    assert_memory_equal(x, y, n * sizeof *x);
    clv_tokens_free(x);
    clv_tokens_free(y);
}

static const char *const texts[] = {
    "",
    " ",
    "Hello, world!",
    "  two  spaces ",
    "def f(x):\n    return x\n",
    "\t tabs\r\n\r\n",
    "caf\u00e9 na\u00efve \u4f60\u597d \U0001f600",
    "3.14159 1000000",
    "it's we'll they'd",
    "<|endoftext|>after",
    "a\x01\x7f b",
};

static void same_tokenizer(const char *dir, uint32_t n_vocab)
{
    clv_tokenizer *a, *b;
    through_gguf(dir, n_vocab, &a, &b);
    clv_tokenizer_info x = clv_tokenizer_describe(a);
    clv_tokenizer_info y = clv_tokenizer_describe(b);
    assert_string_equal(x.kind, y.kind);
    assert_int_equal(y.n_vocab, n_vocab);
    assert_int_equal(x.bos, y.bos);
    assert_int_equal(x.eos, y.eos);
    assert_int_equal(x.unk, y.unk);
    assert_int_equal(x.pad, y.pad);
    assert_int_equal(x.add_bos, y.add_bos);
    for (uint32_t id = 0; id < x.n_vocab; id++) {
        uint32_t n, m;
        const char *p = clv_token_bytes(a, (int32_t)id, &n);
        const char *q = clv_token_bytes(b, (int32_t)id, &m);
        assert_int_equal(n, m);
        assert_memory_equal(p, q, n);
        assert_int_equal(clv_token_is_end(a, (int32_t)id),
                         clv_token_is_end(b, (int32_t)id));
    }
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        same_ids(a, b, texts[i], strlen(texts[i]));
    const char *path = shared_path(&tmp, "text/heldout.txt");
    FILE *f = path ? fopen(path, "rb") : NULL;
    if (f) {
        static char text[65536];
        same_ids(a, b, text, fread(text, 1, sizeof text, f));
        fclose(f);
    }
    clv_tokenizer_destroy(a);
    clv_tokenizer_destroy(b);
}

static void byte_level(void **state)
{
    (void)state;
    const char *dir = shared_path(&tmp, "models/nano");
    if (!dir)
        skip();
    same_tokenizer(dir, 8192);
    same_tokenizer(dir, 8200); /* an embedding with spare rows */
    same_tokenizer(shared_path(&tmp, "models/pico"), 16384);
}

/* A SentencePiece vocabulary as tokenizer.json has it: every pair that makes a
 * token is a merge, in the order of the tokens' scores. */
static bytes spm_json(const llm_gguf *g, bool all_pairs)
{
    llm_str *tokens;
    uint64_t n, twice;
    llm_gguf_array types;
    bytes b = {0};
    assert_int_equal(
        llm_gguf_get_strings(g, "tokenizer.ggml.tokens", &tokens, &n), CLV_OK);
    assert_int_equal(llm_gguf_get_ints(g, "tokenizer.ggml.token_type", &types),
                     CLV_OK);
    llm_name *names = calloc(n, sizeof *names);
    for (uint64_t i = 0; i < n; i++)
        names[i] = (llm_name){tokens[i], i};
    assert_true(llm_names_sort(names, n, &twice));

    put_text(&b, "{\"added_tokens\":["
                 "{\"id\":0,\"content\":\"<unk>\",\"special\":true},"
                 "{\"id\":1,\"content\":\"<s>\",\"special\":true},"
                 "{\"id\":2,\"content\":\"</s>\",\"special\":true}],"
                 "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":["
                 "{\"type\":\"Prepend\",\"prepend\":\"\u2581\"},"
                 "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},"
                 "\"content\":\"\u2581\"}]},\"pre_tokenizer\":null,"
                 "\"model\":{\"type\":\"BPE\",\"unk_token\":\"<unk>\","
                 "\"fuse_unk\":true,\"byte_fallback\":true,\"vocab\":{");
    for (uint64_t i = 0; i < n; i++) {
        char id[24];
        put_text(&b, i ? "," : "");
        put_json(&b, tokens[i].data, tokens[i].size);
        snprintf(id, sizeof id, ":%d", (int)i);
        put_text(&b, id);
    }
    put_text(&b, "},\"merges\":[");
    bool first = true;
    for (uint64_t i = 0; i < n; i++) {
        if (llm_gguf_item_int(&types, i) != 1)
            continue;
        for (uint64_t cut = 1; cut < tokens[i].size; cut++) {
            llm_str left = {tokens[i].data, cut};
            llm_str right = {tokens[i].data + cut, tokens[i].size - cut};
            if (!llm_names_find(names, n, left) ||
                !llm_names_find(names, n, right))
                continue;
            put_text(&b, first ? "[" : ",[");
            put_json(&b, left.data, left.size);
            put_text(&b, ",");
            put_json(&b, right.data, right.size);
            put_text(&b, "]");
            first = false;
            if (!all_pairs)
                break;
        }
    }
    put_text(&b, "]}}");
    free(names);
    free(tokens);
    return b;
}

static void write_config(void)
{
    temp_write_text(&tmp, "tokenizer_config.json",
                    "{\"bos_token\":\"<s>\",\"eos_token\":\"</s>\","
                    "\"unk_token\":\"<unk>\",\"add_bos_token\":true,"
                    "\"chat_template\":\"{{ x }}\"}");
}

static void sentencepiece(void **state)
{
    (void)state;
    const char *path =
        shared_path(&tmp, "tokenizers/ggml-vocab-llama-spm.gguf");
    if (!path)
        skip();
    llm_gguf *g;
    assert_int_equal(llm_gguf_open(path, &g), CLV_OK);
    bytes b = spm_json(g, true);
    temp_write(&tmp, "tokenizer.json", b.data, b.size);
    bytes_free(&b);
    write_config();
    same_tokenizer(tmp.dir, 32000);

    llm_gguf *out;
    llm_str s;
    assert_int_equal(llm_gguf_open(temp_path(&tmp, "vocab.gguf"), &out),
                     CLV_OK);
    assert_int_equal(llm_gguf_get_str(out, "tokenizer.ggml.model", &s), CLV_OK);
    assert_true(llm_str_equal(s, llm_str_of("llama")));
    assert_int_equal(llm_gguf_get_str(out, "tokenizer.chat_template", &s),
                     CLV_OK);
    assert_true(llm_str_equal(s, llm_str_of("{{ x }}")));
    llm_gguf_array x, y;
    assert_int_equal(llm_gguf_get_ints(out, "tokenizer.ggml.token_type", &x),
                     CLV_OK);
    assert_int_equal(llm_gguf_get_ints(g, "tokenizer.ggml.token_type", &y),
                     CLV_OK);
    for (uint64_t i = 0; i < y.count; i++)
        assert_int_equal(llm_gguf_item_int(&x, i), llm_gguf_item_int(&y, i));
    llm_gguf_close(out);

    /* Scores cannot express that some pairs do not merge. */
    b = spm_json(g, false);
    temp_write(&tmp, "tokenizer.json", b.data, b.size);
    bytes_free(&b);
    clv_tokenizer *tok;
    llm_gguf_writer *w;
    assert_int_equal(llm_tokenizer_from_dir(tmp.dir, &tok), CLV_OK);
    assert_int_equal(llm_gguf_writer_create(&w), CLV_OK);
    assert_int_equal(llm_convert_tokenizer(tok, tmp.dir, 32000, w),
                     CLV_ERR_UNSUPPORTED);
    assert_message("pairs");
    llm_gguf_writer_destroy(w);
    clv_tokenizer_destroy(tok);
    llm_gguf_close(g);
    unlink(temp_path(&tmp, "tokenizer.json"));
    unlink(temp_path(&tmp, "tokenizer_config.json"));
}

#define BPE(pre)                                                               \
    "{\"normalizer\":null,\"pre_tokenizer\":" pre ",\"model\":{"               \
    "\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},"                   \
    "\"merges\":[\"a b\"]}}"

static void splits(void **state)
{
    (void)state;
    const struct {
        const char *json, *pre; /* NULL: refused */
    } cases[] = {
        {BPE("{\"type\":\"ByteLevel\",\"add_prefix_space\":false}"), "gpt-2"},
        {BPE("{\"type\":\"Sequence\",\"pretokenizers\":["
             "{\"type\":\"Digits\",\"individual_digits\":true},"
             "{\"type\":\"ByteLevel\",\"add_prefix_space\":false}]}"),
         "starcoder"},
        {BPE("{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\","
             "\"pattern\":{\"Regex\":\"(?i:'s|'t|'re|'ve|'m|'ll|'d)|"
             "[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}| "
             "?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|"
             "\\\\s+(?!\\\\S)|\\\\s+\"},\"behavior\":\"Isolated\"},"
             "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,"
             "\"use_regex\":false}]}"),
         "qwen2"},
        {BPE("{\"type\":\"ByteLevel\",\"add_prefix_space\":true}"), NULL},
        {BPE("{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\","
             "\"pattern\":{\"Regex\":\"x+\"},\"behavior\":\"Isolated\"},"
             "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,"
             "\"use_regex\":false}]}"),
         NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tiny_write(&tmp, &(tiny_options){.tied = true});
        temp_write_text(&tmp, "tokenizer.json", cases[i].json);
        const char *out = temp_path(&tmp, "split.gguf");
        clv_status status = clv_convert(tmp.dir, out, NULL);
        if (!cases[i].pre) {
            assert_int_equal(status, CLV_ERR_UNSUPPORTED);
            assert_message("has no name in GGUF");
            assert_int_not_equal(access(out, F_OK), 0);
            continue;
        }
        if (status)
            fail_msg("%s", clv_last_error());
        llm_gguf *g;
        llm_str pre;
        assert_int_equal(llm_gguf_open(out, &g), CLV_OK);
        assert_int_equal(llm_gguf_get_str(g, "tokenizer.ggml.pre", &pre),
                         CLV_OK);
        if (!llm_str_equal(pre, llm_str_of(cases[i].pre)))
            fail_msg("%s", llm_str_show(pre).text);
        llm_str *tokens;
        uint64_t n;
        assert_int_equal(
            llm_gguf_get_strings(g, "tokenizer.ggml.tokens", &tokens, &n),
            CLV_OK);
        assert_int_equal(n, TINY_VOCAB);
        assert_true(llm_str_equal(tokens[9], llm_str_of("[PAD9]")));
        free(tokens);
        llm_gguf_close(g);
        unlink(out);
    }
    unlink(temp_path(&tmp, "tokenizer.json"));
}

/* ------------------------------------------------------------------------ */

static int cancel(void *ctx, const char *what, double fraction)
{
    (void)what;
    (void)fraction;
    return ++*(int *)ctx == 3;
}

static void refuses(void **state)
{
    (void)state;
    const char *out = temp_path(&tmp, "never.gguf");
    int calls = 0;
    clv_convert_params params = {.progress = cancel, .progress_ctx = &calls};
    tiny_write(&tmp, &(tiny_options){0});
    assert_int_equal(clv_convert(tmp.dir, out, &params), CLV_ERR_CANCELLED);
    params = (clv_convert_params){.type = "i32"};
    assert_int_equal(clv_convert(tmp.dir, out, &params), CLV_ERR_UNSUPPORTED);
    assert_message("Q4_K_M");
    params.type = "w8a8";
    assert_int_equal(clv_convert(tmp.dir, out, &params), CLV_ERR_UNSUPPORTED);
    assert_message("quantize");
    assert_int_equal(clv_convert(NULL, out, NULL), CLV_ERR_INVALID);
    temp_write_text(&tmp, "tokenizer.model", "x");
    assert_int_equal(clv_convert(tmp.dir, out, NULL), CLV_ERR_FORMAT);
    assert_message("tokenizer.model");
    unlink(temp_path(&tmp, "tokenizer.model"));
    temp_write_text(&tmp, "tokenizer.json",
                    "{\"pre_tokenizer\":{\"type\":\"ByteLevel\","
                    "\"add_prefix_space\":false},\"model\":{\"type\":\"BPE\","
                    "\"vocab\":{\"a\":11},\"merges\":[]}}");
    assert_int_equal(clv_convert(tmp.dir, out, NULL), CLV_ERR_FORMAT);
    assert_message("12 tokens, its embedding 10 rows");
    unlink(temp_path(&tmp, "tokenizer.json"));
    assert_int_not_equal(access(out, F_OK), 0);
}

/* The published pair of files: both forms of one model. */
static void nano(void **state)
{
    (void)state;
    const char *path = shared_path(&tmp, "models/nano-f16.gguf");
    if (!path)
        skip();
    llm_gguf *expected,
        *g = converted(shared_path(&tmp, "models/nano"), CLV_DTYPE_F16);
    assert_int_equal(llm_gguf_open(path, &expected), CLV_OK);
    uint64_t n = llm_gguf_tensor_count(expected);
    assert_int_equal(llm_gguf_tensor_count(g), n);
    for (uint64_t i = 0; i < n; i++) {
        const llm_gguf_tensor *x = llm_gguf_tensor_at(expected, i);
        const llm_gguf_tensor *y = llm_gguf_tensor_at(g, i);
        assert_true(llm_str_equal(x->name, y->name));
        assert_int_equal(x->type, y->type);
        assert_int_equal(x->rank, y->rank);
        assert_memory_equal(x->dims, y->dims, sizeof x->dims);
        assert_memory_equal(x->data, y->data, x->size);
    }
    for (uint64_t i = 0; i < llm_gguf_kv_count(expected); i++) {
        const llm_gguf_kv *x = llm_gguf_kv_at(expected, i), *y = NULL;
        for (uint64_t j = 0; j < llm_gguf_kv_count(g) && !y; j++)
            if (llm_str_equal(x->key, llm_gguf_kv_at(g, j)->key))
                y = llm_gguf_kv_at(g, j);
        if (!y || x->type != y->type || x->size != y->size ||
            memcmp(x->data, y->data, x->size))
            fail_msg("key '%s' differs", llm_str_show(x->key).text);
    }
    llm_gguf_close(expected);
    llm_gguf_close(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensors),        cmocka_unit_test(other_types),
        cmocka_unit_test(settings),       cmocka_unit_test(linear_scaling),
        cmocka_unit_test(llama3_scaling), cmocka_unit_test(byte_level),
        cmocka_unit_test(sentencepiece),  cmocka_unit_test(splits),
        cmocka_unit_test(refuses),        cmocka_unit_test(nano),
    };
    return cmocka_run_group_tests_name("convert", tests, make_temp,
                                       remove_temp);
}
