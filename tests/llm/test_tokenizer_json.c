/* tokenizer.json: the effect of each component on ids, and refusals. */
#include "tokenizer/json.h"
#include "tokens.h"

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

#define NONE "null"
/* The letters a, b, c, digits, some signs; \u0120 is a space. */
#define BYTE_VOCAB                                                             \
    "\"a\":0,\"b\":1,\"c\":2,\"1\":3,\"2\":4,\"\u0120\":5,\"ab\":6,"           \
    "\"\u0120a\":7,\".\":8,\"12\":9,\"abc\":10,\"\u00c3\":11,\"\u00a9\":12,"   \
    "\"\u00c3\u00a9\":13,\"\u00c2\":14,\"\u00bd\":15,\"\u00c2\u00bd\":16,"     \
    "\"-\":17,\"e\":18,\"\u00cc\":19,\"\u0123\":20,\"\u00c3\u00a9a\":21"
#define BYTE_MERGES                                                            \
    "\"a b\",[\"1\",\"2\"],[\"\u0120\",\"a\"],\"ab c\",\"\u00c3 \u00a9\","     \
    "\"\u00c2 \u00bd\",[\"\u00c3\u00a9\",\"a\"]"
#define BYTE_LEVEL(regex)                                                      \
    "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":" regex  \
    "}"
#define SEQUENCE(key, parts) "{\"type\":\"Sequence\",\"" key "\":[" parts "]}"
#define SPLIT(pattern, behavior)                                               \
    "{\"type\":\"Split\",\"pattern\":" pattern ",\"behavior\":\"" behavior     \
    "\",\"invert\":false}"
/* Whole texts with spaces spelled out and a byte or two. */
#define MARK_VOCAB                                                             \
    "\"<unk>\":0,\"<s>\":1,\"</s>\":2,\"<0xC3>\":3,\"<0xA9>\":4,\"a\":5,"      \
    "\"b\":6,\"\u2581\":7,\"\u2581a\":8,\"ab\":9,\"\u2581\u2581\":10,"         \
    "\"a\u2581\":11"
#define MARK_MERGES "\"\u2581 a\",\"a b\",\"\u2581 \u2581\",\"a \u2581\""
#define MARK_NORMALIZER                                                        \
    SEQUENCE("normalizers",                                                    \
             "{\"type\":\"Prepend\",\"prepend\":\"\u2581\"},{\"type\":"        \
             "\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":"         \
             "\"\u2581\"}")
#define MARK_DECODER                                                           \
    SEQUENCE("decoders",                                                       \
             "{\"type\":\"Replace\",\"pattern\":{\"String\":\"\u2581\"},"      \
             "\"content\":\" \"},{\"type\":\"ByteFallback\"},{\"type\":"       \
             "\"Fuse\"},{\"type\":\"Strip\",\"content\":\" \",\"start\":1,"    \
             "\"stop\":0}")
#define METASPACE(more)                                                        \
    "{\"type\":\"Metaspace\",\"replacement\":\"\u2581\"," more "}"
#define ADDED(id, text, more)                                                  \
    "{\"id\":" #id ",\"content\":\"" text "\"," more "}"

typedef struct parts {
    const char *added, *normalizer, *pre_tokenizer, *post_processor, *decoder;
    const char *options, *vocab, *merges;
} parts;

static char *json_of(const parts *p)
{
    char *text = malloc(8192);
    if (!text)
        abort();
    int n =
        snprintf(text, 8192,
                 "{\"added_tokens\":[%s],\"normalizer\":%s,"
                 "\"pre_tokenizer\":%s,\"post_processor\":%s,"
                 "\"decoder\":%s,\"model\":{\"type\":\"BPE\",%s"
                 "\"vocab\":{%s},\"merges\":[%s]}}",
                 p->added ? p->added : "", p->normalizer ? p->normalizer : NONE,
                 p->pre_tokenizer ? p->pre_tokenizer : NONE,
                 p->post_processor ? p->post_processor : NONE,
                 p->decoder ? p->decoder : NONE, p->options ? p->options : "",
                 p->vocab, p->merges);
    assert_in_range(n, 1, 8191);
    return text;
}

