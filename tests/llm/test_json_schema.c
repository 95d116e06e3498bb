/* JSON schemas as grammars: texts that they have and have not, and keywords
 * that are refused. */
#include "grammars.h"

#include <cleave/llm.h>

#include <stdio.h>

static char *grammar_of(const char *schema)
{
    char *grammar = NULL;
    assert_ok(clv_json_schema_grammar(schema, strlen(schema), &grammar));
    return grammar;
}

#define SCHEMA_HAS(schema, ...)                                                \
    do {                                                                       \
        char *grammar_ = grammar_of(schema);                                   \
        HAS(grammar_, __VA_ARGS__);                                            \
        clv_string_free(grammar_);                                             \
    } while (0)
#define SCHEMA_HAS_NOT(schema, ...)                                            \
    do {                                                                       \
        char *grammar_ = grammar_of(schema);                                   \
        HAS_NOT(grammar_, __VA_ARGS__);                                        \
        clv_string_free(grammar_);                                             \
    } while (0)

static void test_types(void **state)
{
    (void)state;
    SCHEMA_HAS("{\"type\":\"string\"}", "\"\"", "\"a\\n\\u00e9é\"");
    SCHEMA_HAS_NOT("{\"type\":\"string\"}", "a", "\"a", "\"\\x\"", "1");
    SCHEMA_HAS("{\"type\":\"number\"}", "0", "-1.5e+3", "12");
    SCHEMA_HAS_NOT("{\"type\":\"number\"}", "01", ".5", "1.", "+1");
    SCHEMA_HAS("{\"type\":[\"integer\",\"null\"]}", "7", "null");
    SCHEMA_HAS_NOT("{\"type\":[\"integer\",\"null\"]}", "7.0", "true");
    SCHEMA_HAS("{}", "{\"a\":[1,{}]}", "true", "[]", "\"x\"");
    SCHEMA_HAS("true", "null");
    SCHEMA_HAS("{\"enum\":[\"a\\\"b\",1,{\"x\":[null]}]}", "\"a\\\"b\"", "1",
               "{\"x\":[null]}");
    SCHEMA_HAS_NOT("{\"const\":\"go\"}", "\"stop\"", "go");
    SCHEMA_HAS("{\"const\":\"go\"}", "\"go\"");
    SCHEMA_HAS("{\"anyOf\":[{\"type\":\"null\"},{\"type\":\"boolean\"}]}",
               "null", "false");
}

static void test_objects(void **state)
{
    (void)state;
    const char person[] =
        "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\"},"
        "\"age\":{\"type\":\"integer\"},\"x\":{\"type\":\"null\"}},"
        "\"required\":[\"name\",\"x\"]}";
    SCHEMA_HAS(person, "{\"name\":\"A\",\"x\":null}",
               "{ \"name\": \"A\", \"age\": 3, \"x\": null }",
               "{\n  \"name\": \"A\",\n  \"x\": null\n}");
    SCHEMA_HAS_NOT(
        person, "{\"x\":null}", "{\"name\":\"A\"}",
        "{\"x\":null,\"name\":\"A\"}", "{\"name\":\"A\",,\"x\":null}",
        "{\"name\":\"A\",\"x\":null,}", "{\"name\":\"A\",\"x\":null,\"y\":1}");
    const char optional[] =
        "{\"properties\":{\"a\":{\"type\":\"null\"},\"b\":{\"type\":\"null\"}},"
        "\"additionalProperties\":{\"type\":\"integer\"}}";
    SCHEMA_HAS(optional, "{}", "{\"a\":null}", "{\"b\":null}",
               "{\"a\":null,\"b\":null}", "{\"c\":1}", "{\"ab\":1,\"\":2}",
               "{\"b\":null,\"bb\":7}");
    SCHEMA_HAS_NOT(optional, "{\"b\":null,\"a\":null}", "{\"a\":1}",
                   "{\"c\":null}", "{,\"c\":1}", "{\"b\":2}");
    SCHEMA_HAS("{\"type\":\"object\"}", "{\"k\":[1],\"l\":{}}", "{}");
    SCHEMA_HAS("{\"type\":\"object\",\"additionalProperties\":false}", "{}");
    SCHEMA_HAS_NOT("{\"type\":\"object\",\"additionalProperties\":false}",
                   "{\"a\":1}");
}

