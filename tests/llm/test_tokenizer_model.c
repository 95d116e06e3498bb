/*
 * Unigrams, compared with all ways to divide a text, and SentencePiece's own
 * files, written here byte by byte.
 */
#include "base/random.h"
#include "tokenizer/json.h"
#include "tokenizer/merge.h"
#include "tokenizer/model.h"
#include "tokens.h"

#include <math.h>

enum { LETTERS = 3, MAX_TOKENS = 24, MAX_TEXT = 10 };

static llm_random rng;

static uint32_t below(uint32_t n)
{
    return (uint32_t)(llm_random_next(&rng) % n);
}

/* The highest sum of scores of what is left of a text; a letter without a token
 * counts `unknown`. */
static double best_sum(const llm_vocab *vocab, const char *text, double unknown)
{
    double best = -INFINITY;
    if (!*text)
        return 0;
    for (size_t n = 1; n <= strlen(text); n++) {
        const int32_t id = llm_vocab_find(vocab, text, n);
        if (id < 0 && n > 1)
            continue;
        const double score = id < 0 ? unknown : vocab->tokens[id].score;
        best = fmax(best, score + best_sum(vocab, text + n, unknown));
    }
    return best;
}

static void unigrams(void **state)
{
    (void)state;
    llm_random_seed(&rng, 5);
    for (int round = 0; round < 300; round++) {
        llm_vocab vocab;
        llm_merge_model model = {.order = LLM_MERGE_UNIGRAM, .unknown = 0};
        llm_merge_work work = {0};
        llm_ids ids = {0};
        char text[MAX_TEXT + 1] = "";
        double least = 0;
        assert_ok(llm_vocab_init(&vocab, MAX_TOKENS));
        assert_ok(
            llm_vocab_set(&vocab, 0, llm_str_of("?"), LLM_TOKEN_UNKNOWN, 0));
        for (uint32_t id = 1; id < MAX_TOKENS; id++) {
            char piece[8] = "";
            for (uint32_t i = 0, n = 1 + below(4); i < n; i++)
                piece[i] = (char)('a' + below(LETTERS));
            bool twice = false;
            for (uint32_t other = 1; other < id; other++)
                twice |= llm_str_equal(llm_token_text(&vocab.tokens[other]),
                                       llm_str_of(piece));
            const float score = -(float)(1 + below(1000)) / 64;
            assert_ok(llm_vocab_set(&vocab, id, llm_str_of(twice ? "" : piece),
                                    LLM_TOKEN_NORMAL, score));
            if (!twice)
                least = fmin(least, score);
        }
        assert_ok(llm_vocab_index(&vocab, false, (llm_str){0}));
        assert_ok(llm_unigram_init(&model.unigram, &vocab));
        const uint32_t n = 1 + below(MAX_TEXT);
        for (uint32_t i = 0; i < n; i++)
            text[i] = (char)('a' + below(LETTERS));
        assert_ok(llm_merge_piece(&vocab, &model, &work, text, n, &ids));
        double sum = 0;
        uint64_t size = 0;
        for (uint64_t i = 0; i < ids.n; i++) {
            const llm_token *token = &vocab.tokens[ids.items[i]];
            sum += ids.items[i] ? token->score : least - 10;
            assert_true(!ids.items[i] ||
                        !memcmp(text + size, token->text, token->text_size));
            size += token->text_size;
        }
        assert_int_equal(size, n);
        assert_true(fabs(sum - best_sum(&vocab, text, least - 10)) < 1e-9);
        free(ids.items);
        llm_merge_work_finish(&work);
        llm_unigram_finish(&model.unigram);
        llm_vocab_finish(&vocab);
    }
}

