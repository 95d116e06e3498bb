/* JSON from outside: what is refused, what values come out, and the memory that
 * large configurations and tokenizers take. */
#include "base/json.h"
#include "check.h"
#include "temp.h"

#include <cleave/llm.h>

#include <sys/resource.h>
#include <sys/wait.h>

static temp tmp;

static int make_temp(void **state)
{
    (void)state;
    temp_init(&tmp);
    return 0;
}

static int remove_temp(void **state)
{
    (void)state;
    temp_finish(&tmp);
    return 0;
}

static llm_json *parse(const char *text)
{
    llm_json *root = NULL;
    assert_ok(llm_json_parse(text, strlen(text), "t.json", &root));
    return root;
}

static void refuse(const char *text, const char *why)
{
    llm_json *root = NULL;
    assert_fails(llm_json_parse(text, strlen(text), "t.json", &root),
                 CLV_ERR_FORMAT, why);
    assert_non_null(strstr(clv_last_error(), "t.json"));
    assert_null(root);
}

static void refused(void **state)
{
    (void)state;
    char deep[1300] = "{\"a\":";
    refuse("", "no value");
    refuse("[1]", "not an object");
    refuse("{} x", "behind the end");
    refuse("{}{}", "behind the end");
    refuse("{\"a\":1,\"a\":1}", "'a' occurs twice");
    refuse("{\"b\":[{\"c\":{\"a\":1,\"x\":0,\"a\":2}}]}", "'a' occurs twice");
    refuse("{\"a\":1,\"\\u0061\":1}", "'a' occurs twice");
    refuse("{\"a\":}", "no value");
    refuse("{\"a\":1,}", "without a name");
    refuse("{\"a\" 1}", "without ':'");
    refuse("{\"a\":[1 2]}", "neither ','");
    refuse("{\"a\":[1", "neither ','");
    refuse("{\"a\":01}", "neither ','");
    refuse("{\"a\":-}", "not a number");
    refuse("{\"a\":1.}", "not a number");
    refuse("{\"a\":1e}", "not a number");
    refuse("{\"a\":1e999}", "out of range");
    refuse("{\"a\":NaN}", "no value");
    refuse("{\"a\":tru}", "no value");
    refuse("{\"a\":\"b", "without an end");
    refuse("{\"a\":\"\n\"}", "control character");
    refuse("{\"a\":\"\\x\"}", "escape");
    refuse("{\"a\":\"\\u12g4\"}", "hexadecimal");
    refuse("{\"a\":\"\\ud83d\"}", "surrogate");
    refuse("{\"a\":\"\\ude00\"}", "surrogate");
    refuse("{\"a\":\"\\ud83d\\u0041\"}", "surrogate");
    refuse("{\"a\":\"\xff\"}", "UTF-8");
    memset(deep + 5, '[', 600);
    refuse(deep, "512 deep");
}

static void values(void **state)
{
    (void)state;
    static const int64_t numbers[] = {
        0,      -1,         127,         -128,        128,
        -129,   32767,      -32768,      32768,       -32769,
        100000, 2147483647, -2147483648, 2147483648u, -99999999999999999};
    llm_json *root = parse(
        "\xef\xbb\xbf {\"n\":[0,-1,127,-128,128,-129,32767,-32768,32768,-32769,"
        "100000,2147483647,-2147483648,2147483648,-99999999999999999],"
        "\"s\":\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\ud83d\\ude00\","
        "\"z\":\"a\\u0000b\",\"r\":[1.5,-2e3,1E+2,123456789012345678901],"
        "\"t\":true,\"f\":false,\"null\":null,\"e\":{},\"l\":[],\"u\":3.0}");
    const llm_json *n = llm_json_get(root, "n");
    double number;
    int64_t integer;
    uint64_t whole;
    llm_str text;
    assert_int_equal(llm_json_count(n), 15);
    for (uint64_t i = 0; i < 15; i++) {
        assert_true(llm_json_int(llm_json_at(n, i), &integer));
        assert_int_equal(integer, numbers[i]);
        assert_true(llm_json_number(llm_json_at(n, i), &number));
        assert_true(number == (double)numbers[i]);
    }
    assert_null(llm_json_at(n, 15));
    assert_string_equal(llm_json_string(root, "s"),
                        "\"\\/\b\f\n\r\t\u00e9\U0001f600");
    assert_null(llm_json_string(root, "z"));
    assert_true(llm_json_str(llm_json_get(root, "z"), &text));
    assert_int_equal(text.size, 3);
    assert_memory_equal(text.data, "a\0b", 4);
    static const double reals[] = {1.5, -2000, 100, 123456789012345678901.0};
    for (uint64_t i = 0; i < 4; i++) {
        const llm_json *item = llm_json_at(llm_json_get(root, "r"), i);
        assert_true(llm_json_number(item, &number) && number == reals[i]);
        assert_false(llm_json_int(item, &integer));
    }
    assert_true(llm_json_flag(root, "t", false));
    assert_false(llm_json_flag(root, "f", true));
    assert_true(llm_json_flag(root, "s", true));
    assert_null(llm_json_get(root, "null"));
    assert_true(llm_json_is(llm_json_member(root, "null"), LLM_JSON_NULL));
    assert_int_equal(llm_json_count(llm_json_get(root, "e")), 0);
    assert_int_equal(llm_json_count(llm_json_get(root, "l")), 0);
    assert_true(llm_json_u64(llm_json_get(root, "u"), &whole) && whole == 3);
    assert_false(llm_json_u64(llm_json_at(n, 1), &whole));
    assert_null(llm_json_get(NULL, "a"));
    llm_json_free(root);
}