static void test_arrays(void **state)
{
    (void)state;
    const char some[] = "{\"type\":\"array\",\"items\":{\"type\":\"integer\"},"
                        "\"minItems\":2,\"maxItems\":3}";
    SCHEMA_HAS(some, "[1,2]", "[ 1, 2, 3 ]");
    SCHEMA_HAS_NOT(some, "[]", "[1]", "[1,2,3,4]", "[1,2,]", "[1,true]");
    SCHEMA_HAS("{\"items\":{\"type\":\"null\"},\"maxItems\":1}", "[]",
               "[null]");
    SCHEMA_HAS_NOT("{\"items\":{\"type\":\"null\"},\"maxItems\":1}",
                   "[null,null]");
    SCHEMA_HAS("{\"type\":\"array\",\"maxItems\":0}", "[]");
    SCHEMA_HAS_NOT("{\"type\":\"array\",\"maxItems\":0}", "[1]");
    const char pair[] = "{\"prefixItems\":[{\"type\":\"null\"},{\"const\":1}]}";
    SCHEMA_HAS(pair, "[null,1]");
    SCHEMA_HAS_NOT(pair, "[null]", "[null,1,1]");
}

static void test_strings(void **state)
{
    (void)state;
    const char some[] = "{\"type\":\"string\",\"minLength\":2,\"maxLength\":3}";
    SCHEMA_HAS(some, "\"ab\"", "\"é😀x\"", "\"\\n\\\"\"");
    SCHEMA_HAS_NOT(some, "\"a\"", "\"abcd\"");
    SCHEMA_HAS("{\"format\":\"date-time\"}", "\"2024-02-29T23:59:59.5Z\"",
               "\"2024-12-01T00:00:00+02:00\"");
    SCHEMA_HAS_NOT("{\"format\":\"date\"}", "\"2024-13-01\"", "\"24-01-01\"");
    SCHEMA_HAS("{\"format\":\"uuid\"}",
               "\"123e4567-e89b-12d3-a456-426614174000\"");
    const char pattern[] =
        "{\"pattern\":\"^(\\\\d{3}-)?[a-cX-Z]+\\\\.(?:x|\\\\\\\"|.y)[^q]$\"}";
    SCHEMA_HAS(pattern, "\"123-abX.xz\"", "\"c.\\\"!\"", "\"Z.oyé\"");
    SCHEMA_HAS_NOT(pattern, "\"12-a.xz\"", "\"a.xq\"", "\"d.xz\"", "\"a.x\"",
                   "\"aoxz\"");
    SCHEMA_HAS("{\"pattern\":\"^[ -~]$\"}", "\"\\\"\"", "\"\\\\\"", "\"a\"",
               "\"~\"");
    SCHEMA_HAS_NOT("{\"pattern\":\"^[ -~]$\"}", "\"\\\"", "\"é\"", "\"\"\"");
}

static void test_integers(void **state)
{
    (void)state;
    static const int64_t bounds[][2] = {{0, 9},     {5, 5},      {7, 1234},
                                        {-20, 15},  {-305, -12}, {99, 100},
                                        {118, 562}, {-1, 0},     {1000, 2000}};
    char schema[128], text[32];
    for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++) {
        const int64_t low = bounds[i][0], high = bounds[i][1];
        snprintf(schema, sizeof schema,
                 "{\"type\":\"integer\",\"minimum\":%lld,\"maximum\":%lld}",
                 (long long)low, (long long)high);
        char *grammar = grammar_of(schema);
        llm_grammar *g;
        llm_matcher *m;
        assert_ok(llm_grammar_parse(grammar, strlen(grammar), &g));
        assert_ok(llm_matcher_create(g, &m));
        for (int64_t x = -2500; x <= 2500; x++) {
            const int n = snprintf(text, sizeof text, "%lld", (long long)x);
            llm_matcher_restart(m);
            llm_matcher_advance(m, text, (uint32_t)n);
            if (llm_matcher_is_complete(m) != (x >= low && x <= high))
                fail_msg("%s: %s", schema, text);
        }
        llm_matcher_destroy(m);
        llm_grammar_destroy(g);
        clv_string_free(grammar);
    }
    SCHEMA_HAS("{\"type\":\"integer\",\"exclusiveMinimum\":9.5}", "10",
               "123456789012345");
    SCHEMA_HAS_NOT("{\"type\":\"integer\",\"exclusiveMinimum\":10}", "10", "9",
                   "-11", "011");
    SCHEMA_HAS("{\"type\":\"integer\",\"maximum\":5}", "5", "-100", "0");
    SCHEMA_HAS_NOT("{\"type\":\"integer\",\"maximum\":5}", "6", "10");
}

