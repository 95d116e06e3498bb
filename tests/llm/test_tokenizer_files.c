/* Published vocabularies give the published ids, and decoding them the text. */
#include "base/random.h"
#include "tokens.h"

#include <dirent.h>

static temp tmp;

static int start(void **state)
{
    (void)state;
    temp_init(&tmp);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    temp_finish(&tmp);
    return 0;
}

static clv_tokenizer *load(const char *path)
{
    clv_tokenizer *tok;
    assert_ok(clv_tokenizer_load(path, &tok));
    return tok;
}

/* All vocabularies; returns their number. */
static int for_each_vocabulary(void (*check)(const clv_tokenizer *tok,
                                             const char *path))
{
    static const char *const others[] = {"models/nano", "models/pico",
                                         "models/nano-f16.gguf"};
    const char *dir = shared_path(&tmp, "tokenizers");
    char path[512];
    int n = 0;
    if (!dir)
        skip();
    DIR *list = opendir(dir);
    assert_non_null(list);
    for (struct dirent *entry; (entry = readdir(list));) {
        size_t length = strlen(entry->d_name);
        if (length < 5 || strcmp(entry->d_name + length - 5, ".gguf"))
            continue;
        snprintf(path, sizeof path, "%s/%s", dir, entry->d_name);
        clv_tokenizer *tok = load(path);
        check(tok, path);
        clv_tokenizer_destroy(tok);
        n++;
    }
    closedir(list);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        const char *other = shared_path(&tmp, others[i]);
        if (!other)
            continue;
        clv_tokenizer *tok = load(other);
        check(tok, other);
        clv_tokenizer_destroy(tok);
        n++;
    }
    return n;
}

/* ------------------------------------------------------------------------ */

#define SEPARATOR "\n__ggml_vocab_test__\n"

static int n_cases;

static void check_cases(const clv_tokenizer *tok, const char *path)
{
    char name[600];
    snprintf(name, sizeof name, "%s.inp", path);
    if (access(name, F_OK))
        return;
    text_file in = read_text(name);
    snprintf(name, sizeof name, "%s.out", path);
    text_file out = read_text(name);
    const char *at = in.data, *end = in.data + in.size;
    const char *line = out.data, *last = out.data + out.size;
    while (line < last) {
        const char *next =
            memmem(at, (size_t)(end - at), SEPARATOR, strlen(SEPARATOR));
        const char *eol = memchr(line, '\n', (size_t)(last - line));
        assert_non_null(eol);
        if (!next)
            next = end;
        char *ids = encode(tok, at, (uint64_t)(next - at), 0);
        const char *expected = line + (*line == ' ');
        if (strlen(ids) != (size_t)(eol - expected) ||
            memcmp(ids, expected, strlen(ids)))
            fail_msg("%s: '%.*s' gives %s, not %.*s", path, (int)(next - at),
                     at, ids, (int)(eol - expected), expected);
        free(ids);
        check_round_trip(tok, at, (uint64_t)(next - at));
        n_cases++;
        line = eol + 1;
        at = next == end ? end : next + strlen(SEPARATOR);
    }
    free(in.data);
    free(out.data);
}

static void published_ids(void **state)
{
    (void)state;
    n_cases = 0;
    assert_true(for_each_vocabulary(check_cases) >= 4);
    assert_true(n_cases >= 4 * 46);
}

/* ------------------------------------------------------------------------ */

static text_file held_out;

static void check_cuts(const clv_tokenizer *tok, const char *path)
{
    llm_random random;
    llm_random_seed(&random, 7);
    (void)path;
    check_round_trip(tok, held_out.data, held_out.size);
    for (int i = 0; i < 60; i++) {
        uint64_t from = llm_random_next(&random) % held_out.size;
        uint64_t size = llm_random_next(&random) % 3000;
        if (size > held_out.size - from)
            size = held_out.size - from;
        check_round_trip(tok, held_out.data + from, size);
    }
}