static void unigram_json(void **state)
{
    (void)state;
    static const char json[] =
        "{\"pre_tokenizer\":{\"type\":\"Metaspace\"},\"model\":{\"type\":"
        "\"Unigram\",\"unk_id\":0,\"byte_fallback\":true,\"vocab\":["
        "[\"<unk>\",0],[\"\u2581a\",-2],[\"b\",-2.5],[\"\u2581ab\",-5],"
        "[\"<0xC3>\",-9],[\"<0xA9>\",-9],[\"\u2581\",-3],[\"a\",-3]]}}";
    clv_tokenizer *tok;
    assert_ok(llm_tokenizer_from_json(json, sizeof json - 1, "t.json", &tok));
    assert_string_equal(clv_tokenizer_describe(tok).kind, "unigram");
    check_ids(tok, "ab", 0, "1 2");
    check_ids(tok, "\u00e9b", 0, "6 4 5 2");
    check_ids(tok, "xyb", 0, "6 0 2"); /* one unknown for neighbours */
    check_round_trip(tok, "ab \u00e9b", 6);
    clv_tokenizer_destroy(tok);
    static const char *const bad[] = {"[\"a\"]", "[\"a\",\"b\"]", "[1,2]",
                                      "[\"a\",-1,2]", "\"a\""};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char text[128];
        snprintf(text, sizeof text, "{\"model\":{\"vocab\":[%s]}}", bad[i]);
        assert_fails(
            llm_tokenizer_from_json(text, strlen(text), "t.json", &tok),
            CLV_ERR_FORMAT, "model.vocab");
    }
}

/* ------------------------------------------------------------------------ */
/* tokenizer.model                                                          */

static void put_field(bytes *b, uint32_t number, const void *data, size_t size)
{
    assert_true(size < 128);
    put(b, (uint8_t[]){(uint8_t)(number << 3 | 2), (uint8_t)size}, 2);
    put(b, data, size);
}

static void put_piece(bytes *b, const char *text, float score, uint8_t type)
{
    bytes piece = {0};
    put_field(&piece, 1, text, strlen(text));
    put(&piece, (uint8_t[]){2 << 3 | 5}, 1);
    put(&piece, &score, sizeof score);
    if (type != LLM_TOKEN_NORMAL)
        put(&piece, (uint8_t[]){3 << 3, type}, 2);
    put_field(b, 1, piece.data, piece.size);
    bytes_free(&piece);
}

/* normalizer: its fields. */
static bytes make_model(uint8_t kind, const uint8_t *normalizer, size_t size)
{
    bytes b = {0};
    put_piece(&b, "<unk>", 0, LLM_TOKEN_UNKNOWN);
    put_piece(&b, "<s>", 0, LLM_TOKEN_CONTROL);
    put_piece(&b, "</s>", 0, LLM_TOKEN_CONTROL);
    put_piece(&b, "<0xC3>", 0, LLM_TOKEN_BYTE);
    put_piece(&b, "<0xA9>", 0, LLM_TOKEN_BYTE);
    put_piece(&b, "\u2581a", -1, LLM_TOKEN_NORMAL);
    put_piece(&b, "bb", -2, LLM_TOKEN_NORMAL);
    put_piece(&b, "\u2581", -3, LLM_TOKEN_NORMAL);
    put_piece(&b, "a", -4, LLM_TOKEN_NORMAL);
    put_piece(&b, "b", -5, LLM_TOKEN_NORMAL);
    put_field(&b, 2, (uint8_t[]){3 << 3, kind}, 2);
    put_field(&b, 3, normalizer, size);
    return b;
}

/* No collapsing; no space in front. */
static const uint8_t plain[] = {4 << 3, 0}, bare[] = {4 << 3, 0, 3 << 3, 0};

