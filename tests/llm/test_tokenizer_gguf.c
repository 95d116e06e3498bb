/* Tokenizers of GGUF files made here, sound and broken. */
#include "files/gguf_kv.h"
#include "tokenizer/gguf.h"
#include "tokens.h"

#include <math.h>

typedef struct item {
    const char *text;
    float score;
    int32_t type;
} item;

static const item spm_items[] = {
    {"<unk>", 0, 2},      {"<s>", 0, 3},      {"</s>", 0, 3}, {"<0x41>", 0, 6},
    {"a", -10, 1},        {"b", -11, 1},      {"ab", -3, 1},  {"ba", -2, 1},
    {"\u2581", -9, 1},    {"\u2581a", -4, 1}, {"<x>", 0, 4},  {"aba", -1, 1},
    {"<|im_end|>", 0, 3},
};
static const item bpe_items[] = {
    {"a", 0, 1},       {"b", 0, 1},   {"\u0120", 0, 1}, {"ab", 0, 1},
    {"\u0120a", 0, 1}, {"<e>", 0, 3}, {"  ", 0, 4},     {"\u010a", 0, 1},
};
enum {
    N_SPM = sizeof spm_items / sizeof *spm_items,
    N_BPE = sizeof bpe_items / sizeof *bpe_items
};

static uint64_t n_kv;

static void key(bytes *b, const char *name, uint32_t type)
{
    char full[64];
    snprintf(full, sizeof full, "tokenizer.ggml.%s", name);
    put_key(b, full, type);
    n_kv++;
}

static void put_array(bytes *b, const char *name, uint32_t type, uint64_t n)
{
    key(b, name, LLM_GGUF_ARRAY);
    put_u32(b, type);
    put_u64(b, n);
}

static void put_setting(bytes *b, const char *name, const char *value)
{
    key(b, name, LLM_GGUF_STRING);
    put_string(b, value);
}

static void put_id(bytes *b, const char *name, uint32_t id)
{
    key(b, name, LLM_GGUF_U32);
    put_u32(b, id);
}

static void put_flag(bytes *b, const char *name, bool value)
{
    key(b, name, LLM_GGUF_BOOL);
    put(b, &value, 1);
}

static void put_items(bytes *b, const item *items, uint64_t n)
{
    put_array(b, "tokens", LLM_GGUF_STRING, n);
    for (uint64_t i = 0; i < n; i++)
        put_string(b, items[i].text);
    put_array(b, "token_type", LLM_GGUF_I32, n);
    for (uint64_t i = 0; i < n; i++)
        put(b, &items[i].type, 4);
}

static void put_scores(bytes *b, const item *items, uint64_t n)
{
    put_array(b, "scores", LLM_GGUF_F32, n);
    for (uint64_t i = 0; i < n; i++)
        put_f32(b, items[i].score);
}

static void put_merges(bytes *b, const char *const *merges, uint64_t n)
{
    put_array(b, "merges", LLM_GGUF_STRING, n);
    for (uint64_t i = 0; i < n; i++)
        put_string(b, merges[i]);
}

static bytes spm(void)
{
    bytes b = {0};
    n_kv = 0;
    put_setting(&b, "model", "llama");
    put_items(&b, spm_items, N_SPM);
    put_scores(&b, spm_items, N_SPM);
    return b;
}

static const char *const bpe_merges[] = {"\u0120 a", "a b", "a missing"};

static bytes bpe(uint64_t n_merges)
{
    bytes b = {0};
    n_kv = 0;
    put_setting(&b, "model", "gpt2");
    put_items(&b, bpe_items, N_BPE);
    put_merges(&b, bpe_merges, n_merges);
    return b;
}

/* Frees the settings. */
static clv_status load(bytes *settings, clv_tokenizer **tok)
{
    bytes b = {0};
    llm_gguf *gguf;
    put_gguf_head(&b, 0, n_kv);
    put(&b, settings->data, settings->size);
    put_alignment(&b, 32);
    bytes_free(settings);
    assert_ok(llm_gguf_open_memory(b.data, b.size, "t.gguf", &gguf));
    clv_status status = llm_tokenizer_from_gguf(gguf, tok);
    llm_gguf_close(gguf);
    bytes_free(&b);
    return status;
}