static clv_status try_load(const parts *p, clv_tokenizer **tok)
{
    char *text = json_of(p);
    uint8_t *copy = exact_copy((uint8_t *)text, strlen(text));
    clv_status status =
        llm_tokenizer_from_json((char *)copy, strlen(text), "t.json", tok);
    free(copy);
    free(text);
    return status;
}

static clv_tokenizer *load(parts p)
{
    clv_tokenizer *tok;
    assert_ok(try_load(&p, &tok));
    return tok;
}

/* Byte level with this pre-tokenizer. */
static clv_tokenizer *load_bytes(const char *pre_tokenizer)
{
    return load((parts){.pre_tokenizer = pre_tokenizer,
                        .vocab = BYTE_VOCAB,
                        .merges = BYTE_MERGES});
}

static clv_tokenizer *load_marked(const char *normalizer,
                                  const char *pre_tokenizer)
{
    return load((parts){.normalizer = normalizer,
                        .pre_tokenizer = pre_tokenizer,
                        .decoder = MARK_DECODER,
                        .options = "\"byte_fallback\":true,\"fuse_unk\":true,"
                                   "\"unk_token\":\"<unk>\",",
                        .vocab = MARK_VOCAB,
                        .merges = MARK_MERGES});
}

/* ------------------------------------------------------------------------ */

static void byte_level(void **state)
{
    (void)state;
    clv_tokenizer *tok = load_bytes(BYTE_LEVEL("true"));
    assert_string_equal(clv_tokenizer_describe(tok).kind, "bpe");
    check_ids(tok, "abc ab12.\u00e9", 0, "10 5 6 9 8 13");
    check_round_trip(tok, "a 1-  b \u00e9\u00bd", 12);
    clv_tokenizer_destroy(tok);
    tok = load_bytes("{\"type\":\"ByteLevel\"}"); /* adds a space */
    check_ids(tok, "ab", 0, "5 6");
    check_ids(tok, " ab", 0, "5 6");
    clv_tokenizer_destroy(tok);
    tok = load_bytes(BYTE_LEVEL("false"));
    check_ids(tok, "12abc", 0, "9 10");
    clv_tokenizer_destroy(tok);
}