static void held_out_text(void **state)
{
    (void)state;
    const char *path = shared_path(&tmp, "text/heldout.txt");
    if (!path)
        skip();
    held_out = read_text(path);
    for_each_vocabulary(check_cuts);
    free(held_out.data);
}

static void json_as_gguf(void **state)
{
    (void)state;
    static const char *const pairs[][2] = {
        {"models/nano", "models/nano-f16.gguf"},
        {"models/pico/tokenizer.json", "models/pico/pico-f16.gguf"}};
    for (int i = 0; i < 2; i++) {
        const char *json = shared_path(&tmp, pairs[i][0]);
        const char *gguf = shared_path(&tmp, pairs[i][1]);
        const char *path = shared_path(&tmp, "text/heldout.txt");
        if (!json || !gguf || !path)
            skip();
        clv_tokenizer *a = load(json), *b = load(gguf);
        text_file t = read_text(path);
        char *x = encode(a, t.data, t.size, CLV_TOKENIZE_BOS);
        char *y = encode(b, t.data, t.size, CLV_TOKENIZE_BOS);
        assert_string_equal(x, y);
        clv_tokenizer_info p = clv_tokenizer_describe(a);
        clv_tokenizer_info q = clv_tokenizer_describe(b);
        assert_string_equal(p.kind, "bpe");
        assert_int_equal(p.n_vocab, q.n_vocab);
        assert_int_equal(p.bos, q.bos);
        assert_int_equal(p.eos, q.eos);
        assert_true(clv_token_is_end(a, p.eos) && clv_token_is_end(b, q.eos));
        free(x);
        free(y);
        free(t.data);
        clv_tokenizer_destroy(a);
        clv_tokenizer_destroy(b);
    }
}

/* ------------------------------------------------------------------------ */

/* The ids of a text of n bytes: one unit repeated and then an end. */
static void check_run(const clv_tokenizer *tok, const char *unit,
                      const char *end, uint64_t n)
{
    uint64_t size = strlen(unit), times = n / size;
    char *run = malloc(times * size + strlen(end) + 1);
    for (uint64_t i = 0; i < times; i++)
        memcpy(run + i * size, unit, size);
    strcpy(run + times * size, end);
    check_round_trip(tok, run, strlen(run));
    free(run);
}

static void check_runs(const clv_tokenizer *tok, const char *path)
{
    /* A megabyte for one of each kind. */
    bool full = strstr(path, "gpt-2") || strstr(path, "llama-spm");
    const uint64_t n = full ? 1 << 20 : 1 << 16;
    check_run(tok, "a", "", n);
    check_run(tok, " ", "", n);
    check_run(tok, " ", "7", n);
    check_run(tok, "\n ", "x", n);
    check_run(tok, "\u6211", "", n / 4);
}

/* Only O(n log n) finishes in time here. */
static void long_runs(void **state)
{
    (void)state;
    for_each_vocabulary(check_runs);
}

static void check_noise(const clv_tokenizer *tok, const char *path)
{
    llm_random random;
    llm_random_seed(&random, 3);
    /* This one has no token for bytes that no UTF-8 holds. */
    bool partial = strstr(path, "deepseek") != NULL;
    for (int i = 0; i < 200; i++) {
        char noise[200];
        uint64_t n = llm_random_next(&random) % sizeof noise;
        for (uint64_t k = 0; k < n; k++)
            noise[k] = (char)(llm_random_next(&random) >> 20);
        if (!partial) {
            check_round_trip(tok, noise, n);
            continue;
        }
        free(encode(tok, noise, n, CLV_TOKENIZE_SPECIAL));
    }
}

static void random_bytes(void **state)
{
    (void)state;
    for_each_vocabulary(check_noise);
}

/* ------------------------------------------------------------------------ */