static void long_strings(void **state)
{
    (void)state;
    char text[1200], wanted[300];
    memset(wanted, 'x', sizeof wanted);
    for (size_t size = 250; size < 262; size++) {
        wanted[size] = 0;
        snprintf(text, sizeof text, "{\"%s\":\"%s\",\"b\":1}", wanted, wanted);
        wanted[size] = 'x';
        llm_json *root = parse(text);
        llm_json_each e = llm_json_begin(root);
        assert_true(llm_json_next(&e));
        assert_int_equal(e.key.size, size);
        assert_memory_equal(e.key.data, wanted, size);
        assert_int_equal(strlen(llm_json_text(e.value)), size);
        assert_true(llm_json_next(&e));
        assert_false(llm_json_next(&e));
        llm_json_free(root);
    }
}

/* ------------------------------------------------------------------------ */
/* Memory                                                                   */

static void load_config(const char *path)
{
    llm_json *root = NULL;
    assert_ok(llm_json_load(path, &root));
    llm_json_free(root);
}

static void load_tokenizer(const char *path)
{
    clv_tokenizer *tok = NULL;
    assert_ok(clv_tokenizer_load(path, &tok));
    assert_true(clv_tokenizer_describe(tok).n_vocab > 400000);
    clv_tokenizer_destroy(tok);
}

/* The bytes by which the process grows while it loads a file, at the peak. */
static void check_memory(const char *path, void (*load)(const char *path))
{
    struct stat info;
    int status;
    assert_int_equal(stat(path, &info), 0);
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (!pid) {
        struct rusage before, after;
        getrusage(RUSAGE_SELF, &before);
        load(path);
        getrusage(RUSAGE_SELF, &after);
        const long grown = (after.ru_maxrss - before.ru_maxrss) * 1024;
        fprintf(stderr, "%s: %lld bytes, %.2f times the file at the peak\n",
                path, (long long)info.st_size,
                (double)grown / (double)info.st_size);
        _exit(grown > 4 * info.st_size);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

/* Sanitizers have memory of their own for each byte. */
static void skip_if_sanitized(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip();
#endif
}

static void config_memory(void **state)
{
    skip_if_sanitized();
    static const char *const items[] = {"0,", "[],", "{\"a\":1},", "1.5,",
                                        "\"\","};
    temp *t = &tmp;
    (void)state;
    for (size_t i = 0; i < sizeof items / sizeof *items; i++) {
        const char *path = temp_path(t, "config.json");
        FILE *f = fopen(path, "w");
        fputs("{\"a\":[", f);
        for (int n = 0; n < 3000000; n++)
            fputs(items[i], f);
        fputs("0]}", f);
        fclose(f);
        check_memory(path, load_config);
    }
}

enum { LETTERS = 26, PAIRS = LETTERS * LETTERS, FOURS = 440000 };

static void put_pair(FILE *f, int i)
{
    fputc('a' + i / LETTERS, f);
    fputc('a' + i % LETTERS, f);
}

/* 440,000 tokens of four letters, each from two of two letters: short tokens
 * and no space between them, so that the file is small for what it holds. */
static void tokenizer_memory(void **state)
{
    skip_if_sanitized();
    temp *t = &tmp;
    (void)state;
    const char *path = temp_path(t, "tokenizer.json");
    FILE *f = fopen(path, "w");
    fputs("{\"pre_tokenizer\":{\"type\":\"ByteLevel\"},\"model\":{\"vocab\":{",
          f);
    for (int i = 0; i < LETTERS; i++)
        fprintf(f, "\"%c\":%d,", 'a' + i, i);
    for (int i = 0; i < PAIRS; i++) {
        fputc('"', f);
        put_pair(f, i);
        fprintf(f, "\":%d,", LETTERS + i);
    }
    for (int i = 0; i < FOURS; i++) {
        fputs(i ? ",\"" : "\"", f);
        put_pair(f, i / PAIRS);
        put_pair(f, i % PAIRS);
        fprintf(f, "\":%d", LETTERS + PAIRS + i);
    }
    fputs("},\"merges\":[", f);
    for (int i = 0; i < PAIRS; i++)
        fprintf(f, "%s[\"%c\",\"%c\"]", i ? "," : "", 'a' + i / LETTERS,
                'a' + i % LETTERS);
    for (int i = 0; i < FOURS; i++) {
        fputs(",[\"", f);
        put_pair(f, i / PAIRS);
        fputs("\",\"", f);
        put_pair(f, i % PAIRS);
        fputs("\"]", f);
    }
    fputs("]}}", f);
    fclose(f);
    check_memory(path, load_tokenizer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refused),
        cmocka_unit_test(values),
        cmocka_unit_test(long_strings),
        cmocka_unit_test_setup_teardown(config_memory, make_temp, remove_temp),
        cmocka_unit_test_setup_teardown(tokenizer_memory, make_temp,
                                        remove_temp),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
