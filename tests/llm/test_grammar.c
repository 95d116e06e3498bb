/* GBNF: what grammars accept, what is refused and where, and samplers that keep
 * to one. */
#include "grammars.h"

#include "base/random.h"

#include <cleave/llm.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static void test_elements(void **state)
{
    (void)state;
    HAS("root ::= \"ab\" | \"c\"", "ab", "c");
    HAS_NOT("root ::= \"ab\" | \"c\"", "", "a", "abc", "cc");
    HAS("root ::= [a-cx] [^0-9]", "a!", "xy", "cé", "b\xf0\x9f\x98\x80");
    HAS_NOT("root ::= [a-cx] [^0-9]", "d!", "a1", "x", "x\xc3", "ayy");
    HAS("root ::= . \"\\x41\\u00e9\\U0001F600\\n\\\"\"", "zA\xc3\xa9😀\n\"");
    HAS("# one\nroot ::= # two\n  \"a\" rest # three\nrest ::= \"b\" |\n "
        "\"c\"\n",
        "ab", "ac");
    HAS("root ::= (\"a\" |\n  \"b\")\n", "a", "b");
    HAS("root ::= [\\]\\-a] [a-]", "]a", "-a", "a-");
}

static void test_repetitions(void **state)
{
    (void)state;
    HAS("root ::= \"ab\"* \"c\"", "c", "abc", "ababc");
    HAS_NOT("root ::= \"ab\"* \"c\"", "ac", "abbc");
    HAS("root ::= [0-9]+ \"x\"?", "1", "12x");
    HAS_NOT("root ::= [0-9]+ \"x\"?", "", "x", "1xx");
    HAS("root ::= \"a\"{2} (\"b\" | \"c\"){1,3} \"d\"{2,}", "aabdd",
        "aacbcddd");
    HAS_NOT("root ::= \"a\"{2} (\"b\" | \"c\"){1,3} \"d\"{2,}", "abdd", "aadd",
            "aabbbbdd", "aabd");
    HAS("root ::= \"a\"{0} \"b\"{0,2}", "", "b", "bb");
    /* Repeated, what may be empty: the walk must end. */
    HAS("root ::= ((\"a\"*)* | \"b\"?)+ \"c\"", "c", "aabac");
    HAS("root ::= (\"\" )* \"c\"", "c");
    HAS("root ::= (\"a\"?){0,300} \"b\"", "b", "aaaab");
}

static void test_recursion(void **state)
{
    (void)state;
    const char nested[] = "root ::= \"(\" root \")\" | \"\"";
    char deep[4001];
    memset(deep, '(', 2000);
    memset(deep + 2000, ')', 2000);
    deep[4000] = 0;
    HAS(nested, "", "(())", deep);
    deep[3999] = 0;
    HAS_NOT(nested, "(()", "())", deep);
    const char arithmetic[] = "root ::= term ([-+] term)*\n"
                              "term ::= factor ([*/] factor)*\n"
                              "factor ::= [0-9]+ | \"(\" root \")\"\n";
    HAS(arithmetic, "1+2*(3-4)/5", "((7))");
    HAS_NOT(arithmetic, "1+", "()", "1*(2");
    /* Many ways to read one text. */
    HAS("root ::= \"a\" root | \"a\" root root | \"\"", "aaaaaaa");
}

/* Incomplete characters, and bytes that are no UTF-8. */
static void test_bytes(void **state)
{
    (void)state;
    llm_grammar *g;
    llm_matcher *m;
    const char text[] = "root ::= [à-ü] [^€]";
    assert_ok(llm_grammar_parse(text, strlen(text), &g));
    assert_ok(llm_matcher_create(g, &m));
    assert_true(llm_matcher_accepts(m, "\xc3", 1));
    assert_false(llm_matcher_accepts(m, "\xc4", 1)); /* none begins so */
    assert_false(llm_matcher_accepts(m, "\xc3\x80", 2));
    assert_false(llm_matcher_accepts(m, "\x80", 1));
    assert_false(llm_matcher_accepts(m, "\xe0\x83\xa0", 3)); /* overlong */
    llm_matcher_advance(m, "\xc3", 1);
    assert_false(llm_matcher_is_complete(m));
    assert_true(llm_matcher_accepts(m, "\xa9\xe2\x82", 3));
    llm_matcher_advance(m, "\xa9", 1);
    assert_true(llm_matcher_accepts(m, "\xe2\x82\xad", 3));
    assert_true(llm_matcher_accepts(m, "\xe2\x82", 2));
    assert_false(llm_matcher_accepts(m, "\xe2\x82\xac", 3));
    assert_false(llm_matcher_accepts(m, "\xed\xa0\x80", 3)); /* a surrogate */
    assert_false(llm_matcher_accepts(m, "\xf4\x90\x80\x80", 4));
    llm_matcher_advance(m, "x", 1);
    assert_true(llm_matcher_is_complete(m));
    llm_matcher_destroy(m);
    llm_grammar_destroy(g);
}