static void sentencepiece(void **state)
{
    (void)state;
    bytes b = spm();
    clv_tokenizer *tok;
    assert_ok(load(&b, &tok));
    clv_tokenizer_info info = clv_tokenizer_describe(tok);
    assert_string_equal(info.kind, "spm");
    assert_int_equal(info.n_vocab, N_SPM);
    assert_int_equal(info.bos, 1);
    assert_int_equal(info.eos, 2);
    assert_int_equal(info.unk, 0);
    assert_int_equal(info.pad, -1);
    assert_true(info.add_bos);
    check_ids(tok, "aba", 0, "8 11"); /* ba first, then a with it */
    check_ids(tok, "ab", 0, "8 6");
    check_ids(tok, "a", 0, "9");
    check_ids(tok, "Aa", 0, "8 3 4");
    check_ids(tok, "c\u00e9", 0, "8 0 0");
    check_ids(tok, "a<x>a", 0, "9 10 9");
    check_ids(tok, "a<s>a", CLV_TOKENIZE_SPECIAL, "9 1 9");
    check_ids(tok, "<0x41>", 0, "8 0 0 0 0 0 0");
    check_round_trip(tok, " a ba  ab", 9);
    assert_true(clv_token_is_end(tok, 2));
    assert_true(clv_token_is_end(tok, 12));
    assert_false(clv_token_is_end(tok, 1));
    char *back;
    uint64_t n;
    assert_ok(clv_detokenize(tok, (int32_t[]){9, 10, 9}, 3, false, &back, &n));
    assert_string_equal(back, "a<x>a");
    clv_string_free(back);
    clv_tokenizer_destroy(tok);

    b = spm();
    put_flag(&b, "add_space_prefix", false);
    put_flag(&b, "add_bos_token", false);
    put_id(&b, "eot_token_id", 10);
    assert_ok(load(&b, &tok));
    check_ids(tok, "aba", 0, "11");
    check_ids(tok, "aba", CLV_TOKENIZE_BOS, "1 11");
    check_round_trip(tok, "  a", 3);
    assert_false(clv_tokenizer_describe(tok).add_bos);
    assert_true(clv_token_is_end(tok, 10));
    clv_tokenizer_destroy(tok);
}

static void byte_pairs(void **state)
{
    (void)state;
    bytes b = bpe(3);
    clv_tokenizer *tok;
    put_id(&b, "bos_token_id", 5);
    put_id(&b, "padding_token_id", UINT32_MAX);
    assert_ok(load(&b, &tok));
    clv_tokenizer_info info = clv_tokenizer_describe(tok);
    assert_string_equal(info.kind, "bpe");
    assert_int_equal(info.bos, 5);
    assert_int_equal(info.eos, -1);
    assert_int_equal(info.unk, -1);
    assert_int_equal(info.pad, -1);
    assert_false(info.add_bos);
    check_ids(tok, "ab aba", 0, "3 4 1 0");
    check_ids(tok, "a  b", 0, "0 6 1");
    check_ids(tok, "a\n<e>", CLV_TOKENIZE_SPECIAL | CLV_TOKENIZE_BOS,
              "5 0 7 5");
    check_round_trip(tok, "ab  a\n  b", 9);
    clv_tokenizer_destroy(tok);

    /* ignore_merges of this family takes a whole word. */
    b = bpe(1);
    put_setting(&b, "pre", "llama-bpe");
    put_id(&b, "bos_token_id", 5);
    assert_ok(load(&b, &tok));
    check_ids(tok, "ab", 0, "3");
    assert_true(clv_tokenizer_describe(tok).add_bos);
    clv_tokenizer_destroy(tok);
    b = bpe(1);
    put_setting(&b, "pre", "gpt-2");
    assert_ok(load(&b, &tok));
    check_ids(tok, "ab", 0, "0 1");
    clv_tokenizer_destroy(tok);
}