static void models(void **state)
{
    (void)state;
    for (uint8_t kind = 1; kind <= 2; kind++) {
        clv_tokenizer *tok;
        bytes b = make_model(kind, plain, sizeof plain);
        assert_ok(llm_tokenizer_parse_model(b.data, b.size, "m.model", &tok));
        const clv_tokenizer_info info = clv_tokenizer_describe(tok);
        assert_string_equal(info.kind, kind == 1 ? "unigram" : "spm");
        assert_int_equal(info.unk, 0);
        assert_int_equal(info.bos, 1);
        assert_int_equal(info.eos, 2);
        assert_true(info.add_bos);
        check_ids(tok, "abb \u00e9", CLV_TOKENIZE_BOS, "1 5 6 7 3 4");
        check_ids(tok, "  a", 0, "7 7 5");
        check_ids(tok, "a</s>", CLV_TOKENIZE_SPECIAL, "5 2");
        check_round_trip(tok, " a  bb", 6);
        clv_tokenizer_destroy(tok);
        bytes_free(&b);

        b = make_model(kind, bare, sizeof bare);
        assert_ok(llm_tokenizer_parse_model(b.data, b.size, "m.model", &tok));
        check_ids(tok, "abb", 0, "8 6");
        clv_tokenizer_destroy(tok);
        bytes_free(&b);

        b = make_model(kind, plain, 0); /* collapses where it does not say */
        assert_ok(llm_tokenizer_parse_model(b.data, b.size, "m.model", &tok));
        check_ids(tok, "  a   a ", 0, "5 5");
        clv_tokenizer_destroy(tok);

        /* No part of it is read past its end. */
        for (size_t n = 0; n < b.size; n++) {
            uint8_t *copy = exact_copy(b.data, n);
            if (!llm_tokenizer_parse_model(copy, n, "m.model", &tok))
                clv_tokenizer_destroy(tok);
            free(copy);
        }
        bytes_free(&b);
    }
}

static void added(void **state)
{
    (void)state;
    temp t;
    clv_tokenizer *tok;
    bytes b = make_model(2, plain, sizeof plain);
    temp_init(&t);
    temp_write(&t, "tokenizer.model", b.data, b.size);
    temp_write_text(&t, "added_tokens.json", "{\"<|a|>\":10}");
    assert_ok(clv_tokenizer_load(t.dir, &tok));
    assert_int_equal(clv_tokenizer_describe(tok).n_vocab, 11);
    check_ids(tok, "a<|a|>", CLV_TOKENIZE_SPECIAL, "5 10");
    clv_tokenizer_destroy(tok);
    temp_write_text(
        &t, "tokenizer_config.json",
        "{\"add_bos_token\":false,\"added_tokens_decoder\":{\"6\":{\"content\":"
        "\"<|x|>\",\"special\":true,\"rstrip\":true},\"0\":{\"content\":"
        "\"<unk>\",\"special\":true}}}");
    assert_ok(clv_tokenizer_load(temp_path(&t, "tokenizer.model"), &tok));
    assert_int_equal(clv_tokenizer_describe(tok).n_vocab, 10);
    assert_false(clv_tokenizer_describe(tok).add_bos);
    check_ids(tok, "a<|x|>  b", CLV_TOKENIZE_SPECIAL, "5 6 7 9");
    check_ids(tok, "bb", 0, "7 9 9");
    clv_tokenizer_destroy(tok);
    temp_write_text(
        &t, "tokenizer_config.json",
        "{\"added_tokens_decoder\":{\"99999\":{\"content\":\"x\"}}}");
    assert_fails(clv_tokenizer_load(t.dir, &tok), CLV_ERR_FORMAT, "'99999'");
    temp_finish(&t);
    bytes_free(&b);
}

static void refused(void **state)
{
    (void)state;
    static const uint8_t table[] = {2 << 3 | 2, 1, 'x'}, suffix[] = {5 << 3, 0};
    const struct {
        uint8_t kind;
        const uint8_t *normalizer;
        size_t size;
        const char *part;
    } cases[] = {
        {3, plain, sizeof plain, "words or characters"},
        {1, table, sizeof table, "table of characters"},
        {1, suffix, sizeof suffix, "spaces that stay"},
    };
    clv_tokenizer *tok;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bytes b = make_model(cases[i].kind, cases[i].normalizer, cases[i].size);
        assert_fails(llm_tokenizer_parse_model(b.data, b.size, "m.model", &tok),
                     CLV_ERR_UNSUPPORTED, cases[i].part);
        assert_null(tok);
        bytes_free(&b);
    }
    static const char *const texts[] = {
        "", "{}", "\x0a\x7f", "\xff\xff\xff", "\x07", "\x0a\x02\x0a\x7f"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        assert_fails(llm_tokenizer_parse_model(texts[i], strlen(texts[i]),
                                               "m.model", &tok),
                     CLV_ERR_FORMAT, "m.model");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unigrams), cmocka_unit_test(unigram_json),
        cmocka_unit_test(models),   cmocka_unit_test(added),
        cmocka_unit_test(refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
