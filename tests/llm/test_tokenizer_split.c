/* Expressions, splitting, rewriting and special tokens, one by one. */
#include "tokenizer/pre.h"
#include "tokenizer/regex_translate.h"
#include "tokenizer/tokenizer.h"
#include "base/utf8.h"
#include "tokens.h"

/* ------------------------------------------------------------------------ */
/* Expressions                                                              */

static void translates(const char *pattern, const char *expected)
{
    llm_bytes out = {0};
    assert_ok(llm_regex_translate(llm_str_of(pattern), &out));
    assert_ok(llm_bytes_append(&out, "", 1));
    assert_string_equal(out.items, expected);
    free(out.items);
}

static void translation(void **state)
{
    (void)state;
    translates("\\p{L}+|[a-z]{2,3}", "\\p{L}+|[a-z]{2,3}");
    translates("\\p{Han}\\P{Han}[\\p{Latin}]\\p{^Thai}",
               "\\p{sc:Han}\\P{sc:Han}[\\p{sc:Latin}]\\p{^sc:Thai}");
    translates("\\w[^\\w]\\W",
               "[\\p{L}\\p{M}\\p{Nd}\\p{Pc}]"
               "[^\\p{L}\\p{M}\\p{Nd}\\p{Pc}][^\\p{L}\\p{M}\\p{Nd}\\p{Pc}]");
    translates("\\h\\u00e9", "[0-9A-Fa-f]\\x{00e9}");
    translates("[^(\\d|[.,!?])]+", "[^(\\d|.,!?)]+");
    translates("[]a][^]a][[:alpha:]]\\[", "[]a][^]a][[:alpha:]]\\[");
}

static void refused(const char *pattern, const char *why)
{
    llm_regex *regex = NULL;
    assert_fails(llm_regex_create(llm_str_of(pattern), false, &regex),
                 CLV_ERR_UNSUPPORTED, why);
    assert_null(regex);
}

static void refusals(void **state)
{
    (void)state;
    refused("[\\p{L}&&[^a]]", "intersection");
    refused("[a[^b]]", "negated class");
    refused("(*LIMIT_MATCH=1)a", "verb");
    refused("a(b", "not understood");
    refused("a\\", "backslash");
    refused("\\p{Nonsense}", "not understood");
    refused("\\Ca", "not understood");
    char *text = calloc(1, 70000);
    memset(text, 'a', 69999);
    llm_regex *regex;
    assert_fails(llm_regex_create(llm_str_of(text), false, &regex),
                 CLV_ERR_LIMIT, "69999");
    free(text);
}

/* ------------------------------------------------------------------------ */
/* Splitting                                                                */

/* The pieces of text as "a|b|c"; freed by the caller. */
static char *pieces(const llm_splitter *splitter, const char *text,
                    bool at_start)
{
    llm_splitting work = {0};
    llm_matcher matcher = {0};
    bytes out = {0};
    uint8_t *copy = exact_copy((const uint8_t *)text, strlen(text));
    assert_ok(llm_split(splitter, &work, &matcher,
                        (llm_str){(char *)copy, strlen(text)}, at_start));
    for (uint64_t i = 0; i < work.pieces.n; i++) {
        if (i)
            put_text(&out, "|");
        put(&out, work.text + work.pieces.items[i].start,
            work.pieces.items[i].size);
    }
    put(&out, "", 1);
    llm_splitting_finish(&work);
    llm_matcher_finish(&matcher);
    free(copy);
    return (char *)out.data;
}

static void splits(const llm_splitter *splitter, const char *text,
                   const char *expected)
{
    char *got = pieces(splitter, text, true);
    if (strcmp(got, expected))
        fail_msg("'%s' is cut into '%s', not '%s'", text, got, expected);
    free(got);
}

