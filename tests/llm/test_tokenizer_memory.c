/* Every allocation while loading and encoding fails once: the error names
 * memory, nothing leaks, and the next call succeeds. */
#include "tokenizer/json.h"
#include "tokens.h"

/* The linker's names for what it wraps, and for what is called instead. */
void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *old, size_t size);
CLV_API void *__wrap_malloc(size_t size);
CLV_API void *__wrap_calloc(size_t n, size_t size);
CLV_API void *__wrap_realloc(void *old, size_t size);

/* Allocations until the one that fails; -1: none does. */
static int countdown = -1;

static bool fails(void)
{
    return countdown >= 0 && countdown-- == 0;
}

void *__wrap_malloc(size_t size)
{
    return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
    return fails() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *old, size_t size)
{
    return fails() ? NULL : __real_realloc(old, size);
}

static const char bytes_json[] =
    "{\"added_tokens\":[{\"id\":4,\"content\":\"<s>\",\"special\":true}],"
    "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFC\"},"
    "{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"c\"},\"content\":\"b\"}]},"
    "\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":"
    "\"ByteLevel\",\"add_prefix_space\":true},{\"type\":\"Digits\"}]},"
    "\"model\":{\"vocab\":{\"a\":0,\"b\":1,\"ab\":2,\"\u0120\":3},"
    "\"unk_token\":\"<s>\",\"merges\":[\"a b\"]}}";
static const char marked_json[] =
    "{\"added_tokens\":[{\"id\":4,\"content\":\"<s>\",\"special\":true,"
    "\"normalized\":true}],\"normalizer\":{\"type\":\"Prepend\",\"prepend\":"
    "\"\u2581\"},\"pre_tokenizer\":{\"type\":\"Metaspace\",\"prepend_scheme\":"
    "\"first\"},\"model\":{\"vocab\":{\"a\":0,\"b\":1,\"ab\":2,\"\u2581\":3,"
    "\"<unk>\":5},\"unk_token\":\"<unk>\",\"merges\":[\"a b\"]}}";

typedef struct step {
    const char *json;
    const clv_tokenizer *tok;
} step;

static clv_status load(const step *s)
{
    clv_tokenizer *tok;
    clv_status status =
        llm_tokenizer_from_json(s->json, strlen(s->json), "t.json", &tok);
    if (status == CLV_OK)
        clv_tokenizer_destroy(tok);
    else
        assert_null(tok);
    return status;
}

static clv_status encode_some(const step *s)
{
    static const char text[] = "abac\xff 12 <s> ab\u00e9 bb";
    int32_t *ids;
    uint64_t n;
    clv_status status =
        clv_tokenize(s->tok, text, sizeof text - 1,
                     CLV_TOKENIZE_SPECIAL | CLV_TOKENIZE_BOS, &ids, &n);
    if (status == CLV_OK)
        clv_tokens_free(ids);
    return status;
}

static clv_status decode_some(const step *s)
{
    char *text;
    uint64_t n;
    clv_status status =
        clv_detokenize(s->tok, (int32_t[]){0, 4, 2}, 3, true, &text, &n);
    if (status == CLV_OK)
        clv_string_free(text);
    return status;
}

/* Runs a step with its first, second... allocation failing, until none does. */
static void check(clv_status (*run)(const step *s), const step *s)
{
    int n = 0;
    for (;; n++) {
        countdown = n;
        const clv_status status = run(s);
        const bool reached = countdown < 0;
        countdown = -1;
        if (!reached) {
            assert_ok(status);
            break;
        }
        assert_int_equal(status, CLV_ERR_NO_MEMORY);
        assert_non_null(strstr(clv_last_error(), "memory"));
    }
    assert_true(n > 0);
}

static void every_allocation(void **state)
{
    (void)state;
    const char *const texts[] = {bytes_json, marked_json};
    for (int i = 0; i < 2; i++) {
        clv_tokenizer *tok;
        step s = {.json = texts[i]};
        check(load, &s);
        assert_ok(
            llm_tokenizer_from_json(s.json, strlen(s.json), "t.json", &tok));
        s.tok = tok;
        check(encode_some, &s);
        check(decode_some, &s);
        clv_tokenizer_destroy(tok);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
