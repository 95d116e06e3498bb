/* Streams of bytes become whole UTF-8 sequences, however they are cut. */
#include "check.h"
#include "base/random.h"
#include "base/utf8.h"

#include <string.h>
#include <utf8proc.h>

#define REPLACED "\xef\xbf\xbd"

/* Feeds text in pieces of `piece` bytes and returns all that comes out. */
static const char *stream(const char *text, size_t n, size_t piece)
{
    static char out[4096];
    size_t at = 0;
    llm_utf8 utf8 = {0};
    const char *part;
    uint32_t length;
    for (size_t i = 0; i < n; i += piece) {
        const uint32_t m = (uint32_t)(n - i < piece ? n - i : piece);
        assert_ok(llm_utf8_feed(&utf8, text + i, m, &part, &length));
        assert_int_equal(part[length], 0);
        /* Every answer is valid on its own. */
        for (uint32_t j = 0; j < length;) {
            utf8proc_int32_t code;
            const utf8proc_ssize_t used = utf8proc_iterate(
                (const utf8proc_uint8_t *)part + j, length - j, &code);
            assert_true(used > 0);
            j += (uint32_t)used;
        }
        memcpy(out + at, part, length);
        at += length;
    }
    assert_ok(llm_utf8_end(&utf8, &part, &length));
    memcpy(out + at, part, length + 1);
    llm_utf8_finish(&utf8);
    return out;
}

static void check(const char *text, const char *expected)
{
    for (size_t piece = 1; piece <= strlen(text) + 1; piece++)
        assert_string_equal(stream(text, strlen(text), piece), expected);
}

static void test_valid(void **state)
{
    (void)state;
    const char *texts[] = {"", "plain", "h\xc3\xa9llo",
                           "\xe2\x82\xac \xf0\x9f\x98\x80!",
                           "\xed\x9f\xbf\xee\x80\x80\xf4\x8f\xbf\xbf"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        check(texts[i], texts[i]);
}

static void test_invalid(void **state)
{
    (void)state;
    check("a\x80z", "a" REPLACED "z");
    check("\xc3", REPLACED);
    check("\xf0\x9f\x98", REPLACED);
    check("\xf0\x9f\x98z", REPLACED "z");
    check("\xf0\x9f\xc3\xa9", REPLACED "\xc3\xa9");
    check("\xc0\xaf", REPLACED REPLACED);
    check("\xe0\x80\x80", REPLACED REPLACED REPLACED);
    check("\xed\xa0\x80", REPLACED REPLACED REPLACED); /* a surrogate */
    check("\xf4\x90\x80\x80", REPLACED REPLACED REPLACED REPLACED);
    check("\xff\xfe", REPLACED REPLACED);
}

static void test_waits(void **state)
{
    (void)state;
    llm_utf8 utf8 = {0};
    const char *text;
    uint32_t length;
    assert_ok(llm_utf8_feed(&utf8, "a\xe2\x82", 3, &text, &length));
    assert_string_equal(text, "a");
    assert_ok(llm_utf8_feed(&utf8, "", 0, &text, &length));
    assert_int_equal(length, 0);
    assert_ok(llm_utf8_feed(&utf8,
                            "\xac"
                            "b",
                            2, &text, &length));
    assert_string_equal(text, "\xe2\x82\xac"
                              "b");
    assert_ok(llm_utf8_end(&utf8, &text, &length));
    assert_int_equal(length, 0);
    llm_utf8_finish(&utf8);
}

/* How bytes are cut into tokens never changes the text. */
static void test_random_bytes(void **state)
{
    (void)state;
    llm_random rng;
    llm_random_seed(&rng, 3);
    for (int round = 0; round < 300; round++) {
        char text[64], whole[4096];
        const size_t n = llm_random_next(&rng) % sizeof text;
        for (size_t i = 0; i < n; i++) {
            /* Bytes that begin or continue sequences are the most telling. */
            const uint64_t x = llm_random_next(&rng);
            text[i] = (char)(x % 2       ? 0x80 + x / 2 % 0x40
                             : x / 2 % 2 ? 0xc0 + x / 4 % 0x40
                                         : 1 + x / 4 % 0x7f);
        }
        strcpy(whole, stream(text, n, n + 1));
        for (size_t piece = 1; piece < 6; piece++)
            assert_string_equal(stream(text, n, piece), whole);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_valid),
        cmocka_unit_test(test_invalid),
        cmocka_unit_test(test_waits),
        cmocka_unit_test(test_random_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