static void test_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"", "no rule 'root'"},
        {"a ::= \"x\"", "no rule 'root'"},
        {"root ::= other", "line 1, column 10, rule 'other': the rule is used "
                           "and never defined"},
        {"root ::= \"a\"\nroot ::= \"b\"", "line 2, column 1, rule 'root': the "
                                           "rule is there twice"},
        {"root ::= \"a", "rule 'root': the text ends inside"},
        {"root ::= [a", "inside a literal or class"},
        {"root ::= (\"a\"", "')' is missing"},
        {"root ::= \"a\")", "line 1, column 13"},
        {"root ::= \"\\q\"", "unknown escape"},
        {"root ::= \"\\x4\"", "hexadecimal digit"},
        {"root ::= \"\\uD800\"", "no code point"},
        {"root ::= [z-a]", "ends before it begins"},
        {"root ::= \"a\"{3,2}", "maximum below its minimum"},
        {"root ::= \"a\"{x}", "a number is missing"},
        {"root ::= \"a\"{1000000}", "262144 elements"},
        {"root = \"a\"", "'::=' is missing"},
        {"root ::= \"\xff\"", "not UTF-8"},
        {"root ::= root \"a\" | \"b\"", "rule 'root' can begin with itself"},
        {"root ::= x\nx ::= \"\" y \"a\"\ny ::= \"q\"? x | \"z\"",
         "left recursion"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        llm_grammar *g;
        const clv_status status =
            llm_grammar_parse(cases[i].text, strlen(cases[i].text), &g);
        if (!status || !strstr(clv_last_error(), cases[i].message))
            fail_msg("%s: \"%s\" is not in \"%s\"", cases[i].text,
                     cases[i].message, status ? clv_last_error() : "ok");
    }
}

/* A grammar whose readings double with each character ends in a message. */
static void test_ambiguous(void **state)
{
    (void)state;
    const char text[] = "root ::= \"a\" root \"b\" | \"a\" root \"c\" | \"\"";
    llm_grammar *g;
    llm_matcher *m;
    assert_ok(llm_grammar_parse(text, strlen(text), &g));
    assert_ok(llm_matcher_create(g, &m));
    for (int i = 0; i < 40; i++)
        llm_matcher_advance(m, "a", 1);
    assert_fails(llm_matcher_status(m), CLV_ERR_LIMIT, "too many ways");
    llm_matcher_restart(m);
    assert_ok(llm_matcher_status(m));
    assert_true(llm_matcher_accepts(m, "aab", 3));
    llm_matcher_destroy(m);
    llm_grammar_destroy(g);
}

/* A random walk much longer than what is kept of it. */
static void test_long_text(void **state)
{
    (void)state;
    const char text[] =
        "root ::= item{0,200}\n"
        "item ::= \"[\" item* \"]\" | \"{\" [a-z]{1,30} \"}\"\n";
    const char letters[] = "[]{}abcdefghijklmnopqrstuvwxyz";
    llm_grammar *g;
    llm_matcher *m;
    llm_random rng;
    uint32_t moved = 0;
    assert_ok(llm_grammar_parse(text, strlen(text), &g));
    assert_ok(llm_matcher_create(g, &m));
    llm_random_seed(&rng, 3);
    for (uint32_t i = 0; i < 400000; i++) {
        const char *c = &letters[llm_random_next(&rng) % (sizeof letters - 1)];
        if (!llm_matcher_accepts(m, c, 1))
            continue;
        llm_matcher_advance(m, c, 1);
        moved++;
    }
    assert_true(moved > 50000);
    assert_ok(llm_matcher_status(m));
    llm_matcher_destroy(m);
    llm_grammar_destroy(g);
}

static const char *bundled_model(void)
{
    static char path[4096];
    snprintf(path, sizeof path, "%s/models/nano-q8_0.gguf",
             getenv("CLEAVE_TEST_SOURCE"));
    return path;
}

/* With random logits, all texts are of the grammar, and they end. */
static void test_sampling(void **state)
{
    (void)state;
    clv_tokenizer *tok;
    assert_ok(clv_tokenizer_load(bundled_model(), &tok));
    const uint32_t n_vocab = clv_tokenizer_describe(tok).n_vocab;
    const char grammar[] = "root ::= (\"yes\" | \"no, \" [a-zé ]{3,9}) \".\"";
    float *logits = calloc(n_vocab, sizeof *logits);
    clv_sampler_params p = clv_sampler_defaults();
    p.grammar = grammar;
    p.tokenizer = tok;
    p.temperature = 2;
    for (uint32_t round = 0; round < 20; round++) {
        clv_sampler *s;
        llm_random rng;
        char text[256] = "";
        int32_t id = -1;
        p.seed = round;
        p.mirostat = round % 3;
        llm_random_seed(&rng, round);
        assert_ok(clv_sampler_create(&p, n_vocab, &s));
        clv_sampler_prime(s, (const int32_t[]){5, 6}, 2);
        for (int i = 0; i < 64; i++) {
            uint32_t n;
            for (uint32_t j = 0; j < n_vocab; j++)
                logits[j] = (float)(6 * llm_random_uniform(&rng));
            assert_ok(clv_sampler_sample(s, logits, &id));
            if (clv_token_is_end(tok, id))
                break;
            clv_sampler_accept(s, id);
            const char *bytes = clv_token_bytes(tok, id, &n);
            assert_true(n > 0);
            strncat(text, bytes, n);
        }
        assert_true(clv_token_is_end(tok, id));
        HAS(grammar, text);
        clv_sampler_destroy(s);
    }
    free(logits);
    clv_tokenizer_destroy(tok);
}

static void test_needs_tokenizer(void **state)
{
    (void)state;
    clv_sampler_params p = clv_sampler_defaults();
    clv_sampler *s;
    p.grammar = "root ::= \"a\"";
    assert_fails(clv_sampler_create(&p, 10, &s), CLV_ERR_INVALID, "tokenizer");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_elements),
        cmocka_unit_test(test_repetitions),
        cmocka_unit_test(test_recursion),
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_ambiguous),
        cmocka_unit_test(test_long_text),
        cmocka_unit_test(test_sampling),
        cmocka_unit_test(test_needs_tokenizer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