static void special_tokens(void **state)
{
    (void)state;
    const char *phi3 = shared_path(&tmp, "tokenizers/ggml-vocab-phi-3.gguf");
    const char *gpt2 = shared_path(&tmp, "tokenizers/ggml-vocab-gpt-2.gguf");
    if (!phi3 || !gpt2)
        skip();
    clv_tokenizer *tok = load(phi3);
    clv_tokenizer_info info = clv_tokenizer_describe(tok);
    assert_string_equal(info.kind, "spm");
    assert_int_equal(info.n_vocab, 32064);
    assert_int_equal(info.bos, 1);
    assert_int_equal(info.eos, 32000);
    assert_int_equal(info.unk, 0);
    assert_int_equal(info.pad, 32000);
    assert_true(info.add_bos);
    /* <|user|> and <|end|> include the white space after them, <s> does not. */
    check_ids(tok, "<|user|>\n Hello<|end|> \nHello", CLV_TOKENIZE_SPECIAL,
              "32010 15043 32007 15043");
    check_ids(tok, "<s> Hello", CLV_TOKENIZE_SPECIAL, "1 29871 15043");
    check_ids(tok, "Hello", CLV_TOKENIZE_BOS, "1 15043");
    check_ids(tok, "", CLV_TOKENIZE_BOS, "1");
    check_ids(tok, "", 0, "");
    /* A user-defined token is one in any text, a control token is not. */
    check_ids(tok, "Hello</s>", 0, "15043 2");
    check_round_trip(tok, "<|user|><s><unk>Hello<0x0A>", 27);
    assert_true(clv_token_is_end(tok, 32000));
    assert_true(clv_token_is_end(tok, 32007));
    assert_true(clv_token_is_end(tok, 2));
    assert_false(clv_token_is_end(tok, 32010));
    assert_false(clv_token_is_end(tok, 15043));
    assert_false(clv_token_is_end(tok, -1));
    assert_false(clv_token_is_end(tok, 32064));
    uint32_t length = 1;
    clv_token_bytes(tok, 32010, &length);
    assert_int_equal(length, 0);
    clv_token_bytes(tok, 32064, &length);
    assert_int_equal(length, 0);
    assert_memory_equal(clv_token_bytes(tok, 15043, &length), " Hello", 6);
    assert_int_equal(length, 6);
    const int32_t ids[] = {1, 15043, 32007, 15043, 3186};
    char *back;
    uint64_t n;
    assert_ok(clv_detokenize(tok, ids, 5, true, &back, &n));
    assert_string_equal(back, "<s>Hello<|end|>Hello world");
    clv_string_free(back);
    assert_ok(clv_detokenize(tok, ids, 5, false, &back, &n));
    assert_string_equal(back, "HelloHello world");
    clv_string_free(back);
    assert_fails(clv_detokenize(tok, (int32_t[]){32064}, 1, false, &back, &n),
                 CLV_ERR_INVALID, "32064");
    clv_tokenizer_destroy(tok);

    tok = load(gpt2);
    check_ids(tok, "Hello<|endoftext|>Hello", CLV_TOKENIZE_SPECIAL,
              "15496 50256 15496");
    check_ids(tok, "<|endoftext|>", 0, "27 91 437 1659 5239 91 29");
    assert_true(clv_token_is_end(tok, 50256));
    clv_tokenizer_destroy(tok);
}

static void missing_files(void **state)
{
    (void)state;
    clv_tokenizer *tok = (clv_tokenizer *)state;
    assert_fails(clv_tokenizer_load(temp_path(&tmp, "none"), &tok),
                 CLV_ERR_NOT_FOUND, "none");
    assert_null(tok);
    assert_fails(clv_tokenizer_load(tmp.dir, &tok), CLV_ERR_NOT_FOUND,
                 "tokenizer.json");
    const char *path = temp_write_text(&tmp, "empty", "");
    assert_fails(clv_tokenizer_load(path, &tok), CLV_ERR_FORMAT, "empty");
    path = temp_write_text(&tmp, "cut.gguf", "GGUF");
    assert_fails(clv_tokenizer_load(path, &tok), CLV_ERR_FORMAT, "cut.gguf");
    clv_tokenizer_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_ids), cmocka_unit_test(held_out_text),
        cmocka_unit_test(json_as_gguf),  cmocka_unit_test(long_runs),
        cmocka_unit_test(random_bytes),  cmocka_unit_test(special_tokens),
        cmocka_unit_test(missing_files),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