static void test_references(void **state)
{
    (void)state;
    const char tree[] =
        "{\"$ref\":\"#/$defs/a~1b\",\"$defs\":{\"a/b\":{\"type\":\"object\","
        "\"properties\":{\"v\":{\"type\":\"integer\"},\"next\":{\"anyOf\":[{"
        "\"type\":\"null\"},{\"$ref\":\"#/$defs/a~1b\"}]}},\"required\":[\"v\","
        "\"next\"]}}}";
    SCHEMA_HAS(tree, "{\"v\":1,\"next\":{\"v\":2,\"next\":null}}");
    SCHEMA_HAS_NOT(tree, "{\"v\":1}", "{\"v\":1,\"next\":{}}");
    SCHEMA_HAS("{\"items\":{\"$ref\":\"#\"}}", "[[],[[]]]");
}

static void test_refused(void **state)
{
    (void)state;
    static const struct {
        const char *schema, *message;
    } cases[] = {
        {"{", "not valid JSON"},
        {"[]", "must be an object"},
        {"{\"properties\":{\"a\":{\"type\":\"string\",\"contains\":1}}}",
         "#/properties/a: 'contains'"},
        {"{\"type\":\"number\",\"minimum\":1}", "#: 'minimum'"},
        {"{\"uniqueItems\":true}", "'uniqueItems'"},
        {"{\"type\":\"strin\"}", "no such type"},
        {"{\"not\":{}}", "'not'"},
        {"{\"format\":\"email\"}", "date-time or uuid"},
        {"{\"pattern\":\"abc\"}", "between '^' and '$'"},
        {"{\"pattern\":\"^(?=a)$\"}", "'(?'"},
        {"{\"pattern\":\"^[a\\\\$\"}", "pattern"},
        {"{\"$ref\":\"#/nowhere\"}", "'$ref'"},
        {"{\"$ref\":\"http://x\"}", "'$ref'"},
        {"{\"allOf\":[{},{}]}", "'allOf'"},
        {"{\"required\":[\"a\"]}", "'required'"},
        {"{\"minLength\":3,\"maxLength\":2}", "'maxLength'"},
        {"{\"type\":\"integer\",\"minimum\":3,\"maximum\":2}", "'minimum'"},
        {"{\"enum\":[]}", "'enum'"},
        {"{\"additionalProperties\":{\"if\":true}}",
         "#/additionalProperties: 'if'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *grammar = NULL;
        const clv_status status = clv_json_schema_grammar(
            cases[i].schema, strlen(cases[i].schema), &grammar);
        if (!status || !strstr(clv_last_error(), cases[i].message))
            fail_msg("%s: \"%s\" is not in \"%s\"", cases[i].schema,
                     cases[i].message, status ? clv_last_error() : grammar);
    }
}

/* '$ref' to itself is a rule that begins with itself. */
static void test_endless(void **state)
{
    (void)state;
    llm_grammar *g;
    char *grammar = grammar_of("{\"anyOf\":[{\"$ref\":\"#\"},{\"const\":1}]}");
    assert_ok(llm_grammar_parse(grammar, strlen(grammar), &g));
    HAS(grammar, "1");
    llm_grammar_destroy(g);
    clv_string_free(grammar);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_types),    cmocka_unit_test(test_objects),
        cmocka_unit_test(test_arrays),   cmocka_unit_test(test_strings),
        cmocka_unit_test(test_integers), cmocka_unit_test(test_references),
        cmocka_unit_test(test_refused),  cmocka_unit_test(test_endless),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