static void splits(void **state)
{
    (void)state;
    static const struct {
        const char *pre_tokenizer, *text, *ids;
    } cases[] = {
        {SPLIT("{\"Regex\":\"b\"}", "Isolated"), "abc", "0 1 2"},
        {SPLIT("{\"String\":\".\"}", "Removed"), "a.abc", "0 10"},
        {SPLIT("{\"String\":\"-\"}", "MergedWithNext"), "a-ab", "0 17 6"},
        {SPLIT("{\"Regex\":\"[12]\"}", "Contiguous"), "a12b", "0 9 1"},
        {"{\"type\":\"Digits\",\"individual_digits\":true}", "a12b", "0 3 4 1"},
        {"{\"type\":\"Digits\",\"individual_digits\":false}", "a12b", "0 9 1"},
        {"{\"type\":\"Punctuation\"}", "ab.-ab", "6 8 17 6"},
        {"{\"type\":\"WhitespaceSplit\"}", "ab  a-b", "6 0 17 1"},
        {"{\"type\":\"Whitespace\"}", "ab a-b", "6 0 17 1"},
        {"{\"type\":\"CharDelimiterSplit\",\"delimiter\":\"-\"}", "a-b", "0 1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[1024];
        snprintf(text, sizeof text, SEQUENCE("pretokenizers", "%s,%s"),
                 cases[i].pre_tokenizer, BYTE_LEVEL("false"));
        clv_tokenizer *tok = load_bytes(text);
        check_ids(tok, cases[i].text, 0, cases[i].ids);
        clv_tokenizer_destroy(tok);
    }
    /* After ByteLevel, digits are searched in the spelling of the bytes: the
     * second byte of a half is spelled as a digit. */
    clv_tokenizer *tok = load_bytes(SEQUENCE(
        "pretokenizers",
        BYTE_LEVEL(
            "true") ",{\"type\":\"Digits\",\"individual_digits\":false}"));
    check_ids(tok, "\u00bd", 0, "14 15");
    check_ids(tok, "a12", 0, "0 9");
    clv_tokenizer_destroy(tok);
    tok = load_bytes(SEQUENCE(
        "pretokenizers",
        "{\"type\":\"Digits\",\"individual_digits\":false}," BYTE_LEVEL(
            "true")));
    check_ids(tok, "\u00bd", 0, "16");
    clv_tokenizer_destroy(tok);
}

static void sentencepiece(void **state)
{
    (void)state;
    clv_tokenizer *tok = load_marked(MARK_NORMALIZER, NULL);
    assert_string_equal(clv_tokenizer_describe(tok).kind, "spm");
    assert_int_equal(clv_tokenizer_describe(tok).unk, 0);
    check_ids(tok, "a ab", 0, "8 8 6");
    check_ids(tok, "b\u00e9", 0, "7 6 3 4");
    check_ids(tok, "bcdb", 0, "7 6 0 6"); /* fused */
    check_ids(tok, "", 0, "");
    check_round_trip(tok, "  a b\u00e9 ", 8);
    clv_tokenizer_destroy(tok);

    /* Without a space in front nothing is removed. */
    tok = load_marked("{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},"
                      "\"content\":\"\u2581\"}",
                      NULL);
    check_ids(tok, "ab", 0, "9");
    check_ids(tok, " a", 0, "8");
    check_round_trip(tok, " a b", 4);
    clv_tokenizer_destroy(tok);
}

static void metaspace(void **state)
{
    (void)state;
    clv_tokenizer *tok = load_marked(
        NULL, METASPACE("\"prepend_scheme\":\"always\",\"split\":true"));
    check_ids(tok, "a  a", 0, "8 7 8");
    check_ids(tok, " a", 0, "8");
    clv_tokenizer_destroy(tok);
    tok = load_marked(NULL,
                      METASPACE("\"prepend_scheme\":\"never\",\"split\":true"));
    check_ids(tok, "a a", 0, "5 8");
    check_round_trip(tok, " a  b", 5);
    clv_tokenizer_destroy(tok);
    tok = load_marked(
        NULL, METASPACE("\"prepend_scheme\":\"never\",\"split\":false"));
    check_ids(tok, "b  b", 0, "6 10 6");
    clv_tokenizer_destroy(tok);
    tok = load_marked(NULL, METASPACE("\"add_prefix_space\":false"));
    check_ids(tok, "a", 0, "5");
    clv_tokenizer_destroy(tok);

    /* "first" means the text, not what follows a special token. */
    tok = load((parts){
        .added = ADDED(1, "<s>", "\"special\":true,\"normalized\":false"),
        .pre_tokenizer =
            METASPACE("\"prepend_scheme\":\"first\",\"split\":false"),
        .vocab = MARK_VOCAB,
        .merges = MARK_MERGES});
    check_ids(tok, "a<s>a", CLV_TOKENIZE_SPECIAL, "8 1 5");
    check_round_trip(tok, "a b", 3);
    char *back;
    uint64_t n;
    assert_ok(clv_detokenize(tok, (int32_t[]){8, 1, 8}, 3, true, &back, &n));
    assert_string_equal(back, "a<s> a");
    clv_string_free(back);
    clv_tokenizer_destroy(tok);
}

static void normalizers(void **state)
{
    (void)state;
    clv_tokenizer *tok = load((parts){
        .normalizer = SEQUENCE(
            "normalizers",
            "{\"type\":\"NFC\"},{\"type\":\"Replace\",\"pattern\":{\"Regex\":"
            "\"[ \\\\t]+\"},\"content\":\"-\"},{\"type\":\"Strip\","
            "\"strip_left\":true,\"strip_right\":true}"),
        .pre_tokenizer = BYTE_LEVEL("true"),
        .vocab = BYTE_VOCAB,
        .merges = BYTE_MERGES});
    check_ids(tok, "\ne\u0301 \t a\n", 0, "13 17 0");
    clv_tokenizer_destroy(tok);
}

static void options(void **state)
{
    (void)state;
    clv_tokenizer *tok = load(
        (parts){.pre_tokenizer = BYTE_LEVEL("true"),
                .options = "\"ignore_merges\":true,\"byte_fallback\":false,",
                .vocab = "\"a\":0,\"b\":1,\"c\":2,\"abc\":3,\"bc\":4",
                .merges = "\"b c\""});
    check_ids(tok, "abc", 0, "3");
    clv_tokenizer_destroy(tok);
    tok = load((parts){.pre_tokenizer = BYTE_LEVEL("true"),
                       .vocab = "\"a\":0,\"b\":1,\"c\":2,\"abc\":3,\"bc\":9",
                       .merges = "\"b c\""});
    check_ids(tok, "abc", 0, "0 9");
    assert_int_equal(clv_tokenizer_describe(tok).n_vocab, 10);
    uint32_t n;
    clv_token_bytes(tok, 7, &n); /* no such token */
    assert_int_equal(n, 0);
    clv_tokenizer_destroy(tok);
}

/* ------------------------------------------------------------------------ */

/* clang-format off */
static void added_tokens(void **state)
{
    (void)state;
    clv_tokenizer *tok = load((parts){
        .added = ADDED(30, "<s>", "\"special\":true") ","
                 ADDED(31, "<u>", "\"special\":false,\"normalized\":false") ","
                 ADDED(32, "<l>", "\"special\":true,\"lstrip\":true") ","
                 ADDED(33, "<r>", "\"special\":true,\"rstrip\":true") ","
                 ADDED(34, "ca", "\"special\":false,\"single_word\":true") ","
                 ADDED(35, "<|end|>", "\"special\":true"),
        .pre_tokenizer = BYTE_LEVEL("true"),
        .post_processor =
            "{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":"
            "{\"id\":\"<s>\",\"type_id\":0}},{\"Sequence\":{\"id\":\"A\","
            "\"type_id\":0}}]}",
        .vocab = BYTE_VOCAB, .merges = BYTE_MERGES});
    clv_tokenizer_info info = clv_tokenizer_describe(tok);
    assert_int_equal(info.bos, 30);
    assert_int_equal(info.eos, -1);
    assert_true(info.add_bos);
    assert_int_equal(info.n_vocab, 36);
    check_ids(tok, "a<s>", CLV_TOKENIZE_BOS | CLV_TOKENIZE_SPECIAL,
              "30 0 30");
    check_ids(tok, "a<u>a", 0, "0 31 0");
    check_ids(tok, "a <l> <r> b", CLV_TOKENIZE_SPECIAL, "0 32 5 33 1");
    check_ids(tok, "ca cab ca.", 0, "34 5 2 6 5 34 8");
    assert_true(clv_token_is_end(tok, 35));
    assert_false(clv_token_is_end(tok, 31));
    clv_tokenizer_destroy(tok);

    /* Found after normalizing: the text after it is not a new start. */
    tok = load((parts){
        .added = ADDED(1, "<s>", "\"special\":true,\"normalized\":false") ","
                 ADDED(12, "bb", "\"special\":false,\"normalized\":true"),
        .normalizer = SEQUENCE("normalizers",
            "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},"
            "\"content\":\"\u2581\"},{\"type\":\"Replace\",\"pattern\":"
            "{\"String\":\"c\"},\"content\":\"b\"}"),
        .vocab = MARK_VOCAB, .merges = MARK_MERGES});
    check_ids(tok, "acb a", 0, "5 12 8");
    check_ids(tok, "a<s>a", CLV_TOKENIZE_SPECIAL, "5 1 5");
    clv_tokenizer_destroy(tok);
}

static void config_files(void **state)
{
    (void)state;
    parts p = {.added = ADDED(30, "<s>", "\"special\":true") ","
                        ADDED(31, "</s>", "\"special\":true") ","
                        ADDED(32, "<pad>", "\"special\":true"),
               .pre_tokenizer = BYTE_LEVEL("true"),
               .vocab = BYTE_VOCAB, .merges = BYTE_MERGES};
    char *json = json_of(&p);
    clv_tokenizer *tok;
    const char *path = temp_write_text(&tmp, "tokenizer.json", json);
    free(json);
    assert_ok(clv_tokenizer_load(path, &tok));
    assert_int_equal(clv_tokenizer_describe(tok).bos, -1);
    clv_tokenizer_destroy(tok);

    temp_write_text(&tmp, "config.json",
                    "{\"bos_token_id\":1,\"eos_token_id\":[31,0,77,-1]}");
    assert_ok(clv_tokenizer_load(tmp.dir, &tok));
    assert_int_equal(clv_tokenizer_describe(tok).bos, 1);
    assert_int_equal(clv_tokenizer_describe(tok).eos, 31);
    assert_true(clv_token_is_end(tok, 0));
    assert_false(clv_tokenizer_describe(tok).add_bos);
    clv_tokenizer_destroy(tok);

    temp_write_text(&tmp, "tokenizer_config.json",
                    "{\"bos_token\":{\"content\":\"<s>\"},\"eos_token\":"
                    "\"</s>\",\"pad_token\":\"<pad>\",\"add_bos_token\":true}");
    assert_ok(clv_tokenizer_load(tmp.dir, &tok));
    clv_tokenizer_info info = clv_tokenizer_describe(tok);
    assert_int_equal(info.bos, 30);
    assert_int_equal(info.eos, 31);
    assert_int_equal(info.pad, 32);
    assert_true(info.add_bos);
    check_ids(tok, "a", CLV_TOKENIZE_BOS, "30 0");
    clv_tokenizer_destroy(tok);

    temp_write_text(&tmp, "generation_config.json", "{\"eos_token_id\":");
    assert_fails(clv_tokenizer_load(tmp.dir, &tok), CLV_ERR_FORMAT,
                 "generation_config.json");
    assert_null(tok);
}
/* clang-format on */

/* ------------------------------------------------------------------------ */

static void refuses(parts p, clv_status status, const char *text)
{
    clv_tokenizer *tok;
    if (!p.vocab)
        p.vocab = BYTE_VOCAB;
    if (!p.merges)
        p.merges = BYTE_MERGES;
    assert_fails(try_load(&p, &tok), status, text);
    if (!strstr(clv_last_error(), "t.json"))
        fail_msg("no file in '%s'", clv_last_error());
    assert_null(tok);
}

static void unsupported(void **state)
{
    (void)state;
    const clv_status status = CLV_ERR_UNSUPPORTED;
    refuses((parts){.normalizer = "{\"type\":\"Nmt\"}"}, status, "'Nmt'");
    refuses((parts){.normalizer = "{}"}, status, "normalizer");
    refuses((parts){.pre_tokenizer = "{\"type\":\"UnicodeScripts\"}"}, status,
            "'UnicodeScripts'");
    refuses((parts){.pre_tokenizer =
                        SEQUENCE("pretokenizers",
                                 BYTE_LEVEL("true") "," BYTE_LEVEL("true"))},
            status, "ByteLevel");
    refuses((parts){.pre_tokenizer = SPLIT("{\"Regex\":\"a\"}", "Odd")}, status,
            "'Odd'");
    refuses(
        (parts){.pre_tokenizer = SPLIT("{\"Regex\":\"[a&&b]\"}", "Isolated")},
        status, "'[a&&b]'");
    refuses((parts){.pre_tokenizer = METASPACE("\"prepend_scheme\":\"x\"")},
            status, "'x'");
    refuses((parts){.decoder = "{\"type\":\"WordPiece\"}"}, status,
            "'WordPiece'");
    refuses((parts){.post_processor = "{\"type\":\"BertProcessing\"}"}, status,
            "'BertProcessing'");
}

static void malformed(void **state)
{
    (void)state;
    const clv_status status = CLV_ERR_FORMAT;
    refuses((parts){.vocab = "\"a\":-1"}, status, "model.vocab");
    refuses((parts){.vocab = "\"a\":1.5"}, status, "model.vocab");
    refuses((parts){.vocab = "\"a\":1e300"}, status, "model.vocab");
    refuses((parts){.vocab = "\"a\":16000000"}, status, "16000000");
    refuses((parts){.vocab = "\"a\":\"0\""}, status, "model.vocab");
    refuses((parts){.vocab = "", .merges = ""}, status, "empty");
    refuses((parts){.vocab = "\"a\":0,\"b\":0"}, status, "both token 0");
    refuses((parts){.vocab = "\"a\":0,\"a\":1", .merges = ""}, status,
            "occurs twice");
    refuses((parts){.merges = "\"a\""}, status, "model.merges");
    refuses((parts){.merges = "\"a b c\""}, status, "model.merges");
    refuses((parts){.merges = "[\"a\"]"}, status, "model.merges");
    refuses((parts){.merges = "[\"a\",\"b\",\"c\"]"}, status, "model.merges");
    refuses((parts){.merges = "3"}, status, "model.merges");
    refuses((parts){.merges = "\"c c\""}, status, "'c'");
    refuses((parts){.merges = "\"a zz\""}, status, "'zz'");
    refuses((parts){.options = "\"unk_token\":\"zz\","}, status,
            "unknown token");
    refuses((parts){.added = "{\"id\":3}"}, status, "added_tokens");
    refuses((parts){.added = ADDED(3, "zz", "\"special\":true")}, status,
            "both token 3");
    refuses((parts){.pre_tokenizer = SPLIT("{}", "Isolated")}, status,
            "pattern");
    refuses((parts){.post_processor =
                        "{\"type\":\"TemplateProcessing\",\"single\":"
                        "[{\"SpecialToken\":{\"id\":\"zz\"}}]}"},
            status, "not in the vocabulary");
    static const char *const texts[] = {
        "", "{", "[]", "3", "{\"model\":3}", "{\"model\":{\"vocab\":{}}}"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        clv_tokenizer *tok;
        assert_fails(
            llm_tokenizer_from_json(texts[i], strlen(texts[i]), "t.json", &tok),
            status, "t.json");
        assert_null(tok);
    }
    static const char *const models[] = {
        "{\"model\":{\"type\":\"WordPiece\"}}",
        "{\"model\":{\"end_of_word_suffix\":\"x\"}}",
        "{\"model\":{\"dropout\":0.5}}"};
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        clv_tokenizer *tok;
        assert_fails(llm_tokenizer_from_json(models[i], strlen(models[i]),
                                             "t.json", &tok),
                     CLV_ERR_UNSUPPORTED, "t.json");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(byte_level),    cmocka_unit_test(splits),
        cmocka_unit_test(sentencepiece), cmocka_unit_test(metaspace),
        cmocka_unit_test(normalizers),   cmocka_unit_test(options),
        cmocka_unit_test(added_tokens),  cmocka_unit_test(config_files),
        cmocka_unit_test(unsupported),   cmocka_unit_test(malformed),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