static void fails(bytes b, clv_status status, const char *text)
{
    clv_tokenizer *tok;
    assert_int_equal(load(&b, &tok), status);
    assert_null(tok);
    if (!strstr(clv_last_error(), text) || !strstr(clv_last_error(), "t.gguf"))
        fail_msg("'%s' is not in '%s'", text, clv_last_error());
}

static void broken(void **state)
{
    (void)state;
    bytes b = {0};
    n_kv = 0;
    fails(b, CLV_ERR_NOT_FOUND, "no tokenizer");
    b = (bytes){0};
    put_setting(&b, "model", "bert");
    put_items(&b, bpe_items, N_BPE);
    fails(b, CLV_ERR_UNSUPPORTED, "bert");
    b = (bytes){0};
    n_kv = 0;
    put_setting(&b, "model", "gpt2");
    fails(b, CLV_ERR_FORMAT, "tokens");
    b = (bytes){0};
    n_kv = 0;
    put_setting(&b, "model", "gpt2");
    put_items(&b, bpe_items, 0);
    fails(b, CLV_ERR_FORMAT, "0 tokens");
    b = (bytes){0};
    n_kv = 0;
    put_setting(&b, "model", "gpt2");
    put_items(&b, bpe_items, N_BPE);
    fails(b, CLV_ERR_FORMAT, "merges");
    b = bpe(2);
    put_setting(&b, "pre", "nobody");
    fails(b, CLV_ERR_UNSUPPORTED, "nobody");
    b = bpe(2);
    put_id(&b, "bos_token_id", N_BPE);
    fails(b, CLV_ERR_FORMAT, "bos_token_id");
    b = bpe(0);
    put_id(&b, "eos_token_id", UINT32_MAX - 1);
    fails(b, CLV_ERR_FORMAT, "eos_token_id");
    b = spm();
    put_array(&b, "merges", LLM_GGUF_U32, 0);
    clv_tokenizer *tok;
    assert_ok(load(&b, &tok)); /* not looked at */
    clv_tokenizer_destroy(tok);
}

static void broken_arrays(void **state)
{
    (void)state;
    static const char *const no_space[] = {"ab"}, *const all_missing[] = {
                                                      "x y"};
    item items[N_SPM];
    bytes b = {0};
    n_kv = 0;
    put_setting(&b, "model", "gpt2");
    put_items(&b, bpe_items, N_BPE);
    put_merges(&b, no_space, 1);
    fails(b, CLV_ERR_FORMAT, "two tokens");
    b = (bytes){0};
    n_kv = 0;
    put_setting(&b, "model", "gpt2");
    put_items(&b, bpe_items, N_BPE);
    put_merges(&b, all_missing, 1);
    fails(b, CLV_ERR_FORMAT, "'x'");
    b = (bytes){0};
    n_kv = 0;
    put_setting(&b, "model", "llama");
    put_items(&b, spm_items, N_SPM);
    fails(b, CLV_ERR_FORMAT, "scores");

    static const struct {
        item item;
        const char *text;
    } cases[] = {
        {{"ab", 0, 1}, "'ab'"}, /* there already */
        {{"z", 0, 7}, "type 7"},         {{"z", 0, -1}, "type -1"},
        {{"<0x4>", 0, 6}, "<0x4>"},      {{"<0xGG>", 0, 6}, "<0xGG>"},
        {{"z", NAN, 1}, "not a number"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        memcpy(items, spm_items, sizeof items);
        items[4] = cases[i].item;
        b = (bytes){0};
        n_kv = 0;
        put_setting(&b, "model", "llama");
        put_items(&b, items, N_SPM);
        put_scores(&b, items, N_SPM);
        fails(b, CLV_ERR_FORMAT, cases[i].text);
    }
    b = (bytes){0};
    n_kv = 0;
    put_setting(&b, "model", "llama");
    put_items(&b, spm_items, N_SPM);
    put_scores(&b, spm_items, N_SPM - 1);
    fails(b, CLV_ERR_FORMAT, "12 entries for 13 tokens");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sentencepiece),
        cmocka_unit_test(byte_pairs),
        cmocka_unit_test(broken),
        cmocka_unit_test(broken_arrays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