static void modes(void **state)
{
    (void)state;
    static const struct {
        llm_split_mode mode;
        bool invert;
        const char *expected;
    } cases[] = {
        {LLM_SPLIT_ISOLATED, false, "the|-|final|-|-|countdown|-"},
        {LLM_SPLIT_REMOVED, false, "the|final|countdown"},
        {LLM_SPLIT_CONTIGUOUS, false, "the|-|final|--|countdown|-"},
        {LLM_SPLIT_WITH_PREVIOUS, false, "the-|final-|-|countdown-"},
        {LLM_SPLIT_WITH_NEXT, false, "the|-final|-|-countdown|-"},
        {LLM_SPLIT_REMOVED, true, "-|-|-|-"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        llm_splitter splitter = {0};
        llm_step step = {.mode = cases[i].mode, .invert = cases[i].invert};
        assert_ok(llm_regex_create(llm_str_of("-"), true, &step.pattern));
        assert_ok(llm_splitter_add(&splitter, step));
        splits(&splitter, "the-final--countdown-", cases[i].expected);
        splits(&splitter, "", "");
        llm_splitter_finish(&splitter);
    }
}

static void edges(void **state)
{
    (void)state;
    llm_splitter splitter = {0};
    /* Empty matches split too. */
    assert_ok(llm_splitter_add_pattern(&splitter, "(?=\\d)"));
    splits(&splitter, "ab1c\u00e92", "ab|1c\u00e9|2");
    llm_splitter_finish(&splitter);
    /* Bytes that are not UTF-8 are neither letters nor spaces. */
    assert_ok(llm_splitter_add_pattern(&splitter, "\\p{L}+"));
    splits(&splitter,
           "ab\xff"
           "c\xe2\x82"
           "d\u00e9\xc3",
           "ab|\xff|c|\xe2\x82|d\u00e9|\xc3");
    llm_splitter_finish(&splitter);
    /* $ matches at the end of a line; lookarounds see the piece only. */
    assert_ok(llm_splitter_add_pattern(&splitter, "a$"));
    splits(&splitter, "ba\nab", "b|a|\nab");
    assert_ok(llm_splitter_add_pattern(&splitter, "^b(?!\\S)"));
    splits(&splitter, "bab", "bab");
    splits(&splitter, "ba", "b|a");
    llm_splitter_finish(&splitter);
    /* U+180E is no white space, U+3000 and U+0085 are. */
    assert_ok(llm_splitter_add_pattern(&splitter, "\\s"));
    splits(&splitter, "a\u180e\u3000\xc2\x85", "a\u180e|\u3000|\xc2\x85");
    llm_splitter_finish(&splitter);
}

static void too_many_steps(void **state)
{
    (void)state;
    llm_splitter splitter = {0};
    llm_splitting work = {0};
    llm_matcher matcher = {0};
    bytes text = {0};
    for (int i = 0; i < 200; i++)
        put_text(&text, "a");
    put_text(&text, "!");
    assert_ok(llm_splitter_add_pattern(&splitter, "(a+)+$"));
    assert_fails(llm_split(&splitter, &work, &matcher,
                           (llm_str){(char *)text.data, text.size}, true),
                 CLV_ERR_LIMIT, "(a+)+$");
    llm_splitter_finish(&splitter);
    llm_splitting_finish(&work);
    llm_matcher_finish(&matcher);
    bytes_free(&text);
}

/* ------------------------------------------------------------------------ */
/* Published tokenizers                                                     */

static void named(const char *name, const char *text, const char *expected)
{
    const llm_pre *pre;
    llm_splitter splitter = {0};
    assert_ok(llm_pre_find(llm_str_of(name), &pre));
    for (int i = 0; i < 6 && pre->patterns[i]; i++)
        assert_ok(llm_splitter_add_pattern(&splitter, pre->patterns[i]));
    splits(&splitter, text, expected);
    llm_splitter_finish(&splitter);
}

static void families(void **state)
{
    (void)state;
    const char *text = "I'LL say: it's 12345  \n\n ok!\n";
    named("gpt-2", text, "I|'|LL| say|:| it|'s| 12345|  \n\n| ok|!|\n");
    named("llama-bpe", text, "I|'LL| say|:| it|'s| |123|45|  \n\n| ok|!\n");
    named("smaug-bpe", text, "I|'LL| say|:| it|'s| |123|45|  \n\n| ok|!\n");
    named("qwen2", text, "I|'LL| say|:| it|'s| |1|2|3|4|5|  \n\n| ok|!\n");
    named("starcoder", text,
          "I|'|LL| say|:| it|'s| |1|2|3|4|5|  \n\n| ok|!|\n");
    named("falcon", text, "I|'|LL| say|:| it|'|s| |123|45|  \n\n| ok|!|\n");
    named("default", text, "I|'|LL| say|:| it|'|s| |123|45|  \n\n| ok|!|\n");
    named("deepseek-llm", text,
          "I|'|LL| say|:| it|'|s| |1|2|3|4|5|  |\n|\n| ok|!|\n");
    named("deepseek-coder", text,
          "I|'|LL| say|:| it|'|s| |1|2|3|4|5|  |\n|\n| ok|!|\n");
    named("deepseek-v3", text, "I|'LL| say|:| it|'s| |123|45|  \n\n| ok|!\n");
    named("gpt-4o", text, "I'LL| say|:| it's| |123|45|  \n\n| ok|!\n");
    named("tekken", text, "I|'LL| say|:| it|'s| |1|2|3|4|5|  \n\n| ok|!\n");
    named("poro-chat", text, "I'LL| say:| it's| 12345|  \n\n| ok|!\n");
    named("viking", text, "I'LL| say:| it's| |1|2|3|4|5|  \n\n| ok|!\n");
    named("seed-coder", text,
          "I|'LL| say|:| it|'s| |1|2|3|4|5|  \n\n| ok|!|\n");
    named("gpt-4o", "helloWorld HTMLParser/\n", "hello|World| HTMLParser|/\n");
    named("tekken", "helloWorld HTML", "hello|World| HTML");
    named("llama-bpe", "a\tb \u00e9\u0301!?\r\n  x",
          "a|\tb| \u00e9|\u0301!?\r\n| | x");
    named("deepseek-v3", "3.\u4f60\u597d\u3042,abc",
          "3|.|\u4f60\u597d\u3042|,abc");
}

static void unknown_family(void **state)
{
    (void)state;
    const llm_pre *pre;
    assert_fails(llm_pre_find(llm_str_of("nobody"), &pre), CLV_ERR_UNSUPPORTED,
                 "nobody");
    assert_non_null(strstr(clv_last_error(), "qwen2"));
    assert_fails(llm_pre_find(llm_str_of(""), &pre), CLV_ERR_UNSUPPORTED, "''");
    assert_fails(llm_pre_find(llm_str_of("gpt-2 phi-2"), &pre),
                 CLV_ERR_UNSUPPORTED, "gpt-2 phi-2");
}

/* ------------------------------------------------------------------------ */
/* Rewriting                                                                */

static void rewrites(const llm_normalizer *normalizer, const char *text,
                     const char *expected)
{
    llm_rewriting work = {0};
    llm_matcher matcher = {0};
    llm_str out;
    assert_ok(llm_normalize(normalizer, &work, &matcher, llm_str_of(text), true,
                            &out));
    assert_int_equal(out.size, strlen(expected));
    assert_memory_equal(out.data, expected, out.size);
    llm_rewriting_finish(&work);
    llm_matcher_finish(&matcher);
}

static void normal_forms(void **state)
{
    (void)state;
    static const struct {
        llm_rewrite_kind kind;
        const char *text, *expected;
    } cases[] = {
        {LLM_REWRITE_NFC, "e\u0301x\ufb01", "\u00e9x\ufb01"},
        {LLM_REWRITE_NFD, "\u00e9x\ufb01", "e\u0301x\ufb01"},
        {LLM_REWRITE_NFKC, "e\u0301x\ufb01", "\u00e9xfi"},
        {LLM_REWRITE_NFKD, "\u00e9x\ufb01", "e\u0301xfi"},
        {LLM_REWRITE_NFC,
         "e\u0301\xff"
         "e\u0301\xc3",
         "\u00e9\xff\u00e9\xc3"},
        {LLM_REWRITE_NFC, "", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        llm_normalizer normalizer = {0};
        assert_ok(llm_normalizer_add(&normalizer,
                                     (llm_rewrite){.kind = cases[i].kind}));
        rewrites(&normalizer, cases[i].text, cases[i].expected);
        llm_normalizer_finish(&normalizer);
    }
}

static void replacements(void **state)
{
    (void)state;
    llm_normalizer normalizer = {0};
    llm_rewrite replace = {.kind = LLM_REWRITE_REPLACE,
                           .content = llm_str_of("_")};
    assert_ok(llm_regex_create(llm_str_of(" {2,}"), false, &replace.pattern));
    assert_ok(llm_normalizer_add(&normalizer, replace));
    assert_ok(llm_normalizer_add(&normalizer,
                                 (llm_rewrite){.kind = LLM_REWRITE_PREPEND,
                                               .content = llm_str_of(">")}));
    rewrites(&normalizer, "a  b c    \xff", ">a_b c_\xff");
    rewrites(&normalizer, "", "");
    llm_normalizer_finish(&normalizer);
    for (int ends = 0; ends < 4; ends++) {
        static const char *const expected[] = {" \u3000a b \n", "a b \n",
                                               " \u3000a b", "a b"};
        assert_ok(llm_normalizer_add(&normalizer,
                                     (llm_rewrite){.kind = LLM_REWRITE_STRIP,
                                                   .left = ends & 1,
                                                   .right = ends & 2}));
        rewrites(&normalizer, " \u3000a b \n", expected[ends]);
        rewrites(&normalizer, " \n", ends ? "" : " \n");
        llm_normalizer_finish(&normalizer);
    }
}

/* ------------------------------------------------------------------------ */
/* Special tokens                                                           */

/* All of text as "[id start-end]" one after the other. */
static void finds(const llm_specials *specials, const char *text, bool control,
                  const char *expected)
{
    char out[256] = "";
    size_t used = 0;
    llm_span taken;
    int32_t id;
    const llm_specials_wanted wanted = {.control = control};
    for (uint64_t at = 0; llm_specials_next(specials, text, strlen(text), at,
                                            &wanted, &taken, &id);
         at = taken.start + taken.size)
        used += (size_t)snprintf(out + used, sizeof out - used, "[%d %u-%u]",
                                 id, taken.start, taken.start + taken.size);
    assert_string_equal(out, expected);
}

static void specials(void **state)
{
    (void)state;
    llm_specials set = {0};
    static const llm_special all[] = {
        {.text = {"<a>", 3}, .id = 1, .control = true},
        {.text = {"<a><b>", 6}, .id = 2},
        {.text = {"<", 1}, .id = 3},
        {.text = {"<x>", 3}, .id = 4, .lstrip = true, .rstrip = true},
        {.text = {"word", 4}, .id = 5, .single_word = true},
        {.text = {"", 0}, .id = 6},
        {.text = {"\xff\xfe", 2}, .id = 7},
    };
    finds(&set, "<a>", true, "");
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        assert_ok(llm_specials_add(&set, all[i]));
    llm_specials_seal(&set);
    assert_int_equal(set.n, 6);
    finds(&set, "", true, "");
    finds(&set, "1<a>2", true, "[1 1-4]");
    finds(&set, "1<a>2", false, "[3 1-2]");
    finds(&set, "<a><b><a><a", true, "[2 0-6][1 6-9][3 9-10]");
    finds(&set, "a \u3000<x>\n\tb<x>", false, "[4 1-10][4 11-14]");
    finds(&set, "word words sword \u00e9word word", false, "[5 0-4][5 24-28]");
    finds(&set, "\xfe\xff\xfe\xff", false, "[7 1-3]");
    llm_specials_finish(&set);
}

static void utf8(void **state)
{
    (void)state;
    static const char *const bad[] = {"\x80",
                                      "\xbf",
                                      "\xc0\x80",
                                      "\xc1\xbf",
                                      "\xe0\x9f\xbf",
                                      "\xed\xa0\x80",
                                      "\xf0\x8f\xbf\xbf",
                                      "\xf4\x90\x80\x80",
                                      "\xf5\x80\x80\x80",
                                      "\xff",
                                      "\xe2\x82",
                                      "\xe2\x28\xa1",
                                      "\xc3"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(llm_utf8_size(bad[i], strlen(bad[i])), 0);
    for (uint32_t point = 0; point <= 0x10ffff;
         point += point < 0x900 ? 1 : 97) {
        char text[4];
        if (point >= 0xd800 && point < 0xe000)
            continue;
        uint32_t size = llm_utf8_encode(point, text);
        assert_int_equal(llm_utf8_size(text, size), size);
        assert_int_equal(llm_utf8_decode(text, size), point);
        assert_int_equal(llm_utf8_size(text, size - 1 ? size - 1 : 1),
                         size == 1 ? 1 : 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(translation),    cmocka_unit_test(refusals),
        cmocka_unit_test(modes),          cmocka_unit_test(edges),
        cmocka_unit_test(too_many_steps), cmocka_unit_test(families),
        cmocka_unit_test(unknown_family), cmocka_unit_test(normal_forms),
        cmocka_unit_test(replacements),   cmocka_unit_test(specials),
        cmocka_unit_test(utf8),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
